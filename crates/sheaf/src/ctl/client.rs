//! Requests over HTTP, each repeated while the controller is not reached.

use anyhow::bail;
use serde_json::Value;
use std::time::{Duration, Instant};
use ureq::http::{Method, Request};
use ureq::{Agent, Error};

/// Time for which a controller that is not reached is called again: it may just be starting anew.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two calls.
const PAUSE: Duration = Duration::from_millis(200);

/// Time that an answer may take. A request for an operation waits for its end.
const ANSWER: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Client {
    pub(crate) fn new(url: &str, token: Option<&str>) -> Self {
        let config =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER)).proxy(None);
        Self {
            agent: config.build().new_agent(),
            url: url.trim_end_matches('/').to_owned(),
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
        }
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(&Method::GET, path, None)
    }

    /// As [`Client::get`], without a second attempt.
    pub(crate) fn get_once(&self, path: &str) -> anyhow::Result<Value> {
        let (status, text) = self.ask_once(&Method::GET, path, None)?;
        self.understand(status, &text)
    }

    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(&Method::DELETE, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(&Method::POST, path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(&Method::PUT, path, Some(body))
    }

    /// Every request has the same effect once and several times: commands have names.
    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ask_once(method, path, body) {
                Ok((status, text)) => return self.understand(status, &text),
                Err(error) if Instant::now() > until => {
                    bail!(
                        "the controller at {} does not answer: {error}; is `sheaf serve` running?",
                        self.url
                    )
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn ask_once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<(u16, String), Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.agent.run(request.body(body.to_string())?)?
            }
            None => self.agent.run(request.body(())?)?,
        };
        let text = response.body_mut().read_to_string()?;
        Ok((response.status().as_u16(), text))
    }

    fn understand(&self, status: u16, text: &str) -> anyhow::Result<Value> {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(value);
        }
        match (value["text"].as_str(), value["remedy"].as_str()) {
            // Several lines end with a line break.
            (Some(text), Some(remedy)) if text.ends_with('\n') => bail!("{text}\n{remedy}"),
            (Some(text), Some(remedy)) => bail!("{text}; {remedy}"),
            _ => bail!("the controller at {} answers with status {status}: {}", self.url, text.trim()),
        }
    }
}
