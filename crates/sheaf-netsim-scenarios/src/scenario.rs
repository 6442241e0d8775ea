//! Scenario files: one TOML file, in which a list in place of a value is a sweep.
//!
//! | module | holds |
//! |---|---|
//! | `keys` | every key, once: type, range, default, meaning |
//! | `schema`, `value` | what a key is and what it may hold |
//! | `draft` | from text to values with their places |
//! | `given` | the values of one point, as they are asked for |
//! | `build` | from values to a [`Scenario`] |
//! | `table_file`, `streams` | wirings and fragment sizes from other files |
//! | `reference` | the reference page |

mod build;
mod draft;
mod given;
mod keys;
mod reference;
mod schema;
mod streams;
mod table_file;
mod value;

pub(crate) use build::MAX_ENDPOINTS;
pub use reference::reference_page;

use draft::Draft;
use given::Given;
use sheaf_config::{ConfigError, ConfigErrors, ErrorKind, Origin};
use sheaf_netsim::Scenario;
use sheaf_netsim::scenario::Fidelity;
use sheaf_netsim::units::Rate;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No scenario file is larger: 1 MiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// More points than this are a mistake, or the work of a week.
const MAX_POINTS: usize = 10_000;

/// A scenario file, understood: all points of its sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFile {
    /// Its name.
    pub name: String,
    /// Purpose of the scenario; empty where the file gives none.
    pub about: String,
    /// Keys that are swept, in the order of the file, each with its values as they are written in tables. Seeds and
    /// fidelities are among them.
    pub axes: Vec<Axis>,
    /// Points to be simulated; the last axis varies fastest. Never empty.
    pub points: Vec<Point>,
}

/// A swept key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key with its table: `topology.radix`.
    pub key: String,
    /// The values, in the order of the file.
    pub values: Vec<String>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The swept keys that matter at this point, in the order of the axes, and their values.
    pub settings: Vec<(String, String)>,
    /// Scenario to be simulated.
    pub scenario: Scenario,
}

/// Values of a file that the command line overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// In place of the file's seed or seeds.
    pub seed: Option<u64>,
}

impl ScenarioFile {
    /// Reads a file with all that it refers to.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file.
    pub fn load(path: &Path, overrides: Overrides) -> Result<Self, ConfigErrors> {
        let text = read_file(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let stem = path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
        Self::parse(&text, &path.display().to_string(), &stem, directory, overrides)
    }

    /// Reads the text of a file. `file` is its name in messages, `name` that of the scenario where the text gives none,
    /// and other files are looked for from `directory`.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    pub fn parse(
        text: &str,
        file: &str,
        name: &str,
        directory: &Path,
        overrides: Overrides,
    ) -> Result<Self, ConfigErrors> {
        let mut draft = draft::read(text, file);
        if !draft.errors.is_empty() {
            // What is missing because it could not be read must not be held against the file.
            let (errors, more) = (std::mem::take(&mut draft.errors), draft.more);
            return Err(ConfigErrors::or_more(errors, more, ()).err().unwrap_or_else(unreachable_errors));
        }
        if overrides.seed.is_some() {
            draft.entries.remove("seed");
        }
        expand(&draft, name, directory, overrides)
    }
}

/// [`ConfigErrors::or_more`] gives `Err` for a list that is not empty; this is for the compiler.
fn unreachable_errors() -> ConfigErrors {
    unreachable!("a list of errors that is not empty is an error")
}

/// The swept keys of a draft, in the order of the file.
fn swept<'a>(draft: &'a Draft<'_>) -> Vec<(&'a str, usize)> {
    let mut axes: Vec<_> = draft.entries.iter().filter(|(_, entry)| entry.swept).collect();
    axes.sort_by_key(|(_, entry)| entry.key.start);
    axes.into_iter().map(|(path, entry)| (path.as_str(), entry.values.len())).collect()
}

/// Makes the points. A swept key that is not used at a point (the radix of a crossbar) does not multiply it.
fn expand(
    draft: &Draft<'_>,
    name: &str,
    directory: &Path,
    overrides: Overrides,
) -> Result<ScenarioFile, ConfigErrors> {
    let axes = swept(draft);
    let total = axes.iter().fold(1_usize, |total, (_, length)| total.saturating_mul(*length));
    if total > MAX_POINTS {
        let (key, _) = axes[0];
        let span = &draft.entries[key].key;
        let origin = draft.text.origin(span);
        let found = format!("the lists of this file make {total} points");
        let right = format!("at most {MAX_POINTS}: shorter lists, or several files");
        return ConfigErrors::or(
            vec![ConfigError { kind: ErrorKind::TooLarge, key: key.into(), found, right, origin }],
            (),
        )
        .map(|()| unreachable!("one error was given"));
    }
    let mut all = Expansion::default();
    for index in 0..total {
        let digits = digits(index, &axes);
        let given = Given::new(draft, |path| {
            axes.iter().position(|(key, _)| *key == path).map_or(0, |at| digits[at])
        });
        let title = given.text("name").unwrap_or_else(|| name.to_owned());
        let about = given.text("about").unwrap_or_default();
        let mut scenario = build::scenario(&given, directory, &title);
        let is_all = given.word("fidelity") == "all";
        let (used, errors) = given.into_parts();
        scenario.seed = overrides.seed.unwrap_or(scenario.seed);
        (all.name, all.about) = (title, about);
        let is_new = all.seen.insert(key_of(&axes, &digits, &used));
        all.used.extend(used.iter().cloned());
        if errors.is_empty() && is_new {
            let settings = settings(draft, &axes, &digits, &used);
            all.add(settings, scenario, is_all);
        }
        // Points that differ in something else find the same wrong.
        for error in errors {
            if !all.errors.contains(&error) {
                all.errors.push(error);
            }
        }
        if all.errors.len() > MAX_ERRORS {
            break;
        }
    }
    if all.errors.is_empty() {
        all.errors.extend(unused(draft, &all.used));
    }
    let axes = axes.iter().map(|(key, _)| {
        let values = draft.entries[*key].values.iter().map(|(value, _)| value.to_string());
        Axis { key: (*key).to_owned(), values: values.collect() }
    });
    let file = ScenarioFile { name: all.name, about: all.about, axes: axes.collect(), points: all.points };
    ConfigErrors::or_more(all.errors, 0, file)
}

/// After so many errors no more points are looked at: they repeat.
const MAX_ERRORS: usize = 100;

/// State of [`expand`].
#[derive(Default)]
struct Expansion {
    name: String,
    about: String,
    points: Vec<Point>,
    errors: Vec<ConfigError>,
    used: BTreeSet<String>,
    /// The values of used axes of each point, to see points that differ in nothing.
    seen: BTreeSet<Vec<Option<usize>>>,
}

impl Expansion {
    fn add(&mut self, settings: Vec<(String, String)>, scenario: Scenario, is_all: bool) {
        if !is_all {
            self.points.push(Point { settings, scenario });
            return;
        }
        let fidelities =
            [("analytic", Fidelity::Analytic), ("message", Fidelity::Message), ("flit", Fidelity::Flit)];
        for (word, fidelity) in fidelities {
            let mut settings = settings.clone();
            settings.retain(|(key, _)| key != "fidelity");
            settings.push(("fidelity".into(), word.into()));
            self.points.push(Point { settings, scenario: Scenario { fidelity, ..scenario.clone() } });
        }
    }
}

/// The index on each axis of point number `index`, the last axis fastest.
fn digits(mut index: usize, axes: &[(&str, usize)]) -> Vec<usize> {
    let mut digits = vec![0; axes.len()];
    for (digit, (_, length)) in digits.iter_mut().zip(axes).rev() {
        *digit = index % length;
        index /= length;
    }
    digits
}

fn key_of(axes: &[(&str, usize)], digits: &[usize], used: &BTreeSet<String>) -> Vec<Option<usize>> {
    axes.iter().zip(digits).map(|((key, _), digit)| used.contains(*key).then_some(*digit)).collect()
}

fn settings(
    draft: &Draft<'_>,
    axes: &[(&str, usize)],
    digits: &[usize],
    used: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let of = |((key, _), digit): (&(&str, usize), &usize)| {
        let value = &draft.entries[*key].values[*digit].0;
        ((*key).to_owned(), value.to_string())
    };
    axes.iter().zip(digits).filter(|((key, _), _)| used.contains(*key)).map(of).collect()
}

/// Keys of the file that no point used: they have no effect, which is hardly what was meant.
fn unused<'a>(draft: &'a Draft<'_>, used: &'a BTreeSet<String>) -> impl Iterator<Item = ConfigError> + 'a {
    draft.entries.iter().filter(|(path, _)| !used.contains(*path)).map(|(path, entry)| {
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let kind = draft.entries.get(&format!("{table}.kind"));
        let kind =
            kind.map(|entry| entry.values.iter().map(|(kind, _)| kind.to_string()).collect::<Vec<_>>());
        let with = kind.as_ref().map(|kinds| format!(" with {table}.kind = \"{}\"", kinds.join("\", \"")));
        let key = keys::find(path);
        let only = key.map(|key| key.only).unwrap_or_default();
        let is_of_another_kind =
            kind.is_some_and(|kinds| !only.iter().any(|kind| kinds.iter().any(|it| it == kind)));
        let right = match only {
            [_, ..] if is_of_another_kind => {
                format!("leave it out; it belongs to {table}.kind = \"{}\"", only.join("\", \""))
            }
            _ => format!("leave it out, or set what it belongs to: {}", key.map_or("", |key| key.meaning)),
        };
        ConfigError {
            kind: ErrorKind::Conflict,
            key: path.clone(),
            found: format!("`{path}` has no effect{}", with.unwrap_or_default()),
            right,
            origin: draft.text.origin(&entry.key),
        }
    })
}

/// The text of a file of reasonable size.
fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    let (kind, found, right) = match result {
        Err(error) => {
            let right = "give the path of a scenario file, or a name from `sheaf sim --list`";
            (ErrorKind::Unreadable, format!("the scenario cannot be read: {error}"), right)
        }
        Ok(_) if bytes.len() as u64 > MAX_FILE_BYTES => {
            let found = format!("the file has more than {MAX_FILE_BYTES} bytes");
            (ErrorKind::TooLarge, found, "no scenario is that large; is this the right file?")
        }
        Ok(_) => match String::from_utf8(bytes) {
            Ok(text) => return Ok(text),
            Err(error) => {
                let start = error.utf8_error().valid_up_to();
                (
                    ErrorKind::NotUtf8,
                    format!("byte {start} of the file is not UTF-8"),
                    "save the file as UTF-8",
                )
            }
        },
    };
    let origin = Origin::File(path.display().to_string().into());
    let error = ConfigError { kind, key: String::new(), found, right: right.into(), origin };
    ConfigErrors::or(vec![error], String::new())
}

/// A rate given in Gbit/s, for files beside the scenario.
fn build_rate(gigabits: f64) -> Rate {
    build::rate(gigabits)
}

#[cfg(test)]
mod tests;
