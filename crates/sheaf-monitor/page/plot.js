/** One chart: a canvas by uPlot and a legend with values. */

/** @import { Column } from "./types.js" */
/** @import { Ring } from "./ring.js" */
import { clock, quantity, UNKNOWN } from "./format.js";
import { colour, dash, pattern, variable } from "./palette.js";
import { Points2D } from "./series.js";

/**
 * @typedef {object} PlotOptions
 * @property {HTMLElement} place Where the canvas goes.
 * @property {HTMLElement} time Element for the time at the pointer.
 * @property {HTMLElement[]} values Elements for the values of each column.
 * @property {{column: Column, index: number}[]} columns
 * @property {"lines" | "stack"} kind
 * @property {number} rows Number of rows that are shown.
 * @property {() => {number: number, began_ms: number}[]} starts Starts of runs, to mark.
 */

export class Plot {
  /** @param {PlotOptions} options */
  constructor(options) {
    this.options = options;
    this.unit = options.columns[0].column.unit;
    this.points = new Points2D(options.columns.map(({ index }) => index), options.kind, options.rows);
    this.to = 0;
    this.from = 0;
    /** Point below the pointer, null if there is none. @type {number | null} */
    this.hovered = null;
    this.uplot = new uPlot(this.description(), this.points.data, options.place);
  }

  /** Draws the newest rows. @param {Ring} ring */
  draw(ring) {
    this.points.read(ring);
    this.to = ring.timeOf(Math.max(0, ring.last)) / 1000;
    this.from = this.to - (this.options.rows * ring.stepMs) / 1000;
    this.uplot.setData(this.points.data);
    this.label();
  }

  /** Fits the canvas to its place. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.options.place;
    const same = width === this.uplot.width && height === this.uplot.height;
    if (width > 0 && height > 0 && !same) this.uplot.setSize({ width, height });
  }

  destroy() {
    this.uplot.destroy();
  }

  /** Writes the values at the pointer, or the newest ones, into the legend. */
  label() {
    const time = this.hovered === null ? null : this.points.data[0][this.hovered];
    write(this.options.time, time === null ? "" : `at ${clock(time * 1000, Date.now())}`);
    this.options.values.forEach((element, index) => write(element, this.valueOf(index)));
  }

  /** Returns the text of a column's value. @param {number} index */
  valueOf(index) {
    if (this.hovered === null) return quantity(this.points.newest[index], this.unit);
    const value = this.points.at(index, this.hovered);
    if (value === null) return UNKNOWN;
    const [low, high] = [quantity(value.least, this.unit), quantity(value.largest, this.unit)];
    return low === high ? high : `${low} to ${high}`;
  }

  /** Returns the description of the chart for uPlot. */
  description() {
    const axis = {
      stroke: variable("--muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: variable("--line"), width: 1 },
      ticks: { stroke: variable("--line"), width: 1, size: 4 },
    };
    // A noun is in the title, and would not fit.
    const unit = this.unit.length > 3 ? "" : this.unit;
    const numbers = (/** @type {unknown} */ _, /** @type {number[]} */ marks) => marks.map((mark) => quantity(mark, unit));
    const times = (/** @type {unknown} */ _, /** @type {number[]} */ marks) => marks.map((mark) => this.time(mark));
    return {
      width: Math.max(50, this.options.place.clientWidth),
      height: Math.max(50, this.options.place.clientHeight),
      padding: [8, 26, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "time" }, points: { show: this.options.kind === "lines", size: 5 } },
      scales: {
        x: { time: true, range: () => [this.from, this.to] },
        y: { range: (/** @type {unknown} */ _, /** @type {number | null} */ __, /** @type {number | null} */ most) => [0, top(most)] },
      },
      axes: [
        { ...axis, space: 70, values: times, size: 24 },
        { ...axis, space: 30, values: numbers, size: 62 },
      ],
      series: [{}, ...this.options.columns.map((_, index) => this.series(index))],
      bands: this.options.kind === "stack" ? this.bands() : [],
      hooks: { draw: [() => this.mark()], setCursor: [(/** @type {{cursor: {idx?: number | null}}} */ u) => this.hover(u.cursor.idx)] },
    };
  }

  /** @param {number} index */
  series(index) {
    if (this.options.kind === "lines") {
      return { stroke: colour(index), width: 1.5, dash: dash(index), points: { show: false } };
    }
    const fill = (/** @type {{ctx: CanvasRenderingContext2D}} */ u) => pattern(u.ctx, index);
    return { width: 0, fill, points: { show: false } };
  }

  /** Returns the areas between each pair of neighbours. */
  bands() {
    const upper = this.options.columns.slice(1);
    return upper.map((_, index) => ({ series: [index + 2, index + 1] }));
  }

  /** @param {number | null | undefined} place */
  hover(place) {
    this.hovered = place ?? null;
    this.label();
  }

  /** @param {number} unix seconds */
  time(unix) {
    const date = new Date(unix * 1000);
    const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
    if (this.to - this.from > 86_400) {
      const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
      return date.getHours() === 0 ? day : `${day} ${two(date.getHours())}h`;
    }
    const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
    return this.to - this.from > 1000 ? minutes : `${minutes}:${two(date.getSeconds())}`;
  }

  /** Draws a line where each run started. */
  mark() {
    const { ctx, bbox } = this.uplot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = variable("--text");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    // The newest first: a label that has no room before the next one is left out.
    let free = Infinity;
    for (const { number, began_ms } of this.options.starts().toReversed()) {
      const began = began_ms / 1000;
      if (began < this.from || began > this.to) continue;
      const x = Math.round(this.uplot.valToPos(began, "x", true));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const text = ` run ${number} `;
      const width = ctx.measureText(text).width;
      const left = x > bbox.left + bbox.width / 2 ? x - width : x;
      if (left + width <= free) ctx.fillText(text, left, bbox.top + 2);
      free = Math.min(free, left);
    }
    ctx.restore();
  }
}

/** @param {HTMLElement} element @param {string} text */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** Returns the end of an axis from 0: a round number, so that the axis rests while values change. @param {number | null} most */
function top(most) {
  if (most === null || !(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * (STEPS.find((step) => step * power >= most * 1.02) ?? 15);
}
