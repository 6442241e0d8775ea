/** Dead time by cause, with who is to blame and what to do. */

/** @import { Page } from "./app.js" */
/** @import { Cause, State } from "./types.js" */
import { count, percent, quantity, words } from "./format.js";
import { html } from "./html.js";
import { isBefore, nodeLink } from "./parts.js";

/** @param {Page} page @param {State} state */
export function deadTimePanel(page, state) {
  const dead = state.dead_time;
  const causes = dead.causes.filter((cause) => cause.seconds > 0 || cause.vetoed > 0 || cause.cause === dead.now?.cause)
    .sort((a, b) => b.seconds - a.seconds);
  return [now(page, state), causes.length > 0 && table(page, state, causes)];
}

/** @param {Page} page @param {State} state */
function now(page, state) {
  const { now: present, causes } = state.dead_time;
  const when = page.fresh.blind ? "When last seen" : "Now";
  if (present === null) {
    if (isBefore(state)) return html`<p>triggers have not begun yet</p>`;
    if (state.run.phase === "none") return null;
    if (state.run.phase !== "running") return html`<p>no more triggers are taken</p>`;
    return html`<p class=${page.fresh.blind ? "" : "ok"}>${page.fresh.blind ? "" : "✓ "}${when}: triggers are taken</p>`;
  }
  const cause = causes.find((known) => known.cause === present.cause);
  return html`<div class="warn" id="dead-now">
    <p>▲ ${when} dead: <b>${cause?.text ?? words(present.cause)}</b>
      ${present.culprit !== null && html`<span class="culprit">; culprit ${nodeLink(page, present.culprit)}</span>`}</p>
    ${cause !== undefined && html`<p class="remedy"><b>Remedy:</b> ${cause.remedy}</p>`}
  </div>`;
}

/** @param {Page} page @param {State} state @param {Cause[]} causes */
function table(page, state, causes) {
  const time = state.dead_time.live_seconds + state.dead_time.dead_seconds;
  return html`<table class="causes">
    <thead><tr><th>cause</th><th class="n">time</th><th class="n">of the run</th><th class="n">vetoed</th><th>culprits</th></tr></thead>
    <tbody>
      ${causes.map((cause) => html`<tr key=${cause.cause}>
        <td title=${`${cause.text}. Remedy: ${cause.remedy}`}>${words(cause.cause)}</td>
        <td class="n">${quantity(cause.seconds, "s")}</td>
        <td class="n">${percent(time > 0 ? cause.seconds / time : Number.NaN)}</td>
        <td class="n">${count(cause.vetoed)}</td>
        <td>${cause.culprits.slice(0, 4).map(({ node, seconds }) => html`<span key=${node}>${nodeLink(page, node)} ${quantity(seconds, "s")} </span>`)}
          ${cause.culprits.length > 4 && `and ${cause.culprits.length - 4} more`}</td>
      </tr>`)}
    </tbody>
    <tfoot><tr><th>dead</th><td class="n">${quantity(state.dead_time.dead_seconds, "s")}</td>
      <td class="n">${percent(time > 0 ? state.dead_time.dead_seconds / time : Number.NaN)}</td>
      <td class="n">${count(state.triggers.vetoed)}</td><td></td></tr></tfoot>
  </table>`;
}
