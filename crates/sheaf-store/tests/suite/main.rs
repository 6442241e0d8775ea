//! Files on a full disk, and the pages that describe their formats.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

mod format_pages;
mod full_disk;
