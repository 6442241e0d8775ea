//! Paths, names and addresses.

use super::{Codec, Refusal};
use sheaf_wire::Tags;
use std::net::SocketAddrV6;
use std::path::PathBuf;
use toml::de::DeValue;

/// `text` as a TOML string.
pub(crate) fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A path.
pub(crate) fn path() -> PathText {
    PathText
}

/// See [`path()`].
pub(crate) struct PathText;

impl Codec for PathText {
    type Value = PathBuf;

    fn type_name(&self) -> String {
        "path".into()
    }

    fn limits(&self) -> String {
        "UTF-8, not empty".into()
    }

    fn expected(&self) -> String {
        "a path in UTF-8 that is not empty".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<PathBuf, Refusal> {
        let path = PathBuf::from(value.as_str().ok_or(Refusal::Type)?);
        if self.accepts(&path) { Ok(path) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &PathBuf) -> bool {
        // A NUL cannot be in a path of any operating system; the configuration is stored as UTF-8.
        value.to_str().is_some_and(|text| !text.is_empty() && !text.contains('\0'))
    }

    fn write(&self, value: &PathBuf) -> Option<String> {
        Some(quote(&value.to_string_lossy()))
    }
}

/// Text for which `accepts` returns true; `expected` describes the valid values.
pub(crate) struct Text {
    pub(super) limits: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}

/// The name of a node. It is part of the names of files, and an argument of commands.
pub(crate) fn name() -> Text {
    Text {
        limits: "1 to 64 letters, digits, `-`, `_` or `.`, the first a letter or digit",
        accepts: |text| {
            (1..=64).contains(&text.len())
                && text.starts_with(|first: char| first.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        },
    }
}

/// The address of a server on the web, without a path.
pub(crate) fn web_address() -> Text {
    Text {
        limits: "`https://host`, `https://host:port`, or the same with `http`",
        accepts: |text| {
            let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
            let right = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
            host.is_some_and(|host| (1..=255).contains(&host.len()) && host.bytes().all(right))
        },
    }
}

/// The URL of a database, without a password: settings are stored with each run.
pub(crate) fn database_url() -> Text {
    Text {
        limits: "`none`, `sqlite:FILE`, or `postgres://USER@HOST/DATABASE` without a password, which comes from `password_file` or `PGPASSWORD`",
        accepts: |text| {
            let of_server =
                ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
            let is_open = |rest: &str| {
                let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
                !rest.is_empty() && !user.contains(':') && !rest.contains("password=")
            };
            let file = text.strip_prefix("sqlite:");
            !text.contains(char::is_control)
                && (text == "none"
                    || file.is_some_and(|file| !file.is_empty())
                    || of_server.is_some_and(is_open))
        },
    }
}

/// Prefix of the names of objects.
pub(crate) fn object_prefix() -> Text {
    Text {
        limits: "words of letters, digits, `-`, `_` or `.` with `/` between them, none of them `.` or `..`, at most 400 characters",
        accepts: |text| {
            let right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_word =
                |word: &str| !word.is_empty() && word != "." && word != ".." && word.bytes().all(right);
            text.len() <= 400 && text.split('/').all(is_word)
        },
    }
}

/// A line for people.
pub(crate) fn prose() -> Text {
    Text {
        limits: "a text of 1 to 400 characters on one line",
        accepts: |text| (1..=400).contains(&text.len()) && !text.chars().any(char::is_control),
    }
}

/// The address of a node, `host:port`.
pub(crate) fn address() -> Text {
    Text {
        limits: "`host:port` with a port from 1 to 65535; `[::1]:port` for IPv6, `[fe80::1%2]:port` on the interface with the index 2",
        accepts: |text| {
            let Some((host, port)) = text.rsplit_once(':') else {
                return false;
            };
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host_is_good = match bare {
                // With a zone, as link-local addresses need one: `[fe80::1%2]:7000`.
                Some(_) => text.parse::<SocketAddrV6>().is_ok(),
                None => {
                    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                    (1..=253).contains(&host.len()) && host.bytes().all(allowed)
                }
            };
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            host_is_good && digits && port.parse::<u16>().is_ok_and(|port| port > 0)
        },
    }
}

/// Some addresses, each at most once.
pub(crate) fn address_list() -> TextList {
    TextList { of: address(), most: 15, may_repeat: false }
}

/// Names on certificates, each at most once.
pub(crate) fn name_list() -> TextList {
    TextList { of: name(), most: 64, may_repeat: false }
}

/// Names of nodes, each at most once, in which `*` stands for any characters.
pub(crate) fn node_pattern_list() -> TextList {
    let pattern = Text {
        limits: "1 to 64 letters, digits, `-`, `_`, `.` or `*`",
        accepts: |text| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
            (1..=64).contains(&text.len()) && text.bytes().all(allowed)
        },
    };
    TextList { of: pattern, most: 1_024, may_repeat: false }
}

/// The interfaces of a host, each at most once.
pub(crate) fn interface_list() -> TextList {
    let name = Text {
        limits: "1 to 15 printable characters without `/`, `:` and space",
        accepts: |text| {
            let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
            (1..=15).contains(&text.len()) && text.bytes().all(allowed) && text != "." && text != ".."
        },
    };
    TextList { of: name, most: 16, may_repeat: false }
}

/// Names of tags, each at most once: bit numbers of `sheaf_wire::Tags`.
pub(crate) fn tag_list() -> TextList {
    let name = Text {
        limits: "1 to 64 letters, digits, `-`, `_` or `.`, the first a letter or digit; not `quarantined`, which is reserved",
        accepts: |text| (name().accepts)(text) && text != Tags::QUARANTINED_NAME,
    };
    TextList { of: name, most: Tags::MAX_NAMED, may_repeat: false }
}

/// Some of those names, and `quarantined`.
pub(crate) fn tag_choice() -> TextList {
    TextList { of: name(), most: Tags::MAX_NAMED + 1, may_repeat: false }
}

/// A program and its arguments.
pub(crate) fn command_line() -> TextList {
    let argument = Text {
        limits: "texts of at most 65536 bytes without NUL",
        accepts: |text| text.len() <= 65_536 && !text.contains('\0'),
    };
    TextList { of: argument, most: 1_024, may_repeat: true }
}

/// Variables of an environment.
pub(crate) fn variable_list() -> TextList {
    let variable = Text {
        limits: "`NAME=value`, the name of letters, digits and `_`, not beginning with a digit, at most 65536 bytes without NUL",
        accepts: |text| {
            let named = text.split_once('=').is_some_and(|(name, _)| (symbol().accepts)(name));
            named && text.len() <= 65_536 && !text.contains('\0')
        },
    };
    TextList { of: variable, most: 256, may_repeat: false }
}

/// Settings, `KEY=VALUE`. Whether there is the key is found where it is set.
pub(crate) fn setting_list() -> TextList {
    let setting = Text {
        limits: "`KEY=VALUE` with the full key, such as `trigger.rate_hz=100`, at most 65536 bytes without NUL",
        accepts: |text| {
            let has_key = text.split_once('=').is_some_and(|(key, _)| key.trim().contains('.'));
            has_key && text.len() <= 65_536 && !text.contains('\0')
        },
    };
    TextList { of: setting, most: 256, may_repeat: false }
}

/// The name of a function in a shared library.
pub(crate) fn symbol() -> Text {
    Text {
        limits: "1 to 128 letters, digits and `_`, not beginning with a digit",
        accepts: |text| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            (1..=128).contains(&text.len())
                && text.bytes().all(allowed)
                && !text.starts_with(|first: char| first.is_ascii_digit())
        },
    }
}

/// A text that a filter understands and Sheaf does not.
pub(crate) fn parameters() -> Text {
    Text {
        limits: "a text of at most 65536 bytes without NUL",
        accepts: |text| text.len() <= 65_536 && !text.contains('\0'),
    }
}

/// See [`address_list`].
pub(crate) struct TextList {
    of: Text,
    most: usize,
    may_repeat: bool,
}

impl Codec for TextList {
    type Value = Vec<String>;

    fn type_name(&self) -> String {
        "list".into()
    }

    fn limits(&self) -> String {
        let once = if self.may_repeat { "" } else { ", each at most once" };
        format!("at most {}{once}: {}", self.most, self.of.limits)
    }

    fn expected(&self) -> String {
        format!("a list of texts, {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Vec<String>, Refusal> {
        let entries = value.as_array().ok_or(Refusal::Type)?;
        let texts: Vec<String> =
            entries.iter().map(|entry| self.of.read(entry.get_ref())).collect::<Result<_, _>>()?;
        if self.accepts(&texts) { Ok(texts) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &Vec<String>) -> bool {
        let different = value.iter().enumerate().all(|(index, text)| !value[..index].contains(text));
        let repeats = self.may_repeat || different;
        value.len() <= self.most && repeats && value.iter().all(|text| self.of.accepts(text))
    }

    fn write(&self, value: &Vec<String>) -> Option<String> {
        Some(format!("[{}]", value.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", ")))
    }
}

impl Codec for Text {
    type Value = String;

    fn type_name(&self) -> String {
        "text".into()
    }

    fn limits(&self) -> String {
        self.limits.into()
    }

    fn expected(&self) -> String {
        self.limits.into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<String, Refusal> {
        let text = value.as_str().ok_or(Refusal::Type)?;
        if (self.accepts)(text) { Ok(text.to_owned()) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &String) -> bool {
        (self.accepts)(value)
    }

    fn write(&self, value: &String) -> Option<String> {
        Some(quote(value))
    }
}
