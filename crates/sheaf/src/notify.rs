//! Notices of alarms: to a command of the user, and to Alertmanager.
//!
//! A thread of its own sends them, because a command may hang and a host may be away. What cannot be sent in time is dropped, counted, and
//! said in the log.

use crate::user_command::UserCommand;
use anyhow::Context as _;
use sheaf_config::Monitor as Settings;
use sheaf_monitor::{Notice, Notifier};
use sheaf_node::Clock;
use sheaf_telemetry::log_as;
use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use ureq::Agent;

/// Notices that wait to be sent. Further ones are dropped.
const WAITING: usize = 64;

/// Time that a command or an Alertmanager has for one notice.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which Alertmanager is told again of alarms that last.
const AGAIN: Duration = Duration::from_secs(60);

/// Time after which Alertmanager takes an alarm for ended if it is not told again: this process has died.
const LASTS_MS: u64 = 200_000;

/// Begins to send notices where the configuration says so.
pub(crate) fn begin(settings: &Settings) -> anyhow::Result<Option<Notifier>> {
    let Settings { alarm_command, alertmanager, .. } = settings;
    if alarm_command.is_none() && alertmanager.is_none() {
        return Ok(None);
    }
    let config = Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build();
    let sender = Sender {
        command: alarm_command.clone(),
        alertmanager: alertmanager.clone(),
        agent: config.new_agent(),
    };
    let (queue, notices) = sync_channel(WAITING);
    let body = move || sender.run(&notices);
    std::thread::Builder::new().name("notices".into()).spawn(body).context("cannot start a thread")?;
    Ok(Some(Box::new(move |notice| put(&queue, notice))))
}

fn put(queue: &SyncSender<Notice>, notice: Notice) {
    let code = notice.alarm.code;
    if queue.try_send(notice).is_err() {
        log_as!(NOTICE_FAILED; "a notice of the alarm {code} is dropped: {WAITING} others wait to be sent");
    }
}

struct Sender {
    command: Option<String>,
    alertmanager: Option<String>,
    agent: Agent,
}

impl Sender {
    fn run(&self, notices: &Receiver<Notice>) {
        let mut lasting: Vec<Notice> = Vec::new();
        let mut again = Instant::now() + AGAIN;
        loop {
            match notices.recv_timeout(again.saturating_duration_since(Instant::now())) {
                Ok(notice) => {
                    self.tell(&notice);
                    lasting.retain(|known| !is_same(known, &notice));
                    if !notice.ended {
                        lasting.push(notice);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.post(&lasting);
                    again = Instant::now() + AGAIN;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tell(&self, notice: &Notice) {
        if let Some(command) = &self.command
            && let Err(error) = run(command, notice)
        {
            log_as!(NOTICE_FAILED; "`monitor.alarm_command` ({command}): {error:#}");
        }
        self.post(std::slice::from_ref(notice));
    }

    fn post(&self, notices: &[Notice]) {
        let Some(url) = self.alertmanager.as_ref().filter(|_| !notices.is_empty()) else { return };
        let url = format!("{}/api/v2/alerts", url.trim_end_matches('/'));
        let now_ms = Clock::new().now().as_millis();
        let alerts: Vec<_> = notices.iter().map(|notice| alert(notice, now_ms)).collect();
        let request = self.agent.post(&url).header("Content-Type", "application/json");
        if let Err(error) = request.send(serde_json::Value::from(alerts).to_string()) {
            log_as!(NOTICE_FAILED; "`monitor.alertmanager`: {url} does not take alarms: {error}");
        }
    }
}

/// Runs a command in a shell, with a notice as JSON on standard input.
fn run(command: &str, notice: &Notice) -> anyhow::Result<()> {
    let mut last = String::new();
    let command = UserCommand {
        program: OsStr::new("sh"),
        arguments: &["-c".to_owned(), command.to_owned()],
        variables: &[],
        input: &format!("{}\n", serde_json::to_string(notice)?),
        timeout: PATIENCE,
        // The last notice of a run may be on its way when this process ends.
        dies_with_caller: false,
    };
    let end = command.run(|| false, |line| line.clone_into(&mut last));
    match end.is_good() {
        true => Ok(()),
        false if last.is_empty() => anyhow::bail!("{end}"),
        false => anyhow::bail!("{end}; its last line: {last}"),
    }
}

/// Returns a notice in the form of Alertmanager. Labels say what it is, so that silences and routes can name it; annotations say the rest.
fn alert(notice: &Notice, now_ms: u64) -> serde_json::Value {
    let alarm = &notice.alarm;
    let end_ms = notice.ended_ms.unwrap_or(now_ms + LASTS_MS);
    let time = |ms: u64| crate::records::utc(ms * 1_000_000);
    serde_json::json!({
        "labels": {
            "alertname": alarm.code,
            "severity": alarm.severity,
            "culprit": alarm.culprit.clone().unwrap_or_default(),
            "run": notice.run.map_or_else(String::new, |run| run.to_string()),
            "job": "sheaf",
        },
        "annotations": { "summary": alarm.text, "remedy": alarm.remedy },
        "startsAt": time(alarm.since_ms),
        "endsAt": time(end_ms),
    })
}

/// Returns whether two notices are of one alarm.
fn is_same(one: &Notice, other: &Notice) -> bool {
    let key = |notice: &Notice| (notice.run, notice.alarm.code, notice.alarm.culprit.clone());
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_monitor::state::{Alarm, Severity};

    fn notice(ended_ms: Option<u64>) -> Notice {
        let alarm = Alarm {
            code: "dead-time",
            severity: Severity::Warning,
            text: "40 % of the last 10 s were dead time".into(),
            culprit: Some("bu1".into()),
            remedy: "look at its disk".into(),
            since_ms: 1_000,
            silence: None,
            folded: Vec::new(),
        };
        Notice { ended: ended_ms.is_some(), run: Some(7), alarm, ended_ms }
    }

    #[test]
    fn a_command_gets_the_notice_and_its_failure_is_told() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("notice");
        run(&format!("cat > {}", file.display()), &notice(None)).unwrap();
        let said: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(said["alarm"]["code"], "dead-time");
        assert_eq!((&said["ended"], &said["run"]), (&false.into(), &7.into()));
        assert!(run("exit 3", &notice(None)).unwrap_err().to_string().contains("exit status: 3"));
        let error = run("echo no mail >&2; exit 1", &notice(None)).unwrap_err().to_string();
        assert!(error.ends_with("its last line: no mail"), "{error}");
    }

    #[test]
    fn alertmanager_gets_labels_and_the_end() {
        let ended = alert(&notice(Some(61_000)), 90_000);
        assert_eq!(ended["labels"]["alertname"], "dead-time");
        assert_eq!(ended["labels"]["culprit"], "bu1");
        assert_eq!(ended["startsAt"], "1970-01-01T00:00:01Z");
        assert_eq!(ended["endsAt"], "1970-01-01T00:01:01Z");
        assert_eq!(alert(&notice(None), 100_000)["endsAt"], "1970-01-01T00:05:00Z");
    }
}
