//! The page and the metrics of a run.

use super::{HOUR, MIB};
use crate::codec::{address, bytes, maybe, milliseconds, prose, web_address};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};

section! {
    /// The [page and the metrics](../operating/monitor.md) of a run, over HTTP.
    Monitor "monitor" {
        /// Loopback address of the page and the metrics of `sheaf run`, as `host:port`. Flag: `--page`. Default: none.
        listen: Option<String> = None, "listen", maybe(address());
        /// Command for a shell that is run when an alarm is raised and when it has ended, with a JSON object on standard input. Default: none.
        alarm_command: Option<String> = None, "alarm_command", maybe(prose());
        /// Address of an Alertmanager that gets the alarms, over HTTP without TLS. Default: none.
        alertmanager: Option<String> = None, "alertmanager", maybe(web_address());
        /// Time from the start of a run in which no alarm is sent, except if it lasts longer.
        alarm_hold_off: Nanos = Nanos::from_secs(30), "alarm_hold_off_ms", milliseconds(Nanos::ZERO, HOUR);
        /// Limit of the bytes of all [histograms](../howto/monitor-data.md) that consumers publish in a run: eight for each number of each publisher.
        /// 0: none are taken.
        histogram_bytes: ByteCount = ByteCount(8 * MIB), "histogram_bytes", bytes(0, 1 << 30);
        /// Time for which `sheaf run` serves them after its last run, so that the final numbers are scraped and can be looked at. Ctrl-C
        /// ends it.
        linger: Nanos = Nanos::from_secs(3), "linger_ms", milliseconds(Nanos::ZERO, HOUR);
    }
}
