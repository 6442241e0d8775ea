//! Configurations with names and versions: plain files beside the runs.
//!
//! A version is a file `configurations/NAME/VERSION.toml`, which `sheaf run` takes as it is. Its first line says where it comes from. Files are
//! added and never changed, so two commands never make the same version, and a directory that is copied is complete.

use super::code::Code;
use super::comments;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Name of the directory beside the runs.
const DIRECTORY: &str = "configurations";

/// Begin of the first line, before the origin in JSON.
const HEAD: &str = "# sheaf-configuration ";

/// Most characters of a name.
const NAME_CHARACTERS: usize = 64;

/// Origin of a version, in its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedConfiguration {
    pub(crate) name: String,
    pub(crate) version: u32,
    /// Run whose configuration it is.
    pub(crate) run: u32,
    /// Program and version that made that run.
    pub(crate) software: String,
    /// Checksum of settings and code, as of the run.
    pub(crate) id: String,
    pub(crate) by: String,
    /// When it got its name, in nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// Libraries and scripts of that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) code: Vec<Code>,
}

/// Returns why a text is no name of a configuration, if it is none.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    // A number would be that of a run.
    let is_word = name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.starts_with('.');
    if name.len() > NAME_CHARACTERS || !name.bytes().all(is_plain) || !is_word {
        bail!(
            "`{name}` is not the name of a configuration; give up to {NAME_CHARACTERS} letters, digits, `.`, `-` and `_`, with a letter among them"
        );
    }
    Ok(())
}

/// Gives a configuration a name: `of` has everything but the version. The newest version is used again if it is the same configuration.
/// Returns its origin, and whether it was there.
pub(super) fn add(
    runs: &Path,
    of: NamedConfiguration,
    text: &str,
) -> anyhow::Result<(NamedConfiguration, bool)> {
    check_name(&of.name)?;
    let place = runs.join(DIRECTORY).join(&of.name);
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    loop {
        let newest = versions(&place)?.pop();
        if let Some(newest) = newest
            && let Ok((known, _)) = read(&place, newest)
            && known.id == of.id
        {
            return Ok((known, true));
        }
        let version = newest.unwrap_or(0).checked_add(1).context("all versions are taken")?;
        let named = NamedConfiguration { version, ..of.clone() };
        let head = serde_json::to_string(&named)?;
        let path = file(&place, version);
        if write_new(&path, format!("{HEAD}{head}\n\n{text}").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?
        {
            return Ok((named, false));
        }
    }
}

/// Writes a file that is there as a whole or not at all. Returns whether there was none.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    let place = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new()
        .suffix(".draft")
        .permissions(Permissions::from_mode(0o666)) // Less what the umask takes away, as for other files.
        .tempfile_in(place)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        other => Ok(other.map(|_| true)?),
    }
}

fn file(place: &Path, version: u32) -> PathBuf {
    place.join(format!("{version}.toml"))
}

/// Returns the versions in the directory of a name, in ascending order.
fn versions(place: &Path) -> anyhow::Result<Vec<u32>> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<u32> = names.filter_map(|name| name.strip_suffix(".toml")?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

fn read(place: &Path, version: u32) -> anyhow::Result<(NamedConfiguration, String)> {
    let path = file(place, version);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let head = text.lines().next().and_then(|line| line.strip_prefix(HEAD));
    let head = head.with_context(|| format!("{} does not begin with `{HEAD}`", path.display()))?;
    let named = serde_json::from_str(head)
        .with_context(|| format!("the first line of {} cannot be read", path.display()))?;
    Ok((named, text))
}

/// Returns the configuration `NAME` or `NAME@VERSION`, without a version the newest one, and its text.
pub(super) fn find(text: &str, runs: &Path) -> anyhow::Result<(NamedConfiguration, String)> {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => {
            let number = version.parse().ok().with_context(|| {
                format!("`{version}` is not the version of a configuration; give a number")
            })?;
            (name, Some(number))
        }
        None => (text, None),
    };
    check_name(name)?;
    let place = runs.join(DIRECTORY).join(name);
    let known = versions(&place)?;
    let Some(newest) = known.last().copied() else {
        bail!(
            "there is no configuration `{name}` beside the runs in {}; `sheaf runs configurations` lists them, `sheaf runs name RUN {name}` makes it",
            runs.display()
        );
    };
    match version.unwrap_or(newest) {
        version if known.contains(&version) => read(&place, version),
        version => bail!("the configuration `{name}` has versions up to {newest}, and no version {version}"),
    }
}

/// Returns all versions of all names, and problems with files that cannot be read.
pub(super) fn list(runs: &Path) -> anyhow::Result<(Vec<NamedConfiguration>, Vec<anyhow::Error>)> {
    let place = runs.join(DIRECTORY);
    let entries = match fs::read_dir(&place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    names.retain(|path| path.is_dir());
    names.sort();
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for place in names {
        for version in versions(&place)? {
            match read(&place, version) {
                Ok((named, _)) => found.push(named),
                Err(problem) => problems.push(problem),
            }
        }
    }
    Ok((found, problems))
}

/// Returns a line for each version.
pub(super) fn table(list: &[NamedConfiguration]) -> String {
    let width = list.iter().map(|named| named.name.len()).max().unwrap_or(0).max("name".len());
    let mut text = format!(
        "{:<width$}  {:>7}  {:>7}  {:<8}  {:<20}  by\n",
        "name", "version", "of run", "id", "since (UTC)"
    );
    for NamedConfiguration { name, version, run, id, by, time_ns, .. } in list {
        let since = super::utc(*time_ns);
        text += &format!("{name:<width$}  {version:>7}  {run:>7}  {id:<8}  {since:<20}  {by}\n");
    }
    text
}

/// Returns the origin of a configuration that gets a name, without its version.
pub(super) fn origin(
    name: &str,
    person: Option<&str>,
    (run, software): (u32, &str),
    id: &str,
    code: &[Code],
) -> NamedConfiguration {
    let comments::Comment { author, time_ns, .. } = comments::Comment::new(person, None, None);
    let (name, software, id) = (name.to_owned(), software.to_owned(), id.to_owned());
    NamedConfiguration { name, version: 0, run, software, id, by: author, time_ns, code: code.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_ascend_and_the_same_configuration_is_no_new_one() {
        let place = tempfile::tempdir().unwrap();
        let named = |id: &str| origin("cosmics-2026a", None, (7, "sheaf"), id, &[]);
        let version = |id: &str| {
            let (named, was_there) = add(place.path(), named(id), "[run]\n").unwrap();
            (named.version, was_there)
        };
        assert_eq!(
            [version("a"), version("a"), version("b"), version("a")].map(|(version, _)| version),
            [1, 1, 2, 3]
        );
        assert_eq!(version("a"), (3, true));
        assert_eq!(find("cosmics-2026a", place.path()).unwrap().0.version, 3);
        assert_eq!(find("cosmics-2026a@2", place.path()).unwrap().0.id, "b");
        let (all, problems) = list(place.path()).unwrap();
        assert_eq!((all.len(), problems.len()), (3, 0));
        fs::write(place.path().join("configurations/cosmics-2026a/2.toml"), "[run]\n").unwrap();
        assert_eq!(list(place.path()).unwrap().1.len(), 1);
        let error = |text: &str| find(text, place.path()).unwrap_err().to_string();
        assert!(error("cosmics-2026a@9").contains("versions up to 3, and no version 9"));
        assert!(error("beam").contains("there is no configuration `beam`"));
        assert!(error("a/../b").contains("is not the name") && error("12").contains("is not the name"));
        assert!(error("beam@x").contains("`x` is not the version"));
    }

    #[test]
    fn names_that_are_given_at_the_same_time_get_versions_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let take = |index: u32| {
            add(place.path(), origin("beam", None, (index, "sheaf"), &index.to_string(), &[]), "")
                .unwrap()
                .0
                .version
        };
        let mut versions: Vec<_> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8).map(|index| scope.spawn(move || take(index))).collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).collect()
        });
        versions.sort_unstable();
        assert_eq!(versions, (1..=8).collect::<Vec<_>>());
    }
}
