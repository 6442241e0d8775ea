//! Checks of a trigger supervisor, and of its program or library.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{TriggerMode, TriggerProtocol};
use sheaf_wire::trigger_link::MAX_DATAGRAM_PAYLOAD_BYTES;

impl Checker<'_> {
    pub(super) fn trigger_command(&mut self) {
        let trigger = &self.config.trigger;
        let (keys, mode) = (["trigger.command.command", "trigger.mode"], trigger.mode);
        match (mode == TriggerMode::Command, trigger.command.command.is_empty()) {
            (true, true) => self.fail(
                ErrorKind::Missing,
                &keys,
                "`trigger.mode` is \"command\", but `trigger.command.command` is not set".into(),
                "write the program and its arguments, such as `command = [\"python3\", \"supervisor.py\"]`",
            ),
            (false, false) => self.fail(
                ErrorKind::Conflict,
                &keys,
                format!("there is a program for the triggers, but `trigger.mode` is \"{mode}\""),
                "write `mode = \"command\"`, or remove the table",
            ),
            (true, false) | (false, true) => {}
        }
    }

    pub(super) fn trigger_library(&mut self) {
        let trigger = &self.config.trigger;
        let (keys, mode) = (["trigger.library.path", "trigger.mode"], trigger.mode);
        let (listen, protocol) = (trigger.network.listen.is_some(), trigger.network.protocol);
        match (mode == TriggerMode::Library, trigger.library.path.is_some()) {
            (true, false) => self.fail(
                ErrorKind::Missing,
                &keys,
                "`trigger.mode` is \"library\", but `trigger.library.path` is not set".into(),
                "write the path of the library, such as `path = \"./libmy_trigger.so\"`",
            ),
            (false, true) => self.fail(
                ErrorKind::Conflict,
                &keys,
                format!("there is a library for the triggers, but `trigger.mode` is \"{mode}\""),
                "write `mode = \"library\"`, or remove the table",
            ),
            (true, true) | (false, false) => {}
        }
        if mode != TriggerMode::Library {
            return;
        }
        let key = match (listen, protocol) {
            (true, _) => "trigger.network.listen",
            (false, TriggerProtocol::Udp) => "trigger.network.protocol",
            (false, TriggerProtocol::Tcp) => return,
        };
        self.fail(
            ErrorKind::Conflict,
            &[key, "trigger.mode"],
            format!("`{key}` is set, but `trigger.mode` is \"library\""),
            "remove it: the process of the library connects over TCP, at a port of its own",
        );
    }

    pub(super) fn trigger_network(&mut self) {
        let trigger = &self.config.trigger;
        if trigger.network.listen.is_none() && trigger.mode == TriggerMode::Network {
            self.fail(
                ErrorKind::Missing,
                &["trigger.mode", "trigger.network.listen"],
                "`trigger.mode` is \"network\", but `trigger.network.listen` is not set".into(),
                "write the address for the trigger supervisor, such as `listen = \"127.0.0.1:7300\"`",
            );
        }
        let reserve = self.config.trigger.network.reserve();
        let queue = u64::from(self.config.trigger.queue_events);
        if reserve >= queue {
            let found = format!(
                "{reserve} triggers may be in flight when busy is sent, but `trigger.queue_events` is {queue}"
            );
            let keys = ["trigger.queue_events", "trigger.network.latency_us", "trigger.network.max_rate_hz"];
            self.fail(
                ErrorKind::Conflict,
                &keys,
                found,
                "write a larger `queue_events`, or a lower `latency_us` or `max_rate_hz`",
            );
        }
        self.trigger_datagrams();
        let trigger = &self.config.trigger;
        let (payload, most) = (trigger.network.payload_maximum, self.config.max_fragment());
        if trigger.network.payload_source.is_some() && payload > most {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.network.payload_maximum_bytes", "readout.max_fragment_bytes"],
                format!("the payload of a trigger may have {payload}, but the largest fragment has {most}"),
                "raise `readout.max_fragment_bytes`, or lower `payload_maximum_bytes`",
            );
        }
    }

    /// Checks the limits of UDP.
    fn trigger_datagrams(&mut self) {
        let Config { trigger, transport, .. } = &self.config;
        if trigger.network.protocol != TriggerProtocol::Udp {
            return;
        }
        let (payload, most) = (trigger.network.payload_maximum.0, MAX_DATAGRAM_PAYLOAD_BYTES as u64);
        let is_unprotected = transport.tls.files().is_some() && transport.key_file.is_none();
        if trigger.network.payload_source.is_some() && payload > most {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.network.payload_maximum_bytes", "trigger.network.protocol"],
                format!("the payload of a trigger may have {payload} bytes, but a datagram takes {most}"),
                "lower `payload_maximum_bytes`, or write `protocol = \"tcp\"`",
            );
        }
        if is_unprotected {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.network.protocol", "transport.tls.certificate", "transport.key_file"],
                "`transport.tls` is set, but there is no TLS over UDP, and no key".into(),
                "set `transport.key_file`, or write `protocol = \"tcp\"`",
            );
        }
    }
}
