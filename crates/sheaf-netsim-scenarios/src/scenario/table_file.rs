//! A wiring in a file: one cable or link on each line.
//!
//! `e3 -- s0` is a cable between endpoint 3 and switch 0, `s0 -> s1` a link that goes one way; a rate in Gbit/s may
//! follow where it differs from the scenario's. `#` starts a comment.

use super::build_rate;
use sheaf_config::diagnose::shorten;
use sheaf_netsim::network::{EndpointId, LinkEnd, SwitchId};
use sheaf_netsim::scenario::{TableLink, TableTopology};
use std::io::Read;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// No such file is larger: 64 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// Numbers of endpoints and switches are below this.
const MAX_NUMBER: u32 = 65_536;

/// Why a wiring cannot be read.
#[derive(Debug, Error)]
pub(super) enum TableError {
    #[error("cannot read the wiring {path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("the wiring {path} has more than {MAX_BYTES} bytes")]
    TooLarge { path: PathBuf },
    #[error("line {line} of the wiring {path}, `{text}`: {what}")]
    Line { path: PathBuf, line: usize, text: String, what: &'static str },
    #[error("the wiring {path} has {what}")]
    Whole { path: PathBuf, what: String },
}

impl TableError {
    /// The remedy.
    pub(super) fn right(&self) -> String {
        match self {
            Self::Io { .. } | Self::TooLarge { .. } => {
                "the path of a wiring, from the directory of the scenario".into()
            }
            Self::Line { .. } => {
                "lines such as `e0 -- s0` (cable), `s0 -> s1` (link), `s0 -- s1 400` (with Gbit/s)".into()
            }
            Self::Whole { .. } => {
                "every endpoint 0, 1, ... with links, none of them to another endpoint".into()
            }
        }
    }
}

/// Reads a wiring.
pub(super) fn load(path: &Path) -> Result<TableTopology, TableError> {
    let io = |error| TableError::Io { path: path.to_owned(), error };
    let file = std::fs::File::open(path).map_err(io)?;
    let mut text = String::new();
    let bytes = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(io)?;
    if bytes as u64 > MAX_BYTES {
        return Err(TableError::TooLarge { path: path.to_owned() });
    }
    parse(&text, path)
}

/// Reads the text of a wiring.
pub(super) fn parse(text: &str, path: &Path) -> Result<TableTopology, TableError> {
    let mut links = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let wrong =
            |what| TableError::Line { path: path.to_owned(), line: index + 1, text: shorten(content), what };
        let (link, is_cable) = parse_line(content).map_err(wrong)?;
        links.push(link);
        if is_cable {
            links.push(TableLink { from: link.to, to: link.from, rate: link.rate });
        }
    }
    let whole = |what: String| TableError::Whole { path: path.to_owned(), what };
    let (endpoints, switches) = count(&links);
    let mut links_out = vec![0_u32; endpoints as usize];
    let mut receives = vec![false; endpoints as usize];
    for link in &links {
        match (link.from, link.to) {
            (LinkEnd::Endpoint(from), LinkEnd::Endpoint(to)) => {
                return Err(whole(format!("a link from endpoint {} to endpoint {}", from.0, to.0)));
            }
            (LinkEnd::Endpoint(from), _) => links_out[from.index()] += 1,
            (_, LinkEnd::Endpoint(to)) => receives[to.index()] = true,
            _ => {}
        }
    }
    if let Some(endpoint) = links_out.iter().position(|links| *links > 1) {
        return Err(whole(format!(
            "several links from endpoint {endpoint}; for several rails there is endpoint.rails"
        )));
    }
    match links_out.iter().zip(&receives).position(|(links, receives)| *links == 0 || !receives) {
        Some(endpoint) => Err(whole(format!("no link to or no link from endpoint {endpoint}"))),
        None if endpoints == 0 => Err(whole("no endpoints".into())),
        None => Ok(TableTopology { file: path.to_owned(), endpoints, switches, links }),
    }
}

fn parse_line(content: &str) -> Result<(TableLink, bool), &'static str> {
    let mut words = content.split_whitespace();
    let from = place(words.next().unwrap_or_default())?;
    let is_cable = match words.next() {
        Some("--") => true,
        Some("->") => false,
        _ => return Err("`--` or `->` is missing"),
    };
    let to = place(words.next().unwrap_or_default())?;
    let rate = match words.next() {
        None => None,
        Some(word) => match word.parse::<f64>() {
            Ok(gigabits) if (1e-6..=1e5).contains(&gigabits) => Some(build_rate(gigabits)),
            _ => return Err("the rate is not a number of Gbit/s from 0.000001 to 100000"),
        },
    };
    match words.next() {
        Some(_) => Err("there is more than a link and its rate"),
        None => Ok((TableLink { from, to, rate }, is_cable)),
    }
}

/// `e12` or `s3`.
fn place(word: &str) -> Result<LinkEnd, &'static str> {
    let wrong = "ends of a link are `e` or `s` and a number below 65536";
    let digits = word.get(1..).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number =
        digits.and_then(|digits| digits.parse().ok()).filter(|number| *number < MAX_NUMBER).ok_or(wrong)?;
    match word.as_bytes()[0] {
        b'e' => Ok(LinkEnd::Endpoint(EndpointId(number))),
        b's' => Ok(LinkEnd::Switch(SwitchId(number))),
        _ => Err(wrong),
    }
}

/// Endpoints and switches: one more than the largest number.
fn count(links: &[TableLink]) -> (u32, u32) {
    let mut count = (0, 0);
    for place in links.iter().flat_map(|link| [link.from, link.to]) {
        match place {
            LinkEnd::Endpoint(endpoint) => count.0 = count.0.max(endpoint.0 + 1),
            LinkEnd::Switch(switch) => count.1 = count.1.max(switch.0 + 1),
        }
    }
    count
}
