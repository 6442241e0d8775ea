/** Faults and alarms with their remedies. */

/** @import { Page } from "./app.js" */
/** @import { Alarm, Fault, PastAlarm, State } from "./types.js" */
import { problem } from "./control.js";
import { clock, runTime } from "./format.js";
import { html } from "./html.js";
import { nodeLink, SIGNS } from "./parts.js";
import { PANELS } from "./view.js";

const ORDER = { error: 0, warning: 1, info: 2 };

/** Time of a silence from the page. */
const SILENCE_MS = 3_600_000;

/** @param {Page} page @param {State} state */
export function alarmsPanel(page, state) {
  const rank = (/** @type {Alarm} */ alarm) => (alarm.silence ? 3 : ORDER[alarm.severity]);
  const alarms = [...state.alarms].sort((a, b) => rank(a) - rank(b) || a.since_ms - b.since_ms);
  const quiet = alarms.length === 0;
  const title = PANELS[0].title;
  return html`<section id="panel-alarms" class=${quiet ? "panel whole quiet" : "panel whole alarms"} tabindex="-1"
    aria-labelledby="title-alarms" key="alarms">
    <h2 id="title-alarms"><a href=${page.navigation.link({ panel: "alarms" })}>${title}</a> <kbd aria-hidden="true">1</kbd></h2>
    ${quiet ? none(page) : html`<ul>${alarms.map((alarm, index) => one(page, state, alarm, index))}</ul>`}
    ${past(page, state)}
  </section>`;
}

/** Returns the alarms that have ended and that nobody has seen. @param {Page} page @param {State} state */
function past(page, state) {
  const { past_alarms: alarms, control } = state;
  if (alarms.length === 0) return null;
  const line = (/** @type {PastAlarm} */ { code, culprit, severity, text, ended_ms, times }) => html`<li key=${`${code} ${culprit}`}>
    ${`${clock(ended_ms, state.time_ms)} ${severity}: ${text}${times > 1 ? ` (${times} times)` : ""}`}</li>`;
  const send = () => page.operator.change("past alarms", { path: "alarms/seen" });
  return html`<h3>Ended</h3>
    ${control && button(page, "past alarms", "Seen", send)}
    <ul class="past">${alarms.map(line)}</ul>
    ${problem(page, "past alarms")}`;
}

/** Returns a button for who may change something. @param {Page} page @param {string} place @param {string} name @param {() => unknown} act */
function button({ operator }, place, name, act) {
  const why = operator.hindrance;
  return html`<button type="button" class="seen" aria-disabled=${why !== null || operator.busy.has(place)} title=${why ?? ""}
    onClick=${() => why === null && act()} aria-label=${[name, why].filter(Boolean).join(": ")}>${name}</button>`;
}

/** Returns the button that silences an alarm or ends its silence. @param {Page} page @param {Alarm} alarm */
function silenceButton(page, { code, culprit, silence }) {
  const place = `silence ${code} ${culprit}`;
  const end = () => page.operator.change(place, { path: `silences/${silence?.id}`, method: "DELETE" });
  const begin = () => {
    const why = prompt("Suppress the notices of this alarm for an hour? Give the reason:")?.trim();
    if (why) void page.operator.change(place, { path: "silences", body: { code, culprit, duration_ms: SILENCE_MS, why } });
  };
  return html`${silence ? button(page, place, "End silence", end) : button(page, place, "Silence 1 h", begin)} ${problem(page, place)}`;
}

/** Returns the faults that no operator has seen yet. @param {Page} page @param {State} state */
export function faultsPanel(page, state) {
  const { control } = state;
  if (!control || control.faults.length === 0) return null;
  return html`<section id="panel-faults" class="panel whole" tabindex="-1" aria-labelledby="title-faults" key="faults">
    <h2 id="title-faults">Faults</h2>
    <ul>${control.faults.map((fault) => oneFault(page, state, fault))}</ul>
  </section>`;
}

/** @param {Page} page @param {State} state @param {Fault} fault */
function oneFault(page, state, fault) {
  const place = `fault ${fault.id}`;
  const seen = () => page.operator.change(place, { path: `faults/${fault.id}/cleared` });
  return html`<li class="alarm error" key=${fault.id}>
    <p class="what"><span class="sign" aria-hidden="true">✖</span> <b>${fault.code}</b> ${fault.node && html`${nodeLink(page, fault.node)}: `}${fault.text}
      <small> ${age(fault, state)}</small>
      ${button(page, place, "Seen", seen)}</p>
    <p class="remedy"><b>Remedy:</b> ${fault.remedy}</p>
    ${problem(page, place)}
  </li>`;
}

/** @param {{since_ms: number}} what @param {State} state */
function age({ since_ms }, { time_ms }) {
  return `since ${clock(since_ms, time_ms)}, ${runTime((time_ms - since_ms) / 1000)}`;
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
  const { silence } = alarm;
  return html`<li class=${`alarm ${silence ? "silenced" : alarm.severity}`} key=${`${alarm.code} ${alarm.culprit} ${index}`}>
    <p class="what"><span class="sign" aria-hidden="true">${SIGNS[alarm.severity]}</span> <b>${alarm.severity}</b> ${alarm.text}
      ${culprit !== undefined && html`<span class="culprit">; culprit ${nodeLink(page, culprit.name)}</span>`}
      <small> ${age(alarm, state)}</small>
      ${state.control && silenceButton(page, alarm)}</p>
    <p class="remedy"><b>Remedy:</b> ${alarm.remedy}</p>
    ${folded(alarm)}
    ${silence && html`<p>Silenced until ${clock(silence.until_ms, state.time_ms)} by ${silence.by}: ${silence.why}</p>`}
  </li>`;
}

/** Returns the alarms that one stands for. @param {Alarm} alarm @returns {unknown} */
function folded({ folded: alarms, code }) {
  if (alarms.length === 0) return null;
  const what = code === "hosts-silent" ? "hosts" : "nodes";
  const line = (/** @type {Alarm} */ alarm) => html`<li key=${`${alarm.code} ${alarm.culprit}`}>${alarm.text} ${folded(alarm)}</li>`;
  return html`<details class="folded"><summary>${alarms.length} ${what}</summary><ul>${alarms.map(line)}</ul></details>`;
}

/** Returns what screen readers announce: it changes only when there is something new. @param {Page} page */
export function announcements(page) {
  const { state } = page.store;
  if (state === null) return "";
  const stale = page.fresh.blind ? ["The data are stale."] : [];
  const { faults = [], last } = state.control ?? {};
  const ended = last ? [`${last.command} ${last.result}: ${last.text ?? ""}`] : [];
  return [...stale, ...ended, ...faults.map((fault) => `fault: ${fault.text}`),
    ...state.alarms.filter(({ silence }) => !silence).map((alarm) => `${alarm.severity}: ${alarm.text.replace(/\d[\d.,]*/g, "")}`)].join(" ");
}
