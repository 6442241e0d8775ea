//! The gate: tells who sends a request, by its token.

use crate::address::resolve;
use crate::control_directory::ControlDirectory;
use crate::people::{People, Unknown};
use crate::token;
use anyhow::Context as _;
use sheaf_config::Config;
use sheaf_control::{Operator, Role};
use sheaf_monitor::RemotePage;
use sheaf_monitor::access::{Access, Credentials, Senders};
use sheaf_monitor::control::Answer;
use sheaf_telemetry::log_as;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Wrong tokens within a minute, beyond which more of them are refused as too many.
const WRONG_TOKENS: u32 = 20;

/// Counts wrong tokens. A right one is served however many wrong ones there were: else anybody on this host could lock all operators out.
#[derive(Debug, Default)]
struct WrongTokens {
    /// Number in this minute, and when it began.
    count: Option<(u32, Instant)>,
}

impl WrongTokens {
    /// Counts a wrong token. Returns whether there were not too many.
    fn note(&mut self) -> bool {
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

/// See the [module](self). People are added and removed by other processes, so their file is looked at for each request.
#[derive(Debug)]
pub(crate) struct Gate {
    directory: ControlDirectory,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    people: People,
    /// The file when it was read.
    file: Option<FileState>,
    wrong_tokens: WrongTokens,
}

/// Time, size and number of a file. Each change makes another file.
type FileState = (SystemTime, u64, u64);

impl Gate {
    pub(crate) fn new(directory: ControlDirectory) -> Self {
        Self { directory, known: Mutex::default() }
    }

    /// Returns who sends a request.
    ///
    /// # Errors
    /// The answer that refuses it.
    pub(crate) fn identify(&self, credentials: &Credentials) -> Result<Operator, Answer> {
        let Some(token) = &credentials.token else {
            return Err(Answer::error(
                401,
                "token",
                "this needs a token",
                "send `Authorization: Bearer TOKEN`; `sheaf serve` prints the address with its own, `sheaf token add NAME` makes one",
            ));
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.look(&self.directory).map_err(|problem| {
            let remedy = "repair the file, or remove it and add everybody again";
            Answer::error(503, "tokens", &crate::describe(&problem), remedy)
        })?;
        let unknown = match known.people.find(token, credentials.user.as_deref()) {
            Ok(operator) => return Ok(Operator { via: credentials.via.clone(), ..operator }),
            Err(unknown) => unknown,
        };
        Err(match unknown {
            Unknown::User => Answer::error(
                401,
                "user",
                "the proxy does not say for whom it sends this",
                "have it send the name in the header `X-Forwarded-User`",
            ),
            Unknown::Token if known.wrong_tokens.note() => Answer::error(
                401,
                "token",
                "the token is not known, or has ended",
                "ask for a new one: `sheaf token add NAME`",
            ),
            Unknown::Token => Answer::error(
                429,
                "too_many",
                "too many wrong tokens",
                "wait a minute; a right token is served at any time",
            ),
        })
    }
}

impl Access for Gate {
    fn admit(&self, credentials: &Credentials) -> Result<(), Answer> {
        self.identify(credentials).map(drop)
    }
}

impl Senders for Gate {
    fn admit_sender(&self, credentials: &Credentials) -> Result<String, Answer> {
        let operator = self.identify(credentials)?;
        refuse_role(&operator, Role::Operator).map_or(Ok(operator.name), Err)
    }
}

/// Returns the refusal of somebody whose role does not suffice.
pub(crate) fn refuse_role(operator: &Operator, needed: Role) -> Option<Answer> {
    let Operator { name, role, .. } = operator;
    (*role < needed).then(|| {
        let (role, needed) = (role.name(), needed.name());
        let text = format!("{name} has the role {role}, and this needs {needed}");
        log_as!(CONTROL_NEWS; "a request is refused: {text}");
        let remedy = format!("ask somebody with the role {needed}, or for a token with `--role {needed}`");
        Answer::error(403, "role", &text, &remedy)
    })
}

impl Known {
    /// Reads the file again if it has changed.
    fn look(&mut self, directory: &ControlDirectory) -> anyhow::Result<()> {
        let path = directory.tokens();
        let file = match std::fs::metadata(&path) {
            Ok(metadata) => Some((metadata.modified()?, metadata.len(), metadata.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", path.display())),
        };
        if file.is_none() || file != self.file {
            self.people = People::read(directory)?;
            self.file = file;
        }
        Ok(())
    }
}

/// Returns the page for other hosts that the configuration asks for, with the gate of those who may look.
pub(crate) fn remote_page(config: &Config, gate: &Arc<Gate>) -> anyhow::Result<Option<RemotePage>> {
    let Some((address, certificate, key)) = config.monitor.remote.parts() else { return Ok(None) };
    Ok(Some(RemotePage {
        address: resolve(address)?,
        certificate: certificate.clone(),
        key: key.clone(),
        access: gate.clone(),
    }))
}

/// As [`remote_page`], for runs without a controller: those may look that the controller of their directory knows.
pub(crate) fn remote_page_of_runs(config: &Config) -> anyhow::Result<Option<RemotePage>> {
    let directory = ControlDirectory::new(&token::directory_of(&config.run.output));
    remote_page(config, &Arc::new(Gate::new(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::Means;

    #[test]
    fn people_who_are_added_or_removed_are_known_at_once() {
        let place = tempfile::tempdir().unwrap();
        let directory = ControlDirectory::new(&place.path().join("control"));
        directory.create().unwrap();
        let gate = Gate::new(directory.clone());
        let status = |token: &str| {
            let credentials = Credentials { token: Some(token.to_owned()), ..Credentials::default() };
            gate.identify(&credentials).map(|operator| operator.name).map_err(|answer| answer.status)
        };
        assert_eq!(status("abc"), Err(401));
        let add = |people: &mut People| people.add("alice", (Role::Viewer, Means::Token), None);
        let token = People::change(&directory, add).unwrap().unwrap();
        assert_eq!(status(&token).as_deref(), Ok("alice"));
        assert!(People::change(&directory, |people| Ok(people.remove("alice"))).unwrap());
        assert_eq!(status(&token), Err(401));
        std::fs::write(directory.tokens(), "no JSON").unwrap();
        assert_eq!(status(&token), Err(503));
        std::fs::remove_file(directory.tokens()).unwrap();
        assert_eq!(status(&token), Err(401));
        assert_eq!(gate.identify(&Credentials::default()).map_err(|answer| answer.status), Err(401));
        let guesses: Vec<_> = (0..30).map(|_| status("guess")).collect();
        assert_eq!((&guesses[0], &guesses[29]), (&Err(401), &Err(429)));
    }
}
