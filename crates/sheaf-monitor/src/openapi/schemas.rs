//! Schemas of bodies and answers.

pub(super) mod examples;
mod sequences;
mod silences;
mod state;

use super::values::{
    Member, count, exact, flag, list, map, nullable, number, object, one_of, reference, text, within,
};
use serde_json::{Map, Value, json};

const COMMANDS: [&str; 7] = ["configure", "start", "pause", "resume", "switch", "stop", "reset"];

const TARGETS: [&str; 4] = ["idle", "configured", "running", "paused"];

/// Most characters of a comment on a run that begins.
const COMMENT_CHARACTERS: u64 = 1_000;

pub(super) fn all() -> Value {
    let histograms = super::histograms::schemas();
    let values = super::slow_control::schemas();
    let configurations = super::configurations::schemas();
    let (sequences, silences) = (sequences::all(), silences::all());
    let schemas = [
        control(),
        bodies(),
        silences,
        sequences,
        records(),
        configurations,
        histograms,
        values,
        state::all(),
    ]
    .concat();
    Value::Object(schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>())
}

type Schemas = Vec<(&'static str, Value)>;

/// Returns the schema of a time in milliseconds since 1970.
fn time() -> Value {
    count()
}

fn control() -> Schemas {
    let error = object(&[
        ("code", text(), "Kind of the error, for programs"),
        ("text", text(), "What happened"),
        ("remedy", text(), "What to do"),
    ]);
    let person = object(&[
        ("name", text(), "Name in records"),
        (
            "role",
            one_of(&["viewer", "operator", "expert", "admin"]),
            "Each has the rights of those before it",
        ),
    ]);
    let lock = object(&[("by", text(), "Who has it"), ("until_ms", time(), "Until when")]);
    let codes = ["run_died", "run_failed", "late", "stop_cut", "killed", "cannot_kill"];
    let fault = object(&[
        ("id", count(), "Number of the fault"),
        ("since_ms", time(), "When it occurred"),
        ("code", one_of(&codes), "Kind of the fault"),
        ("text", text(), "What is wrong"),
        ("remedy", text(), "What to do"),
    ]);
    let last_run = object(&[
        ("launch", count(), "Number that grows with each run of the controller"),
        ("run", nullable(&count()), "Number of the run, if it had one"),
        ("good", flag(), "Whether its books balance and nothing accepted was lost"),
        ("text", text(), "Its end in a sentence"),
    ]);
    let entry = object(&[
        ("at_ms", time(), "When"),
        ("by", text(), "Name of the operator; `controller` for what nobody has asked for"),
        ("action", text(), "The command, or what happened"),
        ("answer", text(), "`accepted`, `refused`, or how it ended"),
        ("text", text(), "Why, or how"),
    ]);
    let source = object(&[
        ("source", count(), "The source"),
        ("name", nullable(&text()), "Its name"),
        ("included", flag(), "Whether it is to be included"),
        (
            "excluded",
            flag(),
            "Whether the run excludes it now: one that is to be included is excluded until its next fragment",
        ),
    ]);
    let node = object(&[
        ("node", text(), "Name of the node"),
        ("included", flag(), "Whether it is to be included"),
        ("excluded", flag(), "Whether the run excludes it now"),
        ("recovering", flag(), "Whether it is being started again"),
        ("not_recovered", nullable(&text()), "Why it was not started again, if the run has refused that"),
    ]);
    vec![
        ("Error", error),
        ("Person", person),
        ("Lock", lock),
        ("Fault", fault),
        ("LastRun", last_run),
        ("JournalEntry", entry),
        ("SourceControl", source),
        ("NodeControl", node),
        ("Operation", operation()),
        ("Partition", partition()),
        ("Control", object(&state_of_control())),
    ]
}

fn partition() -> Value {
    let used = object(&[
        ("partition", nullable(&text()), "Partition of the run; `null`: the whole system"),
        ("run", nullable(&count()), "Number of the run; `null` until it has one"),
        ("by", text(), "Who started it"),
        ("since_ms", time(), "When it took the nodes"),
        ("host", text(), "Host of its process"),
        ("process", count(), "Number of its process"),
        ("page", nullable(&text()), "Page of the run or its controller"),
    ]);
    object(&[
        ("partition", nullable(&text()), "Name; `null`: the whole system"),
        ("nodes", count(), "Number of its readout units, builder units and output nodes"),
        ("sources", count(), "Number of its sources"),
        ("controller", nullable(&text()), "Page of its controller, on the host of that, if one runs"),
        ("remote", nullable(&text()), "Page of its controller for other hosts"),
        ("in_use", list(&used), "Runs that have something of it"),
    ])
}

fn operation() -> Value {
    object(&[
        ("id", count(), "Number of the operation"),
        ("command", one_of(&COMMANDS), "The command"),
        ("by", text(), "Who gave it"),
        ("began_ms", time(), "When it was given"),
        ("deadline_ms", time(), "When it has failed, or stronger means are used"),
        ("progress", nullable(&text()), "What it waits for; `null` when it has ended"),
        ("ended_ms", nullable(&time()), "When it ended"),
        ("result", nullable(&one_of(&["done", "failed", "superseded"])), "How it ended"),
        ("text", nullable(&text()), "How it ended, in words"),
    ])
}

fn state_of_control() -> Vec<Member> {
    let ends = object(&[
        ("events", nullable(&count()), "Number of triggers"),
        ("duration_ms", nullable(&count()), "Time"),
    ]);
    let command = object(&[
        ("command", one_of(&COMMANDS), "The command"),
        ("allowed", flag(), "Whether it can be given now"),
        ("why", nullable(&text()), "Why it cannot"),
    ]);
    let states = ["idle", "configuring", "configured", "running", "paused", "stopping"];
    vec![
        ("state", one_of(&states), "State of the system"),
        ("target", one_of(&TARGETS), "State that the latest command asks for"),
        ("revision", count(), "Grows whenever something changes that a person would act on"),
        ("system", text(), "Name of the configuration"),
        ("partition", nullable(&text()), "Partition that it controls; `null`: the whole system"),
        (
            "partitions",
            nullable(&list(&reference("Partition"))),
            "The whole system and all partitions, with who has them; `null` if there are none, or it is not known",
        ),
        ("run", nullable(&count()), "Number of the run that comes up, takes triggers or ends"),
        ("by", nullable(&text()), "Who started it"),
        ("ends", nullable(&ends), "What ends it, apart from a command"),
        ("operation", nullable(&reference("Operation")), "The command that is being carried out"),
        ("last", nullable(&reference("Operation")), "The one before"),
        ("last_run", nullable(&reference("LastRun")), "The run that ended last"),
        ("lock", nullable(&reference("Lock")), "Who has the lock"),
        ("faults", list(&reference("Fault")), "Faults that nobody has seen, the oldest first"),
        (
            "sources",
            list(&reference("SourceControl")),
            "Sources that are not simply included, in ascending order",
        ),
        (
            "nodes",
            list(&reference("NodeControl")),
            "Nodes that are not simply included, or are being started again, by name",
        ),
        ("sequence", nullable(&reference("Sequence")), "The sequence that is in progress, or ended last"),
        ("silences", list(&reference("Silence")), "Silences of alarms, the oldest first"),
        ("alarms_seen_ms", time(), "Alarms that had ended by then have been seen"),
        ("commands", list(&command), "Every command, and whether it can be given"),
    ]
}

fn bodies() -> Schemas {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": 64 });
    let request =
        ("request", name, "Name of the request, chosen by the client: the same name is the same command");
    let comment = json!({ "type": ["string", "null"], "maxLength": COMMENT_CHARACTERS });
    let settings = [
        request.clone(),
        ("events?", nullable(&within(1, u64::MAX)), "End the run after this number of triggers"),
        ("duration_ms?", nullable(&within(1, u64::MAX)), "End the run after this time"),
        ("comment?", comment.clone(), "Comment for the record of the run"),
    ];
    let like = (
        "like?",
        json!({ "type": ["string", "null"], "minLength": 1, "maxLength": 80 }),
        "Run whose configuration it has as it was in force then, by its number, or the name of a configuration: `NAME`, `NAME@VERSION`",
    );
    let command = |names: &[&str]| ("command", one_of(names), "The command");
    let begin = exact(&[&[command(&["configure", "start"])], &settings[..], &[like]].concat());
    // A run that follows without a gap has the configuration of the run before.
    let switch = exact(&[&[command(&["switch"])], &settings[..]].concat());
    let remark = ("comment?", comment, "Comment for the record of the run, beside the command");
    let stop = exact(&[
        ("command", one_of(&["stop"]), "The command"),
        request.clone(),
        ("now?", flag(), "Drop the events in flight"),
        remark.clone(),
    ]);
    let other =
        exact(&[("command", one_of(&["pause", "resume", "reset"]), "The command"), request.clone(), remark]);
    let lock = exact(&[("force?", flag(), "Take it from somebody else; only an admin can")]);
    let quality = one_of(&["good", "bad", "unknown"]);
    let some_text = json!({ "type": "string", "pattern": "\\S" });
    let with_text = exact(&[
        ("text", some_text, "The comment"),
        ("quality?", nullable(&quality), "Judgement of the data"),
    ]);
    let with_quality =
        exact(&[("quality", quality, "Judgement of the data"), ("text?", nullable(&text()), "The comment")]);
    // One of the two is needed.
    let comment = json!({ "anyOf": [with_text, with_quality] });
    let kinds = ["Begin", "Switch", "Stop", "OtherCommand"].map(reference);
    vec![
        ("Command", json!({ "oneOf": kinds })),
        ("Begin", begin),
        ("Switch", switch),
        ("Stop", stop),
        ("OtherCommand", other),
        ("IncludeSource", exact(&[("included", flag(), "Whether the source is to be included")])),
        ("IncludeNode", exact(&[("included", flag(), "Whether the node is to be included")])),
        ("RecoverNode", exact(&[request])),
        ("TakeLock", lock),
        ("NewComment", comment),
    ]
}

fn records() -> Schemas {
    let end = object(&[
        (
            "reason",
            text(),
            "`duration`, `events`, `end_of_sources`, `signal`, `disk_space`, `requirement`, `shift`, `supervisor` or `failure`",
        ),
        ("detail?", text(), "Details for the operator"),
        ("good", flag(), "Whether the books balanced and nothing was lost"),
        ("lost", count(), "Accepted events that were lost"),
    ]);
    let file = object(&[
        ("file", text(), "Name of the file in the directory of the run"),
        ("stream", text(), "Its stream"),
        ("events", count(), "Number of events"),
        ("bytes", count(), "Its size"),
        ("crc32c?", nullable(&text()), "Checksum of its content, 8 hexadecimal digits"),
    ]);
    let code = object(&[
        ("table", text(), "The table of the configuration that names it"),
        ("path", text(), "Its path"),
        ("bytes", count(), "Its size"),
        ("crc32c", text(), "Its CRC-32C, in hexadecimal digits"),
    ]);
    let configuration = object(&[
        ("name", nullable(&text()), "Name of its file, without the extension"),
        (
            "id",
            text(),
            "Checksum of its settings and code, in hexadecimal digits: runs with the same id were made in the same way",
        ),
    ]);
    let comment = object(&[
        ("time_ns", count(), "When it was written, in nanoseconds since 1970"),
        ("author", text(), "Who wrote it"),
        ("text?", text(), "The comment"),
        ("quality?", one_of(&["good", "bad", "unknown"]), "Judgement of the data"),
    ]);
    // Before and after.
    let values = json!({ "type": "array", "items": nullable(&text()), "minItems": 2, "maxItems": 2 });
    let hook = object(&[
        ("name", text(), "Name of its table in the configuration"),
        (
            "transition",
            one_of(&["before_start", "after_start", "before_stop", "after_stop"]),
            "Transition at which it was called",
        ),
        ("seconds", number(), "Time that it took"),
        ("good", flag(), "Whether it ended with exit status 0"),
        ("status", text(), "How it ended"),
    ]);
    let run = object(&[
        ("run", count(), "Number of the run"),
        ("directory", text(), "Its directory"),
        ("state", one_of(&["in_progress", "good", "not_good", "not_closed"]), "State of the record"),
        ("software", text(), "Program and version that took it"),
        ("configuration", configuration, "Configuration that it was made with"),
        ("created_ns", count(), "When it began, in nanoseconds since 1970"),
        ("ended_ns", nullable(&count()), "When it ended"),
        ("end", nullable(&end), "How it ended"),
        ("ledger", nullable(&reference("Ledger")), "Its ledger, once it is closed"),
        ("files", list(&file), "Closed files"),
        ("code", list(&code), "Libraries and scripts that it loaded"),
        ("comments", list(&reference("Comment")), "Comments, the oldest first"),
        ("sequence?", sequences::of_run(), "Row of a sequence that it was made for"),
        (
            "configuration_from?",
            configuration_from(),
            "Where its configuration comes from, if it was started like another run",
        ),
        ("commands?", list(&reference("RunCommand")), "Commands of run control, the oldest first"),
        (
            "commands_left_out?",
            count(),
            "Number of further commands between the first half of them and the last",
        ),
        ("hooks?", list(&hook), "Hooks that were called, in this order"),
        ("values?", list(&super::slow_control::of_run()), "Values from outside during the run"),
        (
            "histograms?",
            list(&json!({ "type": "object" })),
            "Histograms with entries, means and standard deviations; only in the record of one run",
        ),
        (
            "changed?",
            nullable(&map(&values)),
            "Settings that differ from the run before, by key, with both values; only in the record of one run",
        ),
    ]);
    vec![("Comment", comment), ("RunCommand", run_command()), ("Run", run), ("Ledger", ledger())]
}

fn configuration_from() -> Value {
    object(&[
        ("run", count(), "Run whose configuration it was"),
        ("name?", text(), "Its name, if it was used by its name"),
        ("version?", count(), "Its version, with a name"),
    ])
}

fn run_command() -> Value {
    object(&[
        ("time_ns", count(), "When it was given, in nanoseconds since 1970"),
        ("by", text(), "Who gave it"),
        ("via?", text(), "Where it came from, such as `page`, `hook logbook` or `SIGTERM`"),
        ("command", text(), "Name of the command"),
        ("target?", text(), "Its object, such as a source or a node"),
        ("comment?", text(), "Comment of the operator"),
        (
            "result?",
            one_of(&["done", "failed", "superseded"]),
            "Absent if it was not known when the run was closed",
        ),
        ("text?", text(), "The result in words"),
        ("ended_ns?", count(), "When the result was known"),
    ])
}

fn ledger() -> Value {
    let fragments = object(&[
        ("received", count(), "Received by readout units"),
        ("stored", count(), "Stored with their events"),
        ("rejected", count(), "Rejected with their events"),
        ("dropped", map(&count()), "Dropped, by reason"),
        ("in_flight", count(), "Held"),
        (
            "restarted_readouts",
            count(),
            "Readout units that were restarted; their accounts until then are lost",
        ),
    ]);
    let culprit =
        object(&[("cause", text(), "Cause"), ("node", text(), "Node"), ("dead_ns", count(), "Dead time")]);
    let time = object(&[
        ("run_ns", count(), "Live time and dead time"),
        ("live_ns", count(), "Time in which triggers were taken"),
        ("dead_ns", map(&count()), "Time in which they were not, by cause"),
        ("culprits?", list(&culprit), "Parts of that time for which one node alone was the reason"),
        ("started_ns?", count(), "Start of the run, since 1970"),
        ("triggers_ended_ns?", count(), "End of its triggers, since 1970"),
        ("last_event_ns?", count(), "End of its last event, since 1970"),
    ]);
    object(&[
        ("offered", count(), "Triggers that there were"),
        ("vetoed", map(&count()), "Vetoed triggers, by cause"),
        ("triggers", count(), "Accepted triggers"),
        ("stored", count(), "Events stored"),
        ("rejected", count(), "Events rejected by the filter"),
        ("dropped", map(&count()), "Events dropped, by reason"),
        ("in_flight", count(), "Events that had not ended"),
        ("balanced", flag(), "Whether the books balance"),
        ("problems", list(&text()), "Relations that do not add up"),
        ("fragments", fragments, "Fragments of all readout units"),
        ("time", time, "Time of the run"),
        (
            "shifts?",
            list(&json!({ "type": "object" })),
            "Sources whose event numbers disagree with those of the others",
        ),
        (
            "exclusions?",
            list(&json!({ "type": "object" })),
            "Ranges of events in which an operator has excluded sources",
        ),
    ])
}
