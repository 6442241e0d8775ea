/** The histogram of latencies since the start of the run. */

/** @import { Latency, State } from "./types.js" */
import { count, duration } from "./format.js";
import { html } from "./html.js";

const WIDTH = 400;
const HEIGHT = 110;
const BOTTOM = 16;

/** @param {State} state */
export function latencyPanel(state) {
  const latency = state.latency;
  const total = latency.counts.reduce((sum, value) => sum + value, 0);
  if (total === 0) return html`<p>no event has ended yet</p>`;
  return [histogram(latency), summary(latency, total)];
}

/** @param {Latency} latency @param {number} total */
function summary(latency, total) {
  return html`<dl class="facts latency">
    <div><dt>events</dt><dd>${count(total)}</dd></div>
    <div><dt>mean</dt><dd>${duration(latency.sum_s / total)}</dd></div>
    <div><dt>half within</dt><dd>${quantile(latency, total, 0.5)}</dd></div>
    <div><dt>99 % within</dt><dd>${quantile(latency, total, 0.99)}</dd></div>
    <div><dt>all within</dt><dd>${quantile(latency, total, 1)}</dd></div>
  </dl>`;
}

/** Returns the upper bound of the bin with a quantile. @param {Latency} latency @param {number} total @param {number} part */
function quantile(latency, total, part) {
  let sum = 0;
  const bin = latency.counts.findIndex((value) => {
    sum += value;
    return value > 0 && sum >= total * part;
  });
  if (bin < 0) return "–";
  if (bin < latency.bounds_s.length) return duration(latency.bounds_s[bin]);
  return `over ${duration(latency.bounds_s.at(-1) ?? Number.NaN)}`;
}

/** @param {Latency} latency */
function histogram(latency) {
  const { counts, bounds_s } = latency;
  const first = Math.max(0, counts.findIndex((value) => value > 0) - 1);
  const last = Math.min(counts.length - 1, Math.max(first + 5, counts.findLastIndex((value) => value > 0) + 1));
  const bins = counts.slice(first, last + 1);
  const most = Math.max(...bins);
  const width = WIDTH / bins.length;
  const label = `Histogram of the time from a trigger to the end of its event, from ${duration(bounds_s[first])} to ${duration(bounds_s[Math.min(last, bounds_s.length - 1)])}`;
  return html`<svg class="histogram" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${label}>
    ${bins.map((value, index) => bar(value, index, width, most))}
    <line x1="0" y1=${HEIGHT - BOTTOM} x2=${WIDTH} y2=${HEIGHT - BOTTOM} class="axis" />
    ${bins.map((_, index) => tick(bounds_s[first + index], (index + 1) * width, bins.length))}
  </svg>`;
}

/** @param {number} value @param {number} index @param {number} width @param {number} most */
function bar(value, index, width, most) {
  if (value === 0) return null;
  // One event in a million is still a line that can be seen.
  const height = Math.max(1.5, ((HEIGHT - BOTTOM - 4) * value) / most);
  return html`<rect x=${index * width + 1} y=${HEIGHT - BOTTOM - height} width=${Math.max(1, width - 2)} height=${height}><title>${count(value)}</title></rect>`;
}

/** @param {number | undefined} bound @param {number} x @param {number} bins */
function tick(bound, x, bins) {
  if (bound === undefined) return null;
  const power = Math.log10(bound);
  const decade = Math.abs(power - Math.round(power)) < 1e-6;
  if (!decade && bins > 6) return null;
  if (x > WIDTH - 8) return null;
  return html`<g><line x1=${x} y1=${HEIGHT - BOTTOM} x2=${x} y2=${HEIGHT - BOTTOM + 3} class="axis" />
    <text x=${x} y=${HEIGHT - 2} text-anchor="middle">${short(bound)}</text></g>`;
}

/** @param {number} seconds */
function short(seconds) {
  const [scale, unit] = seconds < 0.9995e-3 ? [1e6, "µs"] : seconds < 0.9995 ? [1e3, "ms"] : [1, "s"];
  return `${Number((seconds * scale).toPrecision(3))} ${unit}`;
}
