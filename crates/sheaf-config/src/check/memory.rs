//! Checks that each bound in bytes holds what it must.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::TransportKind;
use sheaf_wire::ByteCount;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;

impl Checker<'_> {
    pub(super) fn memory(&mut self) {
        let Config { source, readout, builder, manager, transport, protocol, output, .. } = self.config;
        if transport.kind.uses_tcp() {
            let peers = u64::from(readout.count) + u64::from(builder.count) + u64::from(output.nodes);
            let rails = u64::from(transport.rails);
            let blocks = (peers * rails + 2).saturating_mul(transport.block.0);
            let what = match rails {
                1 => format!("a block for each of up to {peers} peers and two more"),
                _ => format!("a block for each of {rails} rails to up to {peers} peers and two more"),
            };
            let keys = &["transport.block_bytes", "transport.rails", "readout.count", "builder.count"];
            self.holds("transport.receive_bytes", transport.receive, blocks, &what, keys);
        }
        if output.nodes > 0 {
            self.output_memory();
        }
        if transport.kind.shares_memory() {
            let blocks = transport.block.0.saturating_mul(2);
            let what = "two blocks of `transport.block_bytes`";
            self.holds("transport.shared_bytes", transport.shared, blocks, what, &["transport.block_bytes"]);
        }
        let message = protocol.message.0;
        let of_message = "a message of `protocol.message_bytes`";
        let key = &["protocol.message_bytes"];
        self.holds("transport.max_frame_bytes", transport.max_frame, message, of_message, key);
        let frame = transport.max_frame.0;
        let of_frame = "a frame of `transport.max_frame_bytes`";
        let key = &["transport.max_frame_bytes"];
        self.holds("transport.queue_bytes", transport.queue, frame, of_frame, key);
        self.holds(
            "source.memory_bytes",
            source.memory,
            2 * source.block.0,
            "two blocks of `source.block_bytes`",
            &["source.block_bytes"],
        );
        if let Some(expected) = manager.expected_event {
            let what = "an event of `manager.expected_event_bytes`";
            let key = &["manager.expected_event_bytes"];
            self.holds("builder.memory_bytes", builder.memory, expected.0, what, key);
        }
        if protocol.request_events < builder.slots {
            let found = format!(
                "`protocol.request_events` is {}, less than `builder.slots`, {}",
                protocol.request_events, builder.slots
            );
            self.fail(
                ErrorKind::Conflict,
                &["protocol.request_events", "builder.slots"],
                found,
                "a builder unit may request as many events at once as it has slots; readout units ignore those beyond the limit",
            );
        }
        if manager.batch_events > builder.slots {
            let found = format!(
                "`manager.batch_events` is {}, more than `builder.slots`, {}",
                manager.batch_events, builder.slots
            );
            self.fail(
                ErrorKind::Conflict,
                &["manager.batch_events", "builder.slots"],
                found,
                "a batch must fit into the slots of a builder unit",
            );
        }
        if let Some(largest) = readout.max_fragment {
            let what = "a fragment of `readout.max_fragment_bytes`";
            let key = &["readout.max_fragment_bytes"];
            self.holds("readout.buffer_bytes", readout.buffer, largest.0, what, key);
            let what = format!("{what}, with its head");
            self.holds("transport.max_frame_bytes", transport.max_frame, with_head(largest.0), &what, key);
        }
        if source.emulates_events() {
            self.emulated_memory(readout.buffer);
        }
    }

    /// An output node receives what builder units may have under way to it, also while an event of each is not whole.
    fn output_memory(&mut self) {
        let Config { builder, output, transport, protocol, .. } = self.config;
        // The filter's result for an event travels in the header of a message.
        let said = MAX_VERDICT_PAYLOAD_BYTES as u64;
        let what = "a message of `protocol.message_bytes` with the largest payload of a verdict";
        let key = &["protocol.message_bytes", "output.nodes"];
        self.holds("transport.max_frame_bytes", transport.max_frame, protocol.message.0 + said, what, key);
        if transport.kind == TransportKind::Memory || transport.kind == TransportKind::Shm {
            return;
        }
        let windows = u64::from(builder.count).saturating_mul(output.window.0);
        let what = format!("`output.window_bytes` for each of {} builder units", builder.count);
        let keys = &["output.window_bytes", "builder.count"];
        self.holds("transport.receive_bytes", transport.receive, windows, &what, keys);
    }

    /// Bounds that follow from the sizes of emulated fragments. With many sources it is never so that all fragments of
    /// an event have the greatest size; one has, and the others are of mean size.
    fn emulated_memory(&mut self, readout_buffer: ByteCount) {
        let Config { source, builder, transport, .. } = self.config;
        let mean = source.emulated.mean.0;
        let maximum = source.emulated.effective_maximum().0;
        let total = self.config.numbered_sources().len() as u64;
        let per_readout = self.config.most_sources_of_a_readout();
        let together = |sources: u64| sources.saturating_sub(1).saturating_mul(mean).saturating_add(maximum);
        let keys = &[
            "source.emulated.maximum_bytes",
            "source.emulated.mean_bytes",
            "source.emulated.rms_bytes",
            "source.count",
            "readout.count",
        ];
        let of_event = format!("an event of {total} fragments, one of them the largest");
        self.holds("builder.memory_bytes", builder.memory, together(total), &of_event, keys);
        let of_unit = format!("a super-fragment of {per_readout} fragments, one of them the largest");
        let unit = together(per_readout);
        self.holds("readout.buffer_bytes", readout_buffer, unit, &of_unit, keys);
        let of_frame = format!("{of_unit}, with its head");
        self.holds("transport.max_frame_bytes", transport.max_frame, with_head(unit), &of_frame, keys);
        if let Some(limit) = self.config.readout.max_fragment {
            let of_fragment = "the largest fragment that is emulated";
            self.holds("readout.max_fragment_bytes", limit, maximum, of_fragment, keys);
        }
        let of_source = "two fragments of the largest size";
        self.holds("source.memory_bytes", source.memory, maximum.saturating_mul(2), of_source, keys);
    }

    /// Reports that the bound `key` is below `needed`, which is `what`.
    pub(crate) fn holds(&mut self, key: &str, bound: ByteCount, needed: u64, what: &str, others: &[&str]) {
        if bound.0 >= needed {
            return;
        }
        let found = format!("{}, less than {what}, {needed} bytes", self.shown(key));
        let keys: Vec<&str> = std::iter::once(key).chain(others.iter().copied()).collect();
        self.fail(ErrorKind::TooSmall, &keys, found, format!("`{key}` must be at least {needed}"));
    }
}

/// The frame that payload of this size needs: heads take far less than the 16th part that [`Config::max_fragment`] leaves
/// them.
fn with_head(payload: u64) -> u64 {
    payload.saturating_add(payload / 15).saturating_add(16)
}
