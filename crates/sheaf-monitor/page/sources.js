/** Sources in trouble. */

/** @import { Page } from "./app.js" */
/** @import { Source, State } from "./types.js" */
import { count, counted, duration, UNKNOWN, words } from "./format.js";
import { html } from "./html.js";
import { isBefore, nodeLink } from "./parts.js";

/** Number of sources in trouble that the server lists. */
const LISTED = 100;

/** A source that has given nothing for so long is silent. */
const SILENT_SECONDS = 5;

/** Returns whether a source only waits for room in its readout unit: it is ahead of the triggers. @param {Source} source */
function onlyWaits(source) {
  return source.held_back && source.missing.length === 0 && (source.last_seen_seconds ?? 0) < SILENT_SECONDS;
}

/** Returns the numbers of sources in trouble, and of those that only wait, as lines. @param {State} state @param {string} of */
export function troubles(state, of) {
  const waiting = state.sources.filter(onlyWaits).length;
  const troubled = state.sources.length - waiting;
  const least = state.sources.length < LISTED ? "" : "at least ";
  return [
    troubled > 0 && html`<p class="bad">✖ ${least}${count(troubled)}${of} in trouble</p>`,
    waiting > 0 && html`<p>▲ ${least}${count(waiting)}${of} held back: no room for what comes next</p>`,
  ];
}

/** @param {Page} page @param {State} state */
export function sourcesPanel(page, state) {
  return [excluded(page, state), inTrouble(page, state)];
}

/** @param {Page} page @param {State} state */
function inTrouble(page, state) {
  if (state.sources.length === 0) {
    const all = state.run.sources === 1 ? "the source is" : `all ${count(state.run.sources)} sources are`;
    if (page.fresh.blind || page.fresh.blindToFragments) return html`<p>no source in trouble when last seen</p>`;
    // None has given anything yet.
    if (isBefore(state)) return html`<p>${counted(state.run.sources, "source")}</p>`;
    return html`<p class="ok">✓ ${state.run.sources > 0 ? `${all} in order` : "no sources"}</p>`;
  }
  return [
    troubles(state, ` of ${counted(state.run.sources, "source")}`),
    html`<div class="scroll"><table class="sources">
      <thead><tr><th>source</th><th>node</th><th class="n">last seen</th><th>missing in events</th></tr></thead>
      <tbody>${state.sources.map((source) => row(page, state, source))}</tbody>
    </table></div>`,
  ];
}

/** Sources that are not simply included. @param {Page} page @param {State} state */
function excluded(page, state) {
  const { operator } = page;
  const said = operator.said.get("sources");
  const sources = state.control?.sources ?? [];
  return [
    said && html`<p class="bad" role="status">${said.text}${said.remedy && `; ${said.remedy}`}</p>`,
    sources.length > 0 && html`<ul class="excluded">${sources.map(({ source, name, included, excluded }) => html`<li key=${source}>
      source ${source}${name !== null && html` <b>${name}</b>`}: ${included ? "included with its next fragment" : excluded || isBefore(state) ? "excluded" : "to be excluded"}
      ${" "}${change(page, state, source, !included)}</li>`)}</ul>`,
  ];
}

/** @param {State} state @param {Source} source */
function listed(state, { source }) {
  return state.control?.sources.some((known) => known.source === source);
}

/** A button that excludes a source, or includes it. @param {Page} page @param {State} state @param {number} source @param {boolean} included */
function change(page, state, source, included) {
  const { operator } = page;
  if (!state.control) return null;
  const why = operator.obstacle(state);
  const press = () => {
    if (why !== null) operator.explain(why);
    else void operator.change("sources", { path: `sources/${source}/included`, method: "PUT", body: { included } });
  };
  return html`<button type="button" data-source=${source} onClick=${press} aria-disabled=${why !== null} title=${why ?? ""}>${included ? "Include" : "Exclude"}</button>`;
}

/** @param {Page} page @param {State} state @param {Source} source */
function row(page, state, source) {
  const missing = source.missing.filter((item) => item.events > 0).map((item) => `${words(item.reason)} ${count(item.events)}`);
  const seen = source.last_seen_seconds === null ? "never" : `${duration(source.last_seen_seconds)} ago`;
  return html`<tr key=${source.source}><td>${source.source}${source.name !== null && html` <b>${source.name}</b>`}</td>
    <td>${source.node === null ? UNKNOWN : nodeLink(page, source.node)}</td>
    <td class="n">${seen}${source.held_back && html`, <b>held back</b>`}</td><td>${missing.join(", ") || "nothing"} ${!listed(state, source) && change(page, state, source.source, false)}</td></tr>`;
}
