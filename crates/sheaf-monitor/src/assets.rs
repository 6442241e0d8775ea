//! The files of the page, which are part of the binary.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: &'static [u8],
}

macro_rules! assets {
    ($($path:literal: $media_type:literal),* $(,)?) => {
        const ASSETS: &[Asset] = &[$(Asset {
            path: $path,
            media_type: $media_type,
            content: include_bytes!(concat!("../page/", $path)),
        }),*];
    };
}

assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "alarms.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "binary.js": "text/javascript; charset=utf-8",
    "books.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "dead-time.js": "text/javascript; charset=utf-8",
    "flow.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "header.js": "text/javascript; charset=utf-8",
    "help.js": "text/javascript; charset=utf-8",
    "html.js": "text/javascript; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "latency.js": "text/javascript; charset=utf-8",
    "log.js": "text/javascript; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "measures.js": "text/javascript; charset=utf-8",
    "nodes.js": "text/javascript; charset=utf-8",
    "numbers.js": "text/javascript; charset=utf-8",
    "palette.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "plot.js": "text/javascript; charset=utf-8",
    "ring.js": "text/javascript; charset=utf-8",
    "series.js": "text/javascript; charset=utf-8",
    "sources.js": "text/javascript; charset=utf-8",
    "store.js": "text/javascript; charset=utf-8",
    "verdict.js": "text/javascript; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "vendor/htm.js": "text/javascript; charset=utf-8",
    "vendor/preact.js": "text/javascript; charset=utf-8",
    "vendor/uplot.js": "text/javascript; charset=utf-8",
}

/// Returns the file with this path below the page's folder.
pub(crate) fn find(path: &str) -> Option<Asset> {
    ASSETS.iter().find(|asset| asset.path == path).copied()
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
        let index = std::str::from_utf8(index.content).expect("it is text");
        let loaded = quoted(index, "src=").into_iter().chain(quoted(index, "href="));
        for path in loaded.filter_map(|path| path.trim_start_matches('/').strip_prefix("assets/")) {
            assert!(find(path).is_some(), "index.html loads {path}");
        }
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.content).expect("it is text");
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let path = line.rsplit(['"', '\'']).nth(1).expect("an import has a path");
                let path = path.trim_start_matches("./");
                assert!(find(path).is_some(), "{} imports {path}", asset.path);
            }
        }
    }

    #[test]
    fn the_page_has_at_most_200_kilobytes() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes <= 200_000, "{bytes} bytes");
    }
}
