/** The map of readout units and builder units: who waits for whom, and what to do. */

/** @import { Page } from "./app.js" */
/** @import { MapAnswer } from "./map-data.js" */
/** @import { Pair } from "./map-draw.js" */
/** @import { MapTrouble, MapUnit } from "./types.js" */
import { duration, quantity } from "./format.js";
import { drawMap, gradient, greatest, pairAt, places, stripes, WAITS } from "./map-draw.js";
import { html } from "./html.js";
import { nodeLink } from "./parts.js";

/** Where keys move the cursor, in readout units and builder units. @type {Record<string, [number, number]>} */
const MOVES = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity],
};
/** @type {Record<string, string>} */
const CONDITIONS = {
  absent: "has not reported yet", silent: "has not reported", ended: "has ended", excluded: "has only sources that are excluded",
};
/** @type {[string, string][]} */
const QUANTITIES = [["wait", "Wait of the oldest event"], ["rate", "Payload"]];

/** The cell under the pointer, and the one that was chosen with a key, a click or a finger. @type {{hovered: Pair | null, chosen: Pair | null}} */
const cursor = { hovered: null, chosen: null };

/** @param {Page} page */
export function mapPanel(page) {
  const { view, navigation, map } = page;
  const { answer, problem } = map;
  const controls = html`<p class="controls">${QUANTITIES.map(([id, title]) => html`<a class="choice" href=${navigation.link({ panel: "map", map: id })} aria-current=${view.map === id ? "true" : undefined}>${title}</a>`)}
    ${answer !== null && html`<span class="shown">${answer.head.readouts.length} readout units × ${answer.head.builders.length} builder units</span>`}</p>`;
  const failed = problem !== null && html`<p class="problem" role="alert"><b>No map of now:</b> ${problem}</p>`;
  if (answer === null) return [controls, failed];
  const { head } = answer;
  if (head.readouts.length === 0 || head.builders.length === 0) return [controls, failed, html`<p>${head.summary}</p>`];
  return [controls, failed, verdict(page, answer), picture(page, answer), about(page, answer), legend(answer)];
}

/** Returns what is in trouble, in words. @param {Page} page @param {MapAnswer} answer */
function verdict(page, { head: { summary, troubles } }) {
  if (page.map.old) return html`<p class="map-summary">▲ not known: the last map is old</p>`;
  if (troubles.length === 0) return html`<p class="map-summary">${summary}</p>`;
  return html`<ul class="map-summary">${troubles.map((trouble) => html`<li key=${`${trouble.readout} ${trouble.builder}`}>
    <button type="button" class="plain" onClick=${() => choose(page, trouble)}><b class="bad">▲ ${trouble.text}</b></button> <small>${trouble.remedy}</small></li>`)}</ul>`;
}

/** @param {Page} page @param {MapTrouble} trouble */
function choose(page, { readout, builder }) {
  cursor.chosen = { readout: readout ?? 0, builder: builder ?? 0 };
  page.changed();
}

/** @param {Page} page @param {MapAnswer} answer */
function picture(page, answer) {
  const { head } = answer;
  const at = (/** @type {MouseEvent} */ event) => {
    const canvas = /** @type {HTMLCanvasElement} */ (event.currentTarget);
    return pairAt(answer, places(answer, canvas.parentElement?.clientWidth ?? 0), event.offsetX, event.offsetY);
  };
  const hover = (/** @type {Pair | null} */ pair) => {
    if (pair?.readout === cursor.hovered?.readout && pair?.builder === cursor.hovered?.builder) return;
    cursor.hovered = pair;
    page.changed();
  };
  const press = (/** @type {MouseEvent} */ event) => {
    cursor.chosen = at(event);
    page.changed();
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    const move = MOVES[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey || (move === undefined && event.key !== "Escape")) return;
    event.preventDefault();
    const { readout, builder } = cursor.chosen ?? { readout: move?.[0] ? -move[0] : 0, builder: Number.isFinite(move?.[1]) ? -move[1] : 0 };
    const within = (/** @type {number} */ place, /** @type {number} */ count) => Math.min(count - 1, Math.max(0, place));
    cursor.hovered = null;
    cursor.chosen = move === undefined ? null : { readout: within(readout + move[0], head.readouts.length), builder: within(builder + move[1], head.builders.length) };
    page.changed();
  };
  const draw = (/** @type {HTMLCanvasElement | null} */ canvas) => canvas && drawMap(canvas, answer, { cursor: shownPair(answer), old: page.map.old });
  return html`<div class="map"><canvas role="img" tabindex="0" aria-label=${`Map: ${head.summary}. Arrow keys move through its cells`} aria-describedby="map-cell" ref=${draw}
    onPointerMove=${(/** @type {PointerEvent} */ event) => event.pointerType === "mouse" && hover(at(event))} onPointerLeave=${() => hover(null)} onClick=${press} onKeyDown=${key}></canvas></div>`;
}

/** Returns the pair that the page tells about; none of a run that has fewer units. @param {MapAnswer} answer @returns {Pair | null} */
function shownPair({ head }) {
  const pair = cursor.hovered ?? cursor.chosen;
  return pair !== null && pair.readout < head.readouts.length && pair.builder < head.builders.length ? pair : null;
}

/** Returns a line about the cell under the cursor. @param {Page} page @param {MapAnswer} answer */
function about(page, answer) {
  const { head, values } = answer;
  const pair = shownPair(answer);
  if (pair === null) return html`<p id="map-cell" class="map-cell" role="status">Point at a cell, tap it, or move with the arrow keys.</p>`;
  const [readout, builder] = [head.readouts[pair.readout], head.builders[pair.builder]];
  const value = page.map.old ? NaN : values[pair.builder * head.readouts.length + pair.readout];
  const trouble = head.troubles.find((one) => (one.readout ?? pair.readout) === pair.readout && (one.builder ?? pair.builder) === pair.builder);
  return html`<p id="map-cell" class="map-cell" role="status"><b>${nodeLink(page, readout.name)} → ${nodeLink(page, builder.name)}</b>: ${said(head.quantity, value)}${trouble === undefined && [readout, builder].map(state)}${
    trouble !== undefined && !page.map.old && html`. <b class="bad">▲ ${trouble.text}</b>; ${trouble.remedy}`}</p>`;
}

/** @param {string} kind @param {number} value */
function said(kind, value) {
  if (Number.isNaN(value)) return kind === "rate" ? "payload not known" : "wait not known";
  if (kind === "rate") return `${quantity(value, "B/s")} of payload`;
  return value > 0 ? `the oldest event has waited for ${duration(value)}` : "no event waits";
}

/** @param {MapUnit} unit */
function state({ name, condition, age_ms }) {
  const text = CONDITIONS[condition];
  return text && `, ${name} ${text}${age_ms === undefined ? "" : ` for ${duration(age_ms / 1000)}`}`;
}

/** @param {MapAnswer} answer */
function legend(answer) {
  const { head } = answer;
  const most = greatest(answer);
  const marks = head.quantity === "wait" ? WAITS : [0, most / 2, most].map((value) => quantity(value, head.unit));
  const swatch = (/** @type {number} */ slope) => (/** @type {HTMLCanvasElement | null} */ canvas) => {
    const c = canvas?.getContext("2d");
    if (!canvas || !c) return;
    [canvas.width, canvas.height] = [22, 12];
    c.fillStyle = stripes(c, slope);
    c.fillRect(0, 0, 22, 12);
  };
  return html`<div class="map-legend"><div class="scale"><span class="colours" style=${{ background: gradient(head.quantity) }}></span><span class="marks">${marks.map((mark) => html`<span>${mark}</span>`)}</span></div>
    <span><canvas class="swatch" ref=${swatch(1)}></canvas> not known</span> <span><canvas class="swatch" ref=${swatch(0)}></canvas> all sources excluded</span>
    <small>rows: readout units, columns: builder units</small></div>`;
}
