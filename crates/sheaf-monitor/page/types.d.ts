/** Types of what the server sends. There is no code: other modules import the types in comments. */

export type Phase = "starting" | "ready" | "running" | "paused" | "finishing" | "closing" | "closed" | "none";
export type Severity = "info" | "warning" | "error";
export type Role = "readout" | "builder" | "manager" | "output";

/** The result of a run that has ended. */
export interface Verdict {
  good: boolean;
  /** The summary, aligned for a font of fixed width. */
  lines: string[];
}

export interface Run {
  /** Null before the event manager has published. */
  number: number | null;
  phase: Phase;
  /** Unix time. */
  began_ms: number | null;
  /** Live and dead time. */
  seconds: number;
  /** Null if the run writes no files. */
  directory: string | null;
  waits_for: string | null;
  /** Number of sources. */
  sources: number;
  /** Null if the run is to have none, and before the event manager has published. */
  standby: Standby | null;
  /** Readout units without a mirror that could act for them. Null in a run without mirrors, and before the event manager has published. */
  unmirrored: string[] | null;
  verdict: Verdict | null;
}

/** The standby event manager. */
export interface Standby {
  /** Whether it can take over. */
  ready: boolean;
  take_overs: number;
  held_messages: number;
  wait_seconds: number;
}

export interface Triggers {
  offered: number;
  accepted: number;
  vetoed: number;
}

export interface Drop {
  reason: string;
  count: number;
  account: string;
}

export interface Events {
  stored: number;
  rejected: number;
  dropped: number;
  in_flight: number;
  /** Stored or rejected without a required source. */
  incomplete: number;
  bytes: number;
  drops: Drop[];
}

export interface Fragments {
  received: number;
  stored: number;
  rejected: number;
  dropped: number;
  in_flight: number;
  drops: Drop[];
}

export interface Cause {
  cause: string;
  text: string;
  remedy: string;
  seconds: number;
  vetoed: number;
  culprits: {node: string, seconds: number}[];
}

export interface DeadTime {
  live_seconds: number;
  dead_seconds: number;
  /** Null while triggers are taken. */
  now: {cause: string, culprit: string | null} | null;
  causes: Cause[];
}

export interface Fill {
  value: number;
  limit: number;
  unit: string;
}

/** A number of a node. */
export interface Figure {
  name: string;
  text: string;
  value: number;
}

/** The answer about one node. */
export interface NodeFigures {
  name: string;
  figures: Figure[];
}

export interface Node {
  name: string;
  role: Role;
  /** Whether it has published and has not ended. */
  up: boolean;
  /** Null if it has not published. */
  age_ms: number | null;
  restarts: number;
  /** Whether its output does not work or has no room. */
  /** Address of the agent that starts it on another host. */
  agent: string | null;
  /** Whether an operator has excluded it. */
  excluded: boolean;
  output_failing: boolean;
  /** By buffer: `buffer` for payload, `slots` for events. */
  fill: Record<string, Fill>;
}

/** A source in trouble. */
export interface Source {
  source: number;
  name: string | null;
  /** Its readout unit. */
  node: string | null;
  last_seen_seconds: number | null;
  /** Whether its readout unit has no room for its next fragment. */
  held_back: boolean;
  missing: {reason: string, events: number}[];
}

export interface Latency {
  /** Upper bounds of the bins. */
  bounds_s: number[];
  /** One more than bounds. */
  counts: number[];
  sum_s: number;
}

export interface Alarm {
  code: string;
  severity: Severity;
  text: string;
  culprit: string | null;
  remedy: string;
  /** Unix time. */
  since_ms: number;
  silence: { id: number; by: string; why: string; until_ms: number } | null;
  /** Alarms that it stands for: those of the nodes of a host, or of several hosts. */
  folded: Alarm[];
}

export interface PastAlarm extends Alarm {
  ended_ms: number;
  times: number;
}

export interface Message {
  number: number;
  /** Unix time. */
  time_ms: number;
  level: Severity;
  /** Kind of the message, of which `/codes` has an entry. */
  code: string;
  node: string | null;
  text: string;
}

export interface State {
  api: number;
  version: string;
  /** Unix time at which the server made the state. */
  time_ms: number;
  /** Age of the oldest values of a node that has not ended. */
  age_ms: number | null;
  revision: number;
  run: Run;
  triggers: Triggers;
  events: Events;
  fragments: Fragments;
  imbalance: {triggers: number, fragments: number};
  dead_time: DeadTime;
  nodes: Node[];
  sources: Source[];
  latency: Latency;
  alarms: Alarm[];
  past_alarms: PastAlarm[];
  /** Numbers of values from outside. */
  values: { declared: number; fresh: number; stale: number; unknown: number };
  /** Absent where the page belongs to one run, which nobody controls. */
  control?: Control;
  log: Message[];
}

/** A column of the binary answers. */
export interface Column {
  id: string;
  title: string;
  unit: string;
  panel: string;
}

/** A node that is not simply included, or is being started again. */
export interface NodeControl {
  node: string;
  /** Whether it is to be included. */
  included: boolean;
  /** Whether the run excludes it now. */
  excluded: boolean;
  /** Whether it is being started again. */
  recovering: boolean;
  /** Why it was not started again, if the run has refused that. */
  not_recovered: string | null;
}

/** A source that is not simply included. */
export interface SourceControl {
  source: number;
  name: string | null;
  /** Whether it is to be included. */
  included: boolean;
  /** Whether the run excludes it now. */
  excluded: boolean;
}

/** A command in progress. */
export interface Operation {
  id: number;
  command: string;
  by: string;
  began_ms: number;
  deadline_ms: number | null;
  progress: string | null;
}

/** A command that has ended. */
export interface Outcome {
  id: number;
  command: string;
  by: string;
  began_ms: number;
  ended_ms: number;
  result: "done" | "failed" | "superseded";
  text: string | null;
}

/** Something that went wrong and that an operator has not seen yet. */
export interface Fault {
  id: number;
  since_ms: number;
  node?: string | null;
  code: string;
  text: string;
  remedy: string;
}

export interface Command {
  command: string;
  allowed: boolean;
  /** Why it cannot be given. */
  why: string | null;
}

/** Run control. */
export interface Control {
  state: "idle" | "configuring" | "configured" | "running" | "paused" | "stopping";
  target: string;
  /** Changes with everything that a person would act on. */
  revision: number;
  /** Name of the configuration. */
  system: string;
  /** Null: the whole system. */
  partition: string | null;
  /** Null if there are none, or it is not known who has them. */
  partitions: Partition[] | null;
  run: number | null;
  by: string | null;
  ends: { events: number | null; duration_ms: number | null } | null;
  operation: Operation | null;
  last: Outcome | null;
  lock: { by: string; until_ms: number } | null;
  faults: Fault[];
  sources: SourceControl[];
  nodes: NodeControl[];
  sequence: Sequence | null;
  commands: Command[];
}

/** A part of the system that has runs of its own, or the whole. */
export interface Partition {
  /** Null: the whole system. */
  partition: string | null;
  nodes: number;
  sources: number;
  /** Page of its controller, on the host of that, and for other hosts. */
  controller: string | null;
  remote: string | null;
  /** Runs that have something of it. */
  in_use: { partition: string | null; run: number | null; by: string; since_ms: number; host: string; process: number; page: string | null }[];
}

/** Runs from a table, one after the other. */
export interface Sequence {
  id: number;
  name: string;
  by: string;
  state: "running" | "paused" | "stopping" | "ended";
  /** Why it is paused, or how it ended. */
  reason: string | null;
  /** The row in progress or the next one, from 1. */
  row: number | null;
  row_began_ms: number | null;
  rows: number;
  done: number;
  failed: number;
  skipped: number;
  /** Mean time of a row that is done. */
  mean_ms: number | null;
}

/** Role of a person, with the rights of those before it. */
export type RoleOfPerson = "viewer" | "operator" | "expert" | "admin";

/** The person that a token belongs to. */
export interface Me {
  name: string;
  role: RoleOfPerson;
}

/** A version of a configuration with a name. */
export interface NamedConfiguration {
  name: string;
  version: number;
  run: number;
  by: string;
  time_ns: number;
}

/** A given command or other request, for the audit trail. */
export interface AuditEntry {
  at_ms: number;
  by: string;
  action: string;
  answer: string;
  text: string;
}

/** Remarkable events of a run, the newest first. */
export interface TracedList {
  run: number;
  events: TracedEvent[];
}

export interface TracedEvent {
  event: number;
  reasons: string[];
  outcome: string | null;
  ended_ms: number | null;
  duration_ns: number | null;
  missing: number[];
}

/** The trace of an event. */
export interface Traced {
  trace: { missing?: { source: number; name?: string; reason: string }[] };
  spans: Span[];
}

export interface Span {
  name: string;
  node: string;
  start_ns: number;
  end_ns: number | null;
  note?: string;
  clock: number;
}

/** The record of a run. */
export interface RunRecord {
  run: number;
  directory: string;
  state: string;
  software: string;
  /** Unix time. */
  created_ns: number;
  ended_ns: number | null;
  end: { reason: string; detail?: string | null; good: boolean; lost: number } | null;
  /** Null until the run is closed. */
  ledger: {
    offered: number;
    triggers: number;
    stored: number;
    rejected: number;
    dropped: Record<string, number>;
    balanced: boolean;
    problems: string[];
    time: { run_ns: number; live_ns: number; dead_ns: Record<string, number>; started_ns?: number | null };
  } | null;
  files: { file: string; stream: string; events: number; bytes: number }[];
  code: { table: string; path: string }[];
  /** Runs with the same id were made in the same way. */
  configuration: { name: string | null; id: string };
  comments: { time_ns: number; author: string; text?: string; quality?: string }[];
  /** Where the configuration comes from, if it was started like another run. */
  configuration_from?: { run: number; name?: string; version?: number };
  /** Commands of run control, the oldest first; absent if there are none. */
  commands?: RunCommand[];
  /** Number of further commands between the first half of them and the last. */
  commands_left_out?: number;
  /** Settings that differ from those of the run before: their values then and now. */
  changed?: Record<string, (string | null)[]>;
}

/** A command in the record of a run. */
export interface RunCommand {
  /** Unix time. */
  time_ns: number;
  by: string;
  /** Where it came from. */
  via?: string;
  command: string;
  target?: string;
  comment?: string;
  /** Absent if it is not known. */
  result?: string;
  text?: string;
  ended_ns?: number;
}

/** Values from outside. */
export interface ValueList {
  /** Unix time. */
  time_ms: number;
  values: SlowValue[];
  refused: Record<string, number>;
}

export interface SlowValue {
  name: string;
  unit: string | null;
  /** The last number; that of now only if the value is fresh. */
  value: number | null;
  state: "fresh" | "stale" | "unknown";
  /** Null unless it is fresh. */
  level: "good" | "warning" | "error" | null;
  age_ms: number | null;
  stale_ms: number;
  file: string | null;
  by: string | null;
  problem: string | null;
  warning_below: number | null;
  warning_above: number | null;
  error_below: number | null;
  error_above: number | null;
  /** Means over 10 s, the newest last; absent before the first. */
  trend?: (number | null)[];
}

/** The histograms of a run. */
export interface HistogramList {
  run: number;
  /** Whether the run takes no more. */
  complete: boolean;
  reference: number | null;
  refused: Record<string, number>;
  histograms: Histogram[];
}

export interface Histogram {
  name: string;
  kind: "1d" | "2d" | "profile";
  title: string;
  /** Titles of the axes, and of the quantity of a profile. */
  axes: string[];
  source: number | null;
  entries: number;
  nan: number;
  /** Sum of the weights out of range. */
  outside: number;
  /** For each axis; empty without entries. */
  mean: number[];
  rms: number[];
  publishers: number;
  /** Unix time. */
  updated_ms: number;
  sketch: {
    columns: number;
    rows: number;
    x: number[];
    y: number[];
    values: (number | null)[];
    errors: (number | null)[];
    reference: (number | null)[];
  };
  comparison: { chi2: number; ndf: number; probability: number; kolmogorov: number | null; differs: boolean } | null;
  not_compared: string | null;
}

/** A unit of the map. */
export interface MapUnit {
  name: string;
  condition: "reporting" | "absent" | "silent" | "ended" | "excluded";
  /** Age of its values, if it is silent. */
  age_ms?: number;
}

/** A row, column or cell of the map that is in trouble. */
export interface MapTrouble {
  /** Index of the readout unit; null for a column. */
  readout: number | null;
  /** Index of the builder unit; null for a row. */
  builder: number | null;
  seconds: number | null;
  text: string;
  remedy: string;
}

/** What the server says of a map beside its values. */
export interface MapHead {
  run: number | null;
  quantity: "wait" | "rate";
  unit: string;
  readouts: MapUnit[];
  builders: MapUnit[];
  summary: string;
  troubles: MapTrouble[];
}
