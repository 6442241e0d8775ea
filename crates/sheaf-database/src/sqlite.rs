//! SQLite.

use crate::session::{Session, Value};
use crate::{DatabaseError, Url};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use std::path::Path;
use std::time::Duration;

/// A file. Its journal is the one that also works on network disks: a write-ahead log needs memory that all writers share.
pub(crate) struct Sqlite {
    connection: Connection,
    place: String,
}

impl Sqlite {
    /// Opens or makes a file. Where another process writes it, statements wait for up to `patience`.
    pub(crate) fn open(file: &Path, patience: Duration) -> Result<Self, DatabaseError> {
        let place = Url::Sqlite(file.to_owned()).to_string();
        let opened = Connection::open(file).and_then(|connection| {
            connection.busy_timeout(patience)?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Ok(Self { connection, place }),
            Err(error) => Err(DatabaseError::Open { place, problem: error.to_string() }),
        }
    }

    fn error(&self, error: &rusqlite::Error) -> DatabaseError {
        DatabaseError::Statement { place: self.place.clone(), problem: error.to_string() }
    }

    fn rows(&self, query: &str, values: &[Value]) -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = self.connection.prepare(query)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(
                (0..columns)
                    .map(|column| Ok(value(row.get_ref(column)?)))
                    .collect::<rusqlite::Result<_>>()?,
            );
        }
        Ok(found)
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        // No column has another type.
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl Session for Sqlite {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn batch(&mut self, statements: &str) -> Result<(), DatabaseError> {
        self.connection.execute_batch(statements).map_err(|error| self.error(&error))
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        let done = self
            .connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute(params_from_iter(values)));
        done.map(|rows| rows as u64).map_err(|error| self.error(&error))
    }

    fn describe(&mut self) -> Result<String, DatabaseError> {
        Ok(format!("SQLite {}", rusqlite::version()))
    }

    fn has_table(&mut self, name: &str) -> Result<bool, DatabaseError> {
        let query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1";
        Ok(!self.query(query, &[name.into()])?.is_empty())
    }

    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        self.rows(query, values).map_err(|error| self.error(&error))
    }
}
