//! Writing, reading, numbers.

use crate::row::{RunRow, Table};
use crate::session::{Session, Value};
use crate::{Credentials, DatabaseError, Url, schema};
use std::ops::ControlFlow;
use std::time::Duration;

/// An open database, with the newest schema.
pub struct Database {
    session: Box<dyn Session>,
}

impl Database {
    /// Opens a database, and makes its tables or brings them up to date. Waits up to `patience` for other writers and for a server. A server
    /// that accepts the connection and then says nothing, and a disk that hangs, take longer: a caller that cannot wait uses a thread.
    ///
    /// # Errors
    /// It cannot be opened, this build has no code for it, or its schema is newer than this version.
    pub fn open(url: &Url, credentials: &Credentials, patience: Duration) -> Result<Self, DatabaseError> {
        let mut session = connect(url, credentials, patience)?;
        let place = url.to_string();
        session.begin()?;
        schema::migrate(&mut *session, &place)?;
        session.batch("COMMIT")?;
        Ok(Self { session })
    }

    /// Connects, changes nothing, and returns what was found: the kind and version, and the encryption.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn look(url: &Url, credentials: &Credentials, patience: Duration) -> Result<String, DatabaseError> {
        let mut session = connect(url, credentials, patience)?;
        let found = session.describe()?;
        if session.has_table(schema::TABLE)? {
            schema::version(&mut *session, &url.to_string())?;
        }
        Ok(found)
    }

    /// Writes runs in one transaction: all of them, or none. A run that is known is replaced, as is an earlier one in the same directory.
    ///
    /// # Errors
    /// The database cannot do it; then nothing has changed.
    pub fn write(&mut self, runs: &[RunRow]) -> Result<(), DatabaseError> {
        self.transaction(|session| runs.iter().try_for_each(|run| write(session, run)))
    }

    /// Forgets the runs of a host below directories, and writes `runs`, in one transaction. After each step, `tell` gets the number of runs that
    /// are written, and may end it.
    ///
    /// # Errors
    /// The database cannot do it, or `tell` has ended it; then nothing has changed.
    pub fn rebuild(
        &mut self,
        host: &str,
        directories: &[String],
        runs: &[RunRow],
        tell: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        let mut step = |written| match tell(written) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DatabaseError::Interrupted),
        };
        self.transaction(|session| {
            for directory in directories {
                forget_below(session, host, directory, &mut || step(0))?;
            }
            for (written, run) in (1..).zip(runs) {
                write(session, run)?;
                step(written)?;
            }
            Ok(())
        })
    }

    /// Forgets the run in a directory of a host.
    ///
    /// # Errors
    /// The database cannot do it; then nothing has changed.
    pub fn forget(&mut self, host: &str, directory: &str) -> Result<(), DatabaseError> {
        self.transaction(|session| {
            forget(session, "host = $1 AND directory = $2", &[host.into(), directory.into()])
        })
    }

    /// Returns the records of all runs in JSON, or of those with a number, in the order of creation, with their hosts.
    ///
    /// # Errors
    /// The database cannot do it.
    pub fn records(&mut self, run: Option<u64>) -> Result<Vec<(String, String)>, DatabaseError> {
        let columns = "SELECT host, record FROM run";
        let order = "ORDER BY created_ns, run";
        let rows = match run {
            Some(run) => self.session.query(&format!("{columns} WHERE run = $1 {order}"), &[run.into()])?,
            None => self.session.query(&format!("{columns} {order}"), &[])?,
        };
        let text = |value: &Value| value.text().unwrap_or_default().to_owned();
        Ok(rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect())
    }

    /// Returns the directories on a host whose runs are in progress as far as the database knows.
    ///
    /// # Errors
    /// The database cannot do it.
    pub fn in_progress(&mut self, host: &str) -> Result<Vec<String>, DatabaseError> {
        let rows = self
            .session
            .query("SELECT directory FROM run WHERE host = $1 AND state = 'in_progress'", &[host.into()])?;
        Ok(rows.iter().filter_map(|row| row[0].text().map(str::to_owned)).collect())
    }

    /// Takes the next `count` run numbers, all above `above`, and returns the first. Nobody else ever gets them.
    ///
    /// # Errors
    /// The database cannot do it. Numbers may be left out then, but none is given twice.
    pub fn take_numbers(&mut self, above: u64, count: u64) -> Result<u64, DatabaseError> {
        self.transaction(|session| {
            session.execute("UPDATE run_number SET last = $1 WHERE last < $1", &[above.into()])?;
            session.execute("UPDATE run_number SET last = last + $1", &[count.into()])?;
            let rows = session.query("SELECT last FROM run_number", &[])?;
            let last = rows.first().and_then(|row| row[0].integer()).unwrap_or(0);
            Ok(u64::try_from(last).unwrap_or(0).saturating_sub(count) + 1)
        })
    }

    /// Returns the rows of any query, for readers who know the tables.
    ///
    /// # Errors
    /// The database cannot do it.
    pub fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        self.session.query(query, values)
    }

    fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut dyn Session) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.session.begin()?;
        match body(&mut *self.session) {
            Ok(value) => self.session.batch("COMMIT").map(|()| value),
            Err(error) => {
                // The first error counts; a broken connection takes the transaction back as well.
                let _ = self.session.batch("ROLLBACK");
                Err(error)
            }
        }
    }
}

fn connect(
    url: &Url,
    credentials: &Credentials,
    patience: Duration,
) -> Result<Box<dyn Session>, DatabaseError> {
    match url {
        #[cfg(feature = "sqlite")]
        Url::Sqlite(file) => Ok(Box::new(crate::sqlite::Sqlite::open(file, patience)?)),
        #[cfg(feature = "postgres")]
        Url::Postgres(url) => Ok(Box::new(crate::postgresql::Postgresql::open(url, credentials, patience)?)),
        #[cfg(not(feature = "sqlite"))]
        Url::Sqlite(_) => {
            let _ = patience;
            Err(DatabaseError::NotBuilt { kind: "SQLite", feature: "sqlite" })
        }
        #[cfg(not(feature = "postgres"))]
        Url::Postgres(_) => {
            let _ = credentials;
            Err(DatabaseError::NotBuilt { kind: "PostgreSQL", feature: "postgres" })
        }
    }
}

/// Removes runs from all tables.
fn forget(session: &mut dyn Session, which: &str, values: &[Value]) -> Result<(), DatabaseError> {
    let keys = session.query(&format!("SELECT run, created_ns FROM run WHERE {which}"), values)?;
    for key in keys {
        for table in Table::ALL.map(Table::name).into_iter().chain(["run"]) {
            let statement = format!("DELETE FROM {table} WHERE run = $1 AND created_ns = $2");
            session.execute(&statement, &key)?;
        }
    }
    Ok(())
}

/// Removes the runs of a host below a directory from all tables, one after the other.
fn forget_below(
    session: &mut dyn Session,
    host: &str,
    directory: &str,
    step: &mut dyn FnMut() -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    // A range, because a path may have the characters that a pattern gives a meaning to: `0` follows `/`.
    let below = [host.into(), (&*format!("{directory}/")).into(), (&*format!("{directory}0")).into()];
    let of_run = "host = $1 AND directory >= $2 AND directory < $3";
    for table in Table::ALL.map(Table::name) {
        let of_part = format!(
            "EXISTS (SELECT 1 FROM run WHERE run.run = {table}.run AND run.created_ns = {table}.created_ns AND {of_run})"
        );
        session.execute(&format!("DELETE FROM {table} WHERE {of_part}"), &below)?;
        step()?;
    }
    session.execute(&format!("DELETE FROM run WHERE {of_run}"), &below)?;
    step()
}

fn write(session: &mut dyn Session, run: &RunRow) -> Result<(), DatabaseError> {
    forget(session, "host = $1 AND directory = $2", &[(&*run.host).into(), (&*run.directory).into()])?;
    let key: [Value; 2] = [run.run.into(), run.created_ns.into()];
    forget(session, "run = $1 AND created_ns = $2", &key)?;
    session.execute(&insertion("run", &RunRow::COLUMNS), &run.values())?;
    for (table, values) in &run.parts {
        let columns: Vec<_> = ["run", "created_ns"].iter().chain(table.columns()).copied().collect();
        let values: Vec<_> = key.iter().chain(values).cloned().collect();
        session.execute(&insertion(table.name(), &columns), &values)?;
    }
    Ok(())
}

fn insertion(table: &str, columns: &[&str]) -> String {
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places.join(", "))
}
