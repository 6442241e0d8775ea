//! The page and the metrics of a run.

use super::HOUR;
use crate::codec::{address, maybe, milliseconds};
use crate::knob::section;
use sheaf_wire::Nanos;

section! {
    /// The [page and the metrics](../operating/monitor.md) of a run, over HTTP.
    Monitor "monitor" {
        /// Loopback address of the page and the metrics of `sheaf run`, as `host:port`. Flag: `--page`. Default: none.
        listen: Option<String> = None, "listen", maybe(address());
        /// Time for which `sheaf run` serves them after its last run, so that the final numbers are scraped and can be looked at. Ctrl-C
        /// ends it.
        linger: Nanos = Nanos::from_secs(3), "linger_ms", milliseconds(Nanos::ZERO, HOUR);
    }
}
