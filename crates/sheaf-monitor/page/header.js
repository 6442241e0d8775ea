/** The header: which run, whether the data are those of now, and whether something is lost. */

/** @import { Page } from "./app.js" */
/** @import { Drop, State } from "./types.js" */
import { count, counted, percent, quantity, runTime, signed, UNKNOWN } from "./format.js";
import { controlBar } from "./control.js";
import { html } from "./html.js";
import { RANGES } from "./numbers.js";
import { RANGE_ORDER } from "./view.js";

/** Number of nodes of a list that are named. */
const NAMED = 3;

/** On a phone, run control is below the header: there is no room for it beside what is read. */
export const NARROW = matchMedia("(max-width: 600px)");

/** @param {Page} page */
export function header(page) {
  const state = page.store.state;
  return html`<header class="header">
    <div class="line">
      <h1>Sheaf</h1>
      ${state !== null && run(page, state)}
      ${now(page)}
      <nav class="tools" aria-label="Range of time, and keys">
        ${RANGE_ORDER.map((range) => html`<a class="range" href=${page.navigation.link({ range })}
          aria-current=${page.view.range === range ? "true" : undefined}>${RANGES[range].title}</a>`)}
        <button type="button" onClick=${() => page.showHelp(true)} aria-label="Keys" title="Keys (?)">?</button>
      </nav>
    </div>
    ${state !== null && state.run.number !== null && facts(page, state)}
    ${state !== null && !NARROW.matches && controlBar(page, state)}
    ${notices(page)}
  </header>`;
}

/** @param {Page} page @param {State} state */
function run(page, state) {
  const { number, phase, seconds, waits_for } = state.run;
  if (phase === "none") return html`<span class="run">no run</span>`;
  const running = phase === "running" && !page.fresh.blind;
  const waits = phase === "running" || phase === "paused" || phase === "closed" ? null : waits_for;
  return html`<span class="run">run <b>${number ?? ""}</b></span>
    <span class=${running ? "phase ok" : "phase"} data-phase=${phase}>${running ? "● " : phase === "paused" ? "Ⅱ " : ""}${phase}</span>
    ${waits !== null && html`<span class="waits">${waits.replace(/^(starting|ready|finishing): /, "")}</span>`}
    ${number !== null && html`<span class="time" title="Live and dead time of the run">${runTime(seconds)}</span>`}`;
}

/** Says whether the data are those of now. @param {Page} page */
function now(page) {
  const { blind, age, reason, silent } = page.fresh;
  if (!blind) {
    if (silent.length === 0) return html`<span class="now ok" title="Age of the data">✓ ${age.toFixed(1)} s old</span>`;
    return html`<strong class="now bad" id="silent">▲ silent: ${some(silent)}</strong>`;
  }
  const since = Number.isFinite(age) ? `${age < 100 ? age.toFixed(1) : count(age)} s old` : "";
  const waiting = page.store.connection === "open" ? "" : connection(page);
  return html`<strong class="now stale">${Number.isFinite(age) ? "STALE" : "NO DATA"} ${since}${" "}<small>${[reason, waiting].filter(Boolean).join(", ")}</small></strong>`;
}

/** @param {Page} page */
function connection(page) {
  if (page.store.connection === "waiting") return "reconnecting after a pause";
  return page.store.connections > 1 ? "reconnecting" : "connecting";
}

/** @param {Page} page @param {State} state */
function facts(page, state) {
  const { triggers, events, dead_time } = state;
  const { rates } = page.store;
  const blind = page.fresh.blind;
  const time = dead_time.live_seconds + dead_time.dead_seconds;
  const rate = (/** @type {number} */ value) => (blind ? UNKNOWN : quantity(value, "1/s"));
  return html`<dl class="facts">
    <div><dt>triggers</dt><dd>${count(triggers.accepted)} <small>accepted, ${rate(rates.accepted)}</small></dd></div>
    <div><dt>stored</dt><dd>${count(events.stored)} <small>${rate(rates.stored)}</small></dd></div>
    <div><dt>in flight</dt><dd>${count(events.in_flight)}</dd></div>
    <div><dt>live</dt><dd>${time > 0 ? percent(dead_time.live_seconds / time) : UNKNOWN}${" "}<small>now ${blind ? UNKNOWN : percent(rates.live)}</small></dd></div>
    ${losses(page, state)}
    ${balance(page, state)}
    ${standby(page, state)}
    ${mirrors(page, state)}
  </dl>`;
}

/** Says whether the run survives its event manager. @param {Page} page @param {State} state */
function standby(page, state) {
  if (state.run.standby === null || state.run.phase === "closed") return false;
  const { ready, take_overs } = state.run.standby;
  const before = take_overs > 0 && html`${" "}<small>${counted(take_overs, "take-over")}</small>`;
  if (page.fresh.blind) return html`<div id="standby"><dt>standby</dt><dd>${ready ? "ready when last seen" : "none when last seen"}${before}</dd></div>`;
  if (ready) return html`<div class="ok" id="standby"><dt>standby</dt><dd>✓ ready${before}</dd></div>`;
  return html`<div class="bad" id="standby"><dt>▲ no standby</dt><dd>unprotected${before}</dd></div>`;
}

/** Says whether nothing is lost with a readout unit. @param {Page} page @param {State} state */
function mirrors(page, state) {
  const { unmirrored, phase } = state.run;
  if (unmirrored === null || phase === "closed") return false;
  if (unmirrored.length > 0) {
    return html`<div class="bad" id="mirrors"><dt>▲ no mirror</dt><dd>${some(unmirrored)}${page.fresh.blind && " when last seen"}</dd></div>`;
  }
  if (page.fresh.blind) return html`<div id="mirrors"><dt>mirrors</dt><dd>ready when last seen</dd></div>`;
  return html`<div class="ok" id="mirrors"><dt>mirrors</dt><dd>✓ ready</dd></div>`;
}

/** The first ones of a list of names. @param {string[]} names */
function some(names) {
  return names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` and ${names.length - NAMED} more` : "");
}

/** @param {Page} page @param {State} state */
function losses(page, state) {
  const list = [
    ...lossesOf(state.events.drops, "event"),
    ...lossesOf(state.fragments.drops, "fragment"),
    ...(state.events.incomplete > 0 ? [`${counted(state.events.incomplete, "event")} incomplete`] : []),
  ];
  if (list.length > 0) {
    return html`<div class="bad" id="losses"><dt>✖ LOST</dt><dd>${list.join("; ")}</dd></div>`;
  }
  const blind = page.fresh.blind || page.fresh.blindToFragments;
  return html`<div class=${blind ? "" : "ok"} id="losses"><dt>losses</dt><dd>${blind ? "none when last seen" : "✓ none"}</dd></div>`;
}

/** @param {Drop[]} drops @param {string} noun */
function lossesOf(drops, noun) {
  return drops.filter((drop) => drop.account === "loss" && drop.count > 0)
    .map((drop) => `${counted(drop.count, noun)} ${drop.reason}`);
}

/** @param {Page} page @param {State} state */
function balance(page, state) {
  const { triggers, fragments } = state.imbalance;
  if (triggers === 0 && fragments === 0) {
    const blind = page.fresh.blind || page.fresh.blindToFragments;
    return html`<div class=${blind ? "" : "ok"} id="balance"><dt>books</dt><dd>${blind ? "balanced when last seen" : "✓ balance"}</dd></div>`;
  }
  const parts = [
    ...(triggers === 0 ? [] : [`${signed(triggers)} ${Math.abs(triggers) === 1 ? "trigger" : "triggers"}`]),
    ...(fragments === 0 ? [] : [`${signed(fragments)} ${Math.abs(fragments) === 1 ? "fragment" : "fragments"}`]),
  ];
  return html`<div class="bad" id="balance"><dt>✖ NOT BALANCED</dt><dd>${parts.join(", ")}</dd></div>`;
}

/** @param {Page} page */
function notices(page) {
  const { state, version } = page.store;
  if (state === null || version === null || state.version === version) return null;
  return html`<p class="notice">The server is now version ${state.version}, this page is from version ${version}: reload the page.</p>`;
}
