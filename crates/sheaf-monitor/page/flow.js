/** The way of the data from sources to files: where it backs up. */

/** @import { Page } from "./app.js" */
/** @import { Node, Role, State } from "./types.js" */
import { count, counted } from "./format.js";
import { html } from "./html.js";
import { condition, culprits, fillBar, fraction, fullest, HIGH, isDown } from "./parts.js";
import { troubles } from "./sources.js";

/** A stage with more nodes has small boxes. */
const FEW = 8;

/** @type {{role: Role, title: string}[]} */
const COLUMNS = [
  { role: "readout", title: "Readout units" },
  { role: "manager", title: "Event manager" },
  { role: "builder", title: "Builder units" },
  { role: "output", title: "Output nodes" },
];

/** @param {Page} page @param {State} state */
export function flowPanel(page, state) {
  const blamed = culprits(state);
  const columns = COLUMNS.map(({ role, title }) => ({ title, role, nodes: state.nodes.filter((node) => node.role === role) }))
    .filter(({ nodes }) => nodes.length > 0);
  return html`<div class="flow">
    ${sources(page, state)}
    ${columns.map(({ role, title, nodes }) => html`<div class=${`stage ${role}`} key=${role}>
      <h3>${title} <small>${count(nodes.length)}</small></h3>
      ${nodes.length > FEW
        ? html`<div class="boxes many">${worstFirst(state, nodes, blamed).map((node) => smallBox(page, state, node, blamed))}</div>`
        : html`<div class="boxes">${nodes.map((node) => box(page, state, node, blamed))}</div>`}
    </div>`)}
    ${files(state)}
  </div>`;
}

/** @param {Page} page @param {State} state */
function sources(page, state) {
  return html`<div class="stage ends" key="sources"><h3>Sources</h3>
    <a class="box" href=${page.navigation.link({ panel: "sources" })}>
      <span class="who">${counted(state.run.sources, "source")}</span>
      ${troubles(state, "")}
      <span class="value">${count(state.fragments.received)} <small>fragments received</small></span>
    </a></div>`;
}

/** @param {State} state */
function files(state) {
  return html`<div class="stage ends" key="files"><h3>Files</h3>
    <div class="box"><span class="who">${count(state.events.stored)} <small>events</small></span>
      <span class="path">${state.run.directory ?? "no files are written"}</span></div></div>`;
}

/** Returns culprits first, then nodes that are down, then full ones. @param {State} state @param {Node[]} nodes @param {Set<string>} blamed */
function worstFirst(state, nodes, blamed) {
  const trouble = (/** @type {Node} */ node) => {
    if (blamed.has(node.name)) return 3;
    if (isDown(state, node)) return 2;
    return (fullest(node)?.full ?? 0) >= HIGH ? 1 : 0;
  };
  return [...nodes].sort((a, b) => trouble(b) - trouble(a));
}

/** Returns a box with a name and the fullest fill, for stages of many nodes. @param {Page} page @param {State} state @param {Node} node @param {Set<string>} blamed */
function smallBox(page, state, node, blamed) {
  const most = fullest(node);
  const signs = `${condition(page, state, node).kind === "bad" ? "✖" : ""}${blamed.has(node.name) ? "◀" : ""}`;
  return html`<a ...${frame(page, state, node, blamed)}>
    <span class="who">${node.name}${signs !== "" && html` <span class="tag bad">${signs}</span>`}</span>
    ${most !== null && fillBar(most.name, node.fill[most.name])}
  </a>`;
}

/** Returns the attributes of the box of a node. @param {Page} page @param {State} state @param {Node} node @param {Set<string>} blamed */
function frame(page, state, node, blamed) {
  const culprit = blamed.has(node.name);
  const kinds = ["box", culprit ? "blamed" : "", isDown(state, node) ? "down" : "", page.view.node === node.name ? "selected" : ""];
  const label = [node.name, isDown(state, node) ? "down" : "", culprit ? "culprit" : ""].filter(Boolean).join(", ");
  return {
    class: kinds.filter(Boolean).join(" "),
    href: page.navigation.link({ panel: "nodes", node: node.name }),
    key: node.name,
    "data-node": node.name,
    "aria-label": label,
  };
}

/** @param {Page} page @param {State} state @param {Node} node @param {Set<string>} blamed */
function box(page, state, node, blamed) {
  const culprit = blamed.has(node.name);
  const fills = Object.entries(node.fill);
  const { text, kind } = condition(page, state, node);
  return html`<a ...${frame(page, state, node, blamed)}>
    <span class="who">${node.name}
      ${kind === "bad" && html`<span class="tag bad">${text}</span>`}
      ${culprit && html`<span class="tag">◀ culprit</span>`}
      ${node.restarts > 0 && html`<small title="Restarts">↻${node.restarts}</small>`}</span>
    ${fills.sort((a, b) => fraction(b[1]) - fraction(a[1])).slice(0, 3).sort((a, b) => a[0].localeCompare(b[0]))
      .map(([name, fill]) => fillBar(name, fill))}
  </a>`;
}
