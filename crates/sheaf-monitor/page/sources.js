/** Sources in trouble. */

/** @import { Page } from "./app.js" */
/** @import { Source, State } from "./types.js" */
import { count, counted, duration, UNKNOWN, words } from "./format.js";
import { html } from "./html.js";
import { nodeLink } from "./parts.js";

/** Number of sources in trouble that the server lists. */
const LISTED = 100;

/** @param {Page} page @param {State} state */
export function sourcesPanel(page, state) {
  if (state.sources.length === 0) {
    const all = state.run.sources === 1 ? "the source is" : `all ${count(state.run.sources)} sources are`;
    if (page.fresh.blind || page.fresh.blindToFragments) return html`<p>no source in trouble when last seen</p>`;
    if (state.run.number === null) return html`<p>${counted(state.run.sources, "source")}</p>`;
    return html`<p class="ok">✓ ${state.run.sources > 0 ? `${all} in order` : "no sources"}</p>`;
  }
  return [
    html`<p class="bad">✖ ${state.sources.length < LISTED ? "" : "at least "}${state.sources.length} of ${counted(state.run.sources, "source")} in trouble</p>`,
    html`<div class="scroll"><table class="sources">
      <thead><tr><th>source</th><th>node</th><th class="n">last seen</th><th>missing in events</th></tr></thead>
      <tbody>${state.sources.map((source) => row(page, source))}</tbody>
    </table></div>`,
  ];
}

/** @param {Page} page @param {Source} source */
function row(page, source) {
  const missing = source.missing.filter((item) => item.events > 0).map((item) => `${words(item.reason)} ${count(item.events)}`);
  const seen = source.last_seen_seconds === null ? "never" : `${duration(source.last_seen_seconds)} ago`;
  return html`<tr key=${source.source}><td>${source.source}${source.name !== null && html` <b>${source.name}</b>`}</td>
    <td>${source.node === null ? UNKNOWN : nodeLink(page, source.node)}</td>
    <td class="n">${seen}${source.held_back && html`, <b>held back</b>`}</td><td>${missing.join(", ") || "nothing"}</td></tr>`;
}
