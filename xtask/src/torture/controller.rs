//! A controller of a case: `sheaf serve`, which the case kills and starts again in the same directory, and its clients.

use super::machine::NetworkHost;
use super::run::Run;
use super::system::System;
use super::trial::Trial;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which a condition is considered not to come true. Much longer than any fault.
const WATCHDOG: Duration = Duration::from_mins(10);

/// Interval at which a condition is checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Time in which a controller that lives answers, also on a busy machine.
const ANSWER: Duration = Duration::from_mins(2);

/// Pages of the controller and of its lives: any free port.
const SERVE: [&str; 5] = ["serve", "run.toml", "--processes", "--page", "127.0.0.1:0"];

/// A controller that is killed and started again.
#[derive(Debug)]
pub(super) struct Controller {
    serve: Option<Run>,
    /// Number of times that it was started.
    lives: u64,
    /// Its directory.
    directory: PathBuf,
    /// Number of names of requests that were used.
    requests: u64,
    /// Host on which it runs, if it is not this machine itself.
    host: Option<NetworkHost>,
}

/// A command, with the name that makes its repetition harmless.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) body: Value,
}

impl Controller {
    /// Writes the configuration of a system and starts a controller for it.
    pub(super) fn begin(trial: &Trial, system: &System) -> Result<Self> {
        Self::begin_with(trial, &system.to_toml(&trial.output))
    }

    /// Writes a configuration and starts a controller for it.
    pub(super) fn begin_with(trial: &Trial, configuration: &str) -> Result<Self> {
        Self::begin_on(trial, configuration, None)
    }

    /// Writes a configuration and starts a controller for it on a host.
    pub(super) fn begin_on(trial: &Trial, configuration: &str, host: Option<NetworkHost>) -> Result<Self> {
        std::fs::write(trial.directory.join("run.toml"), configuration)?;
        let directory = trial.output.join("control");
        let mut controller = Self { serve: None, lives: 0, directory, requests: 0, host };
        controller.serve(trial)?;
        Ok(controller)
    }

    /// Starts it, in the same directory as before.
    pub(super) fn serve(&mut self, trial: &Trial) -> Result<()> {
        self.lives += 1;
        let prefix = self.host.as_ref().map(NetworkHost::prefix).unwrap_or_default();
        let mut serve = trial.sheaf_below(&prefix, &format!("serve-{}", self.lives), &SERVE)?;
        ensure!(serve.says("run control is at")?, "the controller ended before it served");
        self.serve = Some(serve);
        Ok(())
    }

    /// Kills it. The run goes on.
    pub(super) fn kill(&mut self, trial: &mut Trial) -> Result<()> {
        let serve = self.serve.take().context("the controller was not started")?;
        serve.signal("KILL")?;
        serve.end()?;
        trial.tally.kills += 1;
        Ok(())
    }

    /// Ends it in good order, when there is no run.
    pub(super) fn end(mut self, trial: &mut Trial) -> Result<()> {
        let serve = self.serve.take().context("the controller was not started")?;
        serve.signal("TERM")?;
        let ended = serve.end()?;
        if !ended.status.success() {
            trial.problem(format!("the controller ended with {}: {}", ended.status, ended.stderr));
        }
        for life in 1..=self.lives {
            let said = std::fs::read_to_string(trial.directory.join(format!("serve-{life}.stderr")))?;
            if said.contains("panicked") || said.contains("this is a bug in sheaf") {
                trial.problem(format!("life {life} of the controller panicked"));
            }
        }
        Ok(())
    }

    /// Returns its directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes a request for a command, with a new name.
    pub(super) fn request(&mut self, command: &str, mut settings: Value) -> Request {
        self.requests += 1;
        settings["command"] = command.into();
        settings["request"] = format!("torture {}", self.requests).into();
        Request { path: "/api/v1/operations".to_owned(), body: settings }
    }

    /// Makes a request for a sequence of runs, with a new name.
    pub(super) fn sequence(&mut self, table: &str) -> Request {
        self.requests += 1;
        let name = format!("torture {}", self.requests);
        let body = json!({ "request": name, "name": "night", "table": table, "on_failure": "pause" });
        Request { path: "/api/v1/sequence".to_owned(), body }
    }

    /// Sends a request and kills the controller that long afterwards, mostly before it has answered.
    pub(super) fn ask_and_kill(
        &mut self,
        trial: &mut Trial,
        request: &Request,
        after: Duration,
    ) -> Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(self.message("POST", &request.path, &request.body)?.as_bytes())?;
        std::thread::sleep(after);
        self.kill(trial)
    }

    /// Sends a request again and again until there is an answer, as clients do.
    pub(super) fn ask(&self, request: &Request) -> Result<Value> {
        match self.repeat("POST", &request.path, &request.body)? {
            (200..300, answer) => Ok(answer),
            (status, answer) => bail!("{} is answered with {status}: {answer}", request.body),
        }
    }

    /// Gives a command and waits until it is carried out. Returns its operation.
    pub(super) fn carry_out(&self, request: &Request) -> Result<Value> {
        let mut operation = self.ask(request)?["operation"].take();
        let began = Instant::now();
        while operation["ended_ms"].is_null() {
            ensure!(began.elapsed() < WATCHDOG, "the watchdog waited in vain for {operation}");
            operation = self.get(&format!("/api/v1/operations/{}?wait_ms=1000", operation["id"]))?;
        }
        Ok(operation)
    }

    /// Does the same as [`carry_out`](Self::carry_out) for a new command, and fails if that is not done.
    pub(super) fn command(&mut self, command: &str, settings: Value) -> Result<Value> {
        let request = self.request(command, settings);
        let operation = self.carry_out(&request)?;
        ensure!(operation["result"] == "done", "`{command}` was not carried out: {operation}");
        Ok(operation)
    }

    /// Returns the state of run control.
    pub(super) fn state(&self) -> Result<Value> {
        self.get("/api/v1/control")
    }

    pub(super) fn get(&self, path: &str) -> Result<Value> {
        match self.repeat("GET", path, &Value::Null)? {
            (200, answer) => Ok(answer),
            (status, answer) => bail!("GET {path} is answered with {status}: {answer}"),
        }
    }

    /// Waits until the state of run control fulfils a condition.
    pub(super) fn wait_for(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Result<Value> {
        let began = Instant::now();
        loop {
            let state = self.state()?;
            if holds(&state) {
                return Ok(state);
            }
            ensure!(began.elapsed() < WATCHDOG, "the watchdog waited in vain until {what}: {state}");
            std::thread::sleep(PERIOD);
        }
    }

    /// Repeats a request while no controller is reached. Each has one effect.
    fn repeat(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let began = Instant::now();
        loop {
            match self.call(method, path, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    ensure!(began.elapsed() < WATCHDOG, "the controller does not answer: {error:#}");
                    std::thread::sleep(PERIOD);
                }
            }
        }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let message = self.message(method, path, body)?;
        let answer = match &self.host {
            Some(host) => host.exchange(&self.address()?, &message)?,
            None => {
                let mut stream = self.connect()?;
                stream.write_all(message.as_bytes())?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer)?;
                answer
            }
        };
        let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("the answer has no status: {head}"))?;
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }

    /// Returns the text of a request over HTTP.
    fn message(&self, method: &str, path: &str, body: &Value) -> Result<String> {
        let token = std::fs::read_to_string(self.directory.join("own.token"))?;
        let (token, host) = (token.trim(), self.address()?);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        Ok(format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address()?)?;
        stream.set_read_timeout(Some(ANSWER))?;
        Ok(stream)
    }

    fn address(&self) -> io::Result<String> {
        let text = std::fs::read_to_string(self.directory.join("address"))?;
        Ok(text.trim().trim_start_matches("http://").to_owned())
    }
}
