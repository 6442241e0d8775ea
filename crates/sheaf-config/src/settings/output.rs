//! Where accepted events go: files, streams of them, and how durable they are.

use super::{GIB, HOUR, KIB, MIB, TIB};
use crate::choice::choice;
use crate::codec::{
    bytes, maybe, milliseconds, path, pick, seconds, switch, tag_choice, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

/// The longest time that a file is written to.
const DAY: Nanos = Nanos::from_secs(86_400);

choice! {
    /// Output of accepted events.
    OutputKind {
        /// event files in the run directory, one series per builder unit or output node
        File = "file",
        /// none: events are counted as stored and discarded, for rate tests
        None = "none",
    }
}

choice! {
    /// Durability that an event needs to count as stored.
    Sync {
        /// in the memory of the writer, which is written when `buffer_bytes` are full; a crash of the process loses
        /// up to that amount
        None = "none",
        /// with the operating system, after each batch of events; a crash of the process loses nothing, a crash of
        /// the machine may
        Flush = "flush",
        /// on the disk, synchronised at most every `sync_interval_ms`; a crash of the machine loses nothing
        Fsync = "fsync",
        /// in `[object_store]`: written to a file, which is uploaded when it is closed; no failure of this machine
        /// loses anything
        Uploaded = "uploaded",
    }
}

choice! {
    /// Format of the files of accepted events.
    OutputFormat {
        /// event files, see the reference page
        Sheaf = "sheaf",
        /// HDF5 files for analysis: each event file is converted when it is closed, and replaced by an HDF5 file with
        /// the same events; only in builds with the feature `hdf5`
        Hdf5 = "hdf5",
    }
}

choice! {
    /// Compression of the columns of HDF5 files.
    OutputCompression {
        /// not
        None = "none",
        /// deflate (gzip), which every HDF5 library reads
        Deflate = "deflate",
        /// Zstandard; libhdf5 needs the plugin of filter 32015 to write and to read it
        Zstd = "zstd",
    }
}

section! {
    /// Output of accepted events.
    Output "output" {
        /// Output of accepted events.
        kind: OutputKind = OutputKind::File, "kind", pick();
        /// Format of the files.
        format: OutputFormat = OutputFormat::Sheaf, "format", pick();
        /// Compression of HDF5 files. If files are closed faster than they are compressed, the run slows down.
        compression: OutputCompression = OutputCompression::None, "compression", pick();
        /// Compression level, 1 to 9 for `deflate`, 1 to 22 for `zstd`. 0: 1 for `deflate`, 3 for `zstd`.
        compression_level: Option<u8> = None, "compression_level", zero_is_none(whole(1, 22));
        /// Number of output nodes. 0: each builder unit stores its own events. Builder units send each accepted event
        /// to the output node with the most room.
        nodes: u16 = 0, "nodes", whole(0, 1_024);
        /// Maximum bytes of events that an output node holds for each builder unit before they are stored. One event
        /// may exceed it, so that no event is too large.
        window: ByteCount = ByteCount(16 * MIB), "window_bytes", bytes(KIB, TIB);
        /// Maximum number of such events.
        window_events: u32 = 4_096, "window_events", whole(1, 1 << 24);
        /// Free space that `sheaf run` leaves on the disk of its output. A run does not begin with less, and a run that
        /// reaches it ends as with Ctrl-C, with its books balanced. 0: the run writes until the disk is full. Nodes
        /// that are started one by one ignore it.
        keep_free: ByteCount = ByteCount(GIB), "keep_free_bytes", bytes(0, TIB);
        /// Directory of begin-of-run records: files with the configuration of sources, which are copied into each event
        /// file. The name of a file begins with the id of its source, and the rest is free: `7.cfg`, `7-thresholds.txt`.
        /// Empty: none. Each node that writes event files reads them when it starts.
        begin_records: Option<PathBuf> = None, "begin_records", maybe(path());
        /// Size at which an event file is closed and the next part begun.
        rotate_size: ByteCount = ByteCount(2 * GIB), "rotate_bytes", bytes(MIB, TIB);
        /// Number of events at which an event file is closed and the next part begun. It bounds the memory of the
        /// file's index, 16 bytes per event.
        rotate_events: u64 = 1 << 17, "rotate_events", whole(1, 1 << 32);
        /// Time after which an event file with events is closed and the next part begun. 0: no limit.
        rotate_time: Option<Nanos> = None, "rotate_s", zero_is_none(seconds(Nanos::from_millis(100), DAY));
        /// Size of the write buffer: events are collected up to about this size and written in one call.
        buffer: ByteCount = ByteCount(256 * KIB), "buffer_bytes", bytes(4 * KIB, GIB);
        /// Whether a separate thread writes files. A disk that hangs then does not block the node: its events wait, and
        /// dead time is counted as `output`. Without it, a node that waits for its disk is silent and is given up after
        /// `manager.peer_timeout_ms`. Default: on with every transport but `memory`, where all nodes share the
        /// processors of one process.
        own_thread: Option<bool> = None, "own_thread", maybe(switch());
        /// Durability that an event needs to be reported as stored and released by the readout units.
        sync: Sync = Sync::Flush, "sync", pick();
        /// Interval between two synchronisations with `fsync`. Until then events wait and occupy `builder.slots`. 0:
        /// after each batch of events.
        sync_interval: Nanos = Nanos::from_millis(10), "sync_interval_ms", milliseconds(Nanos::ZERO, HOUR);
    }
}

section! {
    /// A stream of accepted events, with its own files. An event goes to every stream that has one of its tags,
    /// otherwise to the stream `default`; it counts as stored when all of its streams have it. The name of a stream
    /// is part of its file names: 1 to 32 lower-case letters, digits and hyphens, beginning with a letter. A table
    /// `[streams.default]` configures the stream that always exists. Keys that are not set are taken from `[output]`.
    Stream "streams.NAME" {
        /// Tags of the stream, from `filter.tags` or `"quarantined"`: events with one of them go to the stream. Without
        /// tags it receives all accepted events.
        tags: Vec<String> = Vec::new(), "tags", tag_choice();
        /// Prescale: keeps one event in N of those, chosen by event id. Events that go to no stream are rejected. An
        /// event that was not judged (`quarantined`) is always kept.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
        /// As `output.format`, for this stream.
        format: Option<OutputFormat> = None, "format", maybe(pick());
        /// As `output.rotate_bytes`, for this stream.
        rotate_size: Option<ByteCount> = None, "rotate_bytes", maybe(bytes(MIB, TIB));
        /// As `output.rotate_events`, for this stream.
        rotate_events: Option<u64> = None, "rotate_events", maybe(whole(1, 1 << 32));
        /// As `output.rotate_s`, for this stream.
        rotate_time: Option<Nanos> = None, "rotate_s", maybe(seconds(Nanos::from_millis(100), DAY));
        /// As `output.sync`, for this stream.
        sync: Option<Sync> = None, "sync", maybe(pick());
        /// As `output.sync_interval_ms`, for this stream.
        sync_interval: Option<Nanos> = None, "sync_interval_ms", maybe(milliseconds(Nanos::ZERO, HOUR));
    }
}

section! {
    /// Settings of one of `filter.tags`, as in a trigger menu. The table is named after the tag.
    Tag "tags.NAME" {
        /// Prescale: one event in N of the accepted events with the tag keeps it, chosen by event id. An event that
        /// loses all of its tags is rejected. An event that was not judged (`quarantined`) keeps its tag. Counters
        /// before and after: `output_tag_NAME_before` and `output_tag_NAME_after`.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
    }
}
