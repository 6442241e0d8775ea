/** From rings to the points of a chart: rows are grouped into a fixed number of bins. */

/** @import { Ring } from "./ring.js" */

/** Largest number of bins: more than a chart has pixels is of no use. */
const MAX_BINS = 600;

/** Time that the newest value is a mean of. */
const NEWEST_MS = 1000;

/** @typedef {(number | null)[]} Points Null is unknown, a gap. */

/** The points of one chart. Its arrays are made once and written again and again. */
export class Points2D {
  /**
   * @param {number[]} columns
   * @param {"lines" | "stack"} kind Lines have the least and the largest value of each bin, so that no peak is lost;
   *     stacked areas have means, which add up.
   * @param {number} rows Number of rows that are shown.
   */
  constructor(columns, kind, rows) {
    this.columns = columns;
    this.kind = kind;
    this.rowsPerBin = Math.ceil(rows / MAX_BINS);
    this.bins = Math.floor(rows / this.rowsPerBin);
    const each = kind === "lines" && this.rowsPerBin > 1 ? 2 : 1;
    this.perBin = each;
    /** Unix time in seconds, then each column. @type {[number[], ...Points[]]} */
    this.data = [filled(this.bins * each, 0), ...columns.map(() => filled(this.bins * each, null))];
    /** Mean of each column over the last second, or the last row; NaN if unknown. */
    this.newest = new Float64Array(columns.length).fill(Number.NaN);
    /** Extremes of the last bin that was reduced, both its mean for stacked areas; NaN if unknown. */
    this.least = Number.NaN;
    this.largest = Number.NaN;
  }

  /** Reads the newest rows. @param {Ring} ring */
  read(ring) {
    const k = this.rowsPerBin;
    // Bins have the same rows in every picture; otherwise peaks would flicker.
    const lastBin = Math.floor(Math.max(0, ring.last) / k);
    const firstBin = lastBin - this.bins + 1;
    const times = this.data[0];
    for (let bin = 0; bin < this.bins; bin += 1) {
      const start = ring.timeOf((firstBin + bin) * k) / 1000;
      for (let part = 0; part < this.perBin; part += 1) {
        times[bin * this.perBin + part] = start + (part * k * ring.stepMs) / 2000;
      }
    }
    this.columns.forEach((column, index) => {
      const points = /** @type {Points} */ (this.data[index + 1]);
      for (let bin = 0; bin < this.bins; bin += 1) {
        this.reduce(ring, column, (firstBin + bin) * k);
        this.write(points, bin);
      }
    });
    if (this.kind === "stack") this.stack();
    this.columns.forEach((column, index) => {
      this.newest[index] = mean(ring, column, Math.max(1, Math.round(NEWEST_MS / ring.stepMs)));
    });
  }

  /** Finds the extremes or the mean of one bin. @param {Ring} ring @param {number} column @param {number} first */
  reduce(ring, column, first) {
    let least = Infinity;
    let largest = -Infinity;
    let sum = 0;
    let known = 0;
    for (let number = first; number < first + this.rowsPerBin; number += 1) {
      const value = number < 0 ? Number.NaN : ring.value(column, number);
      if (Number.isNaN(value)) continue;
      if (value < least) least = value;
      if (value > largest) largest = value;
      sum += value;
      known += 1;
    }
    const mean = known > 0 ? sum / known : Number.NaN;
    this.least = this.kind === "lines" ? least : mean;
    this.largest = this.kind === "lines" ? largest : mean;
    if (known === 0) this.least = this.largest = Number.NaN;
  }

  /** @param {Points} points @param {number} bin */
  write(points, bin) {
    const unknown = Number.isNaN(this.least);
    const place = bin * this.perBin;
    points[place] = unknown ? null : this.least;
    if (this.perBin === 2) points[place + 1] = unknown ? null : this.largest;
  }

  /** Adds to each area those below it. */
  stack() {
    for (let index = 2; index < this.data.length; index += 1) {
      const below = /** @type {Points} */ (this.data[index - 1]);
      const points = /** @type {Points} */ (this.data[index]);
      for (let place = 0; place < points.length; place += 1) {
        const lower = below[place];
        const own = points[place];
        // Without a value of its own an area has no height: the areas above it go on.
        points[place] = lower === null ? own : lower + (own ?? 0);
      }
    }
  }

  /** Returns the least and the largest value of a column at a point, null where it is unknown. @param {number} index @param {number} place */
  at(index, place) {
    const points = /** @type {Points} */ (this.data[index + 1]);
    const start = place - (place % this.perBin);
    const least = points[start] ?? null;
    const largest = points[start + this.perBin - 1] ?? null;
    if (least === null || largest === null) return null;
    const below = this.kind === "stack" && index > 0 ? (this.data[index][start] ?? 0) : 0;
    return { least: least - below, largest: largest - below };
  }
}

/** Returns the mean of the last rows of a column, NaN if all are unknown. @param {Ring} ring @param {number} column @param {number} rows */
function mean(ring, column, rows) {
  let sum = 0;
  let known = 0;
  for (let number = ring.last - rows + 1; number <= ring.last; number += 1) {
    const value = number < 0 ? Number.NaN : ring.value(column, number);
    if (Number.isNaN(value)) continue;
    sum += value;
    known += 1;
  }
  return known > 0 ? sum / known : Number.NaN;
}

/** @template T @param {number} length @param {T} value @returns {T[]} */
function filled(length, value) {
  return new Array(length).fill(value);
}
