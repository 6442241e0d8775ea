/** Small parts that several panels share. */

/** @import { Page } from "./app.js" */
/** @import { Alarm, Fill, Node, State } from "./types.js" */
import { html } from "./html.js";
import { count, quantity } from "./format.js";

/** From these fractions on a fill is shown as high, and as full. */
export const HIGH = 0.8;
const FULL = 0.95;

/** Signs of severities, so that colour is never alone. */
export const SIGNS = { info: "ℹ", warning: "▲", error: "✖" };

/** Returns a link that selects a node. @param {Page} page @param {string} name */
export function nodeLink(page, name) {
  return html`<a href=${page.navigation.link({ panel: "nodes", node: name })}>${name}</a>`;
}

/** @param {Fill} fill @returns {number} from 0 to 1, also if the limit is 0 */
export function fraction(fill) {
  if (!(fill.limit > 0)) return 0;
  return Math.min(1, Math.max(0, fill.value / fill.limit));
}

/** Returns the fullest of a node's fills. @param {Node} node @returns {{name: string, full: number} | null} */
export function fullest(node) {
  const fills = Object.entries(node.fill).map(([name, fill]) => ({ name, full: fraction(fill) }));
  return fills.reduce((/** @type {{name: string, full: number} | null} */ most, fill) => (most === null || fill.full > most.full ? fill : most), null);
}

/** Returns a bar of a fill with its value. @param {string} name @param {Fill} fill */
export function fillBar(name, fill) {
  const full = fraction(fill);
  const level = full >= FULL ? "full" : full >= HIGH ? "high" : "";
  return html`<span class=${`fill ${level}`} title=${`${name}: ${quantity(fill.value, fill.unit)} of ${quantity(fill.limit, fill.unit)}`}>
    <span class="name">${name}</span>
    <span class="bar" aria-hidden="true"><span style=${{ width: `${(full * 100).toFixed(1)}%` }}></span></span>
    <span class="value">${pair(brief(fill.value, fill.unit), brief(fill.limit, fill.unit))}</span>
  </span>`;
}

/** Returns a value of a limit, with the unit once if it is the same. @param {string} value @param {string} limit */
function pair(value, limit) {
  const [number, unit = ""] = value.split(" ");
  return unit !== "" && limit.endsWith(` ${unit}`) ? `${number}/${limit}` : `${value}/${limit}`;
}

/** Returns a value with its unit, if that is not a noun. @param {number} value @param {string} unit */
function brief(value, unit) {
  if (unit.length <= 2) return quantity(value, unit);
  return value < 1e6 ? count(value) : quantity(value, "");
}

/** Returns whether the run has not taken a trigger yet. @param {State} state */
export function isBefore({ run }) {
  return run.phase === "starting" || run.phase === "ready";
}

/** Returns whether a node has ended while it is needed. @param {State} state @param {Node} node */
export function isDown(state, node) {
  const over = ["closing", "closed", "none"].includes(state.run.phase);
  return !node.up && node.age_ms !== null && !over && !node.excluded;
}

/**
 * Returns what is known of a node in words, with the class for their colour.
 *
 * @param {Page} page
 * @param {State} state
 * @param {Node} node
 */
export function condition(page, state, node) {
  const order = state.control?.nodes.find((known) => known.node === node.name);
  if (order?.recovering) return { text: "starting again", kind: "" };
  if (order?.excluded && order.included) return { text: "to be included", kind: "" };
  if (order && !order.included) return { text: order.excluded || isBefore(state) ? "excluded" : "to be excluded", kind: "" };
  if (node.excluded && !order) return { text: "excluded", kind: "" };
  if (node.age_ms === null) return { text: isBefore(state) ? "not yet" : "not seen", kind: "" };
  if (isDown(state, node)) return { text: "✖ down", kind: "bad" };
  if (!node.up) return { text: "ended", kind: "" };
  if (node.output_failing) return { text: "✖ output fails", kind: "bad" };
  if (page.fresh.silent.includes(node.name)) return { text: "▲ silent", kind: "bad" };
  return page.fresh.blind ? { text: "was up", kind: "" } : { text: "✓ up", kind: "ok" };
}

/** Returns alarms with all those that they stand for. @param {Alarm[]} alarms @returns {Alarm[]} */
function unfold(alarms) {
  return alarms.flatMap((alarm) => [alarm, ...unfold(alarm.folded)]);
}

/** Returns the nodes to blame: for dead time now, and in alarms. @param {State} state */
export function culprits(state) {
  const alarms = unfold(state.alarms).filter((alarm) => alarm.severity !== "info");
  const names = [state.dead_time.now?.culprit ?? null, ...alarms.map((alarm) => alarm.culprit)];
  return new Set(names.filter((name) => name !== null));
}
