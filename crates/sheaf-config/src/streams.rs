//! Checks of tags against streams.

use crate::Config;
use crate::check::Checker;
use crate::error::ErrorKind;
use crate::settings::{OutputCompression, Stream, Sync};
use crate::suggest::nearest;
use crate::tables::STREAMS;
use crate::text::shorten;
use sheaf_wire::Tags;

/// The stream that is always there.
const DEFAULT: &str = "default";
/// The longest name of a stream, in characters: `sheaf_store::event_file::StreamName::MAX_CHARS`.
const MAX_NAME: usize = 32;
/// The most streams, with the one that is always there: `sheaf_store::streams::Routing::MAX_STREAMS`.
const MAX_STREAMS: usize = 32;

impl Config {
    /// The names of all output streams. The default stream is among them also where it has no table of its own.
    pub fn stream_names(&self) -> impl Iterator<Item = &str> {
        let default = (!self.streams.contains_key(DEFAULT)).then_some(DEFAULT);
        self.streams.keys().map(String::as_str).chain(default)
    }
}

impl Checker<'_> {
    pub(crate) fn streams(&mut self) {
        let own = Tags::QUARANTINED_NAME;
        if self.origins.is_broken(STREAMS) {
            return;
        }
        let streams = &self.config.streams;
        let with_default = streams.len() + usize::from(!streams.contains_key(DEFAULT));
        if with_default > MAX_STREAMS {
            let found = format!("there are {with_default} streams, with the stream `{DEFAULT}`");
            self.fail(ErrorKind::BadValue, &[STREAMS], found, format!("at most {MAX_STREAMS}"));
        }
        for (name, stream) in streams {
            let path = format!("{STREAMS}.{name}");
            if !is_name(name) {
                let found = format!("`{}` is not a stream name", shorten(name));
                let right =
                    format!("1 to {MAX_NAME} lower-case letters, digits and hyphens, the first a letter");
                self.fail(ErrorKind::BadValue, &[&path], found, right);
            }
            let key = format!("{path}.tags");
            if name == DEFAULT && !stream.tags.is_empty() {
                let found = format!("`{key}` is set");
                let right = "the default stream receives the events of no other stream, and has no tags";
                self.fail(ErrorKind::Conflict, &[&key], found, right);
            }
            for tag in stream.tags.iter().filter(|tag| *tag != own) {
                self.is_named(&key, tag);
            }
        }
    }

    /// Checks that uploads have a destination, and that they end before the end of a run gives up waiting.
    pub(crate) fn uploads(&mut self) {
        let config = self.config;
        let of_stream = |(name, stream): (&String, &Stream)| {
            (stream.sync == Some(Sync::Uploaded)).then(|| format!("{STREAMS}.{name}.sync"))
        };
        let output = (config.output.sync == Sync::Uploaded).then(|| "output.sync".to_owned());
        let Some(who) = output.or_else(|| config.streams.iter().find_map(of_stream)) else { return };
        let store = &config.object_store;
        for (key, is_set, example) in [
            ("object_store.endpoint", store.endpoint.is_some(), "endpoint = \"https://s3.example.org\""),
            ("object_store.bucket", store.bucket.is_some(), "bucket = \"my-experiment\""),
        ] {
            if !is_set {
                let found = format!("`{who}` is \"uploaded\", but `{key}` is not set");
                self.fail(
                    ErrorKind::Missing,
                    &[&who, key],
                    found,
                    format!("write `{example}` below [object_store]"),
                );
            }
        }
        if 2 * store.quiet.0 > config.manager.stop_timeout.0 {
            let keys = ["object_store.quiet_ms", "manager.stop_timeout_ms"];
            let found = "the last events of a run are uploaded after `object_store.quiet_ms`, and the end of a run waits no \
                         longer than `manager.stop_timeout_ms`"
                .to_owned();
            let right = "the second must be at least twice the first, plus the time of an upload";
            self.fail(ErrorKind::Conflict, &keys, found, right);
        }
    }

    /// Compressions have levels of their own.
    pub(crate) fn formats(&mut self) {
        let output = &self.config.output;
        if let (Some(level @ 10..), OutputCompression::Deflate) =
            (output.compression_level, output.compression)
        {
            let found = format!("`output.compression_level` is {level}");
            let keys = ["output.compression_level", "output.compression"];
            self.fail(ErrorKind::Conflict, &keys, found, "deflate has levels 1 to 9");
        }
    }

    /// Reports a tag that the filter does not have.
    pub(crate) fn is_named(&mut self, key: &str, tag: &str) {
        let known = &self.config.filter.tags;
        if known.iter().any(|other| other == tag) {
            return;
        }
        let right = match nearest(tag, known.iter().map(String::as_str).chain([Tags::QUARANTINED_NAME])) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None if known.is_empty() => {
                format!("name the filter's tags, such as `tags = [\"{tag}\"]`, in [filter]")
            }
            None => format!("known are {}", known.join(", ")),
        };
        let found = format!("`{key}` has \"{tag}\", which is not in `filter.tags`");
        self.fail(ErrorKind::Conflict, &[key, "filter.tags"], found, right);
    }
}

fn is_name(name: &str) -> bool {
    let right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let first = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    first && name.len() <= MAX_NAME && name.bytes().all(right)
}
