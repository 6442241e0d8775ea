//! `sheaf export`: a run as columns, in builds that have HDF5.

use crate::Verdict;
use crate::arguments::ExportArguments;

#[cfg(not(feature = "hdf5"))]
pub(crate) fn command(_arguments: &ExportArguments) -> anyhow::Result<Verdict> {
    anyhow::bail!(
        "this build does not write HDF5; build it with: cargo build --release --features hdf5 (needs libhdf5 and its headers)"
    )
}

#[cfg(feature = "hdf5")]
pub(crate) fn command(arguments: &ExportArguments) -> anyhow::Result<Verdict> {
    use crate::console::count;
    use crate::print::{print, print_json};
    use sheaf_store::hdf5::export;
    use sheaf_store::run::newest_of;

    let compression = compression(&arguments.compression)?;
    let path = newest_of(&arguments.path)?;
    let summary = export(&path, arguments.stream.as_ref(), &arguments.target, compression)?;
    if arguments.json {
        print_json(&summary)?;
    } else {
        let (events, fragments) = (count(summary.events), count(summary.fragments));
        let (bytes, target) = (count(summary.payload_bytes), arguments.target.display());
        let records = match summary.records {
            0 => String::new(),
            records => format!(", {}", crate::console::plural(records, "run record")),
        };
        print(&format!(
            "{events} events, {fragments} fragments, {bytes} payload bytes{records} are in {target}\n"
        ))?;
    }
    if let Some(damage) = &summary.first_damage {
        let damaged = crate::console::plural(summary.damaged, "damaged record");
        log::warn!("{damaged}, the first: {damage}; `sheaf verify` lists them");
    }
    Ok(if summary.damaged == 0 { Verdict::Good } else { Verdict::NotGood })
}

#[cfg(feature = "hdf5")]
fn compression(text: &str) -> anyhow::Result<sheaf_store::hdf5::Compression> {
    use anyhow::Context;
    use sheaf_store::hdf5::Compression;

    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level.parse::<u8>().ok())),
        None => (text, None),
    };
    let level = |default: u8, most: u8| match level {
        None => Some(default),
        Some(level) => level.filter(|level| (1..=most).contains(level)),
    };
    match name {
        "none" if text == "none" => Some(Compression::None),
        "deflate" => level(Compression::DEFLATE_LEVEL, 9).map(Compression::Deflate),
        "zstd" => level(Compression::ZSTD_LEVEL, 22).map(Compression::Zstd),
        _ => None,
    }
    .with_context(|| {
        format!("`{text}` is not a compression; use none, deflate, deflate:1 to deflate:9, zstd, zstd:1 to zstd:22")
    })
}
