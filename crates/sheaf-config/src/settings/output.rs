//! Where accepted events go: files, streams of them, and how durable they are.

use super::{GIB, HOUR, KIB, MIB, TIB};
use crate::codec::{bytes, maybe, milliseconds, pick, seconds, switch, tag_choice, whole, zero_is_none};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, Nanos};

/// The longest time that a file is written to.
const DAY: Nanos = Nanos::from_secs(86_400);

choice! {
    /// Where accepted events go.
    OutputKind {
        /// into event files in the run's directory, one series per builder unit or output node
        File = "file",
        /// nowhere: they are counted as stored and forgotten, for rate tests
        None = "none",
    }
}

choice! {
    /// How far events are written before they are reported as stored.
    Sync {
        /// to the writer's memory, which goes to the operating system when `buffer_bytes` are full; a crash of the
        /// process may lose so much
        None = "none",
        /// to the operating system, after each batch of events; a crash of the process loses nothing, one of the
        /// machine may
        Flush = "flush",
        /// to the disk, which is waited for at most every `sync_interval_ms`; a crash of the machine loses nothing
        Fsync = "fsync",
        /// to `[object_store]`: to a file first, which is uploaded when it is closed; nothing that happens to this machine
        /// loses anything
        Uploaded = "uploaded",
    }
}

choice! {
    /// What the files of accepted events are in the end.
    OutputFormat {
        /// event files, see the reference page
        Sheaf = "sheaf",
        /// HDF5 files for analysis: events are stored in event files, and each that is closed is made into an HDF5 file with the
        /// same events, which takes its place; only in builds with the feature `hdf5`
        Hdf5 = "hdf5",
    }
}

choice! {
    /// How the columns of HDF5 files are compressed.
    OutputCompression {
        /// not
        None = "none",
        /// by deflate (gzip), which each HDF5 library reads
        Deflate = "deflate",
        /// by Zstandard: libhdf5 needs the plugin of filter 32015 to write and to read it
        Zstd = "zstd",
    }
}

section! {
    /// Where accepted events go.
    Output "output" {
        /// Where accepted events go.
        kind: OutputKind = OutputKind::File, "kind", pick();
        /// What the files are in the end.
        format: OutputFormat = OutputFormat::Sheaf, "format", pick();
        /// How HDF5 files are compressed. Files that are closed faster than they are compressed hold up the run.
        compression: OutputCompression = OutputCompression::None, "compression", pick();
        /// How much effort it takes, 1 to 9 for `deflate`, 1 to 22 for `zstd`. 0: 1 for `deflate`, 3 for `zstd`.
        compression_level: Option<u8> = None, "compression_level", zero_is_none(whole(1, 22));
        /// How many output nodes there are. 0: each builder unit stores its own events. With output nodes, builder units send them
        /// the accepted events, each event to the one with most room.
        nodes: u16 = 0, "nodes", whole(0, 1_024);
        /// The bytes of events that an output node has of each builder unit and has not stored. It takes one event more than
        /// this, so that none is too large.
        window: ByteCount = ByteCount(16 * MIB), "window_bytes", bytes(KIB, TIB);
        /// The number of such events.
        window_events: u32 = 4_096, "window_events", whole(1, 1 << 24);
        /// The size at which an event file is closed and the next part begun.
        rotate_size: ByteCount = ByteCount(2 * GIB), "rotate_bytes", bytes(MIB, TIB);
        /// The number of events at which an event file is closed and the next part begun. It bounds the memory of the
        /// file's index, 16 bytes for an event.
        rotate_events: u64 = 1 << 17, "rotate_events", whole(1, 1 << 32);
        /// The time after which an event file that has events is closed and the next part begun. 0: however long it takes.
        rotate_time: Option<Nanos> = None, "rotate_s", zero_is_none(seconds(Nanos::from_millis(100), DAY));
        /// Events wait for each other up to about this size, to be written in one call.
        buffer: ByteCount = ByteCount(256 * KIB), "buffer_bytes", bytes(4 * KIB, GIB);
        /// Whether files are written by a thread of their own beside the node's. Then a disk that hangs holds up no node: its events
        /// wait, and dead time has the name `output`. Without it a node that waits for its disk is silent meanwhile, and is given up
        /// after `manager.peer_timeout_ms`. Left out: with each transport but `memory`, where all nodes share the processors of one
        /// process.
        own_thread: Option<bool> = None, "own_thread", maybe(switch());
        /// How far events are written before they are reported as stored and the readout units release them.
        sync: Sync = Sync::Flush, "sync", pick();
        /// The time between two writes to the disk with `fsync`: until then events wait, and hold `builder.slots`. 0: after
        /// each batch of events.
        sync_interval: Nanos = Nanos::from_millis(10), "sync_interval_ms", milliseconds(Nanos::ZERO, HOUR);
    }
}

section! {
    /// A stream of accepted events, with files of its own. An event goes to every stream that it has a tag of, and to the
    /// stream `default` if there is none; it counts as stored when all of its streams have it. The name of a stream is a
    /// part of the names of its files: 1 to 32 lower-case letters, digits and hyphens, the first a letter. A table
    /// `[streams.default]` says more about the stream that is always there. What is not set is as in `[output]`.
    Stream "streams.NAME" {
        /// The stream takes events that have one of these tags of `filter.tags`, or `"quarantined"`. Without tags it takes
        /// all accepted events.
        tags: Vec<String> = Vec::new(), "tags", tag_choice();
        /// Of these it takes one of so many, chosen by the event's id. Events that no stream takes are rejected. An event
        /// that was not judged (`quarantined`) is always taken.
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
    /// More about one of `filter.tags`, as in a trigger menu; its name is the tag's.
    Tag "tags.NAME" {
        /// Of the accepted events that have the tag one of so many keeps it, chosen by the event's id. An event that loses all of
        /// its tags so is rejected. What was not judged (`quarantined`) keeps its tag. Before and after are counted:
        /// `output_tag_NAME_before` and `output_tag_NAME_after`.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
    }
}
