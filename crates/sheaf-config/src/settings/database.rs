//! The database of runs.

use crate::codec::{database_url, maybe, milliseconds, path};
use crate::knob::section;
use sheaf_wire::Nanos;
use std::path::PathBuf;

section! {
    /// Index of runs in a database. The directories of runs remain the record, and runs go on without it.
    Database "database" {
        /// The database, or `"none"`. PostgreSQL needs a build with the feature `postgres`, and gives the run numbers; its parameters
        /// `sslmode` and `sslrootcert` follow a `?`. Default: the SQLite file `runs.db` in `run.output`.
        url: Option<String> = None, "url", maybe(database_url());
        /// File whose first line is the password for PostgreSQL. Default: the environment variable `PGPASSWORD`.
        password_file: Option<PathBuf> = None, "password_file", maybe(path());
        /// File with the certificates of authorities in PEM format, one of which must have signed that of the PostgreSQL server. Default: those
        /// of the system. `sslrootcert` in the URL goes first.
        ca_file: Option<PathBuf> = None, "ca_file", maybe(path());
        /// Time in which the database must have taken what is written at the beginning of a run, and at its end. After it the run goes on,
        /// and a later run writes what is missing.
        timeout: Nanos = Nanos::from_secs(5), "timeout_ms", milliseconds(Nanos::from_millis(10), Nanos::from_secs(60));
    }
}
