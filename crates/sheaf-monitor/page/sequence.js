/** The sequence: runs from a table, one after the other. */

/** @import { Page } from "./app.js" */
/** @import { Row, Sequence, State } from "./types.js" */
import { count, runTime, UNKNOWN } from "./format.js";
import { html } from "./html.js";

/** A table with more rows is not listed. */
const LISTED = 500;

/** Signs of states, so that colour is never alone. @type {Record<string, string>} */
const SIGNS = { running: "●", done: "✓", failed: "✖", skipped: "▲", paused: "Ⅱ" };

/** Buttons in each state. @type {Record<string, string[]>} */
const ACTIONS = { running: ["pause", "skip", "stop"], paused: ["resume", "skip", "stop"] };

/** Returns the path of the table, empty if it is not to be listed. @param {Sequence | null | undefined} sequence */
export function tableOf(sequence) {
  return sequence && sequence.rows <= LISTED ? "sequence" : "";
}

/** The line with the state of the sequence, and its buttons. @param {Page} page @param {State} state */
export function sequenceBar(page, state) {
  const sequence = state.control?.sequence;
  if (!sequence) return null;
  const { operator } = page;
  const why = operator.obstacle(state);
  const said = operator.said.get("sequence");
  const text = described(sequence, state.time_ms);
  const act = (/** @type {string} */ action) => {
    if (why !== null) operator.explain(why);
    else void operator.change("sequence", { path: "sequence/actions", body: action === "skip" ? { action, row: sequence.row } : { action } });
  };
  return html`<div class="row" id="sequence"><p class=${sequence.state === "paused" ? "operation bad" : "operation"} title=${text}>${text}</p>
    ${said && html`<p class="bad" role="alert">${said.text}</p>`}
    <div class="buttons" role="group" aria-label="Sequence">${(ACTIONS[sequence.state] ?? []).map((action) => html`<button type="button" key=${action} data-sequence=${action}
      onClick=${() => act(action)} aria-disabled=${why !== null || operator.busy.has("sequence")} title=${why ?? ""}>${action[0].toUpperCase() + action.slice(1)} ${action === "skip" ? "row" : "sequence"}</button>`)}</div></div>`;
}

/** @param {Sequence} sequence @param {number} now */
function described({ name, by, state, reason, row, rows, done, failed, skipped, mean_ms, row_began_ms }, now) {
  const rest = rows - done - failed - skipped;
  const passed = row_began_ms === null ? 0 : Math.min(now - row_began_ms, mean_ms ?? 0);
  return [
    `${SIGNS[state] ?? ""} sequence ${name} by ${by} ${state}`, row !== null && `row ${row} of ${count(rows)}`, `${count(done)} done`,
    failed > 0 && `${count(failed)} failed`, skipped > 0 && `${count(skipped)} skipped`,
    mean_ms !== null && rest > 0 && state !== "ended" && `about ${runTime(Math.max(0, rest * mean_ms - passed) / 1000)} left`,
  ].filter(Boolean).join(", ") + (reason === null ? "" : `: ${reason}`);
}

/** The rows of the sequence. @param {Page} page @param {State} state */
export function sequenceTable({ sequence: { answer, problem } }, state) {
  const sequence = state.control?.sequence;
  if (!sequence) return null;
  if (tableOf(sequence) === "") return html`<p>sequence ${sequence.name}: <code>sheaf ctl sequence status</code> lists its ${count(sequence.rows)} rows</p>`;
  if (answer === null) return problem !== null && html`<p class="problem" role="alert"><b>Cannot load the sequence:</b> ${problem}</p>`;
  const keys = [...new Set(answer.rows.flatMap(({ values }) => Object.keys(values)))];
  return html`<details class="sequence"><summary>Rows of the sequence ${answer.sequence.name}</summary><div class="scroll runs-list"><table class="runs">
    <thead><tr><th class="n">row</th><th>state</th><th class="n">run</th><th class="n">triggers</th>${keys.map((key) => html`<th>${key}</th>`)}<th>remarks</th></tr></thead>
    <tbody>${answer.rows.map((row) => line(row, keys))}</tbody></table></div></details>`;
}

/** @param {Row} row @param {string[]} keys */
function line({ row, state, run, triggers, attempts, text, comment, values }, keys) {
  const remarks = [attempts > 1 && `${attempts} attempts`, ["failed", "skipped"].includes(state) && text, comment].filter(Boolean);
  return html`<tr key=${row}><td class="n">${row}</td><td class=${state === "failed" ? "bad" : ""}>${SIGNS[state] ?? ""} ${state}</td><td class="n">${run ?? UNKNOWN}</td>
    <td class="n">${count(triggers ?? Number.NaN)}</td>${keys.map((key) => html`<td>${values[key] ?? UNKNOWN}</td>`)}<td class="comment">${remarks.join("; ")}</td></tr>`;
}
