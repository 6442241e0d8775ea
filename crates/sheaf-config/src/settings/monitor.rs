//! The page and the metrics of a run.

use super::{HOUR, MIB};
use crate::codec::{address, bytes, maybe, milliseconds, path, prose, web_address};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

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
    nested {
        /// The page for other hosts.
        remote: RemotePage;
    }
}

section! {
    /// The page [for other hosts](../operating/access.md), over TLS, for those with a token: set all three, or none. `sheaf serve` serves it, and `sheaf run` with a page.
    RemotePage "monitor.remote" {
        /// Where to listen, such as `0.0.0.0:7443` for all addresses of this host.
        listen: Option<String> = None, "listen", maybe(address());
        /// Certificate of this host, a PEM file, followed by any intermediate certificates. A renewed one is in use within 10 s.
        certificate: Option<PathBuf> = None, "certificate", maybe(path());
        /// The private key of that certificate, a PEM file without a password.
        key: Option<PathBuf> = None, "key", maybe(path());
    }
}

impl RemotePage {
    /// Returns the address, the certificate and its key, where other hosts are served.
    #[must_use]
    pub fn parts(&self) -> Option<(&str, &PathBuf, &PathBuf)> {
        Some((self.listen.as_deref()?, self.certificate.as_ref()?, self.key.as_ref()?))
    }
}
