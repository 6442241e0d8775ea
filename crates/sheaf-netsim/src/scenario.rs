//! Description of a run, as plain data. The file format belongs to `sheaf-netsim-scenarios`.

use crate::units::{Picos, Rate};
use std::path::PathBuf;

/// One run: no lists, no sweeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in tables and plots.
    pub name: String,
    /// The wiring.
    pub topology: Topology,
    /// Which endpoint sits at which place of the wiring.
    pub numbering: Numbering,
    /// Every link, unless the topology defines it otherwise.
    pub link: LinkModel,
    /// Switching of the switches.
    pub switching: Switching,
    /// Order of service.
    pub arbiter: Arbiter,
    /// Which of several ways is taken.
    pub routes: Routes,
    /// Model of the hosts.
    pub endpoint: EndpointModel,
    /// Traffic of the hosts.
    pub traffic: TrafficModel,
    /// Faults.
    pub faults: Vec<Fault>,
    /// When the run ends.
    pub length: RunLength,
    /// The engine.
    pub fidelity: Fidelity,
    /// Units of time and messages in the flit-level reference; the other fidelities ignore it.
    pub flits: FlitModel,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A wiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One switch with `ports` inputs and outputs.
    Crossbar {
        /// Inputs, and as many outputs.
        ports: u32,
    },
    /// `stages` layers of `radix` x `radix` switches (Banyan): `radix^stages` ports, one way from input to output.
    Delta {
        /// Inputs and outputs of one switch.
        radix: u32,
        /// Layers.
        stages: u32,
        /// Which digit of the destination each layer resolves.
        digits: DigitOrder,
    },
    /// `layers` layers (even) of `radix` x `radix` switches: free layers that spread, then their mirror image that
    /// resolves the destination. 4 layers of 8x8: 64 ... 512 ports with 8 routes; 6 layers: 64 routes, or 512 with the
    /// middle doubled.
    Layered {
        /// Inputs and outputs of one switch.
        radix: u32,
        /// Layers that resolve the destination: `radix^stages` ports.
        stages: u32,
        /// Layers that spread, before them; at most `stages`. Routes: `radix^spreading`.
        spreading: u32,
    },
    /// Three stages: `leaves` first and last switches of `ports` inputs, `middles` switches between.
    Clos {
        /// Input switches, and as many output switches.
        leaves: u32,
        /// Endpoints of one leaf.
        ports: u32,
        /// Middle switches: routes.
        middles: u32,
    },
    /// Leaves whose cables go up to spines and come back: `leaves` x `ports` endpoints.
    FoldedClos {
        /// Leaves.
        leaves: u32,
        /// Endpoints of one leaf.
        ports: u32,
        /// Spines.
        spines: u32,
        /// Cables from each leaf to each spine.
        uplinks: u32,
        /// Rate of these cables where it differs from the endpoints'.
        uplink_rate: Option<Rate>,
    },
    /// Two rows of Clos units: `units` boxes in each row, each box a folded Clos of its own (Clos-128: 16 leaves of 8
    /// ports, 8 spines), each lower box joined to each upper box by `trunks` cables.
    ClosOfClos {
        /// Boxes in each row.
        units: u32,
        /// Leaves of one box.
        leaves: u32,
        /// Ports of one leaf that lead out of the box.
        ports: u32,
        /// Spines of one box.
        spines: u32,
        /// Endpoints of one lower box; its other outer ports lead to the upper row.
        endpoints: u32,
    },
    /// A chassis: `slots` line cards of `ports` endpoints behind a backplane. Inside a slot the card switches alone.
    Chassis {
        /// Line cards.
        slots: u32,
        /// Endpoints of one card.
        ports: u32,
        /// Rate between one card and the backplane, each way.
        backplane: Rate,
    },
    /// From a table in a file: see `sheaf-netsim-scenarios` for the format.
    Table(Box<TableTopology>),
}

/// A wiring that a file lists link by link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTopology {
    /// The file.
    pub file: PathBuf,
    /// Number of endpoints.
    pub endpoints: u32,
    /// Number of switches.
    pub switches: u32,
    /// Directed links: from, to, and rate where it differs.
    pub links: Vec<TableLink>,
}

/// A link of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLink {
    /// Sender.
    pub from: crate::network::LinkEnd,
    /// Receiver.
    pub to: crate::network::LinkEnd,
    /// Rate, where it differs from the scenario's.
    pub rate: Option<Rate>,
}

/// Which digit of the destination a layer of a delta network resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigitOrder {
    /// The most significant first (omega, butterfly): passes every cyclic shift without conflict.
    MostFirst,
    /// The least significant first.
    LeastFirst,
    /// As listed: digit numbers from the first layer on, 0 the least significant.
    Listed(Vec<u32>),
}

/// Which endpoint sits at which place of the wiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// In order.
    Identity,
    /// With the digits of the number in reverse.
    DigitReversed,
    /// By chance, from this seed.
    Shuffled(u64),
    /// As listed: the place of endpoint 0, of endpoint 1, ...
    Listed(Vec<u32>),
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Rate of a link.
    pub rate: Rate,
    /// Delay of a byte through cable and switch.
    pub delay: Picos,
    /// Bytes on the wire per frame that are not payload.
    pub frame_overhead: u32,
    /// The largest payload of a frame; larger messages are cut. `None`: one message, one frame.
    pub frame_payload: Option<u32>,
}

/// Switching of the switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switching {
    /// A message holds its whole chain of links while it passes; a blocked one stays where it is.
    Wormhole {
        /// Bytes of a blocked message that one switch input holds. 0: the limit of messages much longer than buffers.
        buffer_bytes: u32,
    },
    /// A message is forwarded as soon as its head has arrived and the next buffer has room for all of it.
    CutThrough {
        /// Messages that one switch input holds.
        buffer_messages: u32,
        /// Delay until freed room is known upstream.
        credit_delay: Picos,
    },
    /// A message is forwarded when all of it has arrived.
    StoreAndForward {
        /// Messages that one switch input holds.
        buffer_messages: u32,
        /// Delay until freed room is known upstream.
        credit_delay: Picos,
    },
    /// Input queues of fixed-size messages in a slotted switch.
    InputQueued {
        /// Messages that an input may send out of its queue.
        queue: InputQueue,
        /// Messages that one input holds; `None`: no bound.
        buffer_messages: Option<u32>,
        /// Messages that one output takes in one slot, into a queue of its own; 1: none.
        speed_up: u32,
    },
    /// Slotted, no buffers: of several messages for one output one passes and the others are lost (Patel 1981).
    Unbuffered,
    /// Slotted, `buffer_messages` at each input of each stage, room is seen in the same slot (Jenq 1983).
    SlottedBuffered {
        /// Messages that one switch input holds.
        buffer_messages: u32,
    },
    /// Each output has a queue that all inputs reach at once; messages that do not fit are lost, or stopped by pause
    /// frames.
    OutputQueued {
        /// Capacity of one output, in bytes; `None`: no bound.
        buffer_bytes: Option<u64>,
        /// Behaviour when it is full.
        full: WhenFull,
    },
    /// One memory for all outputs of a switch.
    SharedMemory {
        /// All of it, in bytes.
        buffer_bytes: u64,
        /// Maximum that one output may take of it.
        output_bytes: u64,
        /// Behaviour when it is full.
        full: WhenFull,
    },
}

/// Messages that an input may send out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputQueue {
    /// The first only.
    Fifo,
    /// One of the first `0` messages (Hluchyj and Karol 1988).
    Window(u32),
    /// Virtual output queues, matched by iSLIP with this number of iterations (McKeown 1999).
    VirtualOutput(u32),
}

/// Behaviour of a full buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The message is lost (tail drop).
    Drop,
    /// The sender upstream is paused until there is room.
    Pause,
}

/// Which of several waiting inputs gets an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// By chance.
    Random,
    /// In turn.
    RoundRobin,
    /// The one that has waited longest.
    FirstCome,
    /// The lowest number.
    Priority,
}

/// Which of several ways a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routes {
    /// By a hash of source and destination: always the same.
    Hash,
    /// By chance, for each message.
    Random,
    /// Each source uses the ways in turn.
    Cyclic,
    /// By the source's digit ("straight").
    SourceDigit,
    /// By the destination's digit (D-mod-k).
    DestinationDigit,
    /// By chance one that is free; by chance any where none is.
    Adaptive,
}

/// A host and its network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointModel {
    /// Idle time of the sending link after each message: processor, DMA set-up, driver.
    pub overhead: Picos,
    /// From hand-over to the first byte on the link.
    pub start: Picos,
    /// Memory or bus limit: sent and received bytes together; `None`: no limit.
    pub bus: Option<Rate>,
    /// Links of each endpoint.
    pub rails: u32,
    /// Number of messages that the network interface holds; more than one only with look-ahead.
    pub queue_messages: u32,
    /// Whether the interface may send a later message when the first is blocked (virtual output queues).
    pub look_ahead: bool,
}

impl Default for EndpointModel {
    /// A host that costs nothing: one link, one message at a time.
    fn default() -> Self {
        Self {
            overhead: Picos::ZERO,
            start: Picos::ZERO,
            bus: None,
            rails: 1,
            queue_messages: 1,
            look_ahead: false,
        }
    }
}

/// Traffic of the hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficModel {
    /// Independent destinations, all equally likely.
    Random {
        /// Message sizes.
        size: SizeModel,
        /// Offered load as a fraction of the link rate; 1: always something to send.
        load: f64,
    },
    /// All sources send their fragments of the same events, as soon as they may.
    Push(EventTraffic, Window),
    /// Builders ask for events; sources answer.
    Pull {
        /// Sources, builders, sizes.
        events: EventTraffic,
        /// Events that one builder has asked for and not got.
        outstanding: u32,
        /// Bytes that one builder has asked for and not got; `None`: no bound. "Credit" of the documents.
        credit_bytes: Option<u64>,
        /// Size of a request.
        request_bytes: u32,
    },
    /// Time slots with mutually exclusive destinations.
    Barrel(EventTraffic, BarrelShifter),
    /// Sizes of a recorded run, sent like `Push`.
    Replay {
        /// Fragment sizes in bytes: one row for each event, one column for each source.
        events: Vec<Vec<u32>>,
        /// Sources and builders.
        traffic: EventTraffic,
        /// Events in flight.
        window: Window,
    },
    /// The machines of `sheaf-protocol`.
    Roles(RolesTraffic),
}

/// Parameters that all event-building traffic shares.
#[derive(Clone, Debug, PartialEq)]
pub struct EventTraffic {
    /// Placement of sources and builders.
    pub placement: Placement,
    /// Fragment sizes.
    pub size: SizeModel,
    /// Correlation of one event's sizes in different sources: 0 independent, 1 all the same.
    pub correlation: f64,
    /// Assignment of events to builders.
    pub assignment: Assignment,
    /// Events per second; `None`: as many as the network takes.
    pub event_rate: Option<f64>,
}

/// Events in flight with push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Events that may be begun and not complete, at most.
    pub events: u32,
}

/// Which endpoints are sources and which builders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Every endpoint is both.
    Both,
    /// The first `readouts` endpoints are sources, the next `builders` are builders.
    Apart {
        /// Sources.
        readouts: u32,
        /// Builders.
        builders: u32,
    },
    /// On each leaf, slot or unit of `group` endpoints the first `readouts` are sources and the next `builders`
    /// builders: traffic between a source and a builder of one group stays inside it.
    Grouped {
        /// Endpoints of a group.
        group: u32,
        /// Sources of a group.
        readouts: u32,
        /// Builders of a group.
        builders: u32,
        /// Whether an event's fragments only come from the sources of the builder's own group (the document's BigIron
        /// placement).
        stay_inside: bool,
    },
    /// As listed.
    Listed {
        /// Endpoints that are sources.
        readouts: Vec<u32>,
        /// Endpoints that are builders.
        builders: Vec<u32>,
    },
}

/// Assignment of events to builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Builders in turn.
    RoundRobin,
    /// By chance.
    Random,
    /// The builder with the fewest unfinished events.
    LeastLoaded,
}

/// Message or fragment sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeModel {
    /// Always the same.
    Fixed(u32),
    /// Evenly between two sizes.
    Uniform(u32, u32),
    /// Exponential with this mean.
    Exponential(f64),
    /// Log-normal with this mean and standard deviation.
    LogNormal {
        /// Mean.
        mean: f64,
        /// Standard deviation ("rms" in the documents).
        rms: f64,
    },
    /// Normal, cut at one byte, with this mean and standard deviation.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        rms: f64,
    },
}

/// A barrel shifter: in slot *t* source *s* sends to builder *(s + t) mod n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrelShifter {
    /// Duration of a slot. `None`: free-running, each source continues when its block has left.
    pub slot: Option<Picos>,
    /// Bytes of one block. Fragments are packed into blocks and cut at their ends; 0: one fragment, one block.
    pub block_bytes: u32,
    /// Idle time at the end of each slot.
    pub guard: Picos,
    /// Sources start by chance within this time of one another.
    pub start_skew: Picos,
    /// Clocks of sources differ by this many parts per million at most.
    pub clock_ppm: u32,
    /// Whether all sources wait for one another at the end of each turn.
    pub synchronised: bool,
}

/// The machines of `sheaf-protocol` as endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct RolesTraffic {
    /// Placement of the nodes; the event manager has an endpoint of its own only if `control` is `None`.
    pub placement: Placement,
    /// Fragment sizes.
    pub size: SizeModel,
    /// Events to trigger in all.
    pub events: u64,
    /// Triggers per second; `None`: as many as are taken.
    pub event_rate: Option<f64>,
    /// Event slots of a builder unit.
    pub slots: u32,
    /// Shaping of super-fragments to the builder units.
    pub shaping: RolesShaping,
    /// Payload of a message of super-fragments at most; one super-fragment may be larger.
    pub message_bytes: u32,
    /// One-way time of a control network of its own, for everything but fragments; `None`: control shares the links.
    pub control: Option<Picos>,
}

/// Shaping of the roles' super-fragments to the builder units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolesShaping {
    /// Builder units ask every readout unit at once for all that they are given.
    #[default]
    Pull,
    /// Builder units ask readout units in turn.
    Paced {
        /// Bytes in flight to one builder unit at most.
        credit_bytes: u64,
    },
    /// Readout units send unasked.
    Push,
    /// Readout units send in the slots of a barrel shifter.
    Barrel {
        /// Bytes that a slot carries; also the maximum of a message.
        block_bytes: u32,
        /// Between two slots nothing is sent for this time.
        guard: Picos,
        /// Slots begin by the event manager's clock.
        synchronised: bool,
        /// Bytes in flight to one builder unit while the barrel stands.
        credit_bytes: u64,
    },
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub from: Picos,
    /// Until when; `None`: for good.
    pub until: Option<Picos>,
    /// The fault.
    pub what: FaultKind,
}

/// Kind of a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A link carries nothing: number of the link in the compiled network.
    LinkDead(u32),
    /// A switch carries nothing.
    SwitchDead(u32),
    /// An endpoint receives at this fraction of its rate (the document's slow builder: 0.5).
    SlowReceiver {
        /// The endpoint.
        endpoint: u32,
        /// 0 < factor < 1.
        factor: f64,
    },
    /// Each frame is lost with this probability.
    FrameLoss(f64),
    /// The machines of an endpoint stop without notice, and come back with a new session. The network does not notice:
    /// only [`TrafficModel::Roles`] has machines.
    HostDead(u32),
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// After this simulated time.
    Time(Picos),
    /// After this number of delivered messages per sender (with output queues: delivered or lost).
    MessagesPerSender(u64),
    /// After this number of complete events (with output queues: complete or not).
    Events(u64),
}

/// The engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fidelity {
    /// Closed formulas: bounds, and exact results where theory has them.
    Analytic,
    /// Messages that hold links and buffers, event driven.
    Message,
    /// Flits and clock cycles: the reference.
    Flit,
}

/// Division of messages into flits in the flit-level reference, and the parameters that a clock-driven switch adds to
/// the other models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlitModel {
    /// Bytes of one flit, the amount that a link moves in one clock cycle. `None`: chosen so that a message and a
    /// buffer are whole, small numbers of flits.
    pub flit_bytes: Option<u32>,
    /// Clock cycles from the departure of a flit until its room can be used by the sender upstream; at least 1. Buffers
    /// below `1 + credit_cycles` flits cannot keep a link busy.
    pub credit_cycles: u32,
    /// Lanes (virtual channels) of each link, each with a buffer of its own.
    pub lanes: u32,
}

impl Default for FlitModel {
    /// One lane, room known in the next cycle.
    fn default() -> Self {
        Self { flit_bytes: None, credit_cycles: 1, lanes: 1 }
    }
}
