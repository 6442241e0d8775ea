//! Where a database is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a database is. Its text, also for debugging, shows no password.
#[derive(Clone, PartialEq, Eq)]
pub enum Url {
    /// `sqlite:FILE`.
    Sqlite(PathBuf),
    /// `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE`, as PostgreSQL writes it.
    Postgres(String),
}

/// Error in the URL of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `sqlite:FILE` or `postgres://USER@HOST/DATABASE`")]
pub struct UrlError;

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let of_server = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        match (text.strip_prefix("sqlite:"), of_server) {
            (Some(file), _) if !file.is_empty() => Ok(Self::Sqlite(file.into())),
            (_, Some(server)) if !server.is_empty() => Ok(Self::Postgres(text.to_owned())),
            _ => Err(UrlError),
        }
    }
}

impl Url {
    /// Returns whether the URL itself has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        matches!(self, Self::Postgres(text) if without_password(text) != *text)
    }
}

/// Returns a URL without its password: the one before the `@`, and that of a parameter.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    // A password may have an `@`, a `/` or a `?`, although it should not.
    let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let (place, parameters) = rest.split_once('?').map_or((rest, None), |(a, p)| (a, Some(p)));
    let user = user.map(|user| user.split_once(':').map_or(user, |(name, _)| name));
    let mut shown = format!("{scheme}://");
    if let Some(user) = user {
        shown.push_str(user);
        shown.push('@');
    }
    shown.push_str(place);
    let open: Vec<_> =
        parameters.iter().flat_map(|all| all.split('&')).filter(|one| !one.starts_with("password")).collect();
    if !open.is_empty() {
        shown.push('?');
        shown.push_str(&open.join("&"));
    }
    shown
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Self::Postgres(text) => f.write_str(&without_password(text)),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://daq:secret@db.example.org/runs", "postgres://daq@db.example.org/runs"),
            ("postgres://daq:se?c@cr/et@db:5433/runs", "postgres://daq@db:5433/runs"),
            ("postgresql://db/runs?user=daq&password=secret", "postgresql://db/runs?user=daq"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(format!("{url} {url:?}"), format!("{shown} {shown}"));
            assert!(url.has_password());
        }
        for text in ["postgres://daq@db/runs", "sqlite:runs/runs.db", "postgres://db/runs?sslmode=disable"] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), text);
            assert!(!url.has_password());
        }
    }

    #[test]
    fn other_texts_are_no_urls() {
        for text in ["", "sqlite:", "runs.db", "postgres://", "mysql://db/runs"] {
            assert_eq!(text.parse::<Url>(), Err(UrlError), "{text}");
        }
    }
}
