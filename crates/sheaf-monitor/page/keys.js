/** The keyboard. */

/** @import { Navigation } from "./view.js" */
import { PANELS, RANGE_ORDER } from "./view.js";

/**
 * @typedef {object} Commands
 * @property {Navigation} navigation
 * @property {() => void} toggleHelp
 * @property {(panel: string) => void} show Scrolls to a panel.
 * @property {(key: string) => boolean} control Does what a key means for run control, if it means something.
 */

/** @param {Commands} commands */
export function listen(commands) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (isField(event.target)) {
      if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (act(commands, event.key)) event.preventDefault();
  });
}

/** @param {Commands} commands @param {string} key @returns {boolean} whether the key has a meaning */
function act({ navigation, toggleHelp, show, control }, key) {
  const panel = PANELS.find((known) => known.key === key);
  if (key === "?") toggleHelp();
  else if (key === "/") {
    navigation.set({ panel: "log" });
    document.getElementById("log-search")?.focus();
  } else if (key === "r") {
    const next = RANGE_ORDER[(RANGE_ORDER.indexOf(navigation.view.range) + 1) % RANGE_ORDER.length];
    navigation.set({ range: next });
  } else if (panel !== undefined && document.getElementById(`panel-${panel.id}`) !== null) {
    navigation.set({ panel: panel.id });
    show(panel.id);
  } else return control(key);
  return true;
}

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName));
}
