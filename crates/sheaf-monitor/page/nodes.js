/** The table of nodes: sorted, filtered, with the figures of the selected one. */

/** @import { Page } from "./app.js" */
/** @import { Node, State } from "./types.js" */
import { count, counted, duration, percent, quantity, UNKNOWN } from "./format.js";
import { html } from "./html.js";
import { culprits, fullest } from "./parts.js";

/** @type {{id: string, title: string, numeric: boolean, of: (node: Node) => number | string}[]} */
const COLUMNS = [
  { id: "name", title: "node", numeric: false, of: (node) => node.name },
  { id: "role", title: "role", numeric: false, of: (node) => node.role },
  { id: "up", title: "state", numeric: false, of: (node) => (node.up ? 1 : 0) },
  { id: "age", title: "report", numeric: true, of: (node) => node.age_ms },
  { id: "restarts", title: "restarts", numeric: true, of: (node) => node.restarts },
  { id: "fill", title: "fullest", numeric: true, of: (node) => fullest(node)?.full ?? -1 },
];

const COLLATOR = new Intl.Collator("en", { numeric: true });

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
      <tbody>${nodes.flatMap((node) => [row(page, node, blamed), ...(page.view.node === node.name ? [details(node)] : [])])}</tbody>
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

/** @param {Page} page @param {Node} node @param {Set<string>} blamed */
function row(page, node, blamed) {
  const open = page.view.node === node.name;
  const toggle = () => page.navigation.set({ node: open ? "" : node.name });
  const most = fullest(node);
  return html`<tr key=${node.name} class=${open ? "selected" : ""} data-node=${node.name}>
    <td><button type="button" class="plain" aria-expanded=${open} onClick=${toggle}>${open ? "▾" : "▸"} ${node.name}</button>
      ${blamed.has(node.name) && html` <span class="tag">◀ culprit</span>`}</td>
    <td>${node.role}</td>
    <td class=${node.up ? (page.fresh.blind ? "" : "ok") : "bad"}>${node.up ? (page.fresh.blind ? "was up" : "✓ up") : "✖ down"}</td>
    <td class="n">${duration(node.age_ms / 1000)}</td>
    <td class="n">${count(node.restarts)}</td>
    <td class="n">${most === null ? UNKNOWN : `${most.name} ${percent(most.full)}`}</td>
  </tr>`;
}

/** @param {Node} node */
function details(node) {
  const fills = Object.entries(node.fill);
  return html`<tr key=${`${node.name} details`} class="details"><td colspan=${COLUMNS.length}>
    <dl class="figures">
      ${fills.map(([name, fill]) => html`<div key=${`fill ${name}`}><dt>${name}</dt><dd>${quantity(fill.value, fill.unit)} of ${quantity(fill.limit, fill.unit)}</dd></div>`)}
      ${node.figures.map((figure) => html`<div key=${figure.name} title=${figure.text}><dt>${figure.name}</dt><dd data-figure=${figure.name}>${value(figure.value)}</dd><dd class="text">${figure.text}</dd></div>`)}
    </dl>
    ${fills.length + node.figures.length === 0 && "no figures yet"}
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
  return nodes.filter((node) => `${node.name} ${node.role} ${node.up ? "up" : "down"}`.toLowerCase().includes(wanted));
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
