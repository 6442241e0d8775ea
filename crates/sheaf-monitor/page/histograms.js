/** Histograms that consumers publish, beside those of a reference run. */

/** @import { Page } from "./app.js" */
/** @import { Histogram, HistogramList, State } from "./types.js" */
import { count, counted, duration } from "./format.js";
import { html } from "./html.js";
import { draw } from "./sketch.js";

/** Number of histograms that are drawn. */
const MOST = 60;
/** From this age on, a histogram of a run in progress is old. */
const OLD_MS = 10_000;

/** @param {number} value */
const short = (value) => String(Number(value.toPrecision(4)));

/** @param {Page} page @param {State} state */
export function histogramsPanel(page, state) {
  const { view, navigation } = page;
  const { answer, problem } = page.histograms;
  const failed = problem !== null && html`<p class="problem" role="alert">${problem}</p>`;
  if (answer === null || (answer.histograms.length === 0 && view.reference === "")) {
    return [failed, answer !== null && html`<p>no histograms; a consumer publishes some with <code>sheaf.monitor</code></p>`];
  }
  const { histograms, reference } = answer;
  const found = histograms.filter(({ name, title }) => `${name} ${title}`.toLowerCase().includes(view.histograms.toLowerCase()));
  const differ = histograms.filter(({ comparison }) => comparison?.differs);
  const compared = histograms.filter(({ comparison }) => comparison).length;
  const field = (/** @type {"histograms" | "reference"} */ name, /** @type {string} */ label, /** @type {object} */ more) => html`<label>${label} <input type="search" name=${name} defaultValue=${view[name]}
    onChange=${(/** @type {Event} */ { target }) => navigation.set({ [name]: /** @type {HTMLInputElement} */ (target).value.trim() })} ...${more} /></label>`;
  const refused = Object.entries(answer.refused).map(([reason, number]) => `${count(number)} ${reason.replaceAll("_", " ")}`);
  return [
    html`<div class="controls">${field("histograms", "Find", {})}${field("reference", "Reference run", { inputmode: "numeric", list: "runs-known", placeholder: reference ?? "none" })}
      <datalist id="runs-known"><option value="0">none</option>${page.runs.answer?.runs.map(({ run, state }) => html`<option value=${run}>${state}</option>`)}</datalist>
      <span class="shown">${Math.min(found.length, MOST)} of ${count(histograms.length)}</span></div>`,
    failed,
    reference !== null && html`<p class=${differ.length > 0 ? "bad" : ""}>${differ.length > 0 ? `▲ ${differ.length} of ${compared} differ` : `${compared} compared, none differs`} from run ${reference}
      ${differ.slice(0, 20).map(({ name }, index) => [index > 0 ? ", " : ": ", html`<a href=${navigation.link({ panel: "histograms", histogram: name })}>${name}</a>`])}</p>`,
    refused.length > 0 && html`<p>▲ refused: ${refused.join(", ")}</p>`,
    view.histogram !== "" && alone(page, state, answer),
    html`<ul class="histograms">${found.slice(0, MOST).map((one) => {
      const open = view.histogram === one.name;
      return html`<li key=${one.name} class=${open ? "selected" : ""}><a href=${navigation.link({ panel: "histograms", histogram: open ? "" : one.name })} aria-expanded=${open}>
        <b>${one.title || one.name}</b> ${picture(one)}</a>
        <small>${facts(one, state, answer)}</small> ${marks(one, reference)}</li>`;
    })}</ul>`,
  ];
}

/** @param {Page} page @param {State} state @param {HistogramList} list */
function alone({ view, navigation, histogram: { answer, problem } }, state, list) {
  const one = answer?.histograms[0];
  const { comparison, not_compared } = one ?? {};
  return html`<section class="record" id="histogram" aria-label=${`Histogram ${view.histogram}`}>
    <h3>${one?.title || view.histogram} <a href=${navigation.link({ histogram: "" })}>close</a></h3>
    ${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
    ${answer !== null && !one && html`<p>run ${answer.run} has no histogram ${view.histogram}</p>`}
    ${one && html`${picture(one)}<p>${one.name}${one.source !== null && `, source ${one.source}`}: ${facts(one, state, list)}, ${short(one.outside)} out of range, ${counted(one.publishers, "publisher")}${one.nan > 0 && `, ${count(one.nan)} not a number`}</p>
      ${comparison && html`<p>Compared with run ${list.reference}: χ² ${short(comparison.chi2)} for ${comparison.ndf} degrees of freedom, probability ${short(comparison.probability)}${
        comparison.kolmogorov !== null && `, Kolmogorov distance ${short(comparison.kolmogorov)}`}</p>`}
      ${not_compared && html`<p>Not compared: ${not_compared}</p>`}${marks(one, list.reference)}`}
  </section>`;
}

/** @param {Histogram} one @param {State} state @param {HistogramList} list */
function facts({ entries, mean, rms, updated_ms }, { time_ms }, { complete }) {
  const age = Math.max(0, time_ms - updated_ms);
  const moments = mean.map((value, axis) => `, ${mean.length > 1 ? "xy"[axis] : ""} mean ${short(value)}, RMS ${short(rms[axis])}`);
  return [`${count(entries)} entries`, ...moments, !complete && age > OLD_MS && html`, <b>▲ ${duration(age / 1000)} old</b>`];
}

/** @param {Histogram} one @param {number | null} reference */
function marks({ comparison }, reference) {
  return comparison?.differs && html`<span class="bad">▲ differs from run ${reference}</span>`;
}

/** @param {Histogram} one */
function picture(one) {
  const { sketch: { values }, axes, name, entries } = one;
  const text = `${one.title || name}, ${axes.filter(Boolean).join(", ")}: ${values.length} bins, ${count(entries)} entries`;
  return html`<canvas role="img" aria-label=${text} ref=${(/** @type {HTMLCanvasElement | null} */ canvas) => canvas && draw(canvas, one)}></canvas>`;
}
