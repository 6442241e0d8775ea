/** Numbers over time: their columns, their history in rings, and the rows that arrive live. */

/** @import { Answer } from "./binary.js" */
/** @import { Column } from "./types.js" */
import { decode, MalformedAnswer } from "./binary.js";
import { Ring } from "./ring.js";

/** @typedef {"5min" | "2h" | "7d"} Range */

/** Step and number of rows of each range; the same as the rings of the server. */
export const RANGES = {
  "5min": { title: "5 min", stepMs: 100, rows: 3000 },
  "2h": { title: "2 h", stepMs: 1000, rows: 7200 },
  "7d": { title: "7 d", stepMs: 10_000, rows: 60_480 },
};

const FINE = RANGES["5min"];
const SHORTEST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/** Longest time for an answer with live rows, for which the server waits a second, and for a history of megabytes. */
const LIVE_LIMIT_MS = 15_000;
const HISTORY_LIMIT_MS = 60_000;

/** After as many answers without rows, of a second each, the history is loaded again: perhaps rows are numbered anew. */
const MANY_EMPTY = 3;

/** The server has started again: its rows are numbered anew. */
class Renumbered extends Error {}

/**
 * @typedef {object} NumbersOptions
 * @property {string} base URL of the API, with a slash at its end.
 * @property {() => void} onChange Called after new rows, columns or problems.
 * @property {() => Promise<void>} drawn Waits until everything that has arrived is on the screen.
 * @property {() => number} paceMs Returns the least time between requests for live rows.
 */

export class NumbersFeed {
  /** @param {NumbersOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Column[]} */
    this.columns = [];
    /** @type {Map<number, Ring>} by step; the finest one first, the others only if they are shown. */
    this.rings = new Map();
    /** @type {Range} */
    this.range = "5min";
    /** Text of the last failure, null while there is none. @type {string | null} */
    this.problem = null;
    /** Number of times that everything was loaded anew. */
    this.generation = 0;
    /** Number of answers with live rows. */
    this.answers = 0;
    /** Number of answers without rows, one after the other. */
    this.empty = 0;
    this.abort = new AbortController();
    this.pauseMs = SHORTEST_PAUSE_MS;
    /** @type {() => void} */
    this.wake = () => {};
    document.addEventListener("visibilitychange", () => this.restart());
  }

  /** Returns the ring of the selected range, if it is loaded. */
  get ring() {
    return this.rings.get(RANGES[this.range].stepMs);
  }

  /** Drops what is under way and begins with the history again. */
  restart() {
    this.abort.abort();
    this.wake();
  }

  /** Selects what to show; its history is loaded before the next live rows. @param {Range} range */
  select(range) {
    if (range === this.range) return;
    this.range = range;
    this.wake();
  }

  /** Loads and polls until the page is closed. */
  async run() {
    for (;;) {
      await visible();
      this.abort = new AbortController();
      const signal = this.abort.signal;
      try {
        await this.load(signal);
        while (!signal.aborted) await this.poll(signal);
      } catch (error) {
        if (signal.aborted) continue;
        if (!(error instanceof Renumbered)) this.fail(error);
        await this.pause(this.pauseMs);
        this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
      }
    }
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    this.generation += 1;
    this.empty = 0;
    this.columns = checkedColumns(await (await this.get("columns", signal)).json());
    this.rings.clear();
    await this.loadRing("5min", signal);
  }

  /** @param {Range} range @param {AbortSignal} signal */
  async loadRing(range, signal) {
    const { stepMs, rows } = RANGES[range];
    const response = await this.get(`history?step=${stepMs}`, signal);
    const answer = decode(await response.arrayBuffer(), stepMs, this.columns.length);
    if (signal.aborted) return;
    const ring = new Ring(stepMs, rows, this.columns.length);
    ring.append(answer);
    this.rings.set(stepMs, ring);
    const fine = this.rings.get(FINE.stepMs);
    if (fine !== undefined && fine !== ring) ring.extend(fine);
    this.options.onChange();
  }

  /** Asks for rows after the newest one, and includes them. @param {AbortSignal} signal */
  async poll(signal) {
    const fine = /** @type {Ring} */ (this.rings.get(FINE.stepMs));
    if (this.ring === undefined) await this.loadRing(this.range, signal);
    const after = Math.max(0, fine.last);
    const asked = performance.now();
    const response = await this.get(`live?after=${after}`, signal);
    const answer = decode(await response.arrayBuffer(), FINE.stepMs, this.columns.length);
    if (signal.aborted) return;
    this.empty = answer.rows === 0 ? this.empty + 1 : 0;
    if (isRenumbered(answer, fine.last) || this.empty >= MANY_EMPTY) throw new Renumbered();
    if (answer.rows > 0) {
      fine.append(answer);
      for (const ring of this.rings.values()) if (ring !== fine) ring.extend(fine);
      this.answers += 1;
    }
    this.succeed();
    await this.options.drawn();
    const wait = this.options.paceMs() - (performance.now() - asked);
    if (wait > 0 && !signal.aborted && this.ring !== undefined) await this.pause(wait);
  }

  /** @param {string} path @param {AbortSignal} signal */
  async get(path, signal) {
    const limit = AbortSignal.timeout(path.startsWith("live") ? LIVE_LIMIT_MS : HISTORY_LIMIT_MS);
    const both = AbortSignal.any([signal, limit]);
    const response = await fetch(this.options.base + path, { signal: both, cache: "no-store" });
    if (!response.ok) throw new Error(`the server answers ${response.status} to ${path}`);
    return response;
  }

  succeed() {
    this.problem = null;
    this.pauseMs = SHORTEST_PAUSE_MS;
    this.options.onChange();
  }

  /** @param {unknown} error */
  fail(error) {
    const text = error instanceof Error ? error.message : String(error);
    this.problem = error instanceof MalformedAnswer ? text : `no numbers from the server: ${text}`;
    this.options.onChange();
  }

  /** Waits, unless something happens that makes waiting pointless. @param {number} ms @returns {Promise<void>} */
  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** @param {Answer} answer @param {number} newest Number of the newest row here. */
function isRenumbered(answer, newest) {
  if (newest < 0) return false;
  if (answer.rows === 0) return answer.last < newest;
  return answer.last - answer.rows + 1 <= newest;
}

/** @returns {Promise<void>} when the page can be seen */
function visible() {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState !== "visible") return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

/** @param {unknown} list @returns {Column[]} */
function checkedColumns(list) {
  if (!Array.isArray(list)) throw new Error("the list of columns is not a list");
  return list.map((column) => ({
    id: String(column.id),
    title: String(column.title),
    unit: String(column.unit),
    panel: String(column.panel),
  }));
}
