/** The list of keys. */

/** @import { Page } from "./app.js" */
import { html } from "./html.js";
import { PANELS } from "./view.js";

/** @param {Page} page */
export function helpDialog(page) {
  const open = (/** @type {HTMLDialogElement | null} */ dialog) => {
    if (dialog !== null && !dialog.open) dialog.showModal();
  };
  if (!page.help) return null;
  const control = page.store.state?.control;
  return html`<dialog id="help" ref=${open} onClose=${() => page.showHelp(false)} aria-labelledby="title-help">
    <h2 id="title-help">Keys</h2>
    <dl class="keys">
      ${PANELS.filter((panel) => control || !panel.control).map(({ key, title }) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${title}</dd></div>`)}
      <div><dt><kbd>r</kbd></dt><dd>next range of time</dd></div>
      <div><dt><kbd>/</kbd></dt><dd>search the log</dd></div>
      <div><dt><kbd>?</kbd></dt><dd>this list</dd></div>
      ${control && html`<div><dt><kbd>c</kbd></dt><dd>to the commands</dd></div>
        <div><dt><kbd>o s p n e x</kbd></dt><dd>configure, start, pause or resume, switch to the next run, stop (end), reset: each asks first</dd></div>`}
      <div><dt><kbd>Esc</kbd></dt><dd>leave a field, close a question or this list</dd></div>
    </dl>
    <p>The address of the page is a link to what it shows: panel, range, selected node, filters.</p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}
