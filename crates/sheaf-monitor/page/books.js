/** The live books: each sum with its bins, so that one sees that they balance. */

/** @import { Page } from "./app.js" */
/** @import { Drop, State } from "./types.js" */
import { count, signed } from "./format.js";
import { html } from "./html.js";

/** @typedef {{name: string, value: number, drops?: Drop[]}} Bin */

/** @param {Page} page @param {State} state */
export function booksPanel(page, state) {
  const { triggers, events, fragments, imbalance } = state;
  const ofFragments = (fragments.received > 0 || state.run.number !== null) && book(page, "fragments", "fragments received", fragments.received, imbalance.fragments, [
    { name: "stored", value: fragments.stored },
    { name: "rejected", value: fragments.rejected },
    { name: "dropped", value: fragments.dropped, drops: fragments.drops },
    { name: "in flight", value: fragments.in_flight },
  ]);
  if (state.run.number === null) return ofFragments || html`<p>no books yet</p>`;
  return [
    book(page, "triggers", "triggers offered", triggers.offered, 0, [
      { name: "accepted", value: triggers.accepted },
      { name: "vetoed", value: triggers.vetoed },
    ]),
    book(page, "events", "triggers accepted", triggers.accepted, imbalance.triggers, [
      { name: "stored", value: events.stored },
      { name: "rejected", value: events.rejected },
      { name: "dropped", value: events.dropped, drops: events.drops },
      { name: "in flight", value: events.in_flight },
    ]),
    ofFragments,
    events.incomplete > 0 && html`<p class="bad">▲ ${count(events.incomplete)} of the events stored or rejected lack a required source</p>`,
  ];
}

/** @param {Page} page @param {string} id @param {string} title @param {number} total @param {number} imbalance @param {Bin[]} bins */
function book(page, id, title, total, imbalance, bins) {
  const sum = bins.reduce((most, bin) => most + bin.value, 0);
  return html`<table class="book" id=${`book-${id}`} key=${id}>
    <thead><tr><th scope="col">${title}</th><td class="n total">${count(total)}</td><td></td></tr></thead>
    <tbody>${bins.flatMap((bin) => [row(bin.name, bin.value, total), ...(bin.drops ?? []).filter((drop) => drop.count > 0).map(dropRow)])}</tbody>
    <tfoot><tr><th scope="row">sum</th><td class="n">${count(sum)}</td><td>${judgement(page, sum - total, imbalance)}</td></tr></tfoot>
  </table>`;
}

/** @param {string} name @param {number} value @param {number} total */
function row(name, value, total) {
  const share = total > 0 ? Math.min(1, value / total) : 0;
  return html`<tr key=${`bin ${name}`}><th scope="row">${name}</th><td class="n" data-bin=${name}>${count(value)}</td>
    <td class="share" aria-hidden="true"><span class="bar"><span style=${{ width: `${(share * 100).toFixed(2)}%` }}></span></span></td></tr>`;
}

/** @param {Drop} drop */
function dropRow(drop) {
  const lost = drop.account === "loss";
  return html`<tr class=${lost ? "drop bad" : "drop"} key=${drop.reason}><th scope="row">${drop.reason}</th>
    <td class="n" data-drop=${drop.reason}>${count(drop.count)}</td><td>${lost ? "✖ loss" : drop.account}</td></tr>`;
}

/** @param {Page} page @param {number} difference @param {number} imbalance */
function judgement(page, difference, imbalance) {
  const blind = page.fresh.blind || page.fresh.blindToFragments;
  if (difference === 0 && imbalance === 0) {
    return html`<span class=${blind ? "" : "ok"}>= total${blind ? "" : " ✓"}</span>`;
  }
  const parts = [
    ...(difference === 0 ? [] : [`${signed(difference)} against the total`]),
    ...(imbalance === 0 || imbalance === difference ? [] : [`imbalance ${signed(imbalance)}`]),
  ];
  return html`<span class="bad">✖ ${parts.join(", ")}</span>`;
}
