/** The whole page as a function of what is known. */

/** @import { Freshness, Store } from "./store.js" */
/** @import { FiguresFeed } from "./nodes.js" */
/** @import { NumbersFeed } from "./numbers.js" */
/** @import { Feed } from "./feed.js" */
/** @import { MapFeed } from "./map-data.js" */
/** @import { Operator } from "./operator.js" */
/** @import { AuditEntry, HistogramList, NamedConfiguration, RunRecord, Traced, TracedList, ValueList } from "./types.js" */
/** @import { Navigation, View } from "./view.js" */
/** @import { Child, VNode } from "./vendor/preact.js" */
import { alarmsPanel, announcements, faultsPanel } from "./alarms.js";
import { booksPanel } from "./books.js";
import { chartsOf, otherCharts } from "./charts.js";
import { controlBar, locked } from "./control.js";
import { deadTimePanel } from "./dead-time.js";
import { flowPanel } from "./flow.js";
import { header, NARROW } from "./header.js";
import { helpDialog } from "./help.js";
import { histogramsPanel } from "./histograms.js";
import { html } from "./html.js";
import { latencyPanel } from "./latency.js";
import { logPanel } from "./log.js";
import { mapPanel } from "./map.js";
import { nodesPanel } from "./nodes.js";
import { commandsPanel, runsPanel } from "./runs.js";
import { sourcesPanel } from "./sources.js";
import { tracesPanel } from "./traces.js";
import { valuesPanel } from "./values.js";
import { verdictPanel } from "./verdict.js";
import { PANELS } from "./view.js";

/**
 * Everything that a part of the page may show or call.
 *
 * @typedef {object} Page
 * @property {Store} store
 * @property {NumbersFeed} numbers
 * @property {FiguresFeed} figures
 * @property {Feed<{runs: RunRecord[]}>} runs
 * @property {Feed<RunRecord>} record The run whose record is open.
 * @property {Feed<{configurations: NamedConfiguration[]}>} configurations
 * @property {Feed<{entries: AuditEntry[]}>} audit
 * @property {Feed<TracedList>} traces
 * @property {Feed<Traced>} trace The trace that is open.
 * @property {Feed<HistogramList>} histograms
 * @property {Feed<HistogramList>} histogram The histogram that is open.
 * @property {Feed<ValueList>} values
 * @property {MapFeed} map
 * @property {Operator} operator
 * @property {Navigation} navigation
 * @property {View} view
 * @property {Freshness} fresh
 * @property {boolean} help Whether the list of keys is open.
 * @property {(open: boolean) => void} showHelp
 * @property {() => void} changed Draws the page again.
 */

/** @param {Page} page @returns {VNode} */
export function app(page) {
  const state = page.store.state;
  const blind = page.fresh.blind;
  return html`<div class=${blind ? "page blind" : "page"}>
    ${header(page)}
    ${state !== null && NARROW.matches && controlBar(page, state)}
    <p class="hidden" role="status" aria-live="polite">${announcements(page)}</p>
    <main>
      ${page.store.locked && locked(page)}
      ${state === null ? !page.store.locked && html`<p class="waiting">Waiting for the first state from the server.</p>` : [
        faultsPanel(page, state),
        alarmsPanel(page, state),
        verdictPanel(page, state),
        panel(page, "rate", "half", chartsOf(page, "rate"), numbersProblem(page)),
        panel(page, "dead-time", "half", deadTimePanel(page, state), chartsOf(page, "dead_time")),
        panel(page, "flow", "whole", flowPanel(page, state), html`<div class="charts">${chartsOf(page, "flow")}${chartsOf(page, "buffer")}</div>`),
        panel(page, "map", "whole", mapPanel(page)),
        panel(page, "books", "third", booksPanel(page, state)),
        panel(page, "sources", "third", sourcesPanel(page, state)),
        panel(page, "latency", "third", latencyPanel(state), chartsOf(page, "latency")),
        state.values?.declared > 0 && panel(page, "values", "whole", valuesPanel(page, state)),
        panel(page, "nodes", "half", nodesPanel(page, state)),
        panel(page, "log", "half", logPanel(page, state)),
        panel(page, "traces", "whole", tracesPanel(page, state)),
        panel(page, "histograms", "whole", histogramsPanel(page, state)),
        state.control && panel(page, "runs", "wide", runsPanel(page, state)),
        state.control && panel(page, "commands", "third", commandsPanel(page, state)),
        panel(page, "numbers", "whole", html`<div class="charts">${otherCharts(page)}</div>`),
      ]}
    </main>
    ${helpDialog(page)}
  </div>`;
}

/** @param {Page} page @param {string} id @param {"whole" | "wide" | "half" | "third"} width @param {Child[]} content */
export function panel(page, id, width, ...content) {
  const { title, key } = PANELS.find((known) => known.id === id) ?? { title: id, key: "" };
  return html`<section id=${`panel-${id}`} class=${`panel ${width}`} tabindex="-1" aria-labelledby=${`title-${id}`} key=${id}>
    <h2 id=${`title-${id}`}><a href=${page.navigation.link({ panel: id })}>${title}</a> <kbd aria-hidden="true">${key}</kbd></h2>
    ${content}
  </section>`;
}

/** @param {Page} page */
function numbersProblem(page) {
  const problem = page.numbers.problem;
  return problem === null ? null : html`<p class="problem" role="alert"><b>No curves:</b> ${problem}</p>`;
}
