//! Consumers at a builder's door: the door outlives the sessions of its builder, and every accepted event passes by it on its
//! way to the output.

use crate::plan::Plan;
use anyhow::Context;
use bytes::Bytes;
use sheaf_node::sink::{EventSink, SinkError, Taken};
use sheaf_protocol::Identity;
use sheaf_protocol::sampler::Bounds;
use sheaf_tap::address::in_directory;
use sheaf_tap::door::{Closing, Door, DoorCounts, DoorError, DoorOptions, Feed};
use sheaf_telemetry::log_as;
use sheaf_wire::event_file::FileHeader;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{ByteRate, Event, EventId, Nanos, NodeId, SourceId, Timestamp, Verdict};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The doors of this process that close, whose counts the summary asks for.
pub(crate) type ClosingDoors = Arc<Mutex<Vec<Closing>>>;

/// Returns the final counts of this process's doors, once all are closed.
pub(crate) fn counts(doors: &ClosingDoors) -> Vec<DoorCounts> {
    let closing = std::mem::take(&mut *doors.lock().unwrap_or_else(PoisonError::into_inner));
    closing.into_iter().map(Closing::wait).collect()
}

/// The door of one builder: open while any of its sessions lasts, and between them.
#[derive(Clone, Debug)]
pub(crate) struct BuilderDoor(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    feed: Mutex<Option<Feed>>,
    closed: ClosingDoors,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(feed) = self.feed.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            self.closed.lock().unwrap_or_else(PoisonError::into_inner).push(feed.close());
        }
    }
}

impl BuilderDoor {
    /// Opens the door of a builder if the configuration has one. If it cannot be opened, the reason is logged and the run
    /// takes data without it.
    pub(crate) fn open(
        plan: &Plan,
        me: &Identity,
        directory: Option<&Path>,
        closed: &ClosingDoors,
    ) -> Option<Self> {
        let options = options(plan, me.node, directory)?;
        let name = plan.full_name(me.node);
        match open(plan, me, options) {
            Ok(feed) => {
                for error in feed.closed_sockets() {
                    log_as!(
                        CONSUMERS_UNAVAILABLE, node = name;
                        "{name}: {error}; consumers can still join at the other socket"
                    );
                }
                Some(Self(Arc::new(Slot { feed: Mutex::new(Some(feed)), closed: closed.clone() })))
            }
            Err(error) => {
                log_as!(
                    CONSUMERS_UNAVAILABLE, node = name;
                    "{name}: consumers cannot join this run: {error}"
                );
                None
            }
        }
    }

    /// Returns the output of a session of the builder, extended with the door.
    pub(crate) fn beside(&self, sink: Box<dyn EventSink>) -> Box<dyn EventSink> {
        let feed = self.0.feed.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::new(WatchedSink { sink, feed, door: self.clone(), now: Timestamp(0), refused: None })
    }
}

/// An output whose events consumers can watch.
struct WatchedSink {
    sink: Box<dyn EventSink>,
    /// Taken from the door for the time of a session, so that an event meets no lock.
    feed: Option<Feed>,
    door: BuilderDoor,
    /// The time of the last round.
    now: Timestamp,
    /// An event that was shown and that the output did not take: it comes again.
    refused: Option<EventId>,
}

impl WatchedSink {
    /// Shows an event that consumers have not seen.
    fn show(&mut self, event: &Event<Bytes>, verdict: &Verdict) {
        let is_new = self.refused.take() != Some(event.id);
        if let Some(feed) = &mut self.feed
            && is_new
        {
            feed.see(self.now, event, verdict);
        }
    }
}

impl EventSink for WatchedSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.show(event, verdict);
        self.sink.write(event, verdict).inspect_err(|_| self.refused = Some(event.id))
    }

    fn give(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.show(event, verdict);
        self.sink.give(event, verdict).inspect_err(|_| self.refused = Some(event.id))
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        self.sink.record(record)
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        self.now = now;
        if let Some(feed) = &mut self.feed {
            feed.tend();
        }
        self.sink.end_batch(now)
    }

    fn press(&mut self) {
        self.sink.press();
    }

    fn has_room(&self) -> bool {
        self.sink.has_room()
    }

    fn stored(&self) -> u64 {
        self.sink.stored()
    }

    fn due(&self) -> Timestamp {
        self.sink.due()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.sink.counters()
    }
}

impl Drop for WatchedSink {
    fn drop(&mut self) {
        *self.door.0.feed.lock().unwrap_or_else(PoisonError::into_inner) = self.feed.take();
    }
}

fn open(plan: &Plan, me: &Identity, options: DoorOptions) -> Result<Feed, DoorError> {
    let created = Timestamp(me.session.0);
    let header = FileHeader {
        run: me.run,
        node: me.node,
        session: me.session,
        part: 0,
        created,
        time_base: plan.time_base,
    };
    let mut metadata = plan.file_metadata();
    let mut sources: Vec<SourceId> =
        plan.nodes.iter().flat_map(|node| node.sources.iter().copied()).collect();
    sources.sort_unstable();
    if let Some(object) = metadata.as_object_mut() {
        let list = sources.iter().map(|source| source.0).collect::<Vec<_>>();
        object.insert("sources".to_owned(), list.into());
    }
    Door::new(options).open(&header, &metadata.to_string())
}

/// Returns the configured options of a builder's door, or `None` if it has no door.
fn options(plan: &Plan, node: NodeId, directory: Option<&Path>) -> Option<DoorOptions> {
    let knobs = &plan.config.consumers;
    let directory = knobs.directory.as_deref().or(directory);
    let listen = knobs.listen.as_deref().and_then(|address| match port_of(address, node.index) {
        Ok(address) => Some(address),
        Err(error) => {
            log_as!(
                CONSUMERS_UNAVAILABLE, node = node;
                "{}: consumers.listen = {address:?}: {error}", plan.full_name(node)
            );
            None
        }
    });
    if !knobs.open || (directory.is_none() && listen.is_none()) {
        return None;
    }
    let key = plan.key_of_guests();
    if let Some(address) = listen.filter(|address| key.is_none() && !address.ip().is_loopback()) {
        log_as!(
            OPEN_TO_STRANGERS, node = node;
            "{}: anyone who can reach {address} receives accepted events of this run; set `transport.key_file` unless the network is private",
            plan.full_name(node)
        );
    }
    Some(DoorOptions {
        socket: directory.map(|directory| in_directory(directory, node)),
        listen,
        key,
        consumers: knobs.consumers as usize,
        bounds: Bounds {
            queue_events: u64::from(knobs.queue_events),
            queue_bytes: knobs.queue,
            interval: knobs.rate_hz.map_or(Nanos::ZERO, interval),
            copy_rate: knobs.copy.and_then(|bytes| ByteRate::new(bytes.0)),
        },
        greeting: knobs.greeting.to_std(),
        patience: knobs.patience.to_std(),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to an integer saturates"
)]
fn interval(rate_hz: f64) -> Nanos {
    Nanos((1e9 / rate_hz) as u64)
}

/// Returns the address with the port of a node: the port of the configuration plus the node's index.
pub(crate) fn port_of(address: &str, node: u16) -> anyhow::Result<SocketAddr> {
    let mut address = address.to_socket_addrs()?.next().context("the name has no address")?;
    let port = address.port().checked_add(node).context("the port of the node exceeds 65535")?;
    address.set_port(port);
    Ok(address)
}
