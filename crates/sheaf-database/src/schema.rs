//! Numbered migrations. One that a release has made is never changed: what is new comes in another.

use crate::DatabaseError;
use crate::session::{Session, Value};

/// Migrations, the first making schema 1.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// The schema of this version: the number of migrations.
pub const SCHEMA: usize = MIGRATIONS.len();

/// Table of the migrations that were made.
pub(crate) const TABLE: &str = "schema_version";

/// Returns the schema of the tables, which is not newer than this version.
pub(crate) fn version(session: &mut dyn Session, place: &str) -> Result<u64, DatabaseError> {
    let rows = session.query(&format!("SELECT max(version) FROM {TABLE}"), &[])?;
    let found = rows.first().and_then(|row| row[0].integer()).unwrap_or(0);
    u64::try_from(found).ok().filter(|found| *found <= MIGRATIONS.len() as u64).ok_or_else(|| {
        let known = MIGRATIONS.len() as i64;
        DatabaseError::NewerSchema { place: place.to_owned(), found, known }
    })
}

/// Brings the tables to the newest schema, in the transaction that has begun.
pub(crate) fn migrate(session: &mut dyn Session, place: &str) -> Result<(), DatabaseError> {
    session.batch(&format!("CREATE TABLE IF NOT EXISTS {TABLE} (version BIGINT NOT NULL)"))?;
    let made = version(session, place)?;
    for (number, migration) in (1_u64..).zip(MIGRATIONS).filter(|(number, _)| *number > made) {
        session.batch(migration)?;
        session.execute(&format!("INSERT INTO {TABLE} (version) VALUES ($1)"), &[Value::from(number)])?;
    }
    Ok(())
}
