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
}

/// Returns the file with this path below the page's folder.
pub(crate) fn find(path: &str) -> Option<Asset> {
    ASSETS.iter().find(|asset| asset.path == path).copied()
}
