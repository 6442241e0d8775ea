/** Starts the page: connects what arrives with what is drawn, once for each picture. */

import { app } from "./app.js";
import { drawCharts, repaintCharts } from "./charts.js";
import { listen } from "./keys.js";
import { NumbersFeed } from "./numbers.js";
import { Store } from "./store.js";
import { render } from "./vendor/preact.js";
import { Navigation } from "./view.js";

/** Time between looks at the age of the data. */
const LOOK_MS = 250;

const base = new URL("api/v1/", document.baseURI).href;
const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let help = false;
let frame = 0;
let pageChanged = true;
let chartsChanged = false;
/** @type {(() => void)[]} */
let waiting = [];
/** Panel to scroll to once it is there, from a link. */
let wanted = "";

const store = new Store({ url: `${base}stream`, onChange: changePage });
const navigation = new Navigation((before) => {
  numbers.select(navigation.view.range);
  if (navigation.view.panel !== before.panel) wanted = navigation.view.panel;
  changePage();
});
const numbers = new NumbersFeed({
  base,
  onChange: changeNumbers,
  drawn: () => new Promise((resolve) => {
    waiting.push(resolve);
    schedule();
  }),
  slow: () => calm.matches || numbers.range !== "5min",
});
/** What the numbers last meant for the page beside its charts. */
let known = "";

function changePage() {
  pageChanged = true;
  document.title = title();
  schedule();
}

/** Draws charts; and the page only if there are other charts, or a problem. */
function changeNumbers() {
  chartsChanged = true;
  const meaning = `${numbers.generation} ${numbers.columns.length} ${numbers.problem}`;
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
    const fresh = store.freshness(performance.now());
    render(app({ store, numbers, navigation, view: navigation.view, fresh, help, showHelp }), root);
    if (wanted !== "" && store.state !== null) {
      show(wanted);
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

/** Scrolls to a panel, and moves the focus there. @param {string} panel */
function show(panel) {
  const element = document.getElementById(`panel-${panel}`);
  if (element === null) return;
  const top = /** @type {HTMLElement} */ (root.querySelector("header")).offsetHeight;
  document.documentElement.style.setProperty("--header", `${top}px`);
  element.scrollIntoView({ behavior: calm.matches ? "instant" : "smooth", block: "start" });
  const focused = document.activeElement;
  if (focused === null || !element.contains(focused)) element.focus({ preventScroll: true });
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
  const alarms = state.alarms.filter((alarm) => alarm.severity !== "info").length;
  const run = state.run.phase === "none" ? "no run" : `run ${state.run.number} ${state.run.phase}`;
  return `${alarms > 0 ? `(${alarms}) ` : ""}${run}: Sheaf`;
}

// The age of the data grows without any event.
setInterval(() => {
  const text = title();
  if (document.title !== text) document.title = text;
  if (document.visibilityState === "visible") changePage();
}, LOOK_MS);
document.addEventListener("visibilitychange", changePage);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintCharts);
listen({ navigation, show, toggleHelp: () => showHelp(!help) });

root.replaceChildren();
numbers.range = navigation.view.range;
wanted = navigation.view.panel;
store.connect();
void numbers.run();

/** For inspection in the console of the browser, and for tests. */
Object.assign(globalThis, { sheaf: { store, numbers, navigation } });
