//! Every key of a scenario file, once: parser, range check, error texts and reference page come from this list.

use super::schema::{Key, Standard, Table};
use super::value::{Shape, Value};

/// The tables, in the order of the reference page.
pub(super) const TABLES: &[Table] = &[
    Table { name: "", meaning: "Name of the scenario, and general settings." },
    Table { name: "topology", meaning: "How switches and endpoints are wired." },
    Table { name: "numbering", meaning: "Which endpoint sits at which place of the wiring." },
    Table { name: "link", meaning: "Every cable, unless the topology sets it." },
    Table { name: "switching", meaning: "What switches do with messages that want the same output." },
    Table { name: "endpoint", meaning: "Hosts and their network interfaces." },
    Table { name: "traffic", meaning: "What hosts send." },
    Table {
        name: "placement",
        meaning: "Which endpoints are sources and which builders, for traffic that builds events.",
    },
    Table { name: "run", meaning: "When the run ends. One of the keys, or none: 2000 messages a sender." },
    Table {
        name: "flits",
        meaning: "How the flit-level reference (`fidelity = \"flit\"`) cuts time and messages.",
    },
    Table { name: "fault", meaning: "Something that breaks: one `[[fault]]` table for each." },
];

/// No network is larger: numbers of ports, of switches in a row, and the like.
const MANY: u64 = 65_536;
/// No message is larger: 1 GiB.
const GIB: u64 = 1 << 30;
/// The longest time that a key may give, in its unit; 10^12 ns are 17 minutes.
const LONG: f64 = 1e12;
/// A Tbit/s and more, in Gbit/s.
const FAST: f64 = 100_000.0;

/// Writes the list without a line for each argument.
macro_rules! keys {
    ($($table:literal $name:literal: $shape:expr, $standard:expr, $only:expr, $meaning:literal;)*) => {
        &[$(Key {
            table: $table,
            name: $name,
            shape: $shape,
            standard: $standard,
            only: $only,
            meaning: $meaning,
        },)*]
    };
}

const fn whole(number: u64) -> Standard {
    Standard::Is(Value::Whole(number))
}

const fn number(number: f64) -> Standard {
    Standard::Is(Value::Number(number))
}

const fn word(word: &'static str) -> Standard {
    Standard::Is(Value::Word(word))
}

const fn switch(on: bool) -> Standard {
    Standard::Is(Value::Switch(on))
}

const COUNT: Shape = Shape::Whole(1, MANY);
const BYTES: Shape = Shape::Whole(1, GIB);
const BYTES_OR_NONE: Shape = Shape::Whole(0, 1 << 40);
const TIME: Shape = Shape::Number(0.0, LONG);

/// Traffic that builds events from fragments of given sizes.
const EVENTS: &[&str] = &["push", "pull", "barrel"];

const FIDELITIES: Shape = Shape::Word(&[
    ("analytic", "closed formulas: exact where theory is, else bounds"),
    ("message", "event driven: messages that hold links and buffers"),
    ("flit", "clock driven: every flit and buffer; the reference, and slow"),
    ("all", "each of the three that can, one after the other, for comparison"),
]);

const TOPOLOGIES: Shape = Shape::Word(&[
    ("crossbar", "one switch"),
    ("delta", "layers of square switches, one way from input to output (Banyan): `radix^stages` ports"),
    ("layered", "layers that spread, then layers that resolve the destination; `radix^spreading` routes"),
    ("clos", "three stages that go one way: leaves, middles, leaves"),
    ("folded_clos", "leaves and spines"),
    ("clos_of_clos", "two rows of boxes, each of them a folded Clos"),
    ("chassis", "line cards behind a backplane"),
    ("table", "link by link, from a file"),
]);

const SWITCHINGS: Shape = Shape::Word(&[
    ("wormhole", "a message holds its whole chain of links while it passes"),
    (
        "cut_through",
        "a message is forwarded as soon as its head has arrived and the next buffer has room for all of it",
    ),
    ("store_and_forward", "a message is forwarded when it has arrived completely"),
    ("input_queued", "a slotted crossbar with queues at its inputs"),
    ("unbuffered", "slotted; of several messages for one output one passes, the others are lost"),
    ("slotted_buffered", "slotted, with a few messages at each input of each stage"),
    ("output_queued", "each output has a queue that all inputs reach"),
    ("shared_memory", "one memory for all outputs of a switch"),
]);

const QUEUES: Shape = Shape::Word(&[
    ("fifo", "the first message only"),
    ("window", "one of the first `window` messages"),
    ("virtual_output", "a queue for each output, matched by iSLIP"),
]);

const FULL: Shape = Shape::Word(&[
    ("drop", "the message is lost"),
    ("pause", "the sender upstream waits until there is room"),
]);

const ARBITERS: Shape = Shape::Word(&[
    ("random", "by chance"),
    ("round_robin", "in turn"),
    ("first_come", "the one that has waited longest"),
    ("priority", "the lowest number"),
]);

const ROUTES: Shape = Shape::Word(&[
    ("hash", "by a hash of source and destination: always the same"),
    ("random", "by chance, for each message"),
    ("cyclic", "each source uses its ways in turn"),
    ("source_digit", "by the source's digit (straight)"),
    ("destination_digit", "by the destination's digit (D-mod-k)"),
    ("adaptive", "by chance one that is free, else any"),
]);

const TRAFFICS: Shape = Shape::Word(&[
    ("random", "independent destinations, all equally likely"),
    ("push", "all sources send their fragments of the same events, as soon as they may"),
    ("pull", "builders ask for events, sources answer"),
    ("barrel", "time slots with mutually exclusive destinations (barrel shifter)"),
    ("replay", "fragment sizes of a recording, sent like `push`"),
    ("roles", "the machines of Sheaf's own protocol"),
]);

const SIZES: Shape = Shape::Word(&[
    ("fixed", "always `bytes`"),
    ("uniform", "evenly from `min_bytes` to `max_bytes`"),
    ("exponential", "with mean `bytes`"),
    ("log_normal", "with mean `bytes` and standard deviation `rms_bytes`"),
    ("normal", "with mean `bytes` and standard deviation `rms_bytes`, cut at one byte"),
]);

const ASSIGNMENTS: Shape = Shape::Word(&[
    ("round_robin", "builders in turn"),
    ("random", "by chance"),
    ("least_loaded", "the builder with the fewest unfinished events"),
]);

const SHAPINGS: Shape = Shape::Word(&[
    ("pull", "builder units ask every readout unit at once"),
    ("paced", "builder units ask readout units in turn, for `credit_bytes` at most"),
    ("push", "readout units send unasked"),
    ("barrel", "readout units send in turn, in time slots in which each has another builder unit"),
]);

const PLACEMENTS: Shape = Shape::Word(&[
    ("both", "every endpoint is both"),
    ("apart", "first the sources, then the builders"),
    ("grouped", "in each group of endpoints first sources, then builders"),
    ("listed", "as listed"),
]);

const NUMBERINGS: Shape = Shape::Word(&[
    ("identity", "in order"),
    ("digit_reversed", "with the digits of the number in reverse"),
    ("shuffled", "by chance"),
    ("listed", "as listed"),
]);

const DIGITS: Shape = Shape::Word(&[
    ("most_first", "the most significant first (omega): passes every cyclic shift without conflict"),
    ("least_first", "the least significant first"),
    ("listed", "as listed in `digit_list`"),
]);

const FAULTS: Shape = Shape::Word(&[
    ("link_dead", "a link carries nothing"),
    ("switch_dead", "a switch carries nothing"),
    ("slow_receiver", "an endpoint receives at a fraction of its rate"),
    ("frame_loss", "each frame is lost with some probability"),
    (
        "host_dead",
        "the machines of an endpoint stop, and come back in a new life; for traffic.kind = \"roles\"",
    ),
]);

const LEAVED: &[&str] = &["clos", "folded_clos", "clos_of_clos"];
const HAVE_PORTS: &[&str] = &["crossbar", "clos", "folded_clos", "clos_of_clos", "chassis"];
const SQUARE: &[&str] = &["delta", "layered"];
const CREDITED: &[&str] = &["cut_through", "store_and_forward"];
const COUNTED: &[&str] = &["cut_through", "store_and_forward", "input_queued", "slotted_buffered"];
const QUEUED: &[&str] = &["output_queued", "shared_memory"];
const MEASURED: &[&str] = &["wormhole", "output_queued", "shared_memory"];

/// All keys, in the order of the reference page.
pub(super) const KEYS: &[Key] = keys! {
    "" "name": Shape::Text, Standard::Unset, &[], "How tables and plots call it; the file's name where not set.";
    "" "about": Shape::Text, Standard::Unset, &[], "What it shows, in a sentence, for `sheaf sim --list`.";
    "" "seed": Shape::Whole(0, i64::MAX as u64), whole(1), &[],
        "What all chance comes from. A list of seeds is not a curve but a repetition: means and error bars.";
    "" "fidelity": FIDELITIES, word("message"), &[], "Who simulates it.";

    "topology" "kind": TOPOLOGIES, Standard::Required, &[], "The wiring.";
    "topology" "ports": COUNT, Standard::Required, HAVE_PORTS,
        "Endpoints: of the crossbar, of one leaf, of one line card. With `clos_of_clos`: of one leaf, those that lead \
         out of the box.";
    "topology" "radix": Shape::Whole(2, 1024), Standard::Required, SQUARE, "Inputs, and outputs, of one switch.";
    "topology" "stages": Shape::Whole(1, 16), Standard::Required, SQUARE,
        "Layers that resolve the destination: `radix^stages` ports.";
    "topology" "spreading": Shape::Whole(0, 15), Standard::Required, &["layered"],
        "Layers before them that only spread; at most `stages`.";
    "topology" "digits": DIGITS, word("most_first"), &["delta"],
        "Which digit of the destination each layer resolves.";
    "topology" "digit_list": Shape::Wholes(16), Standard::Required, &["delta"],
        "With `digits = \"listed\"`: digit numbers from the first layer on; 0 is the least significant.";
    "topology" "leaves": COUNT, Standard::Required, LEAVED,
        "Leaf switches; with `clos` as many at either side, with `clos_of_clos` those of one box.";
    "topology" "middles": COUNT, Standard::Required, &["clos"], "Switches of the middle stage: routes.";
    "topology" "spines": COUNT, Standard::Required, &["folded_clos", "clos_of_clos"],
        "Spine switches; with `clos_of_clos` those of one box.";
    "topology" "uplinks": COUNT, whole(1), &["folded_clos"], "Cables from each leaf to each spine.";
    "topology" "uplink_gbps": Shape::Number(1e-6, FAST), Standard::Unset, &["folded_clos"],
        "Rate of these cables, in Gbit/s; that of the other links where not set.";
    "topology" "units": COUNT, Standard::Required, &["clos_of_clos"], "Boxes in each of the two rows.";
    "topology" "endpoints": COUNT, Standard::Required, &["clos_of_clos"],
        "Endpoints of one box of the lower row; its other outer ports lead to the upper row.";
    "topology" "slots": COUNT, Standard::Required, &["chassis"], "Line cards.";
    "topology" "backplane_gbps": Shape::Number(1e-6, FAST), Standard::Required, &["chassis"],
        "Rate between one card and the backplane, each way, in Gbit/s.";
    "topology" "file": Shape::Text, Standard::Required, &["table"],
        "The file with the links, from the directory of the scenario: see below.";

    "numbering" "kind": NUMBERINGS, word("identity"), &[], "Which endpoint sits at which place.";
    "numbering" "seed": Shape::Whole(0, i64::MAX as u64), whole(1), &["shuffled"], "What the chance comes from.";
    "numbering" "places": Shape::Wholes(MANY), Standard::Required, &["listed"],
        "The place of endpoint 0, of endpoint 1, ...";

    "link" "rate_gbps": Shape::Number(1e-6, FAST), number(100.0), &[], "How fast, in Gbit/s.";
    "link" "delay_ns": TIME, number(0.0), &[], "How long a byte is on the way through cable and switch, in ns.";
    "link" "frame_overhead_bytes": Shape::Whole(0, 65_536), whole(0), &[],
        "Bytes on the wire for each frame that are not payload; Ethernet: 38.";
    "link" "frame_payload_bytes": Shape::Whole(0, GIB), whole(0), &[],
        "The largest payload of a frame; larger messages are cut. 0: one message, one frame.";

    "switching" "kind": SWITCHINGS, word("wormhole"), &[], "What switches do.";
    "switching" "buffer_bytes": BYTES_OR_NONE, whole(0), MEASURED,
        "What a switch input holds of a blocked message (`wormhole`; 0: the limit of messages much longer than \
         buffers), what an output holds (`output_queued`; 0: no bound), all of the memory (`shared_memory`).";
    "switching" "buffer_messages": Shape::Whole(1, MANY), Standard::Unset, COUNTED,
        "Messages that one switch input holds. Not set: 1; with `input_queued` no bound.";
    "switching" "credit_delay_ns": TIME, number(0.0), CREDITED,
        "How long freed room takes to be known upstream, in ns.";
    "switching" "queue": QUEUES, word("fifo"), &["input_queued"], "What an input may send out of its queue.";
    "switching" "window": Shape::Whole(1, 1024), whole(2), &["input_queued"],
        "With `queue = \"window\"`: messages that the look-ahead sees.";
    "switching" "iterations": Shape::Whole(1, 64), whole(1), &["input_queued"],
        "With `queue = \"virtual_output\"`: iterations of iSLIP.";
    "switching" "speed_up": Shape::Whole(1, 64), whole(1), &["input_queued"],
        "Messages that one output takes in one slot.";
    "switching" "output_bytes": Shape::Whole(0, 1 << 40), whole(0), &["shared_memory"],
        "What one output may take of the memory; 0: all.";
    "switching" "full": FULL, word("drop"), QUEUED, "What a full buffer does.";
    "switching" "arbiter": ARBITERS, word("random"), &[], "Selection among several inputs that wait for an output.";
    "switching" "routes": ROUTES, word("destination_digit"), &[], "Which of several ways a message takes.";

    "endpoint" "overhead_ns": TIME, number(0.0), &[],
        "Idle time of the sending link after each message: processor, DMA set-up, driver; in ns.";
    "endpoint" "start_ns": TIME, number(0.0), &[], "From hand-over to the first byte on the link, in ns.";
    "endpoint" "bus_gbps": Shape::Number(0.0, FAST), number(0.0), &[],
        "Memory or bus limit: sent and received together, in Gbit/s. 0: none.";
    "endpoint" "rails": Shape::Whole(1, 16), whole(1), &[], "Links of each endpoint.";
    "endpoint" "queue_messages": Shape::Whole(1, MANY), whole(1), &[],
        "Messages that the network interface holds; more than one only helps with `look_ahead`.";
    "endpoint" "look_ahead": Shape::Switch, switch(false), &[],
        "Whether the interface may send a later message when the first is blocked.";

    "traffic" "kind": TRAFFICS, word("random"), &[], "What hosts send.";
    "traffic" "load": Shape::Number(0.001, 1.0), number(1.0), &["random"],
        "Offered load as a fraction of the link rate; 1: always something to send.";
    "traffic" "size": SIZES, word("fixed"), &["random", "push", "pull", "barrel", "roles"],
        "How sizes of messages or fragments are distributed.";
    "traffic" "bytes": BYTES, whole(2048), &["random", "push", "pull", "barrel", "roles"],
        "Their size, or mean size.";
    "traffic" "rms_bytes": Shape::Number(0.0, 1e9), Standard::Required,
        &["random", "push", "pull", "barrel", "roles"],
        "With `log_normal` and `normal`: standard deviation of the size.";
    "traffic" "min_bytes": BYTES, Standard::Required, &["random", "push", "pull", "barrel", "roles"],
        "With `uniform`: the smallest.";
    "traffic" "max_bytes": BYTES, Standard::Required, &["random", "push", "pull", "barrel", "roles"],
        "With `uniform`: the largest.";
    "traffic" "correlation": Shape::Number(0.0, 1.0), number(0.0), EVENTS,
        "How one event's sizes in different sources hang together: 0 independent, 1 all the same.";
    "traffic" "assignment": ASSIGNMENTS, word("round_robin"), &["push", "pull", "replay"],
        "Who builds which event; a barrel shifter gives them to the builders in turn.";
    "traffic" "event_rate_hz": Shape::Number(0.0, 1e12), number(0.0), &["push", "pull", "barrel", "replay", "roles"],
        "Events per second; 0: as many as the network takes.";
    "traffic" "window_events": Shape::Whole(1, 1 << 24), Standard::Unset, &["push", "replay"],
        "Events that may be begun and not complete. Not set: one for each builder.";
    "traffic" "outstanding_events": Shape::Whole(1, 1 << 16), whole(4), &["pull"],
        "Maximum number of events that one builder has requested and not received.";
    "traffic" "credit_bytes": BYTES_OR_NONE, whole(0), &["pull", "roles"],
        "Maximum bytes that one builder has requested and not received; 0: no limit. With `roles`: for the shaping `paced`, and for a \
         `barrel` that stands.";
    "traffic" "request_bytes": Shape::Whole(1, MANY), whole(64), &["pull"], "Size of a request.";
    "traffic" "slot_ns": TIME, number(0.0), &["barrel"],
        "Length of a time slot, in ns. 0: free-running, a source continues when its block has been sent.";
    "traffic" "block_bytes": Shape::Whole(0, GIB), whole(0), &["barrel", "roles"],
        "Fragments are packed into blocks of this size and cut at their ends. 0: one fragment, one block. With `roles`: what \
         a slot carries of whole messages.";
    "traffic" "guard_ns": TIME, number(0.0), &["barrel", "roles"], "Idle time at the end of each slot, in ns.";
    "traffic" "start_skew_ns": TIME, number(0.0), &["barrel"],
        "Sources start by chance within this time of one another, in ns.";
    "traffic" "clock_ppm": Shape::Whole(0, 100_000), whole(0), &["barrel"],
        "Clocks of sources differ by this many parts per million at most.";
    "traffic" "synchronised": Shape::Switch, switch(false), &["barrel", "roles"],
        "Whether all sources wait for one another at the end of each turn; with `roles`: whether slots begin by the event \
         manager's clock.";
    "traffic" "streams": Shape::Text, Standard::Required, &["replay"],
        "Directory with fragment streams (`sheaf import` makes them), from the directory of the scenario.";
    "traffic" "max_events": Shape::Whole(1, 1_000_000), whole(10_000), &["replay"],
        "Events that are read of them; they are used again from the first when they are over.";
    "traffic" "events": Shape::Whole(1, 1 << 40), Standard::Required, &["roles"], "Events to trigger in all.";
    "traffic" "slots": COUNT, whole(16), &["roles"], "Event slots of a builder unit.";
    "traffic" "message_bytes": Shape::Whole(1, GIB), whole(256 << 10), &["roles"],
        "Payload of a message of super-fragments at most; one super-fragment may be larger.";
    "traffic" "shaping": SHAPINGS, word("pull"), &["roles"], "How super-fragments come to the builder units.";
    "traffic" "control_ns": TIME, Standard::Unset, &["roles"],
        "One-way time of a separate control network for everything except fragments, in ns. Not set: control shares the links.";

    "placement" "kind": PLACEMENTS, word("both"), &[], "Who is where.";
    "placement" "readouts": COUNT, Standard::Required, &["apart", "grouped"], "Sources; with `grouped` of one group.";
    "placement" "builders": COUNT, Standard::Required, &["apart", "grouped"],
        "Builders; with `grouped` of one group.";
    "placement" "group": COUNT, Standard::Required, &["grouped"],
        "Endpoints of a group: of a leaf, a slot, a box.";
    "placement" "stay_inside": Shape::Switch, switch(false), &["grouped"],
        "Whether events are built only from the sources of the builder's own group.";
    "placement" "readout_list": Shape::Wholes(MANY), Standard::Required, &["listed"], "Endpoints that are sources.";
    "placement" "builder_list": Shape::Wholes(MANY), Standard::Required, &["listed"], "Endpoints that are builders.";

    "run" "time_us": Shape::Number(0.001, LONG), Standard::Unset, &[], "End after this simulated time, in us.";
    "run" "messages_per_sender": Shape::Whole(1, 1 << 40), Standard::Unset, &[],
        "End after this number of delivered messages per sender.";
    "run" "events": Shape::Whole(1, 1 << 40), Standard::Unset, &[], "End after this number of complete events.";

    "flits" "flit_bytes": Shape::Whole(1, MANY), Standard::Unset, &[],
        "What a link moves in one clock cycle. Not set: so that a message and a buffer are whole numbers of flits.";
    "flits" "credit_cycles": Shape::Whole(1, MANY), whole(1), &[],
        "Clock cycles from the departure of a flit until its room can be used by the sender upstream.";
    "flits" "lanes": Shape::Whole(1, 64), whole(1), &[], "Lanes (virtual channels) of each link, with buffers of their own.";

    "fault" "kind": FAULTS, Standard::Required, &[], "What goes wrong.";
    "fault" "from_us": TIME, number(0.0), &[], "When, in us.";
    "fault" "until_us": TIME, Standard::Unset, &[], "Until when, in us. Not set: for good.";
    "fault" "link": Shape::Whole(0, 1 << 30), Standard::Required, &["link_dead"],
        "Which link of the compiled network: endpoint *i*'s is *i* times `rails`, then come those that leave switches.";
    "fault" "switch": Shape::Whole(0, 1 << 30), Standard::Required, &["switch_dead"], "Which switch.";
    "fault" "endpoint": Shape::Whole(0, MANY), Standard::Required, &["slow_receiver", "host_dead"], "Which endpoint.";
    "fault" "factor": Shape::Number(0.001, 1.0), Standard::Required, &["slow_receiver"],
        "The fraction of its rate at which it receives.";
    "fault" "probability": Shape::Number(0.0, 1.0), Standard::Required, &["frame_loss"],
        "Of each frame to be lost.";
};

/// The key `path`, where `fault[3].kind` is the key `kind` of the table `fault`.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let table = table.split_once('[').map_or(table, |(table, _)| table);
    KEYS.iter().find(|key| key.table == table && key.name == name)
}

/// The keys of a table.
pub(super) fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> + Clone + use<'_> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// Whether there is a table of this name.
pub(super) fn is_table(name: &str) -> bool {
    !name.is_empty() && TABLES.iter().any(|table| table.name == name)
}
