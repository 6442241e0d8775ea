/** The table of nodes: sorted, filtered, with the figures of the selected one. */

/** @import { Page } from "./app.js" */
/** @import { Figure, Node, NodeFigures, State } from "./types.js" */
import { count, counted, duration, percent, quantity, UNKNOWN } from "./format.js";
import { html } from "./html.js";
import { condition, culprits, fullest } from "./parts.js";

/** @type {{id: string, title: string, numeric: boolean, of: (node: Node) => number | string}[]} */
const COLUMNS = [
  { id: "name", title: "node", numeric: false, of: (node) => node.name },
  { id: "role", title: "role", numeric: false, of: (node) => node.role },
  { id: "up", title: "state", numeric: false, of: (node) => (node.up ? 1 : 0) },
  { id: "age", title: "report", numeric: true, of: (node) => node.age_ms ?? Infinity },
  { id: "restarts", title: "restarts", numeric: true, of: (node) => node.restarts },
  { id: "fill", title: "fullest", numeric: true, of: (node) => fullest(node)?.full ?? -1 },
];

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Time between requests for figures, and the longest after failures. */
const FIGURES_MS = 1000;
const LONGEST_PAUSE_MS = 5000;
/** Longest time for an answer. */
const LIMIT_MS = 15_000;

/** The figures of the node whose row is open: loaded again and again while the page can be seen. */
export class FiguresFeed {
  /** @param {{base: string, onChange: () => void}} options */
  constructor(options) {
    this.options = options;
    /** Node to ask about, empty if no row is open. */
    this.node = "";
    /** Last answer. @type {NodeFigures | null} */
    this.answer = null;
    /** Text of the last failure, null if the last request succeeded. @type {string | null} */
    this.problem = null;
    this.pauseMs = FIGURES_MS;
    this.abort = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    document.addEventListener("visibilitychange", () => this.restart());
  }

  /** @param {string} node */
  select(node) {
    if (node === this.node) return;
    this.node = node;
    this.problem = null;
    this.restart();
  }

  /** Returns what is known of a node. @param {string} node @returns {{figures: Figure[] | null, problem: string | null}} */
  about(node) {
    const figures = this.answer?.name === node ? this.answer.figures : null;
    return { figures, problem: this.node === node ? this.problem : null };
  }

  /** Drops what is under way, and asks again if the figures can be seen. */
  restart() {
    clearTimeout(this.timer);
    this.abort.abort();
    this.abort = new AbortController();
    this.pauseMs = FIGURES_MS;
    if (this.node !== "" && document.visibilityState === "visible") void this.ask(this.abort.signal);
  }

  /** @param {AbortSignal} signal */
  async ask(signal) {
    try {
      const answer = await this.get(signal);
      if (signal.aborted) return;
      this.answer = answer;
      this.problem = null;
      this.pauseMs = FIGURES_MS;
    } catch (error) {
      if (signal.aborted) return;
      this.problem = error instanceof Error ? error.message : String(error);
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
    }
    this.timer = setTimeout(() => void this.ask(signal), this.pauseMs);
    this.options.onChange();
  }

  /** @param {AbortSignal} signal @returns {Promise<NodeFigures>} */
  async get(signal) {
    const name = this.node;
    const both = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
    const response = await fetch(`${this.options.base}nodes/${encodeURIComponent(name)}`, { signal: both, cache: "no-store" });
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const { figures } = await response.json();
    if (!Array.isArray(figures)) throw new Error("the server sent figures that are not a list");
    return { name, figures };
  }
}

/** @param {Page} page @param {State} state */
export function nodesPanel(page, state) {
  const nodes = sorted(matching(state.nodes, page.view.nodes), page.view.sort);
  const blamed = culprits(state);
  const filter = (/** @type {InputEvent} */ event) => {
    page.navigation.set({ nodes: /** @type {HTMLInputElement} */ (event.target).value });
  };
  return [
    html`<p class="controls"><label>Filter <input type="search" id="node-filter" value=${page.view.nodes} onInput=${filter} placeholder="name or role" /></label>
      <span class="shown">${nodes.length === state.nodes.length ? counted(nodes.length, "node") : `${nodes.length} of ${counted(state.nodes.length, "node")}`}</span></p>`,
    html`<div class="scroll"><table class="nodes">
      <thead><tr>${COLUMNS.map((column) => heading(page, column))}</tr></thead>
      <tbody>${nodes.flatMap((node) => [row(page, state, node, blamed), ...(page.view.node === node.name ? [details(page, state, node)] : [])])}</tbody>
    </table></div>`,
  ];
}

/** @param {Page} page @param {typeof COLUMNS[number]} column */
function heading(page, column) {
  const ascending = page.view.sort === column.id;
  const descending = page.view.sort === `-${column.id}`;
  const sign = ascending ? " ▲" : descending ? " ▼" : "";
  const next = ascending ? `-${column.id}` : column.id;
  const sort = ascending ? "ascending" : descending ? "descending" : "none";
  return html`<th class=${column.numeric ? "n" : ""} aria-sort=${sort} scope="col">
    <button type="button" data-sort=${column.id} onClick=${() => page.navigation.set({ sort: next })}>${column.title}${sign}</button></th>`;
}

/** @param {Page} page @param {State} state @param {Node} node @param {Set<string>} blamed */
function row(page, state, node, blamed) {
  const open = page.view.node === node.name;
  const toggle = () => page.navigation.set({ node: open ? "" : node.name });
  const most = fullest(node);
  const { text, kind } = condition(page, state, node);
  return html`<tr key=${node.name} class=${open ? "selected" : ""} data-node=${node.name}>
    <td><button type="button" class="plain" aria-expanded=${open} onClick=${toggle}>${open ? "▾" : "▸"} ${node.name}</button>
      ${blamed.has(node.name) && html` <span class="tag">◀ culprit</span>`}</td>
    <td>${node.role}${node.agent && html` <small>by ${node.agent}</small>`}</td>
    <td class=${kind}>${text}</td>
    <td class="n">${node.age_ms === null ? UNKNOWN : duration(node.age_ms / 1000)}</td>
    <td class="n">${count(node.restarts)}</td>
    <td class="n">${most === null ? UNKNOWN : `${most.name} ${percent(most.full)}`}</td>
  </tr>`;
}

/** Buttons that exclude a node, include it or start it again. @param {Page} page @param {State} state @param {Node} node */
function changes(page, state, node) {
  const { operator } = page;
  const isManager = node.role === "manager";
  // Only a standby can take over from the event manager.
  if (!state.control || (isManager && state.run.standby === null)) return null;
  const place = `node ${node.name}`;
  const why = operator.obstacle(state) ?? (operator.busy.has(place) ? "a request is under way" : null);
  const said = operator.said.get(place);
  const path = `nodes/${encodeURIComponent(node.name)}`;
  const button = (/** @type {string} */ what, /** @type {string} */ title, /** @type {() => import("./operator.js").Change} */ change) => {
    const press = () => {
      if (why !== null) operator.explain(why);
      else void operator.change(place, change());
    };
    return html`<button type="button" data-change=${`${what} ${node.name}`} onClick=${press} aria-disabled=${why !== null} title=${why ?? title}>${what}</button>`;
  };
  const known = state.control.nodes.find((one) => one.node === node.name);
  const isExcluded = known !== undefined && !known.included;
  const effect = node.role === "readout" ? "events are complete without its sources" : "it gets no further events";
  const again = isManager ? "its standby takes over from it, and it joins as the standby" : "its process is killed if it lives";
  return html`<p class="controls">
    ${!isManager && node.role !== "output" && button(isExcluded ? "Include" : "Exclude", isExcluded ? "" : effect, () => ({ path: `${path}/included`, method: "PUT", body: { included: isExcluded } }))}
    ${state.control.run !== null && button("Start again", again, () => ({ path: `${path}/recover`, method: "POST", body: { request: crypto.randomUUID() } }))}
    ${known?.not_recovered && html`<span class="bad" role="status">Not started again: ${known.not_recovered}</span>`}
    ${said && html`<span class="bad" role="status">${said.text}${said.remedy && `; ${said.remedy}`}</span>`}
  </p>`;
}

/** @param {Page} page @param {State} state @param {Node} node */
function details(page, state, node) {
  const { figures, problem } = page.figures.about(node.name);
  const fills = Object.entries(node.fill);
  return html`<tr key=${`${node.name} details`} class="details"><td colspan=${COLUMNS.length}>
    ${changes(page, state, node)}
    <dl class="figures">
      ${fills.map(([name, fill]) => html`<div key=${`fill ${name}`}><dt>${name}</dt><dd>${quantity(fill.value, fill.unit)} of ${quantity(fill.limit, fill.unit)}</dd></div>`)}
      ${(figures ?? []).map((figure) => html`<div key=${figure.name} title=${figure.text}><dt>${figure.name}</dt><dd data-figure=${figure.name}>${value(figure.value)}</dd><dd class="text">${figure.text}</dd></div>`)}
    </dl>
    ${problem === null
      ? figures === null && html`<p>${node.age_ms === null ? "It has published nothing yet." : "Loading its figures ..."}</p>`
      : html`<p class="problem" role="alert"><b>${figures === null ? "No figures" : "Old figures"}:</b> ${problem}</p>`}
    ${figures?.length === 0 && "All its figures are 0."}
  </td></tr>`;
}

/** @param {number} figure */
function value(figure) {
  return Number.isInteger(figure) ? count(figure) : String(Number(figure.toPrecision(6)));
}

/** @param {Node[]} nodes @param {string} text */
function matching(nodes, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return nodes;
  return nodes.filter((node) => `${node.name} ${node.role} ${node.agent ?? ""} ${node.up ? "up" : "down"}`.toLowerCase().includes(wanted));
}

/** @param {Node[]} nodes @param {string} order */
function sorted(nodes, order) {
  const descending = order.startsWith("-");
  const column = COLUMNS.find(({ id }) => id === order.replace(/^-/, ""));
  if (column === undefined) return nodes;
  const compare = (/** @type {Node} */ a, /** @type {Node} */ b) => {
    const [left, right] = [column.of(a), column.of(b)];
    if (typeof left === "number" && typeof right === "number") return left - right;
    return COLLATOR.compare(String(left), String(right));
  };
  return [...nodes].sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
}
