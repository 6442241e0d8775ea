//! Shows a run while it lasts: a page, metrics for Prometheus and an interface for programs, over HTTP.
//!
//! | module | holds |
//! |---|---|
//! | [`monitor`] | the monitor of a process: its thread, and what the command tells it |
//! | `server`, `serving` | the HTTP server, and what its handlers share |
//! | `routes` | the list of requests that are answered |
//! | [`openapi`] | the description of the interface for programs |
//! | `errors` | errors of this interface |
//! | `guard` | requests that are answered, and the headers of every answer |
//! | `remote` | the page for other hosts: connections with TLS |
//! | [`access`], `credentials`, `session_routes` | who may look from there, what a request says about its sender, and sessions of browsers |
//! | `description` | a run, as the command describes it |
//! | `shared` | data that the threads of a monitor share |
//! | `unix_time` | the time of day |
//! | `attention` | silences, and alarms that have ended |
//! | `assets` | the files of the page, which are part of the binary |
//! | [`state`] | the state of a run as JSON, made from a snapshot |
//! | `advice` | advice about each cause of dead time |
//! | [`alarms`] | conditions that an operator must know |
//! | `notices` | news of alarms, for people who do not look at the page |
//! | `code_page` | the page of all codes of messages |
//! | `columns` | numbers over time: rates and levels, computed from consecutive snapshots |
//! | [`control`], `control_routes` | run control as the server sees it, and requests to it |
//! | [`histograms`], `histogram_files`, `histogram_routes` | histograms that consumers publish: taking and keeping them, their files, and requests for them |
//! | `history` | these numbers in rings of three resolutions, and their binary form |
//! | `map`, `map_routes` | waits and rates of each readout unit and builder unit, and requests for them |
//! | `messages` | the last messages of the log |
//! | [`prometheus`] | alert rules and dashboards |
//! | [`openmetrics`] | a snapshot in the format of Prometheus |
//! | [`values`], `value_routes` | values from outside of the run: slow control, and requests for them |
//! | [`traces`], `trace_routes` | traces of single events, the thread that collects them, and requests for them |
//!
//! Everything comes from snapshots of a [`sheaf_telemetry::Hub`]. The server has a thread of its own with a runtime of one thread, and
//! threads that carry data neither wait for it nor know it. A client that is slow or hidden gets fewer answers; nothing is queued for it.
//!
//! On loopback addresses, looking needs no token. Other hosts are served over TLS, and need one for everything. So do requests that change
//! something, wherever they come from.

#![forbid(unsafe_code)]

pub mod access;
mod advice;
pub mod alarms;
mod assets;
mod attention;
mod code_page;
mod columns;
pub mod control;
mod control_routes;
mod credentials;
mod description;
mod errors;
mod guard;
mod histogram_files;
mod histogram_routes;
pub mod histograms;
mod history;
mod map;
mod map_routes;
mod messages;
pub mod monitor;
mod notices;
pub mod openapi;
pub mod openmetrics;
pub mod prometheus;
mod remote;
mod routes;
mod server;
mod serving;
mod session_routes;
mod shared;
pub mod state;
mod trace_routes;
pub mod traces;
mod unix_time;
mod value_routes;
pub mod values;

pub use description::{NodeDescription, RunDescription, RunVerdict};
pub use guard::is_this_host;
pub use messages::{Level, LogEntry};
pub use monitor::{Monitor, MonitorError, Services, SlowControl};
pub use notices::{Notice, Notifier};
pub use remote::{RemotePage, RemotePageError};
