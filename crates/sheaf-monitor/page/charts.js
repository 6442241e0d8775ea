/** Charts of the columns of numbers, grouped by panel and unit. The page knows no column by heart. */

/** @import { Column, Phase } from "./types.js" */
/** @import { Page } from "./app.js" */
/** @import { NumbersFeed, Range } from "./numbers.js" */
import { Component } from "./vendor/preact.js";
import { html } from "./html.js";
import { words } from "./format.js";
import { RANGES } from "./numbers.js";
import { colour, dash, pattern } from "./palette.js";
import { Plot } from "./plot.js";

/** @typedef {{panel: string, unit: string, columns: {column: Column, index: number}[]}} Group */

/** Panels of columns that have a place on the page; all others go to "More numbers". */
const PLACED = ["rate", "dead_time", "flow", "buffer", "latency"];
const UNITS = new Map([["1/s", "per second"], ["1", "fraction"], ["s", "seconds"], ["B", "bytes"], ["B/s", "bytes per second"]]);

/** Charts on the page. @type {Set<Chart>} */
const shown = new Set();

/** Draws all charts that can be seen. */
export function drawCharts() {
  for (const chart of shown) chart.draw();
}

/** Makes all charts anew, with other colours. */
export function repaintCharts() {
  for (const chart of shown) chart.rebuild();
}

/** @param {Column[]} columns @returns {Group[]} */
export function groups(columns) {
  /** @type {Map<string, Group>} */
  const found = new Map();
  columns.forEach((column, index) => {
    const key = `${column.panel}\n${column.unit}`;
    const group = found.get(key) ?? { panel: column.panel, unit: column.unit, columns: [] };
    group.columns.push({ column, index });
    found.set(key, group);
  });
  return [...found.values()];
}

/** Returns the charts of one panel of columns. @param {Page} page @param {string} panel */
export function chartsOf(page, panel) {
  return groups(page.numbers.columns).filter((group) => group.panel === panel).map((group) => chart(page, group));
}

/** Returns the charts without a place of their own. @param {Page} page */
export function otherCharts(page) {
  return groups(page.numbers.columns).filter((group) => !PLACED.includes(group.panel)).map((group) => chart(page, group));
}

/** @param {Page} page @param {Group} group */
function chart(page, group) {
  const range = page.view.range;
  const key = [range, group.panel, ...group.columns.map(({ column, index }) => `${index} ${column.id}`)].join("\n");
  const starts = () => page.store.starts;
  return html`<${Chart} key=${key} group=${group} range=${range} numbers=${page.numbers} starts=${starts} />`;
}

/**
 * @typedef {object} ChartProps
 * @property {Group} group
 * @property {Range} range
 * @property {NumbersFeed} numbers
 * @property {() => {number: number, began_ms: number}[]} starts
 */

/** @extends {Component<ChartProps>} */
class Chart extends Component {
  /** @param {ChartProps} props */
  constructor(props) {
    super(props);
    /** @type {HTMLElement | null} */
    this.figure = null;
    /** @type {Plot | null} */
    this.plot = null;
    this.inSight = true;
    this.sight = new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1)?.isIntersecting ?? true;
      if (this.inSight) this.draw();
    }, { rootMargin: "200px" });
    this.sizes = new ResizeObserver(() => this.plot?.resize());
  }

  /** Another chart has another key: this one never changes. */
  shouldComponentUpdate() {
    return false;
  }

  componentDidMount() {
    if (this.figure === null) return;
    this.rebuild();
    shown.add(this);
    this.sight.observe(this.figure);
    const place = this.figure.querySelector(".canvas");
    if (place !== null) this.sizes.observe(place);
  }

  componentWillUnmount() {
    shown.delete(this);
    this.sight.disconnect();
    this.sizes.disconnect();
    this.plot?.destroy();
  }

  rebuild() {
    const figure = this.figure;
    const place = /** @type {HTMLElement | null | undefined} */ (figure?.querySelector(".canvas"));
    if (!figure || !place) return;
    this.plot?.destroy();
    const { group, range, starts } = this.props;
    this.plot = new Plot({
      place,
      time: /** @type {HTMLElement} */ (figure.querySelector("figcaption output")),
      values: /** @type {HTMLElement[]} */ ([...figure.querySelectorAll("li output")]),
      columns: group.columns,
      kind: kindOf(group),
      rows: RANGES[range].rows,
      starts,
    });
    figure.querySelectorAll("canvas.swatch").forEach((canvas, index) => {
      swatch(/** @type {HTMLCanvasElement} */ (canvas), kindOf(group), index);
    });
    this.draw();
  }

  draw() {
    const ring = this.props.numbers.rings.get(RANGES[this.props.range].stepMs);
    if (ring !== undefined && this.inSight) this.plot?.draw(ring);
  }

  render() {
    const { group } = this.props;
    const unit = UNITS.get(group.unit) ?? group.unit;
    const title = `${words(group.panel)}, ${unit}${kindOf(group) === "stack" ? ", stacked" : ""}`;
    const remember = (/** @type {HTMLElement | null} */ element) => {
      this.figure = element;
    };
    return html`<figure class="chart" ref=${remember}>
      <figcaption>${title} <output aria-live="off"></output></figcaption>
      <div class="canvas" role="img" aria-label=${`Chart of ${title}`}></div>
      <ul class="legend">
        ${group.columns.map(({ column }) => html`<li key=${column.id}>
          <canvas class="swatch" width="44" height="24" aria-hidden="true"></canvas>
          <span>${column.title}</span> <output aria-live="off">–</output>
        </li>`)}
      </ul>
    </figure>`;
  }
}

/** @param {Group} group @returns {"lines" | "stack"} */
function kindOf(group) {
  return group.panel === "dead_time" ? "stack" : "lines";
}

/** Paints the sample of a column for the legend. @param {HTMLCanvasElement} canvas @param {string} kind @param {number} index */
function swatch(canvas, kind, index) {
  const c = canvas.getContext("2d");
  if (c === null) return;
  c.clearRect(0, 0, canvas.width, canvas.height);
  if (kind === "stack") {
    c.fillStyle = pattern(c, index);
    c.fillRect(0, 0, canvas.width, canvas.height);
    return;
  }
  c.strokeStyle = colour(index);
  c.lineWidth = 4;
  c.setLineDash(dash(index).map((length) => 2 * length));
  c.beginPath();
  c.moveTo(0, canvas.height / 2);
  c.lineTo(canvas.width, canvas.height / 2);
  c.stroke();
}
