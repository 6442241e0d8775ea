//! A message of the log, in both of its forms.

use super::time::{rfc3339, unix_us};
use log::kv::{Error, Key, Value, VisitSource};
use log::{Level, Record};
use serde::{Deserialize, Serialize};
use sheaf_telemetry::codes;
use std::borrow::Cow;

/// Longest text of a message in JSON, in bytes. With its fields, a line is short enough that a pipe takes it whole.
const LONGEST: usize = 3_000;

/// See the [module](self). In JSON, it is a line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// Microseconds since 1970. In JSON, RFC 3339 in UTC.
    #[serde(rename = "time", with = "super::time")]
    pub(crate) time_us: u64,
    #[serde(with = "level_name")]
    pub(crate) severity: Level,
    pub(crate) code: Cow<'static, str>,
    /// Node that says it; `run` or `controller` for the process that has started the nodes.
    pub(crate) node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<u32>,
    /// The other node or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    /// Number of messages that this one stands for, if there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repeated: Option<u64>,
    pub(crate) text: String,
}

/// Fields of a message that the log gives to each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// Name of this process.
    pub(crate) node: String,
    /// Number of its run.
    pub(crate) run: Option<u32>,
}

impl Message {
    /// Returns a message of this process.
    pub(crate) fn new(severity: Level, code: &'static str, text: &str, origin: &Origin) -> Self {
        Self {
            time_us: unix_us(),
            severity,
            code: Cow::Borrowed(code),
            node: origin.node.clone(),
            run: origin.run,
            event: None,
            source: None,
            peer: None,
            repeated: None,
            text: shortened(text),
        }
    }

    /// Returns the message of a record. Source names are those of this process.
    pub(crate) fn of(record: &Record<'_>, origin: &Origin) -> Self {
        let text = record.args().to_string();
        let message = Self::new(record.level(), codes::OTHER.name, &super::named(&text), origin);
        let mut fields = Fields(message);
        // The visitor fails never.
        let _ = record.key_values().visit(&mut fields);
        fields.0
    }

    /// Returns whether it is kept and shown to others: not what is for developers, nor an address that has a token.
    pub(crate) fn is_kept(&self) -> bool {
        self.severity <= Level::Info && self.code != codes::CONTROL_ADDRESS.name
    }

    /// Returns the form for people, without a line feed. Information has no code: there is nothing to look up.
    pub(crate) fn readable(&self) -> String {
        let (severity, text) = (level_name::of(self.severity), &self.text);
        let has_code = self.severity <= Level::Warn && self.code != codes::OTHER.name;
        if has_code { format!("{severity}: {text} [{}]", self.code) } else { format!("{severity}: {text}") }
    }

    /// Returns the form for programs, with a line feed.
    pub(crate) fn json_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Returns a line of a list of messages.
    pub(crate) fn listed(&self) -> String {
        format!("{} {} {}", rfc3339(self.time_us), self.node, self.readable())
    }
}

/// Takes the fields of a record into a message.
struct Fields(Message);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let Self(message) = self;
        let text = value.to_string();
        match key.as_str() {
            "code" => message.code = codes::find(&text).map_or(Cow::Owned(text), |code| code.name.into()),
            "node" => message.node = text,
            "event" => message.event = text.parse().ok(),
            "source" => message.source = text.parse().ok(),
            "peer" => message.peer = Some(text).filter(|text| !text.is_empty()),
            _ => {}
        }
        Ok(())
    }
}

fn shortened(text: &str) -> String {
    let mut length = 0;
    let end = text.char_indices().find(|(_, letter)| {
        // As JSON escapes them.
        length += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\0'..' ' => 6,
            _ => letter.len_utf8(),
        };
        length > LONGEST
    });
    end.map_or_else(|| text.to_owned(), |(end, _)| format!("{}...", &text[..end]))
}

/// Levels in JSON, by the names that people see.
pub(crate) mod level_name {
    use log::Level;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    const NAMES: [(Level, &str); 5] = [
        (Level::Error, "error"),
        (Level::Warn, "warning"),
        (Level::Info, "info"),
        (Level::Debug, "debug"),
        (Level::Trace, "trace"),
    ];

    pub(crate) fn of(level: Level) -> &'static str {
        NAMES.iter().find(|(other, _)| *other == level).map_or("info", |(_, name)| name)
    }

    pub(crate) fn parse(text: &str) -> Option<Level> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(level, _)| *level)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    pub(super) fn serialize<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(of(*level))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no severity")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let origin = Origin { node: "run".into(), run: Some(7) };
        Message { time_us: 1_795_741_820_123_456, ..Message::new(Level::Warn, "link-down", "text", &origin) }
    }

    #[test]
    fn both_forms_say_the_same() {
        let message = Message { peer: Some("evm".into()), event: Some(12), ..message() };
        let line = message.json_line();
        assert_eq!(
            line,
            "{\"time\":\"2026-11-27T01:10:20.123456Z\",\"severity\":\"warning\",\"code\":\"link-down\",\"node\":\"run\",\
             \"run\":7,\"event\":12,\"peer\":\"evm\",\"text\":\"text\"}\n"
        );
        let again: Message = serde_json::from_str(&line).unwrap();
        assert_eq!(again, message);
        assert_eq!(again.readable(), "warning: text [link-down]");
    }

    #[test]
    fn a_line_is_one_line_and_no_longer_than_a_pipe_takes_at_once() {
        let text = "first\nsecond\u{1e}".repeat(1_000);
        let message = Message { text: shortened(&text), ..message() };
        let line = message.json_line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.len() < 4_096, "{}", line.len());
    }
}
