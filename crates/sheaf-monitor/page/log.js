/** The log with search: newest messages first. */

/** @import { Page } from "./app.js" */
/** @import { Message, Severity, State } from "./types.js" */
import { clock, counted } from "./format.js";
import { html } from "./html.js";
import { nodeLink, SIGNS } from "./parts.js";

/** @type {{level: Severity, title: string}[]} */
const LEVELS = [
  { level: "info", title: "all" },
  { level: "warning", title: "warnings and errors" },
  { level: "error", title: "errors" },
];
const RANK = { info: 0, warning: 1, error: 2 };

/** @param {Page} page @param {State} state */
export function logPanel(page, state) {
  const { q, level } = page.view;
  const shown = state.log.filter((message) => isWanted(message, q.trim().toLowerCase(), level)).reverse();
  return [
    html`<p class="controls">
      <label>Search <input type="search" id="log-search" value=${q} placeholder="text, node or code"
        onInput=${(/** @type {InputEvent} */ event) => page.navigation.set({ q: field(event) })} /></label>
      <label>Level <select id="log-level" value=${level} onChange=${(/** @type {Event} */ event) => page.navigation.set({ level: field(event) })}>
        ${LEVELS.map((item) => html`<option value=${item.level} key=${item.level} selected=${item.level === level}>${item.title}</option>`)}
      </select></label>
      <span class="shown">${shown.length === state.log.length ? counted(shown.length, "message") : `${shown.length} of ${counted(state.log.length, "message")}`}</span></p>`,
    html`<ol class="log scroll" tabindex="0" aria-label="Messages, newest first">
      ${shown.map((message) => line(page, state, message))}
    </ol>`,
  ];
}

/** @param {Page} page @param {State} state @param {Message} message */
function line(page, state, message) {
  return html`<li key=${message.number} class=${message.level}>
    <time dateTime=${new Date(message.time_ms).toISOString()}>${clock(message.time_ms, state.time_ms)}</time>
    <span class="level"><span aria-hidden="true">${SIGNS[message.level]}</span> ${message.level}</span>
    <span class="node">${message.node !== null && nodeLink(page, message.node)}</span>
    <span class="text">${message.text} ${message.level !== "info" && html`<a href=${`/codes#${message.code}`}>${message.code}</a>`}</span>
  </li>`;
}

/** @param {Message} message @param {string} wanted @param {string} level */
function isWanted(message, wanted, level) {
  if (RANK[message.level] < RANK[/** @type {Severity} */ (level)]) return false;
  return wanted === "" || `${message.node ?? ""} ${message.text} ${message.code}`.toLowerCase().includes(wanted);
}

/** @param {Event} event */
function field(event) {
  return /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target).value;
}
