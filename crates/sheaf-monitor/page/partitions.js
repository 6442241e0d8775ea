/** The partitions of the system: who has which, with links to their pages. */

/** @import { Control, Partition } from "./types.js" */
import { clock } from "./format.js";
import { html } from "./html.js";

/** @param {string | null} name */
function title(name) {
  return name ?? "whole system";
}

/** Returns the page of a controller that a browser can reach: that on the host of the server only from there. @param {Partition} partition */
export function linkOf({ controller, remote }) {
  const address = location.protocol === "https:" ? remote : controller;
  // It comes from a file of another controller.
  return address !== null && /^https?:\/\//.test(address) ? address : null;
}

/** Says who has a partition. @param {Partition} partition @param {number} now in milliseconds */
export function usage({ partition, in_use }, now) {
  if (in_use.length === 0) return "free";
  return in_use.map((used) => {
    const other = used.partition === partition ? "" : ` of ${title(used.partition)}`;
    return `${used.run === null ? "a new run" : `run ${used.run}`}${other} by ${used.by} since ${clock(used.since_ms, now)}`;
  }).join("; ");
}

/** @param {Control} control @param {number} now in milliseconds */
export function partitionBar({ partition: own, partitions }, now) {
  if (partitions === null || partitions === undefined) {
    // An earlier server, a system without partitions, or a disk that does not answer.
    return own ? html`<p class="partitions" id="partitions"><b>partition ${own}</b>, others not known</p>` : null;
  }
  return html`<nav class="partitions" id="partitions" aria-label="Partitions"><b>partition ${title(own)}</b><ul>
    ${partitions.filter(({ partition }) => partition !== own).map((one) => {
      const href = linkOf(one);
      const name = title(one.partition);
      const used = one.in_use.length > 0;
      return html`<li data-partition=${one.partition ?? ""}><span aria-hidden="true">${used ? "● " : "○ "}</span>${href === null ? name : html`<a href=${href}>${name}</a>`}: ${usage(one, now)}</li>`;
    })}
  </ul></nav>`;
}
