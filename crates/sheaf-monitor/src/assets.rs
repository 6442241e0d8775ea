//! The files of the page, which are part of the binary.
//!
//! They are sent without their comments and the spaces at the beginnings of lines, which are a quarter of them: types for the compiler, and text for
//! those who change the page. Browsers get them compressed.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::borrow::Cow;
use std::io::Write as _;
use std::sync::LazyLock;

/// A file of the page.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    /// Content as it is sent.
    pub(crate) content: Cow<'static, str>,
    /// The same, compressed with gzip.
    pub(crate) compressed: Bytes,
}

macro_rules! assets {
    ($($path:literal: $media_type:literal),* $(,)?) => {
        static ASSETS: LazyLock<Vec<Asset>> =
            LazyLock::new(|| vec![$(Asset::new($path, $media_type, include_str!(concat!("../page/", $path)))),*]);
    };
}

assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "control.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "alarms.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "binary.js": "text/javascript; charset=utf-8",
    "books.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "control.js": "text/javascript; charset=utf-8",
    "dead-time.js": "text/javascript; charset=utf-8",
    "feed.js": "text/javascript; charset=utf-8",
    "flow.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "header.js": "text/javascript; charset=utf-8",
    "help.js": "text/javascript; charset=utf-8",
    "histograms.js": "text/javascript; charset=utf-8",
    "html.js": "text/javascript; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "latency.js": "text/javascript; charset=utf-8",
    "log.js": "text/javascript; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "map-data.js": "text/javascript; charset=utf-8",
    "map-draw.js": "text/javascript; charset=utf-8",
    "map.js": "text/javascript; charset=utf-8",
    "measures.js": "text/javascript; charset=utf-8",
    "nodes.js": "text/javascript; charset=utf-8",
    "numbers.js": "text/javascript; charset=utf-8",
    "operator.js": "text/javascript; charset=utf-8",
    "palette.js": "text/javascript; charset=utf-8",
    "partitions.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "plot.js": "text/javascript; charset=utf-8",
    "ring.js": "text/javascript; charset=utf-8",
    "runs.js": "text/javascript; charset=utf-8",
    "sequence.js": "text/javascript; charset=utf-8",
    "series.js": "text/javascript; charset=utf-8",
    "sketch.js": "text/javascript; charset=utf-8",
    "sources.js": "text/javascript; charset=utf-8",
    "store.js": "text/javascript; charset=utf-8",
    "traces.js": "text/javascript; charset=utf-8",
    "values.js": "text/javascript; charset=utf-8",
    "verdict.js": "text/javascript; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "vendor/htm.js": "text/javascript; charset=utf-8",
    "vendor/preact.js": "text/javascript; charset=utf-8",
    "vendor/uplot.js": "text/javascript; charset=utf-8",
}

/// Returns the file with this path below the page's folder.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    fn new(path: &'static str, media_type: &'static str, text: &'static str) -> Self {
        let has_comments = path.ends_with(".js") || path.ends_with(".css");
        // The files of others remain as they were published, with their licences.
        let content: Cow<'static, str> = if has_comments && !path.starts_with("vendor/") {
            let text = without_ornaments(text);
            if path.ends_with(".css") { without_spaces(text).into() } else { text.into() }
        } else {
            text.into()
        };
        let compressed = gzip(content.as_bytes());
        Self { path, media_type, content, compressed }
    }
}

fn gzip(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes").into()
}

/// Beginning of the type of a value, in the midst of a line.
const TYPE: &str = "/** @";

/// Removes comments and spaces at the beginnings of lines, and types of values. Lines keep their numbers, so that messages of a browser name those of the source.
///
/// Other comments behind code stay: to find them takes a parser, and the page has few. No line of a text of the page may begin like a comment, or with a space
/// that matters.
fn without_ornaments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.lines() {
        let mut rest = line.trim_start();
        if rest.starts_with("//") {
            rest = "";
        }
        if is_inside || rest.starts_with("/*") {
            let end = rest.split_once("*/");
            is_inside = end.is_none();
            rest = end.map_or("", |(_, code)| code.trim_start());
        }
        while let Some((code, (_, after))) =
            rest.split_once(TYPE).and_then(|(code, typed)| Some((code, typed.split_once("*/")?)))
        {
            kept.push_str(code);
            rest = after.trim_start();
        }
        kept.push_str(rest);
        kept.push('\n');
    }
    kept
}

/// Removes the spaces of a style sheet that are there for its readers. No text in it has such signs.
fn without_spaces(mut text: String) -> String {
    for (sign, short) in [(": ", ":"), ("; ", ";"), (", ", ","), (" {", "{")] {
        text = text.replace(sign, short);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the quoted paths behind a word in a text.
    fn quoted<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
        text.split(word).skip(1).filter_map(|rest| rest.split(['"', '\'']).nth(1)).collect()
    }

    #[test]
    fn everything_that_the_page_loads_is_there() {
        let index = find("index.html").expect("the page exists");
        let index = &*index.content;
        let loaded = quoted(index, "src=").into_iter().chain(quoted(index, "href="));
        for path in loaded.filter_map(|path| path.trim_start_matches('/').strip_prefix("assets/")) {
            assert!(find(path).is_some(), "index.html loads {path}");
        }
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js")) {
            for line in asset.content.lines().filter(|line| line.starts_with("import ")) {
                let path = line.rsplit(['"', '\'']).nth(1).expect("an import has a path");
                let path = path.trim_start_matches("./");
                assert!(find(path).is_some(), "{} imports {path}", asset.path);
            }
        }
    }

    #[test]
    fn comments_are_not_sent_and_lines_keep_their_numbers() {
        let source = "/** A module. */\n\n/**\n * @typedef {object} X\n */\nf();\n  /** @type {X} */ (g).h();\n// why\nk((/** @type {X} */ x) => x);\nconst s = \"// text\"; /* stays */\n";
        let sent = "\n\n\n\n\nf();\n(g).h();\n\nk((x) => x);\nconst s = \"// text\"; /* stays */\n";
        assert_eq!(without_ornaments(source), sent);
        assert_eq!(
            without_spaces("a:hover, b > c { margin: 0 1px; }".to_owned()),
            "a:hover,b > c{ margin:0 1px;}"
        );
        for asset in ASSETS.iter().filter(|asset| !asset.path.starts_with("vendor/")) {
            assert!(!asset.content.contains("\n/*") && !asset.content.contains("@param"), "{}", asset.path);
        }
        assert!(find("vendor/uplot.js").expect("it is there").content.starts_with("/*!"));
    }

    /// Bytes that a browser loads, and those of them that it has to parse.
    #[test]
    fn the_page_is_small() {
        let sum = |length: fn(&Asset) -> usize| ASSETS.iter().map(length).sum::<usize>();
        let (loaded, parsed) = (sum(|asset| asset.compressed.len()), sum(|asset| asset.content.len()));
        assert!(loaded <= 100_000, "{loaded} bytes");
        assert!(parsed <= 250_000, "{parsed} bytes");
    }
}
