//! Requests for histograms, and the schemas of their bodies and answers.

use super::operation::Operation;
use super::values::{
    count, exact, flag, list, map, nullable, number, object, one_of, reference, text, within,
};
use serde_json::{Value, json};

const U32_MAX: u64 = u32::MAX as u64;

/// Names of histograms and of publishers.
fn name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$" })
}

pub(super) fn paths() -> Vec<Operation> {
    let run = || within(0, U32_MAX);
    let tag = json!({ "type": "string" });
    vec![
        Operation::get("/api/v1/histograms", ("histograms", "histograms"), "Returns the histograms of a run, with sketches to be drawn")
            .note("The answer has an `ETag`.")
            .query("run", &run(), ("Number of the run. Without it: the present one.", json!(7)))
            .query(
                "reference",
                &run(),
                ("Number of the reference run, 0 for none. Without it: the last good run before that has one of the histograms.", json!(6)),
            )
            .query("name", &text(), ("Only this histogram, with more bins.", json!("charge")))
            .parameter("header", "If-None-Match", &tag, ("Tag of an answer that the client has.", json!("\"1-2-3\"")))
            .gives(200, "The histograms, by name.", &reference("HistogramList"), &example_of_list())
            .unchanged()
            .errors(&[400, 404, 500]),
        Operation::get("/api/v1/histograms/{run}/{name}", ("histograms", "histogram"), "Returns a histogram with all its numbers")
            .part("run", &run(), json!(7))
            .part("name", &name(), json!("charge"))
            .gives(200, "The histogram.", &recorded(), &json!({ "histogram": example(), "publishers": 1, "updated_ms": 1_780_000_000_000_u64 }))
            .errors(&[400, 404, 500]),
        Operation::new("put", "/api/v1/publishers/{name}", ("histograms", "publish"), "Publishes histograms")
            .note(
                "Whole snapshots: the histogram of the run is the sum of the newest ones of all sessions. The same request is also answered, without a token, \
                 at the socket `run.monitor` in the directory of a run.",
            )
            .part("name", &name(), json!("charge"))
            .takes("Publication", true, &[("publication", json!({ "session": "0af3", "sequence": 1, "histograms": [example()] }))])
            .gives(200, "Each histogram was taken, was not newer than the known one, or was refused.", &receipt(), &example_of_receipt())
            .changes()
            .errors(&[408, 409]),
    ]
}

fn receipt() -> Value {
    let refusal = object(&[
        ("name", nullable(&text()), "The histogram"),
        ("code", text(), "Kind of the error"),
        ("text", text(), "What happened"),
        ("remedy", text(), "What to do"),
    ]);
    object(&[
        ("taken", count(), "Number of snapshots that were taken"),
        ("stale", count(), "Number of snapshots that were not newer than those known"),
        ("refused", list(&refusal), "Histograms that were refused"),
    ])
}

fn example_of_receipt() -> Value {
    json!({ "taken": 1, "stale": 0, "refused": [{ "name": "gain", "code": "other_bins", "text": "what happened", "remedy": "what to do" }] })
}

fn recorded() -> Value {
    object(&[
        ("histogram", reference("Histogram"), "The sum of all publishers"),
        ("publishers", count(), "Number of publishers; all that have ended are one"),
        ("updated_ms", count(), "Time at which one of them published last"),
    ])
}

fn example() -> Value {
    json!({
        "name": "charge", "kind": "1d", "axes": [{ "bins": 2, "low": 0, "high": 4096, "title": "ADC counts" }],
        "entries": 4, "contents": [0, 3, 1, 0], "moments": [4, 2048, 4_194_304]
    })
}

fn example_of_list() -> Value {
    json!({
        "run": 7, "complete": false, "written_ms": 1_780_000_000_000_u64, "socket": "/data/runs/run000007/run.monitor", "reference": 6,
        "publishers": [{ "name": "charge", "updated_ms": 1_780_000_000_000_u64 }], "taken": 12, "stale": 0, "refused": {},
        "histograms": [{
            "name": "charge", "kind": "1d", "title": "Charge", "axes": ["ADC counts"], "source": 3, "entries": 4, "nan": 0, "outside": 0,
            "mean": [512], "rms": [886.8], "publishers": 1, "updated_ms": 1_780_000_000_000_u64,
            "sketch": { "columns": 2, "rows": 1, "x": [0, 4096], "y": [0, 0], "values": [3, 1], "errors": [], "reference": [2.8, 1.2] },
            "comparison": { "chi2": 0.1, "ndf": 1, "probability": 0.75, "kolmogorov": 0.05, "differs": false },
            "not_compared": null
        }]
    })
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let kinds = one_of(&["1d", "2d", "profile"]);
    let numbers = || list(&number());
    let axis = exact(&[
        ("bins", within(0, U32_MAX), "Number of bins, 1 to 65,536"),
        ("low", number(), "Lower edge of the first bin"),
        ("high", number(), "Upper edge of the last bin"),
        ("title?", text(), "Quantity and unit"),
    ]);
    let histogram = exact(&[
        ("name", text(), "Name, unique in a run"),
        ("kind", kinds.clone(), "Kind"),
        ("title?", text(), "Title"),
        ("axes", list(&axis), "One axis, or two of a map"),
        ("value_title?", text(), "Title of the quantity of a profile"),
        ("source?", within(0, U32_MAX), "Source whose data are shown"),
        ("entries", within(0, u64::MAX), "Number of values that were filled"),
        ("nan?", within(0, u64::MAX), "Number of values that were not numbers"),
        ("contents", numbers(), "Sums of the weights: underflow, bins and overflow; rows of these of a map"),
        ("squares?", numbers(), "Sums of the squared weights, if they are not those of `contents`"),
        ("sums?", numbers(), "Sums of weight times y of a profile"),
        ("sums2?", numbers(), "Sums of weight times y squared of a profile"),
        ("moments", numbers(), "Sums of w, wx, wx², and of wy and wy² of a map"),
    ]);
    let publication = exact(&[
        (
            "session",
            json!({ "type": "string", "pattern": "^[0-9a-f]{1,32}$" }),
            "Name that no other publisher has",
        ),
        ("sequence", within(0, u64::MAX), "Number that grows with each publication of the session"),
        ("final?", flag(), "Whether it is the last one of the session"),
        ("histograms?", list(&reference("Histogram")), "Whole snapshots"),
    ]);
    vec![("Histogram", histogram), ("Publication", publication), ("HistogramList", listed(&kinds))]
}

fn listed(kinds: &Value) -> Value {
    let bins = || list(&nullable(&number()));
    let sketch = object(&[
        ("columns", count(), "Number of bins of the first axis"),
        ("rows", count(), "Number of bins of the second axis of a map, otherwise 1"),
        ("x", list(&number()), "Ends of the first axis"),
        ("y", list(&number()), "Ends of the second axis"),
        ("values", bins(), "Sums, row by row; means of a profile"),
        ("errors", bins(), "Standard errors of these means"),
        ("reference", bins(), "Values of the reference, scaled to the same sum"),
    ]);
    let comparison = object(&[
        ("chi2", number(), "Chi-square"),
        ("ndf", count(), "Degrees of freedom"),
        ("probability", number(), "Probability of a chi-square that is at least as large"),
        ("kolmogorov", nullable(&number()), "Largest difference of the cumulative distributions"),
        ("differs", flag(), "Whether they differ"),
    ]);
    let histogram = object(&[
        ("name", text(), "Name"),
        ("kind", kinds.clone(), "Kind"),
        ("title", text(), "Title"),
        ("axes", list(&text()), "Titles of the axes, and of the quantity of a profile"),
        ("source", nullable(&count()), "Source whose data are shown"),
        ("entries", count(), "Number of values that were filled"),
        ("nan", count(), "Number of values that were not numbers"),
        ("outside", number(), "Sum of the weights below and above the axes"),
        ("mean", list(&number()), "Mean of the values in range, for each axis"),
        ("rms", list(&number()), "Standard deviation of the values in range, for each axis"),
        ("publishers", count(), "Number of publishers; all that have ended are one"),
        ("updated_ms", count(), "Time at which one of them published last"),
        ("sketch", sketch, "The histogram with few bins"),
        ("comparison", nullable(&comparison), "Comparison with the reference"),
        ("not_compared", nullable(&text()), "Reason why there is none"),
    ]);
    let publisher =
        object(&[("name", text(), "Name"), ("updated_ms", count(), "Time of its last publication")]);
    object(&[
        ("run", count(), "Number of the run"),
        ("complete", flag(), "Whether the run takes no more"),
        ("written_ms", nullable(&count()), "Time at which the file was written"),
        (
            "socket",
            nullable(&text()),
            "Socket for publishers on the same host, while the run takes histograms",
        ),
        ("reference", nullable(&count()), "Number of the reference run"),
        ("publishers", list(&publisher), "Publishers that have not published their last"),
        ("taken", count(), "Number of snapshots that were taken"),
        ("stale", count(), "Number of snapshots that were not newer than those known"),
        ("refused", map(&count()), "Number of refused histograms and publications, by reason"),
        ("histograms", list(&histogram), "The histograms"),
    ])
}
