//! Whole recordings: exact windows, killed processes, full disks, requesters.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

mod damage;
mod door;
mod full_disk;
mod recording;
mod windows;
