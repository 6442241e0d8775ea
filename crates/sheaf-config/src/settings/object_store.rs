//! Where files go whose events count as stored when they are uploaded.

use super::{GIB, HOUR, MIB};
use crate::codec::{
    bytes, maybe, milliseconds, name, object_prefix, path, pick, seconds, switch, web_address, whole,
};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

choice! {
    /// How it is made sure that an object is what was sent.
    ObjectCheck {
        /// by size and CRC-32C, which the store computes of what it got and keeps
        Checksum = "checksum",
        /// by reading it back: for stores that keep no CRC-32C
        Read = "read",
    }
}

section! {
    /// The object store for `sync = "uploaded"`: S3 or a store that speaks its protocol. Needs a build with the feature `s3`.
    /// Who asks is in the environment, never in this file: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where there is
    /// one, `AWS_SESSION_TOKEN`.
    ObjectStore "object_store" {
        /// Where the store is, like `https://s3.example.org`. Needed where something is uploaded.
        endpoint: Option<String> = None, "endpoint", maybe(web_address());
        /// The bucket, which is there already. Needed where something is uploaded.
        bucket: Option<String> = None, "bucket", maybe(name());
        /// What the names of all objects begin with. Behind it come the name of the run's directory and that of the file.
        prefix: Option<String> = None, "prefix", maybe(object_prefix());
        /// The region that requests are signed for. Stores outside of clouds mostly take any.
        region: String = "us-east-1".into(), "region", name();
        /// Whether the bucket is a part of the path (`https://s3.example.org/bucket/...`), and not of the name of the host
        /// (`https://bucket.s3.example.org/...`).
        path_style: bool = true, "path_style", switch();
        /// A larger file is sent in parts of this size. Each connection has one in memory.
        part: ByteCount = ByteCount(16 * MIB), "part_bytes", bytes(5 * MIB, GIB);
        /// So many files of a builder unit are on their way at a time.
        connections: u32 = 2, "connections", whole(1, 64);
        /// How long one request may take. What fails is tried again, with pauses of up to 15 seconds, for as long as it takes.
        timeout: Nanos = Nanos::from_secs(60), "timeout_s", seconds(Nanos::from_millis(100), HOUR);
        /// A file with events is closed and uploaded when no event has come for so long: then the run ends, or something waits
        /// for room. With a rate of less than one event in this time each event is an object of its own.
        quiet: Nanos = Nanos::from_millis(500), "quiet_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// How it is made sure that an object is what was sent.
        verify: ObjectCheck = ObjectCheck::Checksum, "verify", pick();
        /// Certificates of the authorities that are trusted, a PEM file, for stores inside of an institute. Where it is not set,
        /// those that browsers trust.
        authorities: Option<PathBuf> = None, "authorities", maybe(path());
    }
}
