//! Where files go whose events count as stored when they are uploaded.

use super::{GIB, HOUR, MIB};
use crate::choice::choice;
use crate::codec::{
    bytes, maybe, milliseconds, name, object_prefix, path, pick, seconds, switch, web_address, whole,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

choice! {
    /// Verification of uploaded objects.
    ObjectCheck {
        /// compare size and CRC-32C, which the store computes and keeps
        Checksum = "checksum",
        /// read the object back, for stores that keep no CRC-32C
        Read = "read",
    }
}

section! {
    /// Object store for `sync = "uploaded"`: S3 or a store that speaks its protocol. Needs a build with the feature
    /// `s3`. Credentials come from the environment, never from this file: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and, if needed, `AWS_SESSION_TOKEN`.
    ObjectStore "object_store" {
        /// URL of the store, such as `https://s3.example.org`. Required for uploads.
        endpoint: Option<String> = None, "endpoint", maybe(web_address());
        /// Name of an existing bucket. Required for uploads.
        bucket: Option<String> = None, "bucket", maybe(name());
        /// Prefix of all object names, followed by the name of the run directory and of the file.
        prefix: Option<String> = None, "prefix", maybe(object_prefix());
        /// Region for which requests are signed. Most stores outside of public clouds accept any.
        region: String = "us-east-1".into(), "region", name();
        /// Whether the bucket is part of the path (`https://s3.example.org/bucket/...`) instead of the host name
        /// (`https://bucket.s3.example.org/...`).
        path_style: bool = true, "path_style", switch();
        /// Part size of a multipart upload. Each connection holds one part in memory.
        part: ByteCount = ByteCount(16 * MIB), "part_bytes", bytes(5 * MIB, GIB);
        /// Number of files that one builder unit uploads at a time.
        connections: u32 = 2, "connections", whole(1, 64);
        /// Timeout of one request. Failed requests are retried without limit, with pauses of up to 15 seconds.
        timeout: Nanos = Nanos::from_secs(60), "timeout_s", seconds(Nanos::from_millis(100), HOUR);
        /// Time without an event after which a file is closed and uploaded. If events arrive less often than this,
        /// each becomes a separate object.
        quiet: Nanos = Nanos::from_millis(500), "quiet_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// Verification of uploaded objects.
        verify: ObjectCheck = ObjectCheck::Checksum, "verify", pick();
        /// PEM file with certificates of trusted authorities, for stores inside an institute. Default: the
        /// authorities that browsers trust.
        authorities: Option<PathBuf> = None, "authorities", maybe(path());
    }
}
