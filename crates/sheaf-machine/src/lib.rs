//! The machine under a run.
//!
//! | module | holds |
//! |---|---|
//! | [`placement`] | where a thread runs, how urgently, and whose memory it takes: asking for it, and reading it back |
//! | [`cpu_list`] | sets of processors as the kernel writes them |
//! | [`doctor`] | reads a host: what of it costs an event builder something, and what would change it |
//! | [`process`] | processes, and all processes of a session |
//! | [`root`] | the kernel's files, below `/` or below a tree that a test has made |
//! | `unix_socket` | Unix sockets at paths: too long ones, and none that is visible before it takes connections |
//! | `sys` | the few system calls without a safe wrapper |
//!
//! For Linux: elsewhere these files and calls are not there. What this crate deliberately does not do: know the
//! configuration or the protocol, print.

pub mod cpu_list;
pub mod doctor;
pub mod placement;
pub mod process;
pub mod root;
mod space;
mod sys;
mod unix_socket;

pub use cpu_list::CpuList;
pub use placement::{MemoryPolicy, Placement, PlacementError};
pub use root::Root;
pub use space::free_bytes;
pub use sys::{
    ClockState, dying_with_this_thread, forget_signal_handlers, ignore_next_run_signal,
    ignoring_next_run_signal,
};
pub use unix_socket::{connect_to, listen_at};
