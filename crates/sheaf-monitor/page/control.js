/** Run control: the state in words, the command in progress, buttons, and who may press them. */

/** @import { Page } from "./app.js" */
/** @import { Child } from "./vendor/preact.js" */
/** @import { Control, Command, State } from "./types.js" */
import { clock, counted, runTime } from "./format.js";
import { html } from "./html.js";
import { partitionBar } from "./partitions.js";
import { sequenceBar } from "./sequence.js";

const STATES = {
  idle: "not configured", configuring: "configuring", configured: "ready to start", running: "● running", paused: "Ⅱ paused", stopping: "stopping",
};
/** Signs of results, so that colour is never alone. @type {Record<string, string>} */
const RESULTS = { done: "✓", failed: "✖", superseded: "▲" };

/** Moves the focus to an element once, when it appears. @param {HTMLElement | null} element */
const focus = (element) => element?.focus();

/** @param {Page} page @param {State} state */
export function controlBar(page, state) {
  const { control } = state;
  if (!control) return null;
  return html`<section class="control" id="control" aria-label="Run control">
    <div class="row">
      ${summary(page, control)}
      <div class="commands">
        <div class="buttons" role="group" aria-label="Commands">${control.commands.map((command) => button(page, state, control, command))}</div>
        ${question(page, state, control)}
      </div>
    </div>
    <div class="row">${operation(page, state, control)}${access(page, state, control)}</div>
    ${partitionBar(control, state.time_ms)}
    ${sequenceBar(page, state)}
  </section>`;
}

/** @param {Page} page @param {Control} control */
function summary(page, { state, target, run, by, ends, system }) {
  const limits = [
    ends?.events && counted(ends.events, "event"),
    ends?.duration_ms && runTime(ends.duration_ms / 1000),
  ].filter(Boolean);
  const of = run === null ? "no run" : [
    `run ${run}`, by !== null && `by ${by}`, limits.length > 0 ? `ends after ${limits.join(" or ")}` : "ends when stopped",
  ].filter(Boolean).join(", ");
  const good = state === "running" && !page.fresh.blind;
  return html`<p class="summary-line" title=${`${system}: ${of}`}><b class=${good ? "ok" : ""} data-state=${state}>${STATES[state] ?? state}</b>
    ${" "}<span class="target">target ${target}</span> ${of} <small>${system}</small></p>`;
}

/** Commands that begin a run, with settings of its own. */
const BEGIN = ["start", "switch"];

/** Stop of a run that is stopping. It is a question of its own: one about a stop must not become one about this. */
const NOW = "stop now";

/** @param {Control} control @param {string} command */
function isNow(control, command) {
  return command === "stop" && control.state === "stopping";
}

/** @param {string} id */
function title(id) {
  return id[0].toUpperCase() + id.slice(1);
}

/** Returns why a command cannot be given, null if it can. @param {Page} page @param {State} state @param {Command} command */
function obstacle(page, state, { allowed, why }) {
  return (allowed ? null : (why ?? "not possible in this state")) ?? page.operator.obstacle(state);
}

/** @param {Page} page @param {State} state @param {Control} control @param {Command} given */
function button(page, state, control, given) {
  const { operator } = page;
  const { command } = given;
  const why = obstacle(page, state, given);
  const id = isNow(control, command) ? NOW : command;
  const asks = [...BEGIN, "reset", NOW].includes(id);
  const press = () => {
    if (why !== null) operator.explain(why);
    else if (asks) operator.ask(operator.asked === id ? "" : id);
    else void operator.command(command, control.revision);
  };
  // Without "disabled", so that screen readers and the keyboard find the reason.
  return html`<span key=${command}><button type="button" data-command=${command} onClick=${press} aria-disabled=${why !== null} title=${why ?? ""}
    aria-describedby=${`why-${command}`} aria-expanded=${asks ? operator.asked === id : undefined}>${title(id)}</button>
    <span class="hidden" id=${`why-${command}`}>${why}</span></span>`;
}

/** Returns the form or question of a command, or what came of the last one. @param {Page} page @param {State} state @param {Control} control */
function question(page, state, control) {
  const { operator } = page;
  const { asked } = operator;
  if (asked === "" && !operator.said.has("command")) return null;
  const command = asked === NOW ? "stop" : asked;
  const given = control.commands.find((known) => known.command === command);
  const why = given !== undefined ? obstacle(page, state, given) : command === "" ? null : "the server has no such command";
  const close = () => {
    operator.ask("");
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-command="${command}"]`))?.focus();
  };
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const settings = asked === NOW ? { now: true } : BEGIN.includes(asked) ? limits(form) : {};
    if (why === null) void operator.command(command, control.revision, settings);
  };
  const grave = asked === NOW || asked === "reset";
  const yes = asked !== "" && html`<button ref=${grave || BEGIN.includes(asked) ? null : focus} aria-disabled=${why !== null || operator.busy.has("command")}>${title(asked)}</button>`;
  return html`<form class="over" key=${asked} onSubmit=${submit} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close()}>
    ${asked === "switch" && html`<p>The next run begins without a gap.</p>`}
    ${BEGIN.includes(asked) ? startFields() : asked !== "" && html`<p>${consequence(state, control, asked)}</p>`}
    ${problem(page, "command")}
    ${why !== null && html`<p class="problem">${why}</p>`}
    <p class="answers">${yes} <button type="button" ref=${grave ? focus : null} onClick=${close}>${operator.busy.has("command") ? "Give up" : asked === "" ? "Close" : "Cancel"}</button></p>
  </form>`;
}

function startFields() {
  return html`<p><label>Events <input name="events" type="number" min="1" max=${Number.MAX_SAFE_INTEGER} ref=${focus} placeholder="no limit" /></label></p>
    <p><label>Duration <input name="duration" type="number" min="0.001" max="1000000" step="any" placeholder="no limit" /></label>
      <select name="unit" aria-label="Unit of the duration"><option value="1000">s</option><option value="60000">min</option><option value="3600000">h</option></select></p>
    <p><label>Comment <input name="comment" maxlength="1000" autocomplete="off" placeholder="none" /></label></p>`;
}

/** @param {FormData} form @returns {object} settings of a start; empty fields are absent */
function limits(form) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  return {
    events: Number(text("events")) || undefined,
    duration_ms: Math.round(Number(text("duration")) * Number(text("unit"))) || undefined,
    comment: text("comment") || undefined,
  };
}

/** @param {State} state @param {Control} control @param {string} command */
function consequence(state, control, command) {
  const run = control.run === null ? "" : ` run ${control.run}`;
  if (command === NOW) return `Stop${run} now? This drops the ${counted(state.events.in_flight, "event")} in flight.`;
  if (command === "reset") return `Reset? This kills the processes of${run || " all nodes"}, and drops everything in flight.`;
  return `${title(command)}${command === "configure" ? ` ${control.system}` : run}?`;
}

/** Returns what came of the last request of a place. @param {Page} page @param {string} place */
export function problem(page, place) {
  const said = page.operator.said.get(place);
  return said !== undefined && html`<p class="problem" role="alert">✖ ${said.text}${said.remedy && html`<br /><b>Remedy:</b> ${said.remedy}`}</p>`;
}

/** @param {Page} page @param {State} state @param {Control} control */
function operation(page, { time_ms }, { operation: now, last }) {
  let text = "no command yet";
  let bad = false;
  if (now !== null) {
    const limit = now.deadline_ms === null ? "" : ` of at most ${runTime((now.deadline_ms - now.began_ms) / 1000)}`;
    const late = now.deadline_ms !== null && time_ms > now.deadline_ms;
    text = `… ${now.command} by ${now.by}: ${runTime((time_ms - now.began_ms) / 1000)}${limit}${late ? ", LATE" : ""}${now.progress ? `; ${now.progress}` : ""}`;
    bad = late;
  } else if (last !== null) {
    text = `${RESULTS[last.result] ?? ""} ${last.command} by ${last.by} ${last.result} ${clock(last.ended_ms, time_ms)}${last.text ? `; ${last.text}` : ""}`;
    bad = last.result === "failed";
  }
  return html`<p class=${bad ? "operation bad" : "operation"} title=${text} data-operation=${now?.id ?? ""}>${text}</p>`;
}

/** @param {Page} page @param {State} state @param {Control} control */
function access(page, state, control) {
  const { operator } = page;
  return html`<div class="access">${operator.token === "" && operator.me === null ? tokenForm(page, commandsNeedOne()) : person(page, state, control)}
    ${operator.said.has("access") && html`<div class="over">${problem(page, "access")}
      <p class="answers"><button type="button" onClick=${() => {
        operator.said.delete("access");
        page.changed();
      }}>Close</button></p></div>`}
  </div>`;
}

function commandsNeedOne() {
  return html`Commands need a token: open the address that <code>sheaf serve</code> prints, or paste one of <code>sheaf token</code>`;
}

/** Asks for a token, in place of a page that the server does not show without one. @param {Page} page */
export function locked(page) {
  return html`<div class="locked access">${tokenForm(page, html`This page needs a token. Whoever runs Sheaf here makes one with <code>sheaf token add NAME --role viewer</code>`)}
    ${page.operator.busy.has("access") ? html`<p>… asks the server</p>` : problem(page, "access")}</div>`;
}

/** @param {Page} page @param {Child} why */
function tokenForm(page, why) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    page.operator.use(String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("token")));
  };
  return html`<form class="token" onSubmit=${submit}><span>${why}</span>
    <input name="token" type="password" aria-label="Token" autocomplete="off" required /> <button>Use</button></form>`;
}

/** @param {Page} page @param {State} state @param {Control} control */
function person(page, { time_ms }, { lock }) {
  const { operator } = page;
  const { me } = operator;
  const mine = lock !== null && lock.by === me?.name;
  const may = me !== null && me.role !== "viewer";
  const busy = operator.busy.has("access");
  const give = () => void operator.change("access", { path: "lock", method: "DELETE" });
  return html`<p>${me === null ? "token not confirmed" : html`<span><b>${me.name}</b>, ${me.role}</span>`}
    <button type="button" class="plain link" onClick=${() => operator.use("")}>forget token</button>
    <span class="lock">${lock === null ? "lock: free" : `lock: ${mine ? "yours" : lock.by} until ${clock(lock.until_ms, time_ms)}`}</span>
    ${may && (lock === null || mine) && html`<button type="button" id="lock" aria-disabled=${busy} onClick=${mine ? give : () => void operator.lock(false)}>${mine ? "Give back" : "Take lock"}</button>`}
    ${may && lock !== null && !mine && me.role === "admin" && html`<button type="button" id="lock" aria-disabled=${busy} onClick=${() => void operator.lock(true)}>Take by force</button>`}</p>`;
}

/** Keys of commands: each asks before it does anything. @type {Record<string, string>} */
const KEYS = { o: "configure", s: "start", p: "pause", n: "switch", e: "stop", x: "reset" };

/** Does what a key means for run control. @param {Pick<Page, "store" | "operator">} page @param {string} key @returns {boolean} whether it has a meaning */
export function pressed({ store, operator }, key) {
  const control = store.state?.control;
  if (!control) return false;
  const command = KEYS[key];
  if (command !== undefined) {
    if (command === "pause" && control.state === "paused") operator.ask("resume");
    else operator.ask(isNow(control, command) ? NOW : command);
  } else if (key === "Escape") operator.ask("");
  else if (key === "c") /** @type {HTMLElement | null} */ (document.querySelector('[data-command][aria-disabled="false"]'))?.focus();
  else return false;
  return true;
}
