//! Runs the importers that need a public Python reader.
//!
//! Their sources are part of this binary and written to a directory for temporary files, so that an installed command
//! needs nothing but an interpreter with the reader's packages. The importer answers with one JSON object on standard
//! output; its standard error is progress.

use crate::{Format, ImportError, ImportOptions, ImportReport, PYTHON_VARIABLE};
use serde::Deserialize;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// The exit status of an importer that was interrupted.
const INTERRUPTED: i32 = 130;
/// The answer lists at most the sources that lack events: far below this.
const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// Start of a line of standard error in which the importer reports why it failed.
const ERROR_LINE: &str = "sheaf_import: error: ";
/// Number of lines of standard error that an error quotes.
const LAST_LINES: usize = 3;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        /// The modules of the package: file name and text.
        pub(crate) const PACKAGE: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../tools/sheaf-import/sheaf_import/", $name)),
        )),*];
    };
}
embedded!(
    "__init__.py",
    "__main__.py",
    "checksum.py",
    "cli.py",
    "directory.py",
    "errors.py",
    "km3net.py",
    "lst1.py",
    "recording.py",
    "stream.py",
);

/// Script that the interpreter runs. It stands beside the package, so that the package is found before anything of that
/// name in the working directory.
const START: &str = "\
import json
import sys

if sys.version_info < (3, 10):
    message = \"Python 3.10 or later is needed, this is \" + sys.version.split()[0]
    print(json.dumps({\"error\": {\"kind\": \"version\", \"message\": message, \"remedy\": None}}))
    sys.exit(1)

from sheaf_import.cli import main

sys.exit(main())
";

/// The importer's answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Report(ImportReport),
    Error { kind: String, message: String, remedy: Option<String> },
}

/// End of an importer.
struct Ending {
    status: ExitStatus,
    answer: String,
    last_lines: String,
}

pub(crate) fn import(
    format: Format,
    files: &[PathBuf],
    directory: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let sources = unpack_package().map_err(|error| ImportError::PythonSetup { error })?;
    let program = interpreter(options);
    let mut command = Command::new(&program);
    command
        .arg(sources.path().join("start.py"))
        .args(arguments(format, files, directory, options))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child =
        command.spawn().map_err(|error| ImportError::NoPython { format, program: program.clone(), error })?;
    let ending = watch(child, options.progress).map_err(|error| ImportError::PythonSetup { error })?;
    judge(format, &ending)
}

fn interpreter(options: &ImportOptions) -> PathBuf {
    let from_environment = || std::env::var_os(PYTHON_VARIABLE).filter(|program| !program.is_empty());
    options
        .python
        .clone()
        .or_else(|| from_environment().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("python3"))
}

fn unpack_package() -> io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("sheaf-import-").tempdir()?;
    let package = directory.path().join("sheaf_import");
    fs::create_dir(&package)?;
    for (name, text) in PACKAGE {
        fs::write(package.join(name), text)?;
    }
    fs::write(directory.path().join("start.py"), START)?;
    Ok(directory)
}

fn arguments(format: Format, files: &[PathBuf], directory: &Path, options: &ImportOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![format.name().into(), "--json".into()];
    if options.force {
        arguments.push("--force".into());
    }
    if let Some(run) = options.run {
        arguments.push(format!("--run={run}").into());
    }
    if let Some(stream) = &options.stream {
        arguments.push(format!("--stream={stream}").into());
    }
    if options.with_counters {
        arguments.push("--with-counters".into());
    }
    arguments.extend(files.iter().map(|path| plain(path)));
    arguments.push(plain(directory));
    arguments
}

/// A path that cannot be taken for an option.
fn plain(path: &Path) -> OsString {
    if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        Path::new(".").join(path).into_os_string()
    } else {
        path.as_os_str().to_owned()
    }
}

/// Passes progress on until the importer ends.
fn watch(mut child: std::process::Child, progress: fn(&str)) -> io::Result<Ending> {
    let stderr = child.stderr.take();
    let reader =
        std::thread::spawn(move || stderr.map_or_else(String::new, |stderr| pass_on(stderr, progress)));
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    }
    let status = child.wait()?;
    Ok(Ending {
        status,
        answer: String::from_utf8_lossy(&answer).into_owned(),
        last_lines: reader.join().unwrap_or_default(),
    })
}

/// Passes each line to `progress`, except the importer's own errors, which are in its answer; returns the last ones.
fn pass_on(stderr: ChildStderr, progress: fn(&str)) -> String {
    let mut last = VecDeque::new();
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Some(Ok(line)) = lines.next() {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.starts_with(ERROR_LINE) {
            progress(&line);
        }
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    last.make_contiguous().join("; ")
}

fn judge(format: Format, ending: &Ending) -> Result<ImportReport, ImportError> {
    // Readers may print to standard output, too; the answer is the last line.
    let answer = ending.answer.lines().last().map(serde_json::from_str::<Answer>);
    match answer {
        Some(Ok(Answer::Report(report))) if ending.status.success() => Ok(report),
        Some(Ok(Answer::Error { kind, message, remedy })) => Err(match (kind.as_str(), remedy) {
            ("missing_package", Some(remedy)) => ImportError::MissingPackage { message, remedy },
            ("output", _) => ImportError::PythonOutput { message },
            ("input" | "crash", _) => ImportError::Input { message },
            _ => ImportError::PythonFailed { format, status: ending.status.to_string(), last_lines: message },
        }),
        _ if ending.status.code() == Some(INTERRUPTED) => Err(ImportError::Interrupted),
        _ => {
            let last_lines = match &*ending.last_lines {
                "" => "it printed no message; does `--python` or SHEAF_PYTHON name a Python interpreter?",
                lines => lines,
            };
            Err(ImportError::PythonFailed {
                format,
                status: ending.status.to_string(),
                last_lines: last_lines.to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_module_of_the_package_is_in_the_binary() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/sheaf-import/sheaf_import");
        let there: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .collect();
        let embedded: BTreeSet<String> = PACKAGE.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(embedded, there);
    }

    #[test]
    fn a_path_is_never_taken_for_an_option() {
        assert_eq!(plain(Path::new("-o")), "./-o");
        assert_eq!(plain(Path::new("/data/-o")), "/data/-o");
    }
}
