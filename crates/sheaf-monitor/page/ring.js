/** A fixed number of rows of numbers: the newest replace the oldest. Nothing grows. */

/** @import { Answer } from "./binary.js" */

export class Ring {
  /**
   * @param {number} stepMs Time between rows.
   * @param {number} capacity Number of rows.
   * @param {number} columns
   */
  constructor(stepMs, capacity, columns) {
    this.stepMs = stepMs;
    this.capacity = capacity;
    this.columns = columns;
    /** Column after column; row `number` of each is at `number % capacity`. */
    this.data = new Float32Array(columns * capacity).fill(Number.NaN);
    /** Number of the newest row, -1 if there is none. */
    this.last = -1;
    /** Number of the oldest row that was written since the ring was made. */
    this.first = 0;
    /** Unix time of row 0 in ms. */
    this.originMs = 0;
    /** Sums and counts of the newest row, if it is made of finer rows. */
    this.sums = new Float64Array(columns);
    this.counts = new Float64Array(columns);
    /** Number of the next finer row to include. */
    this.nextFine = -1;
  }

  /** Returns whether there is no row. */
  get empty() {
    return this.last < 0;
  }

  /** @param {number} number @returns {number} Unix time of a row in ms */
  timeOf(number) {
    return this.originMs + number * this.stepMs;
  }

  /** @param {number} column @param {number} number @returns {number} NaN outside of the ring */
  value(column, number) {
    if (number > this.last || number <= this.last - this.capacity || number < this.first) return Number.NaN;
    return this.data[column * this.capacity + (number % this.capacity)];
  }

  /** Appends the rows of an answer that are new. @param {Answer} answer */
  append(answer) {
    if (answer.rows === 0) return;
    const first = answer.last - answer.rows + 1;
    this.originMs = answer.firstMs - first * this.stepMs;
    for (let row = Math.max(0, answer.rows - this.capacity); row < answer.rows; row += 1) {
      const number = first + row;
      if (number <= this.last) continue;
      this.advance(number);
      const place = number % this.capacity;
      for (let column = 0; column < this.columns; column += 1) {
        this.data[column * this.capacity + place] = answer.columns[column][row];
      }
    }
  }

  /** Makes row `number` the newest one; rows in between are unknown. @param {number} number */
  advance(number) {
    if (this.empty) {
      this.first = number;
      this.last = number - 1;
    }
    const from = Math.max(this.last + 1, number - this.capacity + 1);
    for (let skipped = from; skipped <= number; skipped += 1) {
      const place = skipped % this.capacity;
      for (let column = 0; column < this.columns; column += 1) {
        this.data[column * this.capacity + place] = Number.NaN;
      }
    }
    this.last = number;
  }

  /**
   * Extends this ring by the rows of a finer one that are newer: a row is the mean of those within its step.
   *
   * @param {Ring} fine
   */
  extend(fine) {
    if (fine.empty) return;
    const oldest = Math.max(fine.first, fine.last - fine.capacity + 1);
    if (this.empty) this.originMs = Math.floor(fine.timeOf(oldest) / this.stepMs) * this.stepMs;
    if (this.nextFine < 0) {
      const end = this.empty ? this.originMs : this.timeOf(this.last + 1);
      this.nextFine = Math.max(oldest, Math.ceil((end - fine.originMs) / fine.stepMs));
    }
    for (let number = Math.max(oldest, this.nextFine); number <= fine.last; number += 1) {
      this.include(fine, number);
    }
    this.nextFine = Math.max(this.nextFine, fine.last + 1);
  }

  /** @param {Ring} fine @param {number} number */
  include(fine, number) {
    const mine = Math.floor((fine.timeOf(number) - this.originMs) / this.stepMs);
    if (mine < this.last) return;
    if (mine > this.last) {
      this.advance(mine);
      this.sums.fill(0);
      this.counts.fill(0);
    }
    const place = mine % this.capacity;
    for (let column = 0; column < this.columns; column += 1) {
      const value = fine.value(column, number);
      if (Number.isNaN(value)) continue;
      this.sums[column] += value;
      this.counts[column] += 1;
      this.data[column * this.capacity + place] = this.sums[column] / this.counts[column];
    }
  }
}
