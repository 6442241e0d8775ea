// A run with some trouble, for tests and pictures: two builders, one of which is slow.

export function sampleColumns() {
  return [
    ["events_stored", "stored", "1/s", "rate"],
    ["events_rejected", "rejected", "1/s", "rate"],
    ["events_dropped", "dropped", "1/s", "rate"],
    ["events_incomplete", "incomplete", "1/s", "rate"],
    ["triggers_vetoed", "vetoed triggers", "1/s", "rate"],
    ["payload_bytes", "payload of ended events", "B/s", "throughput"],
    ["dead_no_builder", "no builder is connected", "1", "dead_time"],
    ["dead_builder_credit", "builders have no credit left", "1", "dead_time"],
    ["dead_output", "the output of builders is behind", "1", "dead_time"],
    ["dead_event_manager", "the event manager was stalled", "1", "dead_time"],
    ["latency_p50", "half of the events end within", "s", "latency"],
    ["latency_p99", "99 % of the events end within", "s", "latency"],
    ["in_flight", "events in flight", "events", "flow"],
    ["credit_slots", "free slots of builder units", "events", "flow"],
    ["buffer_fraction", "fill of the fullest readout unit", "1", "buffer"],
    ["output_free_bytes", "free space for the output", "B", "output"],
    ["age", "age of the oldest values of a node", "s", "health"],
  ].map(([id, title, unit, panel]) => ({ id, title, unit, panel }));
}

// A value of a column at a time: smooth, with noise that depends on the time alone.
export function sampleValue(id, ms) {
  const seconds = ms / 1000;
  const noise = Math.sin(seconds * 12.9898) * 43758.5453;
  const random = noise - Math.floor(noise);
  const slow = Math.max(0, Math.sin(seconds / 37)) ** 4;
  switch (id) {
    case "events_stored": return 61_000 * (1 - 0.4 * slow) + 3000 * random;
    case "events_rejected": return 6400 + 500 * random;
    case "events_dropped": return random > 0.995 ? 80 : 0;
    case "events_incomplete": return 0;
    case "triggers_vetoed": return 28_000 * slow;
    case "payload_bytes": return 1.9e9 * (1 - 0.4 * slow);
    case "in_flight": return 180 + 240 * slow + 30 * random;
    case "buffer_fraction": return 0.2 + 0.5 * slow + 0.03 * random;
    case "credit_slots": return 512 * (1 - slow);
    case "dead_builder_credit": return 0.25 * slow;
    case "dead_output": return 0.14 * slow * (0.5 + 0.5 * random);
    case "dead_event_manager": return random > 0.99 ? 0.02 : 0.001;
    case "latency_p50": return 0.0021 + 0.004 * slow;
    case "latency_p99": return 0.009 + 0.03 * slow + 0.001 * random;
    case "output_free_bytes": return 1.31e12;
    case "age": return 0.04 + 0.03 * random;
    default: return 0;
  }
}

export function sampleState() {
  const now = Date.now();
  const state = {
    api: 1,
    version: "0.1.0",
    time_ms: now,
    age_ms: 40,
    revision: 812,
    run: {
      number: 7, phase: "running", began_ms: now - 95_000, seconds: 95.204, directory: "/data/run7", waits_for: null, sources: 64, standby: null, unmirrored: null, verdict: null,
    },
    triggers: { offered: 6_412_384, accepted: 6_093_210, vetoed: 319_174 },
    events: {
      stored: 5_501_377, rejected: 591_190, dropped: 212, in_flight: 431, incomplete: 0,
      drops: [{ reason: "builder_lost", count: 212, account: "loss" }],
    },
    fragments: {
      received: 389_969_901, stored: 352_088_128, rejected: 37_836_160, dropped: 16_029, in_flight: 29_584,
      drops: [
        { reason: "event_dropped", count: 13_568, account: "with its event" },
        { reason: "duplicate", count: 2461, account: "no accepted trigger" },
      ],
    },
    imbalance: { triggers: 0, fragments: 0 },
    dead_time: {
      live_seconds: 90.464, dead_seconds: 4.74,
      now: { cause: "builder_credit", culprit: "bu1" },
      causes: [
        { cause: "builder_credit", text: "builders have no credit left", remedy: "add builder units, or raise filter.workers and builder.slots", seconds: 3.101, vetoed: 209_331, culprits: [{ node: "bu1", seconds: 2.9 }, { node: "bu0", seconds: 0.1 }] },
        { cause: "output", text: "the output of builders is behind", remedy: "look for a full, dead or slow disk", seconds: 1.629, vetoed: 109_702, culprits: [{ node: "bu1", seconds: 1.5 }] },
        { cause: "event_manager", text: "the event manager was stalled", remedy: "reserve a processor for it", seconds: 0.01, vetoed: 141, culprits: [{ node: "evm", seconds: 0.01 }] },
      ],
    },
    nodes: [],
    sources: [
      { source: 17, name: "DU3-DOM7", node: "ru1", last_seen_seconds: 7.2, held_back: true, missing: [] },
      { source: 44, name: "DU9-DOM2", node: null, last_seen_seconds: null, held_back: false, missing: [{ reason: "source_absent", events: 1204 }] },
    ],
    latency: {
      bounds_s: [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100],
      counts: [0, 0, 0, 0, 1042, 21_093, 801_773, 2_104_411, 2_490_322, 530_931, 101_283, 38_911, 2_801, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      sum_s: 17_012.4,
    },
    alarms: [
      { code: "loss", severity: "error", text: "212 events were lost: builder_lost", culprit: "builder_lost", remedy: "docs/operating/troubleshooting.md explains each reason, and what prevents it", since_ms: now - 41_000, silence: null, folded: [] },
      { code: "dead-time", severity: "warning", text: "33 % dead time in the last 10 s: builders have no credit left", culprit: "bu1", remedy: "add builder units, or raise filter.workers and builder.slots", since_ms: now - 12_000, silence: null, folded: [] },
    ],
    past_alarms: [],
    values: { declared: 4, fresh: 2, stale: 1, unknown: 1 },
    log: [],
  };
  for (let index = 0; index < 4; index += 1) state.nodes.push(readout(index));
  for (let index = 0; index < 4; index += 1) state.nodes.push(builder(index));
  state.nodes.push({ name: "evm", role: "manager", agent: null, up: true, age_ms: 11, restarts: 0, excluded: false, output_failing: false, fill: {} });
  state.nodes.push({
    name: "out0", role: "output", agent: null, up: true, age_ms: 31, restarts: 0, excluded: false, output_failing: false,
    fill: { buffer: { value: 81_000_000, limit: 268_435_456, unit: "B" }, slots: { value: 201, limit: 1024, unit: "events" } },
  });
  const texts = [
    ["info", "run-begins", null, "run 7 begins: 64 sources, 4 readout units, 4 builder units, 1 output node"],
    ["info", "feeder-joined", "ru1", "source 17 (DU3-DOM7) is there"],
    ["warning", "source-silent", "ru2", "source 44 (DU9-DOM2) has sent nothing yet"],
    ["error", "process-ended", "bu3", "bu3 ended: signal: 9 (SIGKILL)"],
    ["info", "other", "bu3", "bu3 is started again, for the first time"],
    ["warning", "dead-time", "evm", "dead time: builders have no credit left; culprit bu1"],
    ["warning", "output-failing", "bu1", "the disk of /data/run7 takes 1.3 s for a write"],
  ];
  texts.forEach(([level, code, node, text], index) => state.log.push({ number: index + 1, time_ms: now - 95_000 + index * 13_000, level, code, node, text }));
  return state;
}

// A quarter of a second later.
export function advance(state) {
  state.run.seconds += 0.25;
  state.triggers.offered += 16_900;
  state.triggers.accepted += 16_200;
  state.triggers.vetoed += 700;
  state.events.stored += 14_700;
  state.events.rejected += 1500;
  state.fragments.received += 1_036_800;
  state.fragments.stored += 940_800;
  state.fragments.rejected += 96_000;
  state.dead_time.live_seconds += 0.24;
  state.dead_time.dead_seconds += 0.01;
}

// The figures of each node.
export function sampleFigures(name) {
  const index = Number(name.replace(/\D/g, ""));
  if (name.startsWith("ru")) return [{ name: "received_bytes", text: "Payload received from sources.", value: 178_230_129_331 + index }];
  if (!name.startsWith("bu")) return [];
  return [
    { name: "events (stored)", text: "Events by outcome.", value: 1_523_303 + index },
    { name: "filter_seconds", text: "Time in the filter.", value: 71.25 },
  ];
}

// The summary of a run that has ended.
export function sampleSummary() {
  return [
    "kept              all 6,093,210 accepted triggers: 5,501,808 stored, 591,190 rejected by the filter",
    "",
    "events built             6,092,998  64,004/s",
    "  incomplete                     0  lack a required source",
    "",
    "ledger                    triggers       fragments",
    "received                 6,093,210     389,969,901",
  ];
}

function readout(index) {
  return {
    name: `ru${index}`, role: "readout", agent: null, up: true, age_ms: 12 + index, restarts: 0, excluded: false, output_failing: false,
    fill: {
      buffer: { value: 61_000_000 + 310_000_000 * (index === 1 ? 1 : 0), limit: 402_653_184, unit: "B" },
      slots: { value: 431 + index, limit: 65_536, unit: "events" },
    },
  };
}

function builder(index) {
  return {
    name: `bu${index}`, role: "builder", agent: null, up: index !== 3, age_ms: index === 3 ? 900 : 20 + index, restarts: index === 3 ? 1 : 0,
    excluded: false, output_failing: false,
    fill: {
      buffer: { value: index === 1 ? 230_000_000 : 40_000_000, limit: 268_435_456, unit: "B" },
      slots: { value: index === 1 ? 128 : 44 + index, limit: 128, unit: "events" },
    },
  };
}

// Why each command cannot be given in a state; the others can be.
const NO_RUN = "no run is in progress";
const REFUSALS = {
  idle: { start: "nothing is configured", pause: NO_RUN, resume: NO_RUN, stop: NO_RUN, reset: "nothing is configured" },
  configuring: { configure: "it is being configured", start: "it is being configured", pause: NO_RUN, resume: NO_RUN, stop: NO_RUN },
  configured: { pause: NO_RUN, resume: NO_RUN, stop: NO_RUN },
  running: { configure: "a run is in progress", start: "a run is in progress", resume: "the run is not paused" },
  paused: { configure: "a run is in progress", start: "a run is in progress", pause: "the run is paused" },
  stopping: { configure: "a run is in progress", start: "a run is in progress", pause: "the run is ending", resume: "the run is ending" },
};
export const COMMANDS = ["configure", "start", "pause", "resume", "stop", "reset"];
const TARGETS = { configuring: "configured", stopping: "configured" };

export function sampleCommands(state) {
  return COMMANDS.map((command) => ({ command, allowed: REFUSALS[state][command] === undefined, why: REFUSALS[state][command] ?? null }));
}

// Run control in a state.
export function sampleControl(state = "running") {
  const now = Date.now();
  const hasRun = ["running", "paused", "stopping"].includes(state);
  return {
    state, target: TARGETS[state] ?? state, revision: 17, system: "tpc test stand", run: hasRun ? 124 : null, by: hasRun ? "alice" : null,
    ends: { events: 1_000_000, duration_ms: null },
    operation: null,
    last: { id: 4, command: "start", by: "alice", began_ms: now - 95_000, ended_ms: now - 93_000, result: "done", text: "run 124 began with 10 nodes" },
    lock: null,
    faults: [],
    sources: [],
    nodes: [],
    sequence: null,
    partition: null,
    partitions: null,
    commands: sampleCommands(state),
  };
}

// The whole system, and three partitions: one in use by its own run, one by that of another, one free.
export function samplePartitions() {
  const used = (partition, run, by) => ({ partition, run, by, since_ms: Date.now() - 60_000, host: "daq1", process: 4711, page: null });
  const calo = used("calo", 125, "bob");
  return [
    { partition: null, nodes: 0, sources: 0, controller: null, remote: null, in_use: [calo, used("tracker", null, "alice")] },
    { partition: "calo", nodes: 3, sources: 16, controller: "http://127.0.0.1:7071/", remote: "https://daq1:7443/", in_use: [calo] },
    { partition: "cosmics", nodes: 6, sources: 20, controller: "javascript:alert(1)", remote: null, in_use: [calo, used("tracker", null, "alice")] },
    { partition: "muon", nodes: 2, sources: 4, controller: null, remote: null, in_use: [] },
    { partition: "tracker", nodes: 5, sources: 64, controller: "http://127.0.0.1:7070/", remote: null, in_use: [used("tracker", null, "alice")] },
  ];
}

// A sequence of three rows, the second of which is in progress.
export function sampleSequence(edit = {}) {
  return {
    id: 2, name: "thresholds", by: "alice", state: "running", reason: null, on_failure: "pause", row: 2, launch: 7, row_began_ms: Date.now() - 20_000,
    rows: 3, done: 1, failed: 0, skipped: 0, mean_ms: 61_000, ...edit,
  };
}

export function sampleFault() {
  return { id: 3, since_ms: Date.now() - 41_000, node: "bu3", code: "node_died", text: "the process ended: signal 9 (SIGKILL)", remedy: "look at the log of bu3; it was started again" };
}

// Commands in the record of a run.
function sampleGiven(run) {
  const { created_ns } = sampleRecord(run);
  return [
    { time_ns: created_ns - 1.25e9, by: "alice", via: "page", command: "start", comment: "cosmics", result: "done", text: `run ${run} is running`, ended_ns: created_ns },
    { time_ns: created_ns + 1_234.5e9, by: "bob", via: "sheaf ctl", command: "exclude", target: "source 17 (<i>ecal</i>)", result: "failed", text: "the run ended" },
    { time_ns: created_ns + 1_240e9, by: "bob", command: "pause" },
  ];
}

// One time for all records of a run: commands are shown with the time since its start, to a millisecond.
const LOADED_NS = Date.now() * 1e6;

// The record of a run, as `sheaf runs show --json` prints it.
export function sampleRecord(run, edit = {}) {
  const began = LOADED_NS - (130 - run) * 4e12;
  return {
    run, directory: `/data/run${String(run).padStart(6, "0")}`, state: "good", software: "sheaf 0.1.0", configuration: { name: "physics", id: "5c01a3e2" }, created_ns: began, ended_ns: began + 1.803e12,
    end: { reason: "events", good: true, lost: 0 },
    ledger: {
      offered: 1_052_632, vetoed: { output: 52_632 }, triggers: 1_000_000, stored: 912_331, rejected: 87_669, dropped: {}, in_flight: 0, balanced: true, problems: [],
      fragments: { received: 64_000_000, stored: 58_389_184, rejected: 5_610_816, dropped: {} }, time: { run_ns: 1.8e12, live_ns: 1.71e12, dead_ns: { output: 9e10 } },
    },
    files: [{ file: "stream0-part0.shf", stream: "main", events: 912_331, bytes: 29_321_334_112 }],
    code: [{ table: "filter", path: "/opt/tpc/libtracks.so", bytes: 81_233, crc32c: "0a1b2c3d" }],
    comments: [],
    ...edit,
  };
}

export function sampleRecords() {
  return [
    sampleRecord(119), sampleRecord(120, { comments: [{ time_ns: Date.now() * 1e6 - 3e13, author: "ann", text: "threshold raised", quality: "good" }] }),
    sampleRecord(121, { state: "not_closed", ended_ns: null, end: null, ledger: null, files: [] }),
    sampleRecord(122, {
      state: "not_good", end: { reason: "failure", detail: "bu3 ended: signal 9 (SIGKILL)", good: false, lost: 212 },
      comments: [{ time_ns: Date.now() * 1e6 - 2e13, author: "bob", quality: "bad" }],
      changed: { "filter.workers": ["4", "8"], "run.events": [null, "1000000"] },
      commands: sampleGiven(122), commands_left_out: 12,
    }),
    sampleRecord(123), sampleRecord(124, { state: "in_progress", ended_ns: null, end: null, ledger: null, files: [] }),
  ];
}

export function sampleAudit() {
  const now = Date.now();
  return [
    { at_ms: now - 400_000, by: "bob", action: "configure", answer: "accepted", text: "tpc test stand" },
    { at_ms: now - 97_000, by: "carol", action: "start", answer: "refused", text: "bob has the lock until 12:40" },
    { at_ms: now - 95_000, by: "alice", action: "start", answer: "accepted", text: "run 124, 1,000,000 events" },
  ];
}

// Remarkable events of run 7, the newest first.
export function sampleTraces() {
  const ended_ms = Date.now() - 5_000;
  return {
    run: 7, slow_ns: 1e9, sample: 1000, traces: 40, left_out: {},
    events: [
      { event: 3611, reasons: ["incomplete"], outcome: "stored", ended_ms, duration_ns: 22_191_000, missing: [3] },
      { event: 1413, reasons: ["slow"], outcome: "stored", ended_ms: ended_ms - 2000, duration_ns: 90_400_000, missing: [] },
    ],
  };
}

// The trace of an event whose filter was slow.
export function sampleTrace() {
  const start = 1.795e18;
  const span = (name, node, begin_us, end_us, note = "") => ({ name, node, note, clock: 0, start_ns: start + begin_us * 1000, end_ns: end_us === null ? null : start + end_us * 1000 });
  return {
    trace: { run: 7, event: 1413, reasons: ["slow"], stamps: [], missing: [{ source: 3, name: "ecal-left", reason: "source_skipped", required: true }] },
    spans: [
      span("event", "", 0, 90_400, "stored"), span("readout.hold", "ru1", -900, 500, "source 4 was last"), span("queue", "evm", 0, 200, "for bu0"),
      span("build.gather", "bu0", 386, 7_226, "ru1 answered last"), span("filter.judge", "bu0", 7_230, 87_130), span("output.durable", "bu0", 87_200, 89_570),
      span("release", "ru1", 90_400, null),
    ],
  };
}

// Histograms of run 7: a charge that differs from the reference, the hits of channels, and gains with their errors.
export function sampleHistograms() {
  const updated_ms = Date.now() + 3_600_000;
  const bell = (bin, middle, wide) => Math.round(1000 * Math.exp(-0.5 * ((bin - middle) / wide) ** 2) + 20 * (1 + Math.sin(7 * bin)));
  const bins = (number, of) => Array.from({ length: number }, (_, bin) => of(bin));
  const common = { source: null, nan: 0, outside: 12, publishers: 1, updated_ms, comparison: null, not_compared: null, axes: ["ADC counts"] };
  const alike = { chi2: 44.1, ndf: 47, probability: 0.59, kolmogorov: 0.004, differs: false };
  const line = (name, title, values, reference, more) => ({
    ...common, name, title, kind: "1d", entries: values.reduce((sum, value) => sum + value, 0), mean: [1830.2], rms: [310.7],
    sketch: { columns: values.length, rows: 1, x: [0, 4096], y: [0, 0], values, errors: [], reference }, comparison: alike, ...more,
  });
  const charge = line("charge", "Charge", bins(48, (bin) => bell(bin, 21, 5)), bins(48, (bin) => bell(bin, 24, 5)), {
    source: 3, comparison: { chi2: 1213.6, ndf: 47, probability: 3e-220, kolmogorov: 0.21, differs: true },
  });
  const time = line("time", "Time of the hits", bins(48, (bin) => bell(bin, 12, 3)), bins(48, (bin) => bell(bin, 12, 3) + 5), { axes: ["ns"] });
  const hits = {
    ...common, name: "hits", title: "Hits", kind: "2d", axes: ["channel", "source"], entries: 81_234, mean: [31.4, 3.6], rms: [18.2, 2.2], comparison: alike,
    sketch: { columns: 48, rows: 8, x: [0, 64], y: [0, 8], values: bins(384, (bin) => (bin % 48 === 30 ? 0 : bell(bin % 48, 24, 14) + 4 * (bin % 7))), errors: [], reference: [] },
  };
  const gain = {
    ...common, name: "gain", title: "Gain", kind: "profile", axes: ["channel", "gain"], entries: 4_112, mean: [15.5], rms: [9.2], not_compared: "fewer than 50 entries",
    sketch: { columns: 32, rows: 1, x: [0, 32], y: [0, 0], values: bins(32, (bin) => (bin === 9 ? null : 1 + 0.1 * Math.sin(bin))), errors: bins(32, (bin) => (bin === 9 ? null : 0.02 + 0.01 * (bin % 3))), reference: bins(32, (bin) => 1 + 0.1 * Math.sin(bin + 0.2)) },
  };
  return { run: 7, complete: false, written_ms: updated_ms, socket: null, reference: 6, publishers: [], taken: 12, stale: 0, refused: {}, histograms: [charge, gain, hits, time] };
}

// Values from outside: one in order, one beyond its limit, one that nobody sends any more, one whose file is damaged.
export function sampleValues(now = Date.now()) {
  const none = { warning_below: null, warning_above: null, error_below: null, error_above: null };
  const trend = (value) => Array.from({ length: 60 }, (_, index) => value(index));
  const value = { unit: null, value: null, state: "unknown", level: null, age_ms: null, missing_ms: 0, stale_ms: 30_000, file: null, by: null, problem: null, ...none, readings: 0 };
  return {
    time_ms: now,
    values: [
      { ...value, name: "beam", unit: "nA", value: 12.52, state: "stale", age_ms: 154_000, by: "epics", readings: 812, trend: trend((index) => (index < 45 ? 12.4 + 0.2 * Math.sin(index / 5) : null)) },
      { ...value, name: "crate", unit: "\u00b0C", file: "/run/crate", problem: 'the file has "ERR", which is not one number' },
      { ...value, name: "hv-ecal", unit: "V", value: 1561.25, state: "fresh", level: "warning", age_ms: 400, file: "/run/hv/ecal", warning_below: 1450, warning_above: 1550, error_above: 1600, readings: 900,
        trend: trend((index) => 1500 + (index > 40 ? 3 * (index - 40) : Math.sin(index))) },
      { ...value, name: "magnet", unit: "T", value: 1.4002, state: "fresh", level: "good", age_ms: 900, by: "epics", readings: 88, trend: trend((index) => (index > 12 && index < 18 ? null : 1.4 + 0.0001 * Math.cos(index / 3))) },
    ],
    refused: { undeclared: 2, from_file: 0, no_number: 0, late: 0, future: 0, invalid: 0 },
  };
}
