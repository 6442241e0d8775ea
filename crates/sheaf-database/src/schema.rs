//! Numbered migrations. One that a release has made is never changed: what is new comes in another.

use crate::DatabaseError;
use crate::session::{Session, Value};

/// Migrations, the first making schema 1.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];

/// Brings the tables to the newest schema, in the transaction that has begun.
pub(crate) fn migrate(session: &mut dyn Session, place: &str) -> Result<(), DatabaseError> {
    session.batch("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
    let rows = session.query("SELECT max(version) FROM schema_version", &[])?;
    let found = rows.first().and_then(|row| row[0].integer()).unwrap_or(0);
    let known = MIGRATIONS.len() as u64;
    let Some(made) = u64::try_from(found).ok().filter(|found| *found <= known) else {
        let known = MIGRATIONS.len() as i64;
        return Err(DatabaseError::NewerSchema { place: place.to_owned(), found, known });
    };
    for (number, migration) in (1_u64..).zip(MIGRATIONS).filter(|(number, _)| *number > made) {
        session.batch(migration)?;
        session.execute("INSERT INTO schema_version (version) VALUES ($1)", &[Value::from(number)])?;
    }
    Ok(())
}
