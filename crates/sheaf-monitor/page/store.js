/** The state of the run: the stream of states, the connection, and the age of the data. */

/** @import { Run, State } from "./types.js" */
import { Delay, Rates } from "./measures.js";

/** API version of this page. */
const API = 1;
/** Data older than this are not shown as current. */
export const STALE_SECONDS = 2;
const SHORTEST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** The server sends at least one state a second; without any for this long, the connection counts as gone. */
const SILENCE_MS = 5000;
/** Number of starts of runs that charts mark. */
const MAX_STARTS = 32;

/** Parts of a state, and whether they are lists. @type {[keyof State, boolean][]} */
const PARTS = [
  ["run", false], ["triggers", false], ["events", false], ["fragments", false], ["imbalance", false], ["dead_time", false],
  ["latency", false], ["nodes", true], ["sources", true], ["alarms", true], ["log", true],
];

/**
 * @typedef {object} Freshness
 * @property {boolean} blind Whether what is shown may not be what is.
 * @property {number} age Age of the data in seconds, infinite if there are none.
 * @property {string} reason Why the page is blind, empty if it is not.
 * @property {string[]} silent Nodes that do not report, while the event manager does. What is theirs is not that of now.
 * @property {boolean} blindToFragments Whether the books of fragments may not be what is.
 */

export class Store {
  /** @param {{url: string, onChange: () => void}} options */
  constructor(options) {
    this.options = options;
    /** @type {State | null} */
    this.state = null;
    /** When the state arrived, by `performance.now()`. */
    this.arrived = 0;
    /** @type {"connecting" | "open" | "waiting"} */
    this.connection = "connecting";
    this.pauseMs = SHORTEST_PAUSE_MS;
    /** Text about what arrived last and cannot be used. @type {string | null} */
    this.problem = null;
    /** Whether the server shows nothing without a token. */
    this.locked = false;
    /** Whether it has ever been so. */
    this.guarded = location.protocol === "https:";
    /** Version of the server that this page is from. @type {string | null} */
    this.version = null;
    /** Number of connections so far. */
    this.connections = 0;
    this.delay = new Delay();
    this.rates = new Rates();
    /** @type {{number: number, began_ms: number}[]} starts of the last runs */
    this.starts = [];
    /** @type {EventSource | null} */
    this.source = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  connect() {
    clearTimeout(this.timer);
    this.source?.close();
    this.connection = "connecting";
    this.connections += 1;
    const source = new EventSource(this.options.url);
    this.source = source;
    source.addEventListener("state", (event) => this.receive(event.data));
    source.addEventListener("error", () => {
      this.lose();
      void this.askWhy();
    });
    this.timer = setTimeout(() => this.lose(), SILENCE_MS);
    this.options.onChange();
  }

  /** Closes the connection, and opens another one after a pause that grows. */
  lose() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.connection = "waiting";
    const pause = this.pauseMs;
    this.pauseMs = Math.min(2 * pause, LONGEST_PAUSE_MS);
    this.timer = setTimeout(() => this.connect(), pause);
    this.options.onChange();
  }

  /** Finds out whether a token is missing: a stream does not tell why it has failed. */
  async askWhy() {
    try {
      const response = await fetch(this.options.url.replace(/stream$/, "state"), { signal: AbortSignal.timeout(SILENCE_MS), cache: "no-store" });
      // Too many wrong tokens (429): perhaps those of a page that was left open.
      this.locked = response.status === 401 || response.status === 429;
      this.guarded ||= this.locked;
      await response.body?.cancel();
    } catch {
      // There is no connection: nothing is known.
    }
    this.options.onChange();
  }

  /** Begins anew, for somebody else. What has been shown is not for everybody. */
  restart() {
    this.state = null;
    this.locked = false;
    this.pauseMs = SHORTEST_PAUSE_MS;
    this.connect();
  }

  /** @param {string} text */
  receive(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lose(), SILENCE_MS);
    try {
      this.accept(parse(text));
      this.problem = null;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.options.onChange();
  }

  /** @param {State} state */
  accept(state) {
    this.version ??= state.version;
    this.arrived = performance.now();
    this.connection = "open";
    this.locked = false;
    this.pauseMs = SHORTEST_PAUSE_MS;
    this.delay.add(this.arrived, state.time_ms);
    this.rates.add(state);
    this.state = state;
    this.note(state.run);
  }

  /** Remembers the start of a run. @param {Pick<Run, "number" | "began_ms">} run */
  note({ number, began_ms }) {
    if (number === null || began_ms === null) return;
    if (this.starts.some((start) => start.number === number && start.began_ms === began_ms)) return;
    this.starts.push({ number, began_ms });
    if (this.starts.length > MAX_STARTS) this.starts.shift();
  }

  /** Returns whether the data are those of now. @param {number} now by `performance.now()` @returns {Freshness} */
  freshness(now) {
    if (this.state === null) return blind(Infinity, this.locked ? "a token is needed" : (this.problem ?? "no data yet"));
    const sent = (now - this.arrived) / 1000 + this.delay.seconds;
    const age = Math.max(0, sent + ageOfBooks(this.state) / 1000);
    if (this.locked) return blind(age, "a token is needed");
    if (this.connection !== "open") return blind(age, "no connection to the server");
    if (this.problem !== null) return blind(age, this.problem);
    if (age > STALE_SECONDS) {
      if (sent > STALE_SECONDS) return blind(age, "the server sends nothing");
      // A run that was killed has no last figures, so nothing says that all is well.
      const killed = this.state.control?.state === "idle";
      return blind(age, killed ? "the run ended without its last figures" : "the event manager does not report");
    }
    const silent = isOver(this.state) ? [] : this.state.nodes.filter((node) => node.up && (node.age_ms ?? 0) >= 1000 * STALE_SECONDS);
    const blindToFragments = silent.some((node) => node.role === "readout");
    return { blind: false, age, reason: "", silent: silent.map((node) => node.name), blindToFragments };
  }
}

/** @param {number} age @param {string} reason @returns {Freshness} */
function blind(age, reason) {
  return { blind: true, age, reason, silent: [], blindToFragments: true };
}

/** Returns whether nobody measures any more: after the end of a run its last figures stay true. @param {State} state */
function isOver(state) {
  return state.run.phase === "none" || state.run.phase === "closed";
}

/**
 * Returns the age in ms of the values of the event manager, which has the books of triggers, the dead time and the rates. One silent
 * node of many must not hide them.
 *
 * @param {State} state
 */
function ageOfBooks(state) {
  if (isOver(state)) return 0;
  const manager = state.nodes.find((node) => node.role === "manager" && node.age_ms !== null);
  if (manager === undefined) return state.age_ms ?? 0;
  // At the end it may be gone before other nodes are.
  return state.run.phase === "closing" && !manager.up ? 0 : (manager.age_ms ?? 0);
}

/** @param {string} text @returns {State} */
function parse(text) {
  /** @type {State} */
  let state;
  try {
    state = JSON.parse(text);
  } catch {
    throw new Error("the server sent a state that is not JSON");
  }
  if (state.api !== API) {
    throw new Error(`the server speaks version ${state.api} of the API, this page version ${API}: reload the page`);
  }
  for (const [part, isList] of PARTS) {
    const found = state[part];
    if (typeof found !== "object" || found === null || Array.isArray(found) !== isList) {
      throw new Error(`the server sent a state whose ${part} cannot be read: reload the page`);
    }
  }
  const { control } = state;
  if (control && !(Array.isArray(control.commands) && Array.isArray(control.faults))) {
    throw new Error("the server sent a state whose control cannot be read: reload the page");
  }
  // An event manager that has just begun does not know the number yet.
  if (state.run.number === 0) state.run.number = null;
  return state;
}
