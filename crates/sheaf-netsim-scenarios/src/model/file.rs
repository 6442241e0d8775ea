//! Descriptions as TOML files.

use super::{Decisions, Description, Detector, Limits, Messages, Region, Request, Shipped};
use serde::Deserialize;
use sheaf_config::diagnose::{Text, nearest, shorten};
use sheaf_config::{ConfigError, ConfigErrors, ErrorKind, Origin};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// No description is larger: 1 MiB.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of buffers of a detector, and of its parts.
const MAX_BUFFERS: f64 = 1e6;

/// Rates and sizes beyond this are mistakes.
const HUGE: f64 = 1e12;

/// The most detectors, and the most kinds of requests.
const MAX_LIST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    about: String,
    messages: MessagesTable,
    grouping: GroupingTable,
    decisions: Option<DecisionsTable>,
    building: Option<BuildingTable>,
    limits: LimitsTable,
    detector: Vec<DetectorTable>,
    #[serde(default)]
    request: Vec<RequestTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessagesTable {
    request_bytes: Spanned<f64>,
    head_bytes: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupingTable {
    buffers: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionsTable {
    rate_hz: Spanned<f64>,
    per_message: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuildingTable {
    rate_hz: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    port_rate_hz: Spanned<f64>,
    port_bytes_per_second: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetectorTable {
    name: Spanned<String>,
    buffers: Spanned<f64>,
    parts: Option<Spanned<f64>>,
    group: Option<Spanned<f64>>,
    fragment_bytes: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestTable {
    name: Spanned<String>,
    detector: Spanned<String>,
    rate_hz: Spanned<f64>,
    region: Spanned<Word>,
    buffers: Option<Spanned<f64>>,
    kept: Option<Spanned<f64>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Neighbours,
    Scattered,
    All,
}

impl Description {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let file = path.display().to_string();
        let unreadable = |kind, found: String, right: &str| {
            let origin = Origin::File(file.as_str().into());
            let error = ConfigError { kind, key: String::new(), found, right: right.into(), origin };
            ConfigErrors::or(vec![error], ())
        };
        let mut text = String::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
        let checked = match read {
            Ok(bytes) if bytes as u64 > MAX_BYTES => unreadable(
                ErrorKind::TooLarge,
                format!("the file has more than {MAX_BYTES} bytes"),
                "give the path of a description of a detector (TOML file)",
            ),
            Ok(_) => Ok(()),
            Err(error) => {
                let right = "give the path of a description (TOML file), or a name from `sheaf model`";
                unreadable(ErrorKind::Unreadable, format!("the description cannot be read: {error}"), right)
            }
        };
        checked.and_then(|()| Self::parse(&text, &file))
    }

    /// Reads the text of a file. `file` is its name in messages.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        let mut reader = Reader { text: Text::new(file, text), errors: Vec::new() };
        match toml::from_str::<File>(text) {
            Ok(file) => {
                let description = reader.description(file);
                ConfigErrors::or(reader.errors, description)
            }
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let right = "docs/concepts/paper-model.md has every table and key";
                reader.wrong(ErrorKind::Syntax, &span, shorten(error.message()), right.into());
                ConfigErrors::or(reader.errors, ()).map(|()| unreachable!("there is an error"))
            }
        }
    }
}

impl Shipped {
    /// The description, understood.
    ///
    /// # Errors
    /// None for those of [`super::SHIPPED`], which a test reads.
    pub fn parse(&self) -> Result<Description, ConfigErrors> {
        Description::parse(self.text, &format!("scenarios/model/{}.toml", self.name))
    }
}

/// Values with their positions, and errors.
struct Reader<'a> {
    text: Text<'a>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn wrong(&mut self, kind: ErrorKind, span: &Range<usize>, found: String, right: String) {
        let origin = self.text.origin(span);
        self.errors.push(ConfigError { kind, key: String::new(), found, right, origin });
    }

    /// A number between two, either included.
    fn number(&mut self, value: &Spanned<f64>, (least, most): (f64, f64)) -> f64 {
        let number = *value.get_ref();
        // Not a number is not between any two.
        if !(least..=most).contains(&number) {
            let right = format!("a number from {least} to {most}");
            self.wrong(ErrorKind::BadValue, &value.span(), format!("{number} is not accepted"), right);
        }
        number
    }

    fn whole(&mut self, value: &Spanned<f64>, most: f64) -> u32 {
        let number = self.number(value, (1.0, most));
        if number.fract() != 0.0 {
            let found = format!("{number} is not a whole number");
            self.wrong(ErrorKind::BadValue, &value.span(), found, format!("an integer from 1 to {most}"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MAX_BUFFERS")]
        let whole = number.clamp(1.0, MAX_BUFFERS) as u32;
        // NaN becomes 0.
        whole.max(1)
    }

    fn description(&mut self, file: File) -> Description {
        for (what, length) in [("detector", file.detector.len()), ("request", file.request.len())] {
            if length > MAX_LIST || (length == 0 && what == "detector") {
                let found = format!("there are {length} `[[{what}]]` tables");
                self.wrong(ErrorKind::BadValue, &(0..0), found, format!("1 to {MAX_LIST} of them"));
            }
        }
        let positive = (1e-6, HUGE);
        let group = self.whole(&file.grouping.buffers, MAX_BUFFERS);
        let detectors: Vec<Detector> =
            file.detector.iter().map(|table| self.detector(table, group)).collect();
        let names: Vec<&Spanned<String>> = file.detector.iter().map(|table| &table.name).collect();
        self.each_once(&names);
        self.each_once(&file.request.iter().map(|table| &table.name).collect::<Vec<_>>());
        let requests = file.request.iter().filter_map(|table| self.request(table, &detectors)).collect();
        Description {
            name: file.name,
            about: file.about,
            messages: Messages {
                request_bytes: self.number(&file.messages.request_bytes, (0.0, HUGE)),
                head_bytes: self.number(&file.messages.head_bytes, (0.0, HUGE)),
            },
            decisions: match &file.decisions {
                Some(table) => Decisions {
                    rate_hz: self.number(&table.rate_hz, (0.0, HUGE)),
                    per_message: self.number(&table.per_message, (1.0, HUGE)),
                },
                None => Decisions { rate_hz: 0.0, per_message: 1.0 },
            },
            building_hz: file.building.as_ref().map_or(0.0, |table| self.number(&table.rate_hz, (0.0, HUGE))),
            limits: Limits {
                port_rate_hz: self.number(&file.limits.port_rate_hz, positive),
                port_bytes_per_second: self.number(&file.limits.port_bytes_per_second, positive),
            },
            detectors,
            requests,
        }
    }

    fn each_once(&mut self, names: &[&Spanned<String>]) {
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            if !seen.insert(name.get_ref()) {
                let found = format!("the name \"{}\" is already used", shorten(name.get_ref()));
                self.wrong(ErrorKind::Conflict, &name.span(), found, "each name once".into());
            }
        }
    }

    fn detector(&mut self, table: &DetectorTable, group: u32) -> Detector {
        let buffers = self.whole(&table.buffers, MAX_BUFFERS);
        let parts = table.parts.as_ref().map_or(1, |parts| self.whole(parts, f64::from(buffers)));
        Detector {
            name: table.name.get_ref().clone(),
            buffers,
            parts: parts.min(buffers),
            group: table.group.as_ref().map_or(group, |own| self.whole(own, f64::from(group))),
            fragment_bytes: self.number(&table.fragment_bytes, (0.0, HUGE)),
        }
    }

    fn request(&mut self, table: &RequestTable, detectors: &[Detector]) -> Option<Request> {
        let name = table.detector.get_ref();
        let Some(index) = detectors.iter().position(|detector| detector.name == *name) else {
            let meant = nearest(name, detectors.iter().map(|detector| detector.name.as_str()));
            let right = match meant {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => "the name of a `[[detector]]`".into(),
            };
            let found = format!("there is no detector \"{}\"", shorten(name));
            self.wrong(ErrorKind::Unknown, &table.detector.span(), found, right);
            return None;
        };
        let region = self.region(table, &detectors[index]);
        Some(Request {
            name: table.name.get_ref().clone(),
            detector: index,
            rate_hz: self.number(&table.rate_hz, (0.0, HUGE)),
            region,
            kept: table.kept.as_ref().map_or(1.0, |kept| self.number(kept, (0.0, 1.0))),
        })
    }

    /// Neighbours are in one part, so that there are at most as many as the smallest part has.
    fn region(&mut self, table: &RequestTable, detector: &Detector) -> Region {
        let word = *table.region.get_ref();
        match (&table.buffers, word) {
            (None, Word::All) => Region::All,
            (Some(buffers), Word::All) => {
                let found = "`buffers` beside `region = \"all\"`".to_owned();
                let right = "remove `buffers`, or use \"neighbours\" or \"scattered\"".into();
                self.wrong(ErrorKind::Conflict, &buffers.span(), found, right);
                Region::All
            }
            (None, _) => {
                let right = "`buffers = N`: in how many buffers the region lies, a mean".into();
                self.wrong(ErrorKind::Missing, &table.region.span(), "`buffers` is missing".into(), right);
                Region::All
            }
            (Some(buffers), Word::Neighbours) => {
                let most = f64::from(detector.buffers / detector.parts);
                Region::Neighbours(self.number(buffers, (1.0, most)))
            }
            (Some(buffers), Word::Scattered) => {
                Region::Scattered(self.number(buffers, (1.0, f64::from(detector.buffers))))
            }
        }
    }
}
