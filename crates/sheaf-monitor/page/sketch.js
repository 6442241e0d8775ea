/** Draws histograms: steps, maps of colours, and means with their errors. */

/** @import { Histogram } from "./types.js" */
import { colour, isDark, variable } from "./palette.js";

/** Colours of a map from least to most: cividis, which people with any kind of colour vision see alike. */
const CIVIDIS = [[0, 34, 78], [65, 77, 107], [124, 123, 120], [188, 175, 111], [255, 234, 70]];
const [LEFT, TOP, BOTTOM] = [44, 6, 30];

/** What each canvas shows. @type {WeakMap<HTMLCanvasElement, string>} */
const shown = new WeakMap();
let objects = 0;
/** @type {WeakMap<Histogram, number>} */
const numbers = new WeakMap();

/** @param {number} value */
const label = (value) => String(Number(value.toPrecision(4)));

/** Draws a histogram, unless the canvas shows it. @param {HTMLCanvasElement} canvas @param {Histogram} one */
export function draw(canvas, one) {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!numbers.has(one)) numbers.set(one, ++objects);
  const key = [numbers.get(one), width, height, scale, isDark()].join();
  const c = canvas.getContext("2d");
  if (shown.get(canvas) === key || c === null || width === 0) return;
  shown.set(canvas, key);
  [canvas.width, canvas.height] = [width * scale, height * scale];
  c.scale(scale, scale);
  c.font = "11px system-ui, sans-serif";
  const { columns, rows, x, y, values, errors, reference } = one.sketch;
  const isMap = one.kind === "2d";
  const [right, bottom] = [width - 8, height - BOTTOM];
  const drawn = [...reference, ...values.flatMap((value, at) => (value === null ? [] : [value - (errors[at] ?? 0), value + (errors[at] ?? 0)]))].filter((value) => value !== null);
  const most = Math.max(...drawn, one.kind === "1d" ? 0 : -Infinity);
  const least = Math.min(...drawn, one.kind === "profile" ? Infinity : 0);
  const [low, high] = isMap ? y : drawn.length === 0 ? [0, 1] : [least, most > least ? most + (most - least) * 0.05 : least + 1];
  const place = (/** @type {number} */ value) => bottom - ((bottom - TOP) * (value - low)) / (high - low);
  const left = (/** @type {number} */ column) => LEFT + ((right - LEFT) * column) / columns;
  const steps = (/** @type {(number | null)[]} */ list) => {
    c.beginPath();
    list.forEach((value, column) => {
      if (value === null) return;
      c[column > 0 && list[column - 1] !== null ? "lineTo" : "moveTo"](left(column), place(value));
      c.lineTo(left(column + 1), place(value));
    });
  };
  c.strokeStyle = c.fillStyle = colour(0);
  if (isMap) {
    const tall = (bottom - TOP) / rows;
    values.forEach((value, at) => {
      if (!value) return;
      c.fillStyle = heat((value - least) / (most - least));
      c.fillRect(left(at % columns), bottom - (Math.floor(at / columns) + 1) * tall, left(1) - LEFT + 0.5, tall + 0.5);
    });
  } else if (one.kind === "profile") {
    values.forEach((value, column) => {
      if (value === null) return;
      const [middle, error] = [(left(column) + left(column + 1)) / 2, errors[column] ?? 0];
      c.fillRect(left(column), place(value) - 1, left(column + 1) - left(column), 2);
      c.fillRect(middle - 0.5, place(value + error), 1, place(value - error) - place(value + error));
    });
  } else {
    steps(values);
    c.stroke();
    c.lineTo(right, place(0));
    c.lineTo(LEFT, place(0));
    c.globalAlpha = 0.2;
    c.fill();
    c.globalAlpha = 1;
  }
  c.setLineDash([4, 3]);
  c.strokeStyle = colour(4);
  steps(reference);
  c.stroke();
  c.setLineDash([]);
  c.strokeStyle = variable("--strong-line");
  c.strokeRect(LEFT, TOP, right - LEFT, bottom - TOP);
  c.fillStyle = variable("--muted");
  const write = (/** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ y, /** @type {CanvasTextAlign} */ align) => {
    c.textAlign = align;
    c.fillText(text, x, y, width / 2);
  };
  write(label(high), LEFT - 4, TOP + 9, "right");
  write(label(low), LEFT - 4, bottom, "right");
  write(label(x[0]), LEFT, bottom + 12, "left");
  write(label(x[1]), right, bottom + 12, "right");
  write(one.axes.filter(Boolean).join(" × "), (LEFT + right) / 2, bottom + 24, "center");
  if (isMap && most > least) write(`${label(least)} to ${label(most)}`, right, bottom + 24, "right");
}

/** @param {number} fraction */
function heat(fraction) {
  const place = Math.min(1, Math.max(0, fraction)) * (CIVIDIS.length - 1);
  const below = Math.min(CIVIDIS.length - 2, Math.floor(place));
  const parts = CIVIDIS[below].map((part, at) => Math.round(part + (CIVIDIS[below + 1][at] - part) * (place - below)));
  return `rgb(${parts.join()})`;
}
