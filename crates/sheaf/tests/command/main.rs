//! Tests of the command as its users run it: the binary is started, and its output and files are checked.
//!
//! Every child has a watchdog; no test asserts a duration. If the machine lacks a requirement (detector data, Python packages, the
//! permission to mount a file system), a test is skipped with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

mod access;
mod active;
mod affinity;
mod agents;
mod agents_succession;
mod bad_files;
mod bad_input;
mod bench;
mod bring_up;
mod child;
mod chroot;
mod commands;
mod consumers;
mod content;
mod database;
mod death;
mod described;
mod described_hits;
mod doctor;
mod ethernet;
mod excluding;
mod farm;
mod feed;
mod feed_in_c;
mod feed_restart;
mod feed_secured;
mod filters;
mod formats;
mod free_running;
mod full_disk;
mod hanging_disk;
#[cfg(feature = "hdf5")]
mod hdf5;
mod histograms;
mod hits;
mod hooks;
mod incomplete;
mod json;
mod key;
mod lab;
mod launch;
mod launch_slurm;
#[cfg(feature = "libfabric")]
mod libfabric;
mod library;
mod like;
mod live_time;
mod loading;
mod log;
mod lossy;
mod map;
mod memory;
mod mirrors;
mod mixed_versions;
mod monitor;
mod nodes;
mod notices;
mod numbering;
#[cfg(feature = "s3")]
mod objects;
mod output;
mod outputs;
mod partitions;
mod prometheus;
mod rails;
mod real_data;
mod recorded_live;
mod records;
mod recovering;
mod repeatable;
mod requirements;
mod run_records;
mod runs;
mod sequences;
mod serve;
mod shaping;
mod shift;
mod signals;
mod sliced;
mod slow_filters;
mod source_ids;
mod source_names;
mod spool;
mod srs_live;
mod standby;
mod started;
mod step_windows;
mod steps;
mod strangers;
mod streams;
mod succession;
mod time_base;
mod tls;
mod traces;
mod trigger_access;
mod trigger_command;
mod trigger_datagrams;
mod trigger_library;
mod trigger_payloads;
mod triggers;
mod values;
mod whole_shift;
mod windowed;
