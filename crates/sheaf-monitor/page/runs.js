/** The last runs, the record of one of them, and the commands that were given. */

/** @import { Page } from "./app.js" */
/** @import { AuditEntry, NamedConfiguration, RunRecord, State } from "./types.js" */
/** @import { Child } from "./vendor/preact.js" */
import { problem } from "./control.js";
import { clock, count, percent, quantity, runTime, UNKNOWN, words } from "./format.js";
import { html } from "./html.js";

const STATES = new Map([["in_progress", "● in progress"], ["good", "✓ good"], ["not_good", "✖ not good"], ["not_closed", "✖ not closed"]]);
const QUALITIES = new Map([["good", "✓ good"], ["bad", "✖ bad"], ["unknown", "? unknown"]]);

/** @param {Page} page @param {State} state */
export function runsPanel(page, state) {
  const { answer, problem: failure } = page.runs;
  const records = [...(answer?.runs ?? [])].sort((a, b) => b.run - a.run);
  return [
    failed(failure, "the list of runs"),
    answer !== null && records.length === 0 && html`<p>no run yet</p>`,
    records.length > 0 && html`<div class="scroll runs-list"><table class="runs">
      <thead><tr><th>run</th><th>began</th><th class="n">time</th><th>state</th><th class="n">stored</th><th class="n">lost</th><th class="n">dead</th><th>quality, comment</th></tr></thead>
      <tbody>${records.map((record) => row(page, state, record))}</tbody></table></div>`,
    page.view.run !== "" && details(page, state),
    configurations(page, state),
  ];
}

/** @param {string | null} failure @param {string} what */
function failed(failure, what) {
  return failure !== null && html`<p class="problem" role="alert"><b>Cannot load ${what}:</b> ${failure}</p>`;
}

/** @param {Page} page @param {State} state @param {RunRecord} record */
function row(page, { time_ms }, record) {
  const { ledger, end } = record;
  const open = page.view.run === String(record.run);
  const time = ledger === null ? Number.NaN : ledger.time.run_ns;
  return html`<tr key=${record.run} data-run=${record.run} class=${open ? "selected" : ""}>
    <td><a href=${page.navigation.link({ panel: "runs", run: open ? "" : String(record.run) })} aria-expanded=${open}>${open ? "▾" : "▸"} ${record.run}</a></td>
    <td>${clock(record.created_ns / 1e6, time_ms)}</td>
    <td class="n">${runTime(time / 1e9)}</td>
    <td class=${record.state.startsWith("not") ? "bad" : ""}>${STATES.get(record.state) ?? record.state}</td>
    <td class="n">${count(ledger?.stored ?? Number.NaN)}</td>
    <td class=${end !== null && end.lost > 0 ? "n bad" : "n"}>${count(end?.lost ?? Number.NaN)}</td>
    <td class="n">${ledger === null || time === 0 ? UNKNOWN : percent(1 - ledger.time.live_ns / time)}</td>
    <td class="comment">${judgement(record)} ${record.comments.findLast(({ text }) => text)?.text}</td></tr>`;
}

/** Returns the last judgement of a run's data. @param {RunRecord} record */
function judgement({ comments }) {
  const quality = comments.findLast((comment) => comment.quality)?.quality;
  return quality && html`<b>${QUALITIES.get(quality) ?? quality}</b>`;
}

/** Returns the record of the selected run. @param {Page} page @param {State} state */
function details(page, state) {
  const { answer, problem: failure } = page.record;
  const { run } = page.view;
  return html`<section class="record" id="record" aria-label=${`Run ${run}`}>
    <h3>Run ${run} <a href=${page.navigation.link({ run: "" })}>close</a></h3>
    ${failed(failure, `run ${run}`)}
    ${answer === null ? failure === null && html`<p>Loading ...</p>` : [facts(state, answer), given(answer), like(page, state, answer), comments(page, state, answer)]}
  </section>`;
}

/** @param {State} state @param {RunRecord} record */
function facts({ time_ms }, record) {
  const { created_ns, ended_ns, end, ledger, files, code, changed, configuration, configuration_from: from, directory, software } = record;
  const dead = Object.entries(ledger?.time.dead_ns ?? {});
  return html`<dl class="lines">
    ${line("began", clock(created_ns / 1e6, time_ms))}
    ${line("ended", ended_ns === null ? UNKNOWN : [clock(ended_ns / 1e6, time_ms), end && `, ${words(end.reason)}`, end?.detail && `: ${end.detail}`])}
    ${ledger !== null && [
      line("triggers", `${count(ledger.triggers)} accepted of ${count(ledger.offered)} offered`),
      line("events", [`${count(ledger.stored)} stored, ${count(ledger.rejected)} rejected`,
        ...Object.entries(ledger.dropped).map(([reason, number]) => `, ${count(number)} ${reason}`)]),
      line("lost", end === null ? UNKNOWN : count(end.lost)),
      line("books", ledger.balanced ? "✓ balance" : html`<span class="bad">✖ ${ledger.problems.join("; ")}</span>`),
      line("dead time", dead.length === 0 ? "none" : dead.map(([cause, ns]) => `${words(cause)} ${quantity(ns / 1e9, "s")}`).join(", ")),
    ]}
    ${files.map(({ file, events, bytes }) => line("file", `${file}: ${count(events)} events, ${quantity(bytes, "B")}`))}
    ${code.map(({ table, path }) => line("code", `${table}: ${path}`))}
    ${Object.entries(changed ?? {}).map(([key, values]) => line("changed", `${key}: ${values.map((value) => value ?? "not set").join(" → ")}`))}
    ${line("configuration", [[configuration.name, configuration.id].filter(Boolean).join(" "), from && `, from ${from.name ? `${from.name} version ${from.version}, that of ` : ""}run ${from.run}`])}
    ${line("directory", `${directory}, by ${software}`)}
  </dl>`;
}

/** @param {string} name @param {Child} value */
function line(name, value) {
  return html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
}

/** Returns the commands of a run, with times since its start. @param {RunRecord} record */
function given({ commands = [], commands_left_out = 0, created_ns, ledger }) {
  if (commands.length === 0) return false;
  const zero = ledger?.time.started_ns ?? created_ns;
  return html`<div class="scroll"><table class="runs given" aria-label="Commands">
    <thead><tr><th class="n">time (s)</th><th>by</th><th>command</th><th>result</th></tr></thead>
    <tbody>${commands.map(({ time_ns, by, via, command, target, comment, result, text }) => html`<tr>
      <td class="n">${signed((time_ns - zero) / 1e9)}</td><td>${by}${via && html` <small>(${via})</small>`}</td>
      <td class="comment"><b>${command}</b> ${target}${comment && html` <q>${comment}</q>`}</td>
      <td class=${result === "failed" ? "comment bad" : "comment"}>${result === "failed" && "✖ "}${result ?? "not known"}${text && `: ${text}`}</td></tr>`)}</tbody>
    </table>${commands_left_out > 0 && html`<p>${count(commands_left_out)} further commands between the first and the last ${count(Math.floor(commands.length / 2))} are left out</p>`}</div>`;
}

/** Returns what starts a run like this one, and names its configuration. @param {Page} page @param {State} state @param {RunRecord} record */
function like(page, state, { run }) {
  if (!canStart(state)) return false;
  const { operator } = page;
  const why = operator.lacks("expert");
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const name = String(new FormData(form).get("name")).trim();
    if (why !== null || name === "") return;
    if (await operator.change("name", { path: "configurations", body: { run, name } })) form.reset();
  };
  return html`<details class="like"><summary>Start a run like this</summary>
    <p>It has the configuration of run ${run} as it was in force then, also its end. ${startLike(page, state, String(run), `run ${run}`)}</p>
    <form class="controls" onSubmit=${submit}><label>Name for this configuration <input name="name" maxlength="64" autocomplete="off" spellcheck="false" /></label>
      <button aria-disabled=${why !== null || operator.busy.has("name")} title=${why ?? ""}>Give the name</button></form>
    ${problem(page, "name")}</details>`;
}

/** Returns whether there is run control that starts runs. @param {State} state */
function canStart({ control }) {
  return control?.commands.some(({ command }) => command === "start") ?? false;
}

/** Returns a button that starts a run with the configuration of another one. Put it in a closed section: one click must not begin a run.
 * @param {Page} page @param {State} state @param {string} like @param {string} title */
function startLike({ operator }, state, like, title) {
  const { control } = state;
  const start = control?.commands.find(({ command }) => command === "start");
  if (!control || start === undefined) return false;
  const busy = control.state === "idle" ? null : "there is a run, with its own configuration";
  const why = (start.allowed ? busy : start.why ?? "not possible in this state") ?? operator.obstacle(state, "expert");
  const press = () => (why === null ? void operator.command("start", control.revision, { like }) : operator.explain(why));
  return html`<button type="button" data-like=${like} onClick=${press} aria-disabled=${why !== null} title=${why ?? ""}>Start like ${title}</button> ${why !== null && html`<small>${why}</small>`}`;
}

/** Returns the configurations with names, the newest first, each with what starts a run with it. @param {Page} page @param {State} state */
function configurations(page, state) {
  const { answer, problem: failure } = page.configurations;
  const versions = [...(answer?.configurations ?? [])].sort((a, b) => b.time_ns - a.time_ns);
  if (failure === null && versions.length === 0) return false;
  return html`<details class="configurations"><summary>Configurations with names (${count(versions.length)})</summary>
    ${failed(failure, "the configurations")}
    <div class="scroll"><table class="runs"><thead><tr><th>name</th><th class="n">version</th><th>of run</th><th>since</th><th>by</th><th></th></tr></thead>
      <tbody>${versions.map((named) => version(page, state, named))}</tbody></table></div></details>`;
}

/** @param {Page} page @param {State} state @param {NamedConfiguration} named */
function version(page, state, { name, version: number, run, time_ns, by }) {
  const id = `${name}@${number}`;
  return html`<tr key=${id} data-configuration=${id}><td>${name}</td><td class="n">${number}</td>
    <td><a href=${page.navigation.link({ panel: "runs", run: String(run) })}>${run}</a></td><td>${clock(time_ns / 1e6, state.time_ms)}</td><td>${by}</td>
    <td>${startLike(page, state, id, id)}</td></tr>`;
}

/** Returns seconds with their sign. @param {number} seconds */
function signed(seconds) {
  return `${seconds < 0 ? "−" : "+"}${Math.abs(seconds).toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 })}`;
}

/** @param {Page} page @param {State} state @param {RunRecord} record */
function comments(page, state, { run, comments: list }) {
  const { operator } = page;
  const why = operator.hindrance;
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const [text, quality] = ["text", "quality"].map((name) => String(new FormData(form).get(name)).trim() || undefined);
    if (why !== null || (text ?? quality) === undefined) return;
    // Sent twice, it would be there twice.
    if (await operator.change("comment", { path: `runs/${run}/comments`, body: { text, quality }, once: true })) form.reset();
  };
  return html`<ul class="comments">${list.map(({ time_ns, author, text, quality }) => html`<li><small>${clock(time_ns / 1e6, state.time_ms)} ${author}</small>${" "}
      ${quality && html`<b>${QUALITIES.get(quality) ?? quality}</b> `}${text}</li>`)}</ul>
    <form class="controls remark" onSubmit=${submit}><label>Comment <input name="text" maxlength="1000" autocomplete="off" /></label>
      <label>Quality <select name="quality"><option value="">no judgement</option>${[...QUALITIES].map(([id, title]) => html`<option value=${id}>${title}</option>`)}</select></label>
      <button aria-disabled=${why !== null || operator.busy.has("comment")} title=${why ?? ""}>Add</button> ${why !== null && html`<small>${why}</small>`}</form>
    ${problem(page, "comment")}`;
}

/** Returns the commands that were given, newest first. @param {Page} page @param {State} state */
export function commandsPanel(page, state) {
  const { answer, problem: failure } = page.audit;
  return [
    failed(failure, "the commands"),
    answer !== null && html`<ol class="audit scroll" tabindex="0" aria-label="Commands, newest first">
      ${[...answer.entries].sort((a, b) => b.at_ms - a.at_ms).map((entry) => html`<li class=${entry.answer}>
        <time dateTime=${new Date(entry.at_ms).toISOString()}>${clock(entry.at_ms, state.time_ms)}</time> <b>${entry.by}</b> ${entry.action}${" "}
        <span class=${entry.answer === "refused" ? "bad" : ""}>${entry.answer === "refused" ? "✖ " : ""}${entry.answer}</span> ${entry.text}</li>`)}
    </ol>`,
  ];
}
