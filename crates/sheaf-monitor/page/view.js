/** The view that a link names: panel, range of time, selected node, filters. It is the fragment of the URL. */

/** @import { Range } from "./numbers.js" */

/** Panels in the order of the page, with the keys that lead to them. @type {{id: string, title: string, key: string, control?: boolean}[]} */
export const PANELS = [
  { id: "alarms", title: "Alarms", key: "1" },
  { id: "rate", title: "Rate", key: "2" },
  { id: "dead-time", title: "Dead time", key: "3" },
  { id: "flow", title: "Flow", key: "4" },
  { id: "map", title: "Map", key: "m" },
  { id: "books", title: "Books", key: "5" },
  { id: "sources", title: "Sources", key: "6" },
  { id: "latency", title: "Latency", key: "7" },
  { id: "nodes", title: "Nodes", key: "8" },
  { id: "values", title: "Slow control", key: "v" },
  { id: "log", title: "Log", key: "9" },
  { id: "traces", title: "Remarkable events", key: "t" },
  { id: "histograms", title: "Histograms", key: "h" },
  { id: "runs", title: "Runs", key: "u", control: true },
  { id: "commands", title: "Commands", key: "a", control: true },
  { id: "numbers", title: "More numbers", key: "0" },
];

/** @type {Range[]} */
export const RANGE_ORDER = ["5min", "2h", "7d"];

/**
 * @typedef {object} View
 * @property {string} panel Empty for the top of the page.
 * @property {Range} range
 * @property {string} node Selected node, empty if none is.
 * @property {string} nodes Text that the names and roles of shown nodes contain.
 * @property {string} sort Column by which nodes are sorted, with `-` before it if descending.
 * @property {string} run Number of the run whose record is open, empty if none is.
 * @property {string} trace Run and event whose trace is open, empty if none is.
 * @property {string} histogram Name of the histogram that is open, empty if none is.
 * @property {string} histograms Text that the names and titles of shown histograms contain.
 * @property {string} reference Number of the run with which histograms are compared, 0 for none, empty for the last good one.
 * @property {string} map Quantity that the map shows: `wait` or `rate`.
 * @property {string} q Text that shown log messages contain.
 * @property {string} level Lowest level of shown log messages.
 */

/** @type {View} */
const DEFAULT = { panel: "", range: "5min", node: "", nodes: "", sort: "", run: "", trace: "", histogram: "", histograms: "", reference: "", map: "wait", q: "", level: "info" };

/** @param {string} hash @returns {View} what is missing or unknown has its default */
export function parse(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { ...DEFAULT };
  for (const name of /** @type {(keyof View)[]} */ (Object.keys(DEFAULT))) {
    const value = given.get(name);
    if (value !== null && isKnown(name, value)) Object.assign(view, { [name]: value });
  }
  return view;
}

/** @param {keyof View} name @param {string} value */
function isKnown(name, value) {
  if (name === "panel") return PANELS.some((panel) => panel.id === value);
  if (name === "range") return RANGE_ORDER.some((range) => range === value);
  if (name === "map") return ["wait", "rate"].includes(value);
  if (name === "level") return ["info", "warning", "error"].includes(value);
  if (name === "run" || name === "reference") return /^\d{0,10}$/.test(value);
  if (name === "trace") return /^\d{1,10}\/\d{1,20}$|^$/.test(value);
  return value.length <= 200;
}

/** @param {View} view @returns {string} the fragment, without what has its default */
export function format(view) {
  const given = new URLSearchParams();
  for (const name of /** @type {(keyof View)[]} */ (Object.keys(DEFAULT))) {
    if (view[name] !== DEFAULT[name]) given.set(name, view[name]);
  }
  return `#${given}`;
}

/** The current view, in step with the URL. */
export class Navigation {
  /** @param {(before: View) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.view = parse(location.hash);
    addEventListener("hashchange", () => this.become(parse(location.hash)));
  }

  /** Changes parts of the view. @param {Partial<View>} changes */
  set(changes) {
    const view = { ...this.view, ...changes };
    // Without an entry in the history of the browser: a search would fill it letter by letter.
    history.replaceState(null, "", format(view));
    this.become(view);
  }

  /** @param {View} view */
  become(view) {
    const before = this.view;
    this.view = view;
    this.onChange(before);
  }

  /** Returns the link to a view that differs in `changes`. @param {Partial<View>} changes */
  link(changes) {
    return format({ ...this.view, ...changes });
  }
}
