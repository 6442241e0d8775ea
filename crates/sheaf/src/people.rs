//! Who may give commands to a controller: names, roles and hashes of tokens, in a file.

use crate::control_directory::ControlDirectory;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sheaf_control::{Operator, Role};
use sheaf_key::{make_token, token_hash};
use sheaf_node::Clock;
use sheaf_telemetry::log_as;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

/// Most characters of a name.
const NAME_CHARACTERS: usize = 64;

/// A person or a script with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// SHA-256 of the token, in hexadecimal digits.
    hash: String,
    /// In milliseconds since 1970.
    pub(crate) added_ms: u64,
    /// When the token ends, in milliseconds since 1970; `None`: never.
    pub(crate) expires_ms: Option<u64>,
}

/// Everybody with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct People {
    pub(crate) people: Vec<Person>,
}

impl People {
    pub(crate) fn read(directory: &ControlDirectory) -> anyhow::Result<Self> {
        let path = directory.tokens();
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{} cannot be read", path.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    pub(crate) fn write(&self, directory: &ControlDirectory) -> anyhow::Result<()> {
        ControlDirectory::write(&directory.tokens(), &serde_json::to_vec_pretty(self)?)
    }

    /// Adds somebody, and returns the token. It is kept nowhere.
    pub(crate) fn add(&mut self, name: &str, role: Role, lasts: Option<Duration>) -> anyhow::Result<String> {
        let length = name.chars().count();
        if length == 0 || length > NAME_CHARACTERS || name.chars().any(char::is_control) {
            bail!("a name has 1 to {NAME_CHARACTERS} characters, and no control characters");
        }
        if self.people.iter().any(|person| person.name == name) {
            bail!("{name} has a token; remove it with `sheaf token remove {name}`, or choose another name");
        }
        let token = make_token()?;
        let now_ms = Clock::new().now().as_millis();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.people.push(Person {
            name: name.to_owned(),
            role,
            hash: token_hash(&token),
            added_ms: now_ms,
            expires_ms: lasts.map(|lasts| now_ms.saturating_add(milliseconds(lasts))),
        });
        Ok(token)
    }

    /// Removes somebody. Returns whether there was a token.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.people.len();
        self.people.retain(|person| person.name != name);
        self.people.len() < before
    }

    /// Returns who a token belongs to, unless it has expired.
    pub(crate) fn find(&self, token: &str) -> Option<Operator> {
        let hash = token_hash(token);
        let now_ms = Clock::new().now().as_millis();
        let person = self.people.iter().find(|person| person.hash == hash)?;
        let is_valid = person.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms);
        is_valid.then(|| Operator { name: person.name.clone(), role: person.role })
    }
}

/// Wrong tokens within a minute, beyond which more of them are refused as too many.
const WRONG_TOKENS: u32 = 20;

/// Counts wrong tokens. A right one is served however many wrong ones there were: else anybody on this host could lock all operators out.
#[derive(Debug, Default)]
pub(crate) struct WrongTokens {
    /// Number in this minute, and when it began.
    count: Option<(u32, Instant)>,
}

impl WrongTokens {
    /// Counts a wrong token. Returns whether there were not too many.
    pub(crate) fn note(&mut self) -> bool {
        let minute = self.count.filter(|(_, began)| began.elapsed() < Duration::from_secs(60));
        let (count, began) = minute.unwrap_or_else(|| (0, Instant::now()));
        self.count = Some((count.saturating_add(1), began));
        if count == WRONG_TOKENS {
            log_as!(
                WRONG_TOKENS;
                "more than {WRONG_TOKENS} wrong tokens within a minute: somebody may be guessing"
            );
        }
        count < WRONG_TOKENS
    }
}

/// Returns the token of the user who starts the controller, and makes one where there is none. An admin: the user could write the file.
pub(crate) fn own_token(directory: &ControlDirectory) -> anyhow::Result<String> {
    let path = directory.own_token();
    let mut people = People::read(directory)?;
    if let Ok(token) = fs::read_to_string(&path)
        && people.find(token.trim()).is_some()
    {
        return Ok(token.trim().to_owned());
    }
    let name = user();
    people.remove(&name);
    let token = people.add(&name, Role::Admin, None)?;
    let write = || {
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        writeln!(file, "{token}")
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    people.write(directory)?;
    Ok(token)
}

/// Returns the name of the user of this process.
pub(crate) fn user() -> String {
    let of_environment = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    of_environment.filter(|name| !name.is_empty()).unwrap_or_else(|| "owner".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_until_it_ends_and_the_file_does_not_have_it() {
        let mut people = People::default();
        let token = people.add("alice", Role::Operator, None).unwrap();
        let ended = people.add("bob", Role::Admin, Some(Duration::ZERO)).unwrap();
        assert_eq!(people.find(&token).map(|operator| operator.name).as_deref(), Some("alice"));
        assert_eq!(people.find(&ended), None);
        assert_eq!(people.find("something else"), None);
        assert!(!serde_json::to_string(&people).unwrap().contains(&token));
        assert!(people.add("alice", Role::Admin, None).is_err(), "a name has one token");
        assert!(people.remove("alice") && !people.remove("alice"));
        assert_eq!(people.find(&token), None);
    }

    #[test]
    fn the_own_token_is_made_once_and_only_the_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let directory = ControlDirectory::new(&place.path().join("control"));
        directory.create().unwrap();
        let token = own_token(&directory).unwrap();
        assert_eq!(own_token(&directory).unwrap(), token);
        assert_eq!(fs::metadata(directory.own_token()).unwrap().permissions().mode() & 0o077, 0);
        let operator = People::read(&directory).unwrap().find(&token).unwrap();
        assert_eq!(operator.role, Role::Admin);
    }
}
