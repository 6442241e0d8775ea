/** Starts the page: connects what arrives with what is drawn, once for each picture. */

import { app } from "./app.js";
import { drawCharts, repaintCharts } from "./charts.js";
import { pressed } from "./control.js";
import { Feed } from "./feed.js";
import { listen } from "./keys.js";
import { MapFeed } from "./map-data.js";
import { FiguresFeed } from "./nodes.js";
import { NumbersFeed } from "./numbers.js";
import { Operator } from "./operator.js";
import { Store } from "./store.js";
import { render } from "./vendor/preact.js";
import { Navigation } from "./view.js";

/** Time between looks at the age of the data. */
const LOOK_MS = 250;
/** Time of the run between looks for traces, in seconds. */
const TRACES_S = 2;
/** Time between looks for values from outside. */
const VALUES_MS = 1000;
/** Time between looks for configurations that were named elsewhere. */
const CONFIGURATIONS_MS = 30_000;
/** Time between looks for histograms. */
const HISTOGRAMS_MS = 2000;
/** States come more often than this; between them nothing needs to be drawn. */
const STATE_MS = 400;
/** Time between pictures of charts. In five minutes, a pixel is half a second. */
const PACE_MS = 200;
/** The same where more would not be seen, or is not wanted. */
const SLOW_PACE_MS = 1000;

const base = new URL("api/v1/", document.baseURI).href;
let root = /** @type {HTMLElement} */ (document.getElementById("page"));
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let help = false;
/** Whether the last picture could not be drawn. */
let failed = false;
let frame = 0;
let pageChanged = true;
let chartsChanged = false;
/** @type {(() => void)[]} */
let waiting = [];
/** Panel to scroll to once it is there, from a link. */
let wanted = "";
/** Panel that stays where it is while what is above it grows, until somebody moves the page. */
let held = "";
/** Whether the panel of the first link has been shown. */
let opened = false;
/** Node whose row to bring into sight. */
let selected = "";

const store = new Store({ url: `${base}stream`, onChange: changeState });
const figures = new FiguresFeed({ base, onChange: changePage });
const runs = new Feed({ base, onChange: changePage });
const record = new Feed({ base, onChange: changePage });
const configurations = new Feed({ base, onChange: changePage });
const audit = new Feed({ base, onChange: changePage });
const traces = new Feed({ base, onChange: changePage });
const trace = new Feed({ base, onChange: changePage });
const histograms = new Feed({ base, onChange: changePage });
const histogram = new Feed({ base, onChange: changePage });
const values = new Feed({ base, onChange: changePage });
const map = new MapFeed({ base, onChange: changePage });
// It takes a token out of the address before the view is read from there.
const operator = new Operator({
  base,
  onChange: changePage,
  isGuarded: () => store.guarded,
  onSession: () => store.restart(),
});
const navigation = new Navigation((before) => {
  numbers.select(navigation.view.range);
  if (navigation.view.panel !== before.panel) wanted = navigation.view.panel;
  if (navigation.view.node !== before.node) selected = navigation.view.node;
  changeState();
});
const numbers = new NumbersFeed({
  base,
  onChange: changeNumbers,
  drawn: () => new Promise((resolve) => {
    waiting.push(resolve);
    schedule();
  }),
  paceMs: () => (calm.matches || numbers.range !== "5min" ? SLOW_PACE_MS : PACE_MS),
});
/** What the numbers last meant for the page beside its charts. */
let known = "";

/** There is another state, or another view of it. */
function changeState() {
  if (store.locked) operator.enter();
  // A node that has not published has no figures.
  const open = store.state?.nodes.find((node) => node.name === navigation.view.node && node.age_ms !== null);
  figures.select(open?.name ?? "");
  const control = store.state?.control;
  if (store.state !== null && control) {
    operator.follow(store.state);
    const { answers } = operator;
    runs.want("runs?last=50", [control.run, control.state, control.last?.id, answers].join(" "));
    record.want(navigation.view.run && `runs/${navigation.view.run}`, runs.key);
    configurations.want("configurations", `${answers} ${Math.floor(store.state.time_ms / CONFIGURATIONS_MS)}`);
    audit.want("audit?last=200", `${control.revision} ${answers}`);
  }
  if (store.state?.run.number) {
    const { run: { number, seconds, phase }, time_ms } = store.state;
    const { reference, histogram: name } = navigation.view;
    const { answer } = histograms;
    // They come from a file that is written once a second, also when the run is over.
    const key = answer?.complete ? phase : `${Math.floor(time_ms / (answer?.histograms.length ? HISTOGRAMS_MS : 3 * HISTOGRAMS_MS))}`;
    const path = `histograms?run=${number}${reference && `&reference=${reference}`}`;
    histograms.want(path, key);
    histogram.want(name && `${path}&name=${encodeURIComponent(name)}`, key);
    // The list grows while the run does; events of a run that is over stay.
    traces.want(`traces?last=50&run=${number}`, `${Math.floor(seconds / TRACES_S)} ${phase}`);
  }
  // Without any, there is no panel.
  if (store.state !== null) values.want(store.state.values?.declared > 0 ? "values" : "", `${Math.floor(store.state.time_ms / VALUES_MS)}`);
  map.want(store.state === null ? "" : navigation.view.map);
  trace.want(navigation.view.trace && `traces/${navigation.view.trace}`, "");
  changePage();
}

function changePage() {
  pageChanged = true;
  document.title = title();
  schedule();
}

/** Draws charts; and the page only if there are other charts, or a problem. */
function changeNumbers() {
  chartsChanged = true;
  const meaning = [numbers.generation, numbers.columns.length, numbers.rings.size, numbers.problem].join(" ");
  if (meaning !== known) pageChanged = true;
  known = meaning;
  schedule();
}

function schedule() {
  if (frame === 0) frame = requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (pageChanged) {
    pageChanged = false;
    paint();
    if (selected !== "" && store.state !== null) {
      reveal();
      selected = "";
    }
    if (wanted !== "" && store.state !== null) {
      show(wanted, opened ? "smooth" : "instant");
      opened = true;
      held = wanted;
      wanted = "";
    }
  }
  if (chartsChanged) {
    chartsChanged = false;
    drawCharts();
  }
  const ready = waiting;
  waiting = [];
  for (const resolve of ready) resolve();
}

/** Draws the page from what is known. */
function paint() {
  if (failed) renew();
  failed = false;
  const fresh = store.freshness(performance.now());
  try {
    const view = navigation.view;
    render(app({ store, numbers, figures, runs, record, configurations, audit, traces, trace, histograms, histogram, values, map, operator, navigation, view, fresh, help, showHelp, changed: changePage }), root);
  } catch (error) {
    // Without this, the last picture would stay, and look as if it were of now.
    failed = true;
    renew();
    const text = `STALE: the page cannot show what the server sends: ${error}. Reload the page; if that does not help, report it.`;
    const alert = document.createElement("strong");
    alert.className = "now stale";
    alert.textContent = text;
    const frame = document.createElement("div");
    frame.className = "page blind";
    frame.append(alert);
    root.append(frame);
  }
}

/** Puts an empty element in the place of the page. */
function renew() {
  try {
    render(null, root);
  } catch {
    // What could not be drawn can perhaps not be removed in order either; the element goes as a whole.
  }
  const empty = document.createElement("div");
  empty.id = root.id;
  root.replaceWith(empty);
  root = empty;
}

/** Scrolls to a panel, and moves the focus there. @param {string} panel @param {ScrollBehavior} [behavior] */
function show(panel, behavior = "smooth") {
  const element = scroll(panel, calm.matches ? "instant" : behavior);
  const focused = document.activeElement;
  if (element !== null && (focused === null || !element.contains(focused))) element.focus({ preventScroll: true });
}

/** Scrolls to a panel, and returns it. @param {string} panel @param {ScrollBehavior} behavior */
function scroll(panel, behavior) {
  const element = document.getElementById(`panel-${panel}`);
  const top = root.querySelector("header")?.offsetHeight ?? 0;
  document.documentElement.style.setProperty("--header", `${top}px`);
  element?.scrollIntoView({ behavior, block: "start" });
  return element;
}

/** Scrolls the table of nodes, and not the page, to the selected row. */
function reveal() {
  const row = /** @type {HTMLElement | null} */ (root.querySelector(".nodes tr.selected"));
  const table = row?.closest(".scroll");
  if (!row || !table) return;
  const middle = row.offsetTop - table.clientHeight / 2;
  if (Math.abs(table.scrollTop - middle) > table.clientHeight / 2 - 2 * row.offsetHeight) table.scrollTop = middle;
}

/** @param {boolean} open */
function showHelp(open) {
  help = open;
  changePage();
}

/** Returns the title of the tab, which says what is wrong also while the page is hidden. */
function title() {
  const state = store.state;
  if (state === null || store.freshness(performance.now()).blind) return "STALE: Sheaf";
  const alarms = state.alarms.filter((alarm) => alarm.severity !== "info" && !alarm.silence).length + (state.control?.faults.length ?? 0);
  const run = state.run.phase === "none" ? "no run" : ["run", state.run.number, state.run.phase].filter((word) => word !== null).join(" ");
  return `${alarms > 0 ? `(${alarms}) ` : ""}${run}: Sheaf`;
}

// The age of the data grows without any event.
setInterval(() => {
  const text = title();
  if (document.title !== text) document.title = text;
  const late = performance.now() - store.arrived > STATE_MS || store.connection !== "open";
  if (late && document.visibilityState === "visible") changePage();
}, LOOK_MS);
document.addEventListener("visibilitychange", changePage);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintCharts);
// Charts and answers that arrive after the panel of a link would move it away.
new ResizeObserver(() => {
  if (held !== "") scroll(held, "instant");
}).observe(document.body);
for (const event of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  addEventListener(event, () => (held = ""), { capture: true, passive: true });
}
listen({ navigation, show: (panel) => show(panel), toggleHelp: () => showHelp(!help), control: (key) => pressed({ store, operator }, key) });

root.replaceChildren();
numbers.range = navigation.view.range;
wanted = navigation.view.panel;
selected = navigation.view.node;
store.connect();
void numbers.run();

/** For inspection in the console of the browser, and for tests. */
Object.assign(globalThis, { sheaf: { store, numbers, figures, map, operator, navigation } });
