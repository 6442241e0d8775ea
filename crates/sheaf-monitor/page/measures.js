/** Measures from consecutive states: rates, and how late states arrive. */

/** @import { State } from "./types.js" */

/** Number of states that are kept: at least two seconds of them. */
const KEPT = 9;
/** Shortest time for a rate. */
const SPAN_MS = 900;

/**
 * @typedef {object} Sample
 * @property {number} timeMs
 * @property {number | null} run
 * @property {number} accepted
 * @property {number} stored
 * @property {number} live
 * @property {number} dead
 */

/** Rates over about the last second. */
export class Rates {
  constructor() {
    /** Newest last. @type {Sample[]} */
    this.samples = [];
    /** Accepted triggers per second. */
    this.accepted = Number.NaN;
    /** Stored events per second. */
    this.stored = Number.NaN;
    /** Fraction of live time. */
    this.live = Number.NaN;
  }

  /** @param {State} state */
  add(state) {
    const sample = {
      timeMs: state.time_ms,
      run: state.run.number,
      accepted: state.triggers.accepted,
      stored: state.events.stored,
      live: state.dead_time.live_seconds,
      dead: state.dead_time.dead_seconds,
    };
    const before = this.samples.at(-1);
    if (before !== undefined && !follows(sample, before)) this.samples = [];
    if (before !== undefined && before.timeMs === sample.timeMs) this.samples.pop();
    this.samples.push(sample);
    if (this.samples.length > KEPT) this.samples.shift();
    this.compute(sample);
  }

  /** @param {Sample} last */
  compute(last) {
    const first = this.samples.findLast((sample) => last.timeMs - sample.timeMs >= SPAN_MS);
    if (first === undefined) {
      this.accepted = this.stored = this.live = Number.NaN;
      return;
    }
    const seconds = (last.timeMs - first.timeMs) / 1000;
    this.accepted = (last.accepted - first.accepted) / seconds;
    this.stored = (last.stored - first.stored) / seconds;
    const live = last.live - first.live;
    const dead = last.dead - first.dead;
    this.live = live + dead > 0 ? live / (live + dead) : Number.NaN;
  }
}

/** Returns whether a sample is a later one of the same run. @param {Sample} sample @param {Sample} before */
function follows(sample, before) {
  return sample.run === before.run && sample.timeMs >= before.timeMs
    && sample.accepted >= before.accepted && sample.stored >= before.stored;
}

/** Time over which the shortest delay is looked for. */
const WINDOW_MS = 30_000;

/**
 * Tells how late a state is, without clocks that agree: later than the fastest state of the last minute. A browser that
 * was suspended, or a proxy that held answers back, delivers old states in a burst; they must not look new. If the clock
 * of the server is set back, its states look late for a minute at most.
 */
export class Delay {
  constructor() {
    this.began = 0;
    /** Shortest difference of the clocks in this window, and in the one before. */
    this.shortest = Infinity;
    this.before = Infinity;
    this.seconds = 0;
  }

  /** @param {number} arrived by `performance.now()` @param {number} sentMs by the clock of the server */
  add(arrived, sentMs) {
    if (arrived - this.began > WINDOW_MS) {
      this.before = this.shortest;
      this.shortest = Infinity;
      this.began = arrived;
    }
    const difference = arrived - sentMs;
    this.shortest = Math.min(this.shortest, difference);
    this.seconds = (difference - Math.min(this.shortest, this.before)) / 1000;
  }
}
