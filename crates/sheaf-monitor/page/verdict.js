/** The result of a run that has ended. */

/** @import { Page } from "./app.js" */
/** @import { State } from "./types.js" */
import { html } from "./html.js";

/** @param {Page} page @param {State} state */
export function verdictPanel(page, state) {
  const verdict = state.run.verdict;
  if (verdict === null) return null;
  const good = verdict.good && !page.fresh.blind;
  return html`<section class="panel whole" id="panel-verdict" aria-labelledby="title-verdict" key="verdict">
    <h2 id="title-verdict">Result of run ${state.run.number ?? ""}</h2>
    <p class=${verdict.good ? (good ? "ok" : "") : "bad"}>${verdict.good ? "✓ good" : "✖ not good"}</p>
    <pre class="summary" tabindex="0" aria-label="Summary">${verdict.lines.join("\n")}</pre>
  </section>`;
}
