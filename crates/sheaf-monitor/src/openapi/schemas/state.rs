//! Schemas of the state of a run.

use super::{Schemas, time};
use crate::openapi::values::{
    Member, count, flag, list, map, nullable, number, object, one_of, reference, text,
};
use serde_json::{Value, json};

pub(super) fn all() -> Schemas {
    let figure = object(&[
        ("name", text(), "Name of the metric, with its labels"),
        ("text", text(), "Meaning"),
        ("value", number(), "The value, in the unit of the metric"),
    ]);
    let figures = object(&[("name", text(), "The node"), ("figures", list(&figure), "Its numbers")]);
    let column = object(&[
        ("id", text(), "Name for programs"),
        ("title", text(), "Name for people"),
        ("unit", text(), "Unit; `1` for a fraction"),
        ("panel", text(), "Columns of the same panel are drawn together"),
    ]);
    let past =
        [("ended_ms", time(), "When it ended"), ("times", count(), "Number of times that it was raised")];
    vec![
        ("State", object(&state())),
        ("AlarmList", object(&alarm_list())),
        ("Node", node()),
        ("Source", source()),
        ("DeadTime", dead_time()),
        ("Drop", drop()),
        ("Alarm", alarm(&[])),
        ("PastAlarm", alarm(&past)),
        ("Message", message()),
        ("NodeFigures", figures),
        ("Column", column),
        ("TracedEvent", traced_event()),
        ("Span", span()),
    ]
}

fn traced_event() -> Value {
    object(&[
        ("event", count(), "Id of the event"),
        ("reasons", list(&text()), "`incomplete`, `slow`, `dropped`, `quarantined`"),
        ("outcome", nullable(&text()), "Outcome, if it is known"),
        ("ended_ms", nullable(&time()), "When it ended"),
        ("duration_ns", nullable(&count()), "Time from its trigger to its end"),
        ("missing", list(&count()), "Sources without a fragment"),
    ])
}

fn span() -> Value {
    object(&[
        ("name", text(), "Name, such as `build.gather`"),
        ("node", text(), "The node; empty for the event itself"),
        ("start_ns", count(), "Begin in nanoseconds since 1970"),
        ("end_ns", nullable(&count()), "End; `null` if none is known"),
        ("note?", text(), "What else is known"),
        ("clock", count(), "Number of the clock. Times of different clocks are not compared"),
    ])
}

fn state() -> Vec<Member> {
    let latency = object(&[
        ("bounds_s", list(&number()), "Upper bounds"),
        ("counts", list(&count()), "Numbers of events; one more than bounds"),
        ("sum_s", number(), "Sum of the times"),
    ]);
    vec![
        ("api", json!({ "type": "integer", "const": 1 }), "Version of this interface"),
        ("version", text(), "Version of Sheaf"),
        ("time_ms", time(), "When the state was composed"),
        ("age_ms", nullable(&count()), "Age of the oldest values of a node that has not ended"),
        ("revision", count(), "Number of this state. A higher one is newer"),
        ("run", run(), "The run"),
        ("triggers", triggers(), "Triggers"),
        ("events", events(), "Events, that is accepted triggers"),
        ("fragments", fragments(), "Fragments of all readout units"),
        ("imbalance", imbalance(), "Numbers received minus the sums of their bins"),
        ("dead_time", reference("DeadTime"), "Live time and dead time"),
        ("nodes", list(&reference("Node")), "All nodes"),
        ("sources", list(&reference("Source")), "Sources in trouble"),
        ("latency", latency, "Numbers of events by the time from trigger to end"),
        ("alarms", list(&reference("Alarm")), "Conditions that an operator must know"),
        (
            "past_alarms",
            list(&reference("PastAlarm")),
            "Alarms of the run that have ended and that nobody has seen, the latest first",
        ),
        ("values", crate::openapi::slow_control::counts(), "Numbers of values from outside"),
        ("log", list(&reference("Message")), "The last messages of the log"),
        ("control?", reference("Control"), "State of run control, where the page has it"),
    ]
}

fn alarm_list() -> Vec<Member> {
    let run = ("run", nullable(&count()), "Number of the run");
    let of_state = state().into_iter();
    let kept = of_state.filter(|(name, ..)| matches!(*name, "time_ms" | "alarms" | "past_alarms"));
    kept.chain([run]).collect()
}

fn run() -> Value {
    let phases = ["none", "starting", "ready", "running", "paused", "finishing", "closing", "closed"];
    let verdict = object(&[
        ("good", flag(), "Whether the books balance and nothing was lost"),
        ("lines", list(&text()), "Lines of the summary"),
    ]);
    let standby = object(&[
        ("ready", flag(), "Whether it can take over"),
        ("take_overs", count(), "Number of take-overs"),
        ("held_messages", count(), "Messages of the event manager that wait for it"),
        ("wait_seconds", number(), "Time for which the first of them has waited"),
    ]);
    object(&[
        ("number", nullable(&count()), "Its number"),
        ("phase", one_of(&phases), "Phase of the run"),
        ("began_ms", nullable(&time()), "When it began"),
        ("seconds", number(), "Live time and dead time"),
        ("directory", nullable(&text()), "Run directory"),
        ("waits_for", nullable(&text()), "Nodes and programs that the run waits for"),
        ("sources", count(), "Number of sources"),
        ("standby", nullable(&standby), "The standby event manager, if the run is to have one"),
        (
            "unmirrored",
            nullable(&list(&text())),
            "Readout units without a mirror that could act for them, in a run with mirrors",
        ),
        ("verdict", nullable(&verdict), "Result, after the end"),
    ])
}

fn triggers() -> Value {
    object(&[
        ("offered", count(), "Triggers that there were"),
        ("accepted", count(), "Triggers accepted"),
        ("vetoed", count(), "Triggers vetoed"),
    ])
}

fn events() -> Value {
    object(&[
        ("stored", count(), "Stored"),
        ("rejected", count(), "Rejected by the filter"),
        ("dropped", count(), "Dropped"),
        ("in_flight", count(), "Between trigger and end"),
        ("incomplete", count(), "Built without a required source"),
        ("bytes", count(), "Payload of those that have ended"),
        ("drops", list(&reference("Drop")), "Drops by reason"),
    ])
}

fn fragments() -> Value {
    object(&[
        ("received", count(), "Received"),
        ("stored", count(), "Stored with their events"),
        ("rejected", count(), "Rejected with their events"),
        ("dropped", count(), "Dropped"),
        ("in_flight", count(), "Held"),
        ("drops", list(&reference("Drop")), "Drops by reason"),
    ])
}

fn imbalance() -> Value {
    let integer = || json!({ "type": "integer" });
    object(&[
        ("triggers", integer(), "Of triggers"),
        ("fragments", integer(), "Of the fragments of all readout units"),
    ])
}

fn drop() -> Value {
    object(&[
        ("reason", text(), "The reason"),
        ("count", count(), "Their number"),
        ("account", text(), "`loss`, `as configured`, `no accepted trigger` or `with its event`"),
    ])
}

fn dead_time() -> Value {
    let now = object(&[
        ("cause", text(), "Name of the cause"),
        ("culprit", nullable(&text()), "The node that alone is the reason"),
    ]);
    let culprit = object(&[("node", text(), "The node"), ("seconds", number(), "Dead time")]);
    let cause = object(&[
        ("cause", text(), "Name of the cause"),
        ("text", text(), "Description"),
        ("remedy", text(), "Advice to the operator"),
        ("seconds", number(), "Dead time"),
        ("vetoed", count(), "Triggers vetoed"),
        ("culprits", list(&culprit), "Nodes that alone were the reason, for part of this time"),
    ]);
    object(&[
        ("live_seconds", number(), "Time in which triggers were taken"),
        ("dead_seconds", number(), "Time in which they were not"),
        ("now", nullable(&now), "Why triggers are not taken now"),
        ("causes", list(&cause), "Causes that occurred"),
    ])
}

fn node() -> Value {
    let fill = object(&[
        ("value", count(), "Amount that it holds"),
        ("limit", count(), "Amount that it may hold"),
        ("unit", text(), "Unit of both"),
    ]);
    object(&[
        ("name", text(), "Its name"),
        ("role", text(), "`readout`, `builder`, `manager` or `output`"),
        ("agent", nullable(&text()), "Address of the agent that starts it on another host"),
        ("up", flag(), "Whether it has published and has not ended"),
        ("age_ms", nullable(&count()), "Age of its values"),
        ("restarts", count(), "Number of times that it began again"),
        ("excluded", flag(), "Whether an operator has excluded it"),
        ("output_failing", flag(), "Whether its output does not work or has no room"),
        ("fill", map(&fill), "Fill of its bounded buffers"),
    ])
}

fn source() -> Value {
    let missing =
        object(&[("reason", text(), "The reason"), ("events", count(), "Number of events built without it")]);
    object(&[
        ("source", count(), "Its number"),
        ("name", nullable(&text()), "Its name"),
        ("node", nullable(&text()), "Its readout unit"),
        ("last_seen_seconds", nullable(&number()), "Time since its last fragment"),
        ("held_back", flag(), "Whether its readout unit has no room for its next fragment"),
        ("behind", flag(), "Whether a fragment of it is requested that it has not given"),
        ("missing", list(&missing), "Events built without it, by reason"),
    ])
}

/// Returns the members of an alarm, and more.
fn alarm(more: &[Member]) -> Value {
    let silence = object(&[
        ("id", count(), "Number of the silence"),
        ("by", text(), "Who asked for it"),
        ("why", text(), "Why"),
        ("until_ms", time(), "When it ends"),
    ]);
    let members = [
        ("code", text(), "Its code, which the documentation explains"),
        ("severity", one_of(&["warning", "error"]), "Its importance"),
        ("text", text(), "Description"),
        ("culprit", nullable(&text()), "The node, source or reason of drops"),
        ("remedy", text(), "Advice to the operator"),
        ("since_ms", time(), "When it was raised"),
        ("silence", nullable(&silence), "The silence that suppresses its notices, if there is one"),
        (
            "folded",
            list(&reference("Alarm")),
            "Alarms that it stands for: those of the nodes of a host, or of several hosts",
        ),
    ];
    object(&[&members[..], more].concat())
}

fn message() -> Value {
    object(&[
        ("number", count(), "Its number; a gap shows that messages were left out"),
        ("time_ms", time(), "When it was written"),
        ("level", one_of(&["info", "warning", "error"]), "Severity"),
        ("code", text(), "Kind of the message, of which `/codes` has an entry"),
        ("node", nullable(&text()), "Node that wrote it"),
        ("text", text(), "The message"),
    ])
}
