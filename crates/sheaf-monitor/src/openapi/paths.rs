//! All requests.

use super::operation::Operation;
use super::schemas::examples;
use super::values::{count, list, nullable, object, one_of, reference, text, within};
use serde_json::{Value, json};

const U32_MAX: u64 = u32::MAX as u64;

pub(super) fn all() -> Vec<Operation> {
    [
        control(),
        parts_of_runs(),
        sequence(),
        lock(),
        alarms(),
        runs(),
        super::configurations::paths(),
        state(),
        traces(),
        super::histograms::paths(),
        super::slow_control::paths(),
        numbers(),
        monitoring(),
        page(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Adds the parameter `last`.
fn last(operation: Operation, text: &str) -> Operation {
    operation.query("last", &within(0, U32_MAX), (text, json!(50)))
}

/// Returns the operations on parts of a run: what is excluded, and what is started again.
fn parts_of_runs() -> Vec<Operation> {
    let nodes = object(&[("nodes", list(&reference("NodeControl")), "The nodes")]);
    let excluded_node = json!({ "nodes": [{ "node": "ru1", "included": false, "excluded": false, "recovering": false, "not_recovered": null }] });
    vec![
        Operation::new(
            "put",
            "/api/v1/sources/{source}/included",
            ("control", "include_source"),
            "Excludes a source from the run and from those that follow, or includes it again",
        )
        .note(
            "Events are complete without a source that is excluded. A source that is included again is in events from its next fragment on.",
        )
        .part("source", &text(), json!("17"))
        .takes("IncludeSource", true, &[("exclude", json!({ "included": false }))])
        .gives(
            200,
            "The number of the source, and the sources that are not simply included.",
            &object(&[
                ("source", within(0, U32_MAX), "The source that was meant"),
                ("sources", list(&reference("SourceControl")), "The sources"),
            ]),
            &json!({ "source": 17, "sources": [{ "source": 17, "name": "ecal", "included": false, "excluded": false }] }),
        )
        .changes()
        .errors(&[404, 409, 412, 423]),
        Operation::new(
            "put",
            "/api/v1/nodes/{node}/included",
            ("control", "include_node"),
            "Excludes a readout unit or builder unit from the run and from those that follow, or includes it again",
        )
        .note(
            "Events are complete without the sources of a readout unit that is excluded, whether it lives or not. A builder unit that is excluded \
             gets no further events.",
        )
        .part("node", &text(), json!("ru1"))
        .takes("IncludeNode", true, &[("exclude", json!({ "included": false }))])
        .gives(200, "The nodes that are not simply included.", &nodes, &excluded_node)
        .changes()
        .errors(&[404, 409, 412, 423]),
        Operation::new(
            "post",
            "/api/v1/nodes/{node}/recover",
            ("control", "recover_node"),
            "Starts a node of the run again that hangs or was lost",
        )
        .note(
            "The process of a node that lives is killed. The same name `request` again is the same request, which has one effect.",
        )
        .part("node", &text(), json!("ru1"))
        .takes("RecoverNode", true, &[("recover", json!({ "request": "77c1" }))])
        .gives(200, "The nodes that are not simply included, or are being started again.", &nodes, &excluded_node)
        .changes()
        .errors(&[404, 409, 412, 423]),
    ]
}

fn control() -> Vec<Operation> {
    let operation = object(&[
        ("operation", reference("Operation"), "The operation"),
        (
            "warnings",
            list(&text()),
            "Libraries and scripts that are not those of the run that the new one is to be like",
        ),
    ]);
    let example = json!({ "operation": examples::operation(), "warnings": [] });
    let begin = json!({ "command": "start", "request": "3f0c", "events": 1000, "comment": "cosmics" });
    vec![
        Operation::get("/api/v1/control", ("control", "control"), "Returns the state of run control, as it is now")
            .gives(200, "The state.", &reference("Control"), &examples::control())
            .errors(&[400, 404, 503]),
        Operation::new("post", "/api/v1/operations", ("control", "operate"), "Gives a command")
            .note(
                "A command has one effect: the same name `request` again is the same command, and the answer has its operation. \
                 So a client that got no answer asks again.",
            )
            .parameter(
                "header",
                "If-Match",
                &json!({ "type": "string", "pattern": "^\"?(0|[1-9][0-9]{0,14})\"?$" }),
                ("Revision of the state that the client has seen, in quotes or without. The command is refused if the state has changed since.", json!("\"17\"")),
            )
            .takes("Command", true, &[("start", begin), ("stop", json!({ "command": "stop", "request": "9a11", "now": false }))])
            .gives(202, "The command is accepted.", &operation, &example)
            .gives(200, "The command was given before, under the same name.", &operation, &example)
            .changes()
            .errors(&[409, 412, 422, 423]),
        Operation::get("/api/v1/operations/{id}", ("control", "operation"), "Returns what becomes of a command")
            .part("id", &within(0, u64::MAX), json!(5))
            .query(
                "wait_ms",
                &within(0, U32_MAX),
                ("Time to wait for its end, at most a minute.", json!(10_000)),
            )
            .gives(200, "The operation.", &reference("Operation"), &examples::operation())
            .errors(&[400, 404, 503]),
        Operation::new("post", "/api/v1/faults/{id}/cleared", ("control", "seen"), "Notes that a fault has been seen: it leaves the list")
            .part("id", &within(0, u64::MAX), json!(3))
            .gives(200, "It has left the list.", &object(&[]), &json!({}))
            .changes(),
        last(
            Operation::get("/api/v1/audit", ("control", "journal"), "Returns the last entries of the journal"),
            "Number of entries, at most 1,000.",
        )
        .gives(
            200,
            "The entries, the oldest first.",
            &object(&[("entries", list(&reference("JournalEntry")), "The entries")]),
            &json!({ "entries": [examples::entry()] }),
        )
        .errors(&[400, 404, 503]),
        Operation::new("post", "/api/v1/session", ("control", "begin_session"), "Begins a session of a browser")
            .note(
                "For browsers of other hosts: a cookie stands for the token from then on. Requests that change something are taken with it if the header `Origin` \
                 names the page. On loopback addresses, and through a proxy, there is no cookie.",
            )
            .succeeds(204, "The session has begun.")
            // From other hosts it needs a token, as everything does; on loopback addresses it does not.
            .errors(&[401, 429]),
        Operation::new("delete", "/api/v1/session", ("control", "end_session"), "Ends a session of a browser, which forgets the cookie")
            .succeeds(204, "The browser has forgotten it."),
        Operation::get("/api/v1/me", ("control", "me"), "Returns who the token belongs to")
            .gives(200, "The person.", &reference("Person"), &json!({ "name": "alice", "role": "operator" }))
            .with_token()
            .errors(&[400, 404, 503]),
    ]
}

/// Silences, and alarms that have been seen.
fn alarms() -> Vec<Operation> {
    let answer = object(&[("silence", reference("Silence"), "The silence")]);
    let body = json!({ "code": "dead-time", "culprit": "bu1", "duration_ms": 3_600_000, "why": "its disk is being replaced" });
    vec![
        Operation::new("post", "/api/v1/silences", ("control", "silence"), "Silences alarms for a time")
            .note(
                "A silence suppresses the notices of alarms. An alarm stays in the list, with the person and the reason, and its notice is sent if it outlasts \
                 the silence. A silence of the same alarms takes the place of the first.",
            )
            .takes("NewSilence", true, &[("silence", body)])
            .gives(200, "The silence.", &answer, &json!({ "silence": examples::silence() }))
            .changes()
            .errors(&[409]),
        Operation::new("delete", "/api/v1/silences/{id}", ("control", "end_silence"), "Ends a silence")
            .part("id", &within(0, u64::MAX), json!(2))
            .gives(200, "It has ended.", &object(&[]), &json!({}))
            .changes(),
        Operation::new(
            "post",
            "/api/v1/alarms/seen",
            ("control", "alarms_seen"),
            "Notes that the alarms that have ended so far have been seen: they leave the list",
        )
        .gives(200, "They have left the list.", &object(&[]), &json!({}))
        .changes(),
    ]
}

fn sequence() -> Vec<Operation> {
    let answer = object(&[("sequence", reference("Sequence"), "The sequence")]);
    let example = json!({ "sequence": examples::sequence() });
    let table = json!({ "sequence": examples::sequence(), "rows": [examples::sequence_row()] });
    let begin = json!({
        "request": "77aa", "name": "thresholds", "table": "filter.busy_us,run.events\n10,1000\n20,1000\n", "on_failure": "repeat"
    });
    vec![
        Operation::get(
            "/api/v1/sequence",
            ("control", "sequence"),
            "Returns the sequence that is in progress, or ended last, with all of its rows",
        )
        .gives(200, "The sequence.", &reference("SequenceTable"), &table)
        .errors(&[400, 404, 503]),
        Operation::new("post", "/api/v1/sequence", ("control", "begin_sequence"), "Makes the runs of a table, one after the other")
            .note(
                "All rows are checked with the configuration before the first run; what is wrong is answered with row and column. \
                 A request has one effect: the same name `request` again is the same request.",
            )
            .takes("BeginSequence", true, &[("begin", begin)])
            .gives(202, "The sequence begins.", &answer, &example)
            .gives(200, "It was begun before, under the same name.", &answer, &example)
            .changes()
            .errors(&[409, 412, 422, 423]),
        Operation::new("post", "/api/v1/sequence/actions", ("control", "direct_sequence"), "Gives a command to the sequence")
            .note("A command that has been followed has no second effect.")
            .takes(
                "DirectSequence",
                true,
                &[("pause", json!({ "action": "pause" })), ("skip", json!({ "action": "skip", "row": 2 }))],
            )
            .gives(200, "The sequence.", &answer, &example)
            .changes()
            .errors(&[409, 412, 423]),
    ]
}

fn lock() -> Vec<Operation> {
    let taken = object(&[("lock", nullable(&reference("Lock")), "The lock")]);
    vec![
        Operation::new("put", "/api/v1/lock", ("control", "lock"), "Takes or renews the lock")
            .takes("TakeLock", false, &[("lock", json!({ "force": false }))])
            .gives(
                200,
                "The lock.",
                &taken,
                &json!({ "lock": { "by": "alice", "until_ms": 1_780_000_300_000_u64 } }),
            )
            .changes()
            .errors(&[423]),
        Operation::new("delete", "/api/v1/lock", ("control", "unlock"), "Gives the lock back")
            .gives(200, "The caller does not have the lock.", &object(&[]), &json!({}))
            .changes(),
    ]
}

fn runs() -> Vec<Operation> {
    let runs = object(&[
        ("runs", list(&reference("Run")), "The runs, the newest last"),
        ("unreadable", count(), "Number of runs whose records cannot be read"),
    ]);
    vec![
        last(
            Operation::get("/api/v1/runs", ("runs", "runs"), "Returns the last runs"),
            "Number of runs, at most 1,000.",
        )
        .gives(200, "The runs.", &runs, &json!({ "runs": [examples::run()], "unreadable": 0 }))
        .errors(&[400, 404, 503]),
        Operation::get("/api/v1/runs/{number}", ("runs", "run"), "Returns the record of a run")
            .part("number", &within(0, U32_MAX), json!(7))
            .gives(200, "The record.", &reference("Run"), &examples::run())
            .errors(&[400, 404, 503]),
        Operation::new(
            "post",
            "/api/v1/runs/{number}/comments",
            ("runs", "comment"),
            "Adds a comment to a run",
        )
        .part("number", &within(0, U32_MAX), json!(7))
        .takes(
            "NewComment",
            true,
            &[("comment", json!({ "text": "cosmics, threshold 12", "quality": "good" }))],
        )
        .gives(200, "It is added.", &object(&[]), &json!({}))
        .changes(),
    ]
}

fn state() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/state", ("state", "state"), "Returns the state of the run")
            .gives(200, "The state.", &reference("State"), &examples::state()),
        Operation::get("/api/v1/alarms", ("state", "alarms"), "Returns the alarms of the run")
            .note("The same as in the state, for programs that need nothing else.")
            .gives(200, "The alarms.", &reference("AlarmList"), &examples::alarms()),
        Operation::get("/api/v1/stream", ("state", "stream"), "Sends the state again and again")
            .note("Server-sent events `state`, each with the state as data, at most five times and at least once a second.")
            .gives_media("text/event-stream", "The states. It ends with the server."),
        Operation::get("/api/v1/nodes/{name}", ("state", "node"), "Returns all numbers of a node that are not 0")
            .part("name", &text(), json!("evm"))
            .gives(200, "The numbers.", &reference("NodeFigures"), &examples::node())
            .errors(&[400, 404]),
        Operation::get("/api/v1/openapi.json", ("state", "description"), "Returns this description")
            .gives(200, "The description.", &json!({ "type": "object" }), &json!({ "openapi": "3.1.0" })),
    ]
}

fn traces() -> Vec<Operation> {
    let list = object(&[
        ("run", count(), "Number of the run"),
        ("slow_ns", count(), "Time from a trigger to the end of its event from which on the event is slow"),
        ("sample", count(), "One in so many events is always traced; 0: none"),
        ("traces", count(), "Number of traces, with those of the sample"),
        ("events", super::values::list(&reference("TracedEvent")), "The remarkable events, the newest first"),
        (
            "left_out",
            super::values::map(&count()),
            "Remarkable events without a trace, by cause, after the end of the run",
        ),
    ]);
    let example = json!({
        "run": 7, "slow_ns": 1_000_000_000, "sample": 1000, "traces": 1, "events": [examples::traced_event()],
        "left_out": { "file_full": 0 }
    });
    let trace = object(&[
        ("trace", json!({ "type": "object" }), "The trace, as in the file `traces.jsonl` of the run"),
        (
            "spans",
            super::values::list(&reference("Span")),
            "Its spans by their beginnings; the first one is the event",
        ),
    ]);
    let trace_example = json!({ "trace": { "run": 7, "event": 1413, "reasons": ["slow"], "stamps": [] }, "spans": [examples::span()] });
    vec![
        last(
            Operation::get("/api/v1/traces", ("state", "traces"), "Returns the remarkable events of a run"),
            "Number of events, at most 1,000.",
        )
        .query("run", &within(0, U32_MAX), ("Number of the run. Without it: the present one.", json!(7)))
        .gives(200, "The events.", &list, &example)
        .errors(&[400, 404]),
        Operation::get("/api/v1/traces/{run}/{event}", ("state", "trace"), "Returns the trace of an event")
            .part("run", &within(0, U32_MAX), json!(7))
            .part("event", &within(0, u64::MAX), json!(1413))
            .gives(200, "The trace.", &trace, &trace_example)
            .errors(&[400, 404]),
    ]
}

fn numbers() -> Vec<Operation> {
    let column = json!({ "id": "events_stored", "title": "stored", "unit": "1/s", "panel": "rate" });
    vec![
        Operation::get("/api/v1/columns", ("state", "columns"), "Returns the meaning of the columns of numbers over time")
            .gives(200, "The columns, in the order of the binary answers.", &list(&reference("Column")), &json!([column])),
        Operation::get("/api/v1/history", ("state", "history"), "Returns numbers over time")
            .note("docs/reference/http.md describes the binary form.")
            .query(
                "step",
                &json!({ "type": "integer", "enum": [100, 1000, 10_000] }),
                ("Time between rows, in milliseconds: for the last five minutes, two hours, or seven days.", json!(1000)),
            )
            .required()
            .gives_media("application/octet-stream", "The rows.")
            .errors(&[400]),
        Operation::get("/api/v1/live", ("state", "live"), "Returns the rows of 100 ms after a certain one")
            .query(
                "after",
                &within(0, u64::MAX),
                ("Number of the row. The answer waits up to a second for the next one. Without it: the newest row.", json!(1200)),
            )
            .gives_media("application/octet-stream", "The rows; none if there was no new one in time.")
            .errors(&[400]),
        Operation::get("/api/v1/map", ("state", "map"), "Returns the map of readout units and builder units")
            .note("docs/reference/http.md describes the binary form. The answer is made at most four times a second, for all who ask.")
            .query(
                "quantity",
                &one_of(&["wait", "rate"]),
                ("Seconds for which the oldest event waits, or payload in bytes per second.", json!("wait")),
            )
            .gives_media("application/octet-stream", "The map.")
            .errors(&[400, 500]),
    ]
}

fn monitoring() -> Vec<Operation> {
    let tag = "monitoring";
    let targets = json!([{ "targets": ["127.0.0.1:7070"], "labels": { "job": "sheaf" } }]);
    let target: Value =
        object(&[("targets", list(&text()), "Addresses"), ("labels", super::values::map(&text()), "Labels")]);
    vec![
        Operation::get("/metrics", (tag, "metrics"), "Returns metrics in the format OpenMetrics")
            .gives_media(crate::openmetrics::MEDIA_TYPE, "The metrics."),
        Operation::get(
            "/prometheus/targets",
            (tag, "targets"),
            "Returns the address of the metrics, for `http_sd_configs` of Prometheus",
        )
        .gives(200, "The address.", &list(&target), &targets),
        Operation::get("/prometheus/rules.yml", (tag, "rules"), "Returns alert rules for Prometheus")
            .gives_media("application/yaml", "The rules."),
        Operation::get("/grafana/{file}", (tag, "dashboard"), "Returns a dashboard for Grafana")
            .part("file", &text(), json!("overview.json"))
            .gives(200, "The dashboard.", &json!({ "type": "object" }), &json!({ "title": "Sheaf" }))
            .fails(400, "The name is not UTF-8.")
            .fails(404, "There is no such dashboard."),
        Operation::get("/healthz", (tag, "healthy"), "Answers while the server works")
            .gives_media("text/plain; charset=utf-8", "`ok`."),
    ]
}

fn page() -> Vec<Operation> {
    vec![
        Operation::get("/", ("page", "page"), "Returns the page")
            .gives_media("text/html; charset=utf-8", "The page."),
        Operation::get(
            "/codes",
            ("page", "codes"),
            "Returns the page of all codes of messages, with their remedies",
        )
        .gives_media("text/html; charset=utf-8", "The page."),
        Operation::get("/assets/{path}", ("page", "asset"), "Returns a file of the page")
            .part("path", &text(), json!("app.js"))
            .gives_media("*/*", "The file.")
            .fails(400, "The path is not UTF-8.")
            .fails(404, "There is no such file."),
    ]
}
