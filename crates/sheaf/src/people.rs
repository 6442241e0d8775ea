//! Who may look at a controller and give it commands: names, roles and hashes of tokens, in a file.

use crate::control_directory::ControlDirectory;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sheaf_control::{Operator, Role};
use sheaf_key::{make_token, token_hash};
use sheaf_node::Clock;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

/// Most characters of a name.
const NAME_CHARACTERS: usize = 64;

/// Means by which somebody is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Means {
    /// By a token.
    #[default]
    Token,
    /// By a token, with which a proxy speaks for the people that it has identified.
    Proxy,
    /// By what a proxy says.
    Named,
}

/// A person or a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Means by which it is known.
    #[serde(default)]
    pub(crate) means: Means,
    /// SHA-256 of the token, in hexadecimal digits. Empty for those that a proxy names.
    hash: String,
    /// In milliseconds since 1970.
    pub(crate) added_ms: u64,
    /// When the token ends, in milliseconds since 1970; `None`: never.
    pub(crate) expires_ms: Option<u64>,
}

/// Everybody who is known.
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

    /// Changes the file, while no other process does.
    pub(crate) fn change<T>(
        directory: &ControlDirectory,
        change: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let _lock = directory.lock_tokens()?;
        let mut people = Self::read(directory)?;
        let result = change(&mut people)?;
        people.write(directory)?;
        Ok(result)
    }

    fn write(&self, directory: &ControlDirectory) -> anyhow::Result<()> {
        ControlDirectory::write(&directory.tokens(), &serde_json::to_vec_pretty(self)?)
    }

    /// Adds somebody, and returns the token, which is kept nowhere. Those that a proxy names have none.
    pub(crate) fn add(
        &mut self,
        name: &str,
        (role, means): (Role, Means),
        lasts: Option<Duration>,
    ) -> anyhow::Result<Option<String>> {
        if !is_name(name) {
            bail!("a name has 1 to {NAME_CHARACTERS} characters, and no control characters");
        }
        if self.people.iter().any(|person| person.name == name) {
            bail!("{name} is in the list; use `sheaf token remove {name}` first, or choose another name");
        }
        let token = if means == Means::Named { None } else { Some(make_token()?) };
        let now_ms = Clock::new().now().as_millis();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.people.push(Person {
            name: name.to_owned(),
            role,
            means,
            hash: token.as_deref().map(token_hash).unwrap_or_default(),
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

    /// Returns who a token belongs to, or for whom the proxy speaks to which it belongs.
    ///
    /// # Errors
    /// That there is no such token, that it has ended, or that a proxy names nobody.
    pub(crate) fn find(&self, token: &str, user: Option<&str>) -> Result<Operator, Unknown> {
        let hash = token_hash(token);
        let is_it = |person: &&Person| person.means != Means::Named && person.hash == hash;
        let person =
            self.people.iter().find(is_it).filter(|person| person.is_valid()).ok_or(Unknown::Token)?;
        if person.means == Means::Token {
            return Ok(Operator::new(&person.name, person.role));
        }
        let user = user.filter(|user| is_name(user)).ok_or(Unknown::User)?;
        let named = |known: &&Person| known.means == Means::Named && known.name == user && known.is_valid();
        let role = self.people.iter().find(named).map_or(Role::Viewer, |known| known.role);
        Ok(Operator::new(user, role))
    }
}

impl Person {
    fn is_valid(&self) -> bool {
        self.expires_ms.is_none_or(|expires_ms| Clock::new().now().as_millis() < expires_ms)
    }
}

/// Why nobody is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The token is not known, or has ended.
    Token,
    /// A proxy does not say for whom it speaks.
    User,
}

fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    length > 0 && length <= NAME_CHARACTERS && !name.chars().any(char::is_control)
}

/// Returns the token of the user who starts the controller, and makes one where there is none. An admin: the user could write the file.
pub(crate) fn own_token(directory: &ControlDirectory) -> anyhow::Result<String> {
    let path = directory.own_token();
    if let Ok(token) = fs::read_to_string(&path)
        && People::read(directory)?.find(token.trim(), None).is_ok()
    {
        return Ok(token.trim().to_owned());
    }
    People::change(directory, |people| {
        let name = user();
        people.remove(&name);
        let token = people.add(&name, (Role::Admin, Means::Token), None)?.context("the owner has a token")?;
        let write = || {
            let _ = fs::remove_file(&path);
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            writeln!(file, "{token}")
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(token)
    })
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
        let by_token = |role| (role, Means::Token);
        let token = people.add("alice", by_token(Role::Operator), None).unwrap().unwrap();
        let ended = people.add("bob", by_token(Role::Admin), Some(Duration::ZERO)).unwrap().unwrap();
        assert_eq!(people.find(&token, None).map(|operator| operator.name).as_deref(), Ok("alice"));
        assert_eq!(people.find(&token, Some("carol")).unwrap().name, "alice", "she is no proxy");
        assert_eq!(people.find(&ended, None), Err(Unknown::Token));
        assert_eq!(people.find("something else", None), Err(Unknown::Token));
        assert!(!serde_json::to_string(&people).unwrap().contains(&token));
        assert!(people.add("alice", by_token(Role::Admin), None).is_err(), "a name is there once");
        assert!(people.remove("alice") && !people.remove("alice"));
        assert_eq!(people.find(&token, None), Err(Unknown::Token));
    }

    #[test]
    fn a_proxy_speaks_for_people_and_those_without_a_role_only_look() {
        let mut people = People::default();
        let proxy = people.add("gateway", (Role::Viewer, Means::Proxy), None).unwrap().unwrap();
        assert_eq!(people.add("dora", (Role::Operator, Means::Named), None).unwrap(), None);
        let alice = people.add("alice", (Role::Admin, Means::Token), None).unwrap().unwrap();
        let role = |user| people.find(&proxy, user).map(|operator| operator.role);
        assert_eq!(role(Some("dora")), Ok(Role::Operator));
        assert_eq!(role(Some("somebody")), Ok(Role::Viewer));
        assert_eq!(role(Some("alice")), Ok(Role::Viewer), "her role is for those with her token");
        assert_eq!(role(Some("gateway")), Ok(Role::Viewer));
        assert_eq!([role(None), role(Some("")), role(Some("a\nb"))], [Err(Unknown::User); 3]);
        assert_eq!(people.find("", Some("dora")), Err(Unknown::Token), "nobody has an empty token");
        assert_eq!(people.find(&alice, None).unwrap().role, Role::Admin);
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
        let operator = People::read(&directory).unwrap().find(&token, None).unwrap();
        assert_eq!(operator.role, Role::Admin);
    }

    #[test]
    fn people_who_are_added_at_the_same_time_are_all_known() {
        let place = tempfile::tempdir().unwrap();
        let directory = ControlDirectory::new(&place.path().join("control"));
        std::thread::scope(|scope| {
            for name in 0..20 {
                let directory = &directory;
                scope.spawn(move || {
                    directory.create().unwrap();
                    let add = |people: &mut People| {
                        people.add(&name.to_string(), (Role::Viewer, Means::Token), None)
                    };
                    People::change(directory, add).unwrap();
                });
            }
        });
        assert_eq!(People::read(&directory).unwrap().people.len(), 20);
    }
}
