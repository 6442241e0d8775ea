//! The interface that SQLite and PostgreSQL have in common.

use crate::DatabaseError;

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Null,
    /// A whole number: 8 bytes with a sign.
    Integer(i64),
    /// A text.
    Text(String),
}

impl Value {
    /// Returns the number, if it is one.
    #[must_use]
    pub const fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl From<u64> for Value {
    /// Larger numbers than a database can have become its largest.
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    /// PostgreSQL has no texts with zeros in them.
    fn from(text: &str) -> Self {
        Self::Text(text.replace('\0', "\u{fffd}"))
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::from)
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

/// A connection. Statements number their values in the order in which they occur first.
pub(crate) trait Session: Send {
    /// Begins a transaction that no other writer can come between.
    fn begin(&mut self) -> Result<(), DatabaseError>;

    /// Makes statements without values.
    fn batch(&mut self, statements: &str) -> Result<(), DatabaseError>;

    /// Makes a statement. Returns the number of rows that it changed.
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, DatabaseError>;

    /// Returns the kind and version of the database, and the encryption of the connection if there is one.
    fn describe(&mut self) -> Result<String, DatabaseError>;

    /// Returns whether the database has a table.
    fn has_table(&mut self, name: &str) -> Result<bool, DatabaseError>;

    /// Returns the rows of a query.
    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError>;
}
