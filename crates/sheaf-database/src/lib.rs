//! An index of runs in a database, and the sequence of their numbers.
//!
//! The directories of runs are the record; the index is made from them and can be made again. It answers questions about many runs, and about
//! runs of hosts whose directories nobody else sees. All statements are the same for SQLite and PostgreSQL: columns are whole numbers or
//! texts, and a place for a value is `$1`.
//!
//! | module | content |
//! |---|---|
//! | [`url`](Url) | where a database is, without showing its password |
//! | [`row`](RunRow) | what the index has of a run |
//! | [`credentials`](Credentials) | how both ends of a connection prove who they are |
//! | [`database`](Database) | writing, reading, numbers |
//! | `schema` | numbered migrations |
//! | `session` | what SQLite and PostgreSQL have in common |
//! | `tls` | whether a connection to PostgreSQL is encrypted, and which certificates it takes |

mod credentials;
mod database;
mod error;
#[cfg(feature = "postgres")]
mod postgresql;
mod row;
mod schema;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "postgres")]
mod tls;
mod url;

pub use credentials::Credentials;
pub use database::Database;
pub use error::DatabaseError;
pub use row::{RunRow, Table};
pub use schema::SCHEMA;
pub use session::Value;
pub use url::{Url, UrlError};
