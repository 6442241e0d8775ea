/** Alarms with their remedies. */

/** @import { Page } from "./app.js" */
/** @import { Alarm, State } from "./types.js" */
import { clock, runTime } from "./format.js";
import { html } from "./html.js";
import { nodeLink, SIGNS } from "./parts.js";
import { PANELS } from "./view.js";

const ORDER = { error: 0, warning: 1, info: 2 };

/** @param {Page} page @param {State} state */
export function alarmsPanel(page, state) {
  const alarms = [...state.alarms].sort((a, b) => ORDER[a.severity] - ORDER[b.severity] || a.since_ms - b.since_ms);
  const quiet = alarms.length === 0;
  const title = PANELS[0].title;
  return html`<section id="panel-alarms" class=${quiet ? "panel whole quiet" : "panel whole alarms"} tabindex="-1"
    aria-labelledby="title-alarms" key="alarms">
    <h2 id="title-alarms"><a href=${page.navigation.link({ panel: "alarms" })}>${title}</a> <kbd aria-hidden="true">1</kbd></h2>
    ${quiet ? none(page) : html`<ul>${alarms.map((alarm, index) => one(page, state, alarm, index))}</ul>`}
  </section>`;
}

/** @param {Page} page */
function none(page) {
  if (page.fresh.blind) return html`<p>none when last seen</p>`;
  return html`<p class="ok">✓ none</p>`;
}

/** @param {Page} page @param {State} state @param {Alarm} alarm @param {number} index */
function one(page, state, alarm, index) {
  // The culprit may also be a source or a reason, which the text names.
  const culprit = state.nodes.find((node) => node.name === alarm.culprit);
  const seconds = Math.max(0, (state.time_ms - alarm.since_ms) / 1000);
  return html`<li class=${`alarm ${alarm.severity}`} key=${`${alarm.code} ${alarm.culprit} ${index}`}>
    <p class="what"><span class="sign" aria-hidden="true">${SIGNS[alarm.severity]}</span> <b>${alarm.severity}</b> ${alarm.text}
      ${culprit !== undefined && html`<span class="culprit">; culprit ${nodeLink(page, culprit.name)}</span>`}
      <small> since ${clock(alarm.since_ms, state.time_ms)}, ${runTime(seconds)}</small></p>
    <p class="remedy"><b>Remedy:</b> ${alarm.remedy}</p>
  </li>`;
}

/** Returns what screen readers announce: it changes only when there is something new. @param {Page} page */
export function announcements(page) {
  const { state } = page.store;
  if (state === null) return "";
  const stale = page.fresh.blind ? ["The data are stale."] : [];
  return [...stale, ...state.alarms.map((alarm) => `${alarm.severity}: ${alarm.text.replace(/\d[\d.,]*/g, "")}`)].join(" ");
}
