//! PostgreSQL.

use crate::session::{Session, Value};
use crate::tls::{Parameters, Security, words};
use crate::{Credentials, DatabaseError, Url};
use bytes::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, Row};
use std::error::Error;
use std::time::Duration;

/// Key of the lock that writers hold.
const LOCK: i64 = 0x7368_6561_6600_0001;

/// A connection to a server.
pub(crate) struct Postgresql {
    client: Client,
    place: String,
}

impl Postgresql {
    /// Connects. A server that does not answer ends it after `patience`, except where it accepts and then says nothing: the caller bounds that.
    pub(crate) fn open(
        url: &str,
        credentials: &Credentials,
        patience: Duration,
    ) -> Result<Self, DatabaseError> {
        let place = Url::Postgres(url.to_owned()).to_string();
        match connect(url, credentials, patience) {
            Ok(client) => Ok(Self { client, place }),
            Err(problem) => Err(DatabaseError::Open { place, problem }),
        }
    }

    fn error(&self, error: &postgres::Error) -> DatabaseError {
        DatabaseError::Statement { place: self.place.clone(), problem: words(error) }
    }
}

fn connect(url: &str, credentials: &Credentials, patience: Duration) -> Result<Client, String> {
    let (url, parameters) = Parameters::take(url);
    let mut config = url.parse::<Config>().map_err(|error| words(&error))?;
    config.connect_timeout(patience).tcp_user_timeout(patience).application_name("sheaf");
    if let Some(password) = credentials.password.as_ref().filter(|_| config.get_password().is_none()) {
        config.password(password);
    }
    let security = Security::new(&parameters, credentials.ca_file.as_deref(), &config)?;
    config.ssl_mode(security.mode());
    let connected = config.connect(security.connector()?).and_then(|mut client| {
        // A writer that hangs must not keep the others waiting.
        let limit = patience.as_millis();
        client.batch_execute(&format!(
            "SET client_min_messages = warning; SET lock_timeout = {limit}; SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit}"
        ))?;
        Ok(client)
    });
    connected.map_err(|error| match security.advice(&error) {
        Some(advice) => format!("{}; {advice}", words(&error)),
        None => words(&error),
    })
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INT8 || *kind == Type::TEXT
    }

    to_sql_checked!();
}

fn values(row: &Row) -> Result<Vec<Value>, postgres::Error> {
    let value = |column: usize| {
        Ok(if *row.columns()[column].type_() == Type::INT8 {
            row.try_get::<_, Option<i64>>(column)?.map_or(Value::Null, Value::Integer)
        } else {
            row.try_get::<_, Option<String>>(column)?.map_or(Value::Null, Value::Text)
        })
    };
    (0..row.len()).map(value).collect()
}

fn bound(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| -> &(dyn ToSql + Sync) { value }).collect()
}

impl Session for Postgresql {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))
    }

    fn batch(&mut self, statements: &str) -> Result<(), DatabaseError> {
        self.client.batch_execute(statements).map_err(|error| self.error(&error))
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        self.client.execute(statement, &bound(values)).map_err(|error| self.error(&error))
    }

    fn describe(&mut self) -> Result<String, DatabaseError> {
        let tls = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let query =
            format!("SELECT current_setting('server_version') || ', ' || coalesce(({tls}), 'not encrypted')");
        let rows = self.query(&query, &[])?;
        let found = rows.first().and_then(|row| row[0].text()).unwrap_or_default();
        Ok(format!("PostgreSQL {found}"))
    }

    fn has_table(&mut self, name: &str) -> Result<bool, DatabaseError> {
        Ok(!self
            .query("SELECT 1::bigint WHERE to_regclass($1::text) IS NOT NULL", &[name.into()])?
            .is_empty())
    }

    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        let rows = self.client.query(query, &bound(values));
        let rows = rows.and_then(|rows| rows.iter().map(self::values).collect());
        rows.map_err(|error| self.error(&error))
    }
}
