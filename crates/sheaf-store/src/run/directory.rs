//! Directories of runs, and the runs in them.

use crate::kind::{Kind, KindError};
use std::fs;
use std::path::{Path, PathBuf};

/// The runs in a directory of runs, by their numbers; none where `path` is something else, such as a run or a file.
///
/// # Errors
/// [`KindError::Io`] where it cannot be read.
pub fn runs_in(path: &Path) -> Result<Vec<PathBuf>, KindError> {
    match Kind::of(path) {
        Err(KindError::UnknownDirectory(_)) => {}
        Err(error @ KindError::Io { .. }) => return Err(error),
        Ok(_) | Err(KindError::UnknownFile(_) | KindError::EmptyFile(_)) => return Ok(Vec::new()),
    }
    let io_error = |error| KindError::Io { path: path.to_owned(), error };
    let mut runs = Vec::new();
    for entry in fs::read_dir(path).map_err(io_error)? {
        let run = entry.map_err(io_error)?.path();
        let number = run.file_name().and_then(|name| name.to_str()?.strip_prefix("run")?.parse::<u32>().ok());
        if let Some(number) = number.filter(|_| run.is_dir()) {
            runs.push((number, run));
        }
    }
    runs.sort();
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Resolves a path where one run is read: a directory of runs to its newest run, which is the one with the highest
/// number, and everything else to itself.
///
/// # Errors
/// [`KindError::Io`] where it cannot be read.
pub fn newest_of(path: &Path) -> Result<PathBuf, KindError> {
    Ok(runs_in(path)?.pop().unwrap_or_else(|| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::MANIFEST_NAME;

    #[test]
    fn a_directory_of_runs_stands_for_its_newest_and_all_else_for_itself() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        assert_eq!(newest_of(place.path()).unwrap(), place.path(), "no run is there");
        for name in ["run000002", "run1000000", "run000010", "runs", "other"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("run000011"), "").unwrap();
        let runs = ["run000002", "run000010", "run1000000"].map(path);
        assert_eq!(runs_in(place.path()).unwrap(), runs);
        assert_eq!(newest_of(place.path()).unwrap(), path("run1000000"), "by the number, not by the name");
        assert_eq!(newest_of(&path("run000011")).unwrap(), path("run000011"), "a file");
        fs::write(path("run000010").join(MANIFEST_NAME), "{}").unwrap();
        assert_eq!(newest_of(&path("run000010")).unwrap(), path("run000010"), "a run");
        assert!(newest_of(&path("nothing")).is_err());
    }
}
