/** Values from outside of the run: slow control. */

/** @import { Page } from "./app.js" */
/** @import { SlowValue, State } from "./types.js" */
import { count, duration, UNKNOWN } from "./format.js";
import { html } from "./html.js";

/** An answer that is older is not of now. */
const OLD_MS = 10_000;
/** Size of a trend, in its own units. */
const [WIDTH, HEIGHT] = [120, 26];

/** @param {Page} page @param {State} state */
export function valuesPanel(page, state) {
  const { answer, problem } = page.values;
  const failed = problem !== null && html`<p class="problem" role="alert">${problem}</p>`;
  if (answer === null) return [failed];
  const late = Math.max(0, state.time_ms - answer.time_ms);
  const old = page.fresh.blind || late > OLD_MS;
  const refused = Object.entries(answer.refused).filter(([, number]) => number > 0).map(([reason, number]) => `${count(number)} ${reason.replaceAll("_", " ")}`);
  return [
    failed,
    old && html`<p class="bad">▲ not known: these are the values when last seen</p>`,
    refused.length > 0 && html`<p>▲ sent and refused: ${refused.join(", ")}</p>`,
    html`<div class="scroll"><table class="values">
      <thead><tr><th>value</th><th class="n">number</th><th>last ten minutes</th><th>state</th><th class="n">age</th></tr></thead>
      <tbody>${answer.values.map((value) => row(value, late, old))}</tbody>
    </table></div>`,
  ];
}

/** @param {SlowValue} value @param {number} late @param {boolean} old */
function row(value, late, old) {
  const { name, unit, by, file } = value;
  const age = value.age_ms === null ? null : value.age_ms + late;
  const state = value.state === "fresh" && age !== null && age >= value.stale_ms ? "stale" : value.state;
  const known = state === "fresh" && !old;
  const number = value.value === null ? UNKNOWN : [short(value.value), unit].filter(Boolean).join(" ");
  const origin = file ?? (by === null ? "sent by nobody yet" : `sent by ${by}`);
  return html`<tr key=${name} class=${known ? "" : "unsure"}>
    <td><b>${name}</b> <small>${origin}</small></td>
    <td class="n">${known || value.value === null ? number : html`<span title="The last number, not that of now">(${number})</span>`}</td>
    <td>${trend(value)}</td>
    <td>${said(value, state, old)}${value.problem !== null && html`<small>${value.problem}</small>`}</td>
    <td class="n">${age === null ? "never" : duration(age / 1000)}</td></tr>`;
}

/** Returns the state in words. @param {SlowValue} value @param {string} state @param {boolean} old */
function said(value, state, old) {
  if (old) return html`<span>? ${state} when last seen</span>`;
  if (state !== "fresh") return html`<span class="bad">▲ ${state}</span> `;
  const { level, value: number } = value;
  if (level === "good" || number === null) return html`<span class="ok">✓ fresh</span> `;
  const [below, above] = level === "error" ? [value.error_below, value.error_above] : [value.warning_below, value.warning_above];
  const passed = below !== null && number < below ? `below ${short(below)}` : `above ${short(above ?? NaN)}`;
  return html`<span class="bad">${level === "error" ? "✖" : "▲"} ${passed}</span> `;
}

/** @param {number} value */
function short(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : UNKNOWN;
}

/** Draws the last ten minutes, with the limits that are near. @param {SlowValue} value */
function trend({ trend: points = [], warning_below, warning_above, error_below, error_above }) {
  const known = /** @type {number[]} */ (points.filter((point) => point !== null));
  if (known.length === 0) return html`<small>${points.length === 0 ? "not yet" : "not known"}</small>`;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  // A value that rests is in the middle. Its means differ by roundings of single precision.
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = (high - low > 1e-5 * size ? high - low : size * 0.01 || 1) * 0.25;
  const [from, to] = [low - room, high + room];
  const y = (/** @type {number} */ number) => (HEIGHT * (to - number) / (to - from)).toFixed(1);
  const limits = [warning_below, warning_above, error_below, error_above].filter((limit) => limit !== null && limit > from && limit < to);
  const text = short(low) === short(high) ? `${short(low)} all the time` : `${short(low)} to ${short(high)}`;
  return html`<svg class="trend" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`Last ten minutes: ${text}`}>
    <title>${text}</title>
    ${limits.map((limit) => html`<line class="limit" x1="0" x2=${WIDTH} y1=${y(/** @type {number} */ (limit))} y2=${y(/** @type {number} */ (limit))} />`)}
    <path d=${path(points, y)} /></svg>`;
}

/** Returns a line with gaps. The newest point is at the right end. @param {(number | null)[]} points @param {(number: number) => string} y */
function path(points, y) {
  const step = WIDTH / 60;
  let drawing = false;
  return points.map((point, index) => {
    if (point === null) {
      drawing = false;
      return "";
    }
    const x = WIDTH - (points.length - index) * step;
    const command = drawing ? "L" : "M";
    drawing = true;
    // A single point has a width.
    return `${command}${x.toFixed(1)} ${y(point)}h${step}`;
  }).join("");
}
