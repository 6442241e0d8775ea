//! Errors of a database.

/// Error of a database. No text has a password.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The build has no code for databases of this kind.
    #[error("this build has no {kind}; build it with: cargo build --release --features {feature}")]
    NotBuilt {
        /// Kind of the database.
        kind: &'static str,
        /// Cargo feature that adds it.
        feature: &'static str,
    },
    /// A newer version of the program made or changed the tables.
    #[error(
        "{place} has schema {found}, and this version knows those up to {known}; use a newer version of sheaf, or another database"
    )]
    NewerSchema {
        /// The database.
        place: String,
        /// Its schema.
        found: i64,
        /// The newest known schema.
        known: i64,
    },
    /// It cannot be opened or reached.
    #[error("cannot open {place}: {problem}")]
    Open {
        /// The database.
        place: String,
        /// The answer of the system or the server.
        problem: String,
    },
    /// The caller has asked for the end.
    #[error("interrupted; nothing has changed in the database")]
    Interrupted,
    /// A statement failed.
    #[error("{place} does not do what is asked: {problem}")]
    Statement {
        /// The database.
        place: String,
        /// The answer of the library or the server.
        problem: String,
    },
}
