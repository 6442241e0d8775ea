//! Data of sources that are in no event and not in the ledger: lost or refused before they were fragments.

use super::line;
use crate::console::count;
use crate::summary::Summary;
use std::fmt;

/// Counters with a text for people. Those that are no fault, such as keep-alives, are only in JSON.
const TROUBLE: &[(&str, &str)] = &[
    ("source_packets_damaged_no_magic", "packets do not have the bytes of `source.stream.magic`"),
    ("source_packets_damaged_too_short", "packets end within a described field, header or trailer"),
    ("source_packets_damaged_too_long", "packets have a length that is larger than the packet"),
    ("source_packets_damaged_length_too_small", "packets have a length that is smaller than what it counts"),
    ("source_packets_lost", "packets did not arrive, by the gaps in their numbers"),
    (
        "source_packets_dropped_by_kernel",
        "packets found the buffer of the socket full; raise `net.core.rmem_max`",
    ),
    ("source_packets_cut", "connections ended within a packet"),
    ("source_bytes_skipped", "bytes are in no packet"),
    ("source_connections_lost", "connections of front ends failed, or were closed because of what they sent"),
    ("source_connections_refused", "connections of front ends were refused: more than configured"),
    ("source_polls_failed", "polls of a library failed; see the log"),
    ("source_batches_invalid", "answers of a library were invalid; see the log"),
    ("source_fragments_unknown_source", "fragments have a source id that the readout unit does not read"),
    ("source_fragments_too_large", "fragments are larger than `readout.max_fragment_bytes`"),
    ("source_fragments_incomplete", "fragments lack a part"),
    ("source_fragments_without_data", "fragments of a library have a size and no data"),
    (
        "source_fragments_out_of_range",
        "fragments have an event number before the start of the run, or beyond 2^64",
    ),
    ("source_fragments_no_memory", "fragments found `source.memory_bytes` full"),
    ("source_damaged_headers", "records of a fragment stream have a damaged header"),
    ("source_damaged_payloads", "fragments of a stream have a damaged payload"),
    ("source_read_errors", "errors reading a source; see the log"),
];

/// Writes the counters that are not zero.
pub(super) fn trouble(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    for (name, text) in TROUBLE {
        if let Some(value) = summary.counters.get(*name) {
            line(f, "  source", count(*value), text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::TROUBLE;
    use crate::summary::Summary;
    use sheaf_source::described::PacketError;

    #[test]
    fn each_fault_of_a_source_has_a_line_and_what_is_no_fault_has_none() {
        let mut summary = Summary::default();
        for (value, (name, _)) in (11..).zip(TROUBLE) {
            summary.counters.insert((*name).to_owned(), value);
        }
        for name in ["source_packets", "source_packets_keep_alive", "source_connections"] {
            summary.counters.insert(name.to_owned(), 99);
        }
        let text = summary.to_string();
        let lines = text.lines().filter(|line| line.starts_with("  source"));
        assert_eq!(lines.count(), TROUBLE.len(), "{text}");
        for reason in PacketError::NAMES {
            let name = format!("source_packets_damaged_{reason}");
            assert!(TROUBLE.iter().any(|(counter, _)| *counter == name), "{name} has no text");
        }
    }
}
