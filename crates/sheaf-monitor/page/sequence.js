/** The sequence: runs from a table, one after the other. */

/** @import { Page } from "./app.js" */
/** @import { Sequence, State } from "./types.js" */
import { runTime } from "./format.js";
import { html } from "./html.js";

/** The line with the state of the sequence, and its buttons. @param {Page} page @param {State} state */
export function sequenceBar(page, state) {
  const sequence = state.control?.sequence;
  if (!sequence) return null;
  const { operator } = page;
  const why = operator.obstacle(state);
  const act = (/** @type {string} */ action) => {
    if (why !== null) operator.explain(why);
    else void operator.change("command", { path: "sequence/actions", body: { action, row: action === "skip" ? sequence.row : undefined } });
  };
  const actions = sequence.state === "running" ? ["pause", "skip", "stop"] : sequence.state === "paused" ? ["resume", "skip", "stop"] : [];
  return html`<div class="row" id="sequence"><p class=${sequence.state === "paused" ? "operation bad" : "operation"}>${described(sequence, state.time_ms)}</p>
    <div class="buttons">${actions.map((action) => html`<button data-sequence=${action}
      onClick=${() => act(action)} aria-disabled=${why !== null} title=${why ?? ""}>${action[0].toUpperCase() + action.slice(1)} ${action === "skip" ? "row" : "sequence"}</button>`)}</div></div>`;
}

/** @param {Sequence} sequence @param {number} now */
function described({ name, by, state, reason, row, rows, done, failed, skipped, mean_ms, row_began_ms }, now) {
  const rest = (rows - done - failed - skipped) * (mean_ms ?? 0) - (row_began_ms === null ? 0 : Math.min(now - row_began_ms, mean_ms ?? 0));
  return [
    `sequence ${name} by ${by} ${state}`, row !== null && `row ${row} of ${rows}`, `${done} done`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`,
    rest > 0 && state !== "ended" && `${runTime(rest / 1000)} left`,
  ].filter(Boolean).join(", ") + (reason === null ? "" : `: ${reason}`);
}
