/** Draws the map on one canvas. */

/** @import { MapAnswer } from "./map-data.js" */
import { quantity } from "./format.js";
import { isDark, variable } from "./palette.js";

/** @typedef {{readout: number, builder: number}} Pair */
/** @typedef {{left: number, top: number, wide: number, tall: number, width: number, height: number}} Places In pixels of the style sheet. */

/**
 * Colours from least to most. Their lightness changes in one direction, away from that of the background: people with any kind of colour
 * vision, and printers without colours, see the same order.
 */
const COLOURS = {
  wait: {
    light: [[240, 244, 247], [253, 216, 148], [238, 148, 40], [190, 72, 8], [84, 24, 0]],
    dark: [[38, 44, 50], [104, 58, 24], [190, 92, 24], [244, 160, 70], [255, 240, 205]],
  },
  // More is no trouble: another hue.
  rate: {
    light: [[240, 244, 247], [176, 210, 235], [86, 160, 210], [0, 100, 160], [0, 40, 84]],
    dark: [[38, 44, 50], [24, 72, 110], [40, 118, 172], [110, 180, 226], [225, 242, 255]],
  },
};
const SHADES = 256;

/** Waits have the same colour at all times: from 1 ms to 100 s, each factor of ten is as long as the next. */
const [SHORTEST, DECADES] = [0.001, 5];
const LONGEST = 100;
export const WAITS = ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"];

const [WIDEST, TALLEST, FEWEST] = [120, 24, 8];
/** Height of a map of many readout units. */
const HEIGHT = 512;
const [LINE, LETTER] = [13, 6.6];
/** Width of the marks of units that are in trouble, along the sides. */
const MARK = 6;

/** @param {"wait" | "rate"} kind */
function stopsOf(kind) {
  return COLOURS[kind][isDark() ? "dark" : "light"];
}

/** @param {number[][]} stops @param {number} fraction */
function shade(stops, fraction) {
  const place = Math.min(1, Math.max(0, fraction)) * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(place));
  return stops[below].map((part, at) => Math.round(part + (stops[below + 1][at] - part) * (place - below)));
}

/** Returns a gradient of the style sheet, for the legend. @param {"wait" | "rate"} kind */
export function gradient(kind) {
  return `linear-gradient(90deg, ${stopsOf(kind).map((stop) => `rgb(${stop.join()})`).join()})`;
}

/** Returns the greatest value of the scale. @param {MapAnswer} answer */
export function greatest({ head, values }) {
  if (head.quantity === "wait") return LONGEST;
  let most = 0;
  for (const value of values) if (value > most) most = value;
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5].find((step) => step * power >= most) ?? 10) * power;
}

/** Returns the place of a value on the scale, from 0 to 1. @param {string} kind @param {number} value @param {number} most */
function fraction(kind, value, most) {
  return kind === "wait" ? Math.log10(value / SHORTEST) / DECADES : value / most;
}

/** Returns where everything is on a canvas of this width. @param {MapAnswer} answer @param {number} width @returns {Places} */
export function places({ head: { readouts, builders } }, width) {
  const [rows, columns] = [Math.max(1, readouts.length), Math.max(1, builders.length)];
  const longest = readouts.reduce((most, { name }) => Math.max(most, name.length), 2);
  const left = Math.ceil(Math.min(width / 4, longest * LETTER + 6)) + MARK;
  const top = LINE + 4 + MARK;
  const pixel = 1 / devicePixelRatio;
  const whole = (/** @type {number} */ size) => Math.max(pixel, Math.floor(size * devicePixelRatio) * pixel);
  const wide = whole(Math.min(WIDEST, (width - left) / columns));
  const tall = whole(Math.min(TALLEST, HEIGHT / rows));
  return { left, top, wide, tall, width: Math.max(width, left + wide * columns), height: top + tall * rows + 2 };
}

/** Returns the pair at a point, null if there is none. @param {MapAnswer} answer @param {Places} place @param {number} x @param {number} y @returns {Pair | null} */
export function pairAt({ head }, { left, top, wide, tall }, x, y) {
  const [builder, readout] = [Math.floor((x - left) / wide), Math.floor((y - top) / tall)];
  const isInside = builder >= 0 && readout >= 0 && builder < head.builders.length && readout < head.readouts.length;
  return isInside ? { readout, builder } : null;
}

/** What each canvas shows. @type {WeakMap<HTMLCanvasElement, string>} */
const shown = new WeakMap();
/** @type {WeakMap<MapAnswer, number>} */
const numbers = new WeakMap();
let objects = 0;
const cells = document.createElement("canvas");

/**
 * Draws a map, unless the canvas shows it.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {MapAnswer} answer
 * @param {{cursor: Pair | null, old: boolean}} how
 */
export function drawMap(canvas, answer, { cursor, old }) {
  if (!numbers.has(answer)) numbers.set(answer, ++objects);
  const width = canvas.parentElement?.clientWidth ?? 0;
  const key = [numbers.get(answer), width, devicePixelRatio, isDark(), cursor?.readout, cursor?.builder, old].join();
  const c = canvas.getContext("2d");
  if (shown.get(canvas) === key || c === null || width === 0) return;
  shown.set(canvas, key);
  const place = places(answer, width);
  const scale = devicePixelRatio;
  const size = [Math.round(place.width * scale), Math.round(place.height * scale)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size;
    Object.assign(canvas.style, { width: `${place.width}px`, height: `${place.height}px` });
  }
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, place.width, place.height);
  c.font = "11px system-ui, sans-serif";
  if (!old) paint(c, answer, place);
  cover(c, answer, place, old);
  if (place.wide >= FEWEST && place.tall >= FEWEST) grid(c, answer, place);
  if (!old) write(c, answer, place);
  label(c, answer, place, cursor);
  if (cursor !== null) frame(c, place, cursor);
}

/** Paints all cells: one pixel each, which the canvas enlarges. @param {CanvasRenderingContext2D} c @param {MapAnswer} answer @param {Places} place */
function paint(c, answer, { left, top, wide, tall }) {
  const { head, values } = answer;
  const [rows, columns] = [head.readouts.length, head.builders.length];
  if (rows * columns === 0) return;
  if (cells.width !== columns || cells.height !== rows) [cells.width, cells.height] = [columns, rows];
  const small = cells.getContext("2d");
  if (small === null) return;
  const image = small.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const stops = stopsOf(head.quantity);
  const shades = Uint32Array.from({ length: SHADES }, (_, at) => {
    const [red, green, blue] = shade(stops, at / (SHADES - 1));
    return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  });
  // What is unknown stays transparent.
  const most = greatest(answer);
  const isWait = head.quantity === "wait";
  const [add, factor] = isWait ? [-Math.log(SHORTEST), (SHADES - 1) / (DECADES * Math.LN10)] : [0, (SHADES - 1) / most];
  for (let column = 0; column < columns; column += 1) {
    for (let row = 0, from = column * rows; row < rows; row += 1) {
      const value = values[from + row];
      if (value !== value) continue;
      const at = value <= 0 ? 0 : ((isWait ? Math.log(value) : value) + add) * factor;
      pixels[row * columns + column] = shades[at <= 0 ? 0 : at >= SHADES - 1 ? SHADES - 1 : at | 0];
    }
  }
  small.putImageData(image, 0, 0);
  c.imageSmoothingEnabled = false;
  c.drawImage(cells, left, top, wide * columns, tall * rows);
}

/** Covers what is not known, and rows without sources, with marks. @param {CanvasRenderingContext2D} c @param {MapAnswer} answer @param {Places} place @param {boolean} old */
function cover(c, { head: { readouts, builders }, values }, { left, top, wide, tall }, old) {
  const rows = readouts.length;
  const [unknown, excluded] = [stripes(c, 1), stripes(c, 0)];
  builders.forEach((_, builder) => {
    if (!old && !Number.isNaN(values[builder * rows])) return;
    c.fillStyle = unknown;
    c.fillRect(left + builder * wide, top, wide, tall * rows);
  });
  readouts.forEach(({ condition }, readout) => {
    if (condition !== "excluded") return;
    c.clearRect(left, top + readout * tall, wide * builders.length, tall);
    c.fillStyle = excluded;
    c.fillRect(left, top + readout * tall, wide * builders.length, tall);
  });
}

/**
 * Returns the units in trouble: with others in a row or column, or alone.
 *
 * @param {MapAnswer} answer
 * @param {"readout" | "builder"} role
 */
function troubled({ head }, role) {
  return new Set(head.troubles.map((trouble) => trouble[role]).filter((at) => at !== null));
}

/** Returns a pattern: sloping stripes for what is not known, level ones for what is excluded. @param {CanvasRenderingContext2D} c @param {number} slope */
export function stripes(c, slope) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const small = tile.getContext("2d");
  if (small !== null) {
    small.strokeStyle = variable("--strong-line");
    small.lineWidth = slope ? 1.5 : 1;
    small.beginPath();
    for (const from of slope ? [-8, 0, 8] : [0]) {
      small.moveTo(slope ? from : 0, slope ? 8 : 4);
      small.lineTo(slope ? from + 8 : 8, slope ? 0 : 4);
    }
    small.stroke();
  }
  return c.createPattern(tile, "repeat") ?? variable("--line");
}

/** @param {CanvasRenderingContext2D} c @param {MapAnswer} answer @param {Places} place */
function grid(c, { head: { readouts, builders } }, { left, top, wide, tall }) {
  c.strokeStyle = variable("--line");
  c.lineWidth = 1;
  c.beginPath();
  const [right, bottom] = [left + wide * builders.length, top + tall * readouts.length];
  for (let column = 0; column <= builders.length; column += 1) {
    c.moveTo(left + column * wide, top);
    c.lineTo(left + column * wide, bottom);
  }
  for (let row = 0; row <= readouts.length; row += 1) {
    c.moveTo(left, top + row * tall);
    c.lineTo(right, top + row * tall);
  }
  c.stroke();
}

/** Writes the values, where there is room for them. @param {CanvasRenderingContext2D} c @param {MapAnswer} answer @param {Places} place */
function write(c, answer, { left, top, wide, tall }) {
  const { head, values } = answer;
  if (wide < 9 * LETTER || tall < LINE) return;
  const [most, rows, stops] = [greatest(answer), head.readouts.length, stopsOf(head.quantity)];
  c.textAlign = "center";
  c.textBaseline = "middle";
  values.forEach((value, at) => {
    const [readout, builder] = [at % rows, Math.floor(at / rows)];
    if (Number.isNaN(value) || head.readouts[readout].condition === "excluded") return;
    const [red, green, blue] = shade(stops, value <= 0 ? 0 : fraction(head.quantity, value, most));
    c.fillStyle = 0.3 * red + 0.59 * green + 0.11 * blue > 116 ? "#1a1a1a" : "#ffffff";
    c.fillText(quantity(value, head.unit), left + (builder + 0.5) * wide, top + (readout + 0.5) * tall, wide - 4);
  });
}

/** Writes names along the sides, as many as there is room for, and those of the cursor. @param {CanvasRenderingContext2D} c @param {MapAnswer} answer @param {Places} place @param {Pair | null} cursor */
function label(c, answer, { left, top, wide, tall }, cursor) {
  const { readouts, builders } = answer.head;
  const [rows, columns] = [troubled(answer, "readout"), troubled(answer, "builder")];
  // The marks are seen where cells are small.
  c.fillStyle = variable("--bad-area");
  for (const row of rows) c.fillRect(left - MARK, top + row * tall + Math.min(0, tall / 2 - 2), MARK - 1, Math.max(4, tall));
  for (const column of columns) c.fillRect(left + column * wide + Math.min(0, wide / 2 - 2), top - MARK, Math.max(4, wide), MARK - 1);
  const longest = builders.reduce((most, { name }) => Math.max(most, name.length), 2);
  const side = (/** @type {{name: string}[]} */ units, /** @type {number} */ size, /** @type {number} */ room, /** @type {number | undefined} */ chosen, /** @type {Set<number>} */ bad, /** @type {(name: string, at: number) => void} */ write) => {
    const step = Math.max(1, Math.ceil(room / size));
    /** @type {number[]} */
    const put = [];
    const others = units.map((_, at) => at).filter((at) => at % step === 0);
    // Where names do not fit beside each other, the first of these lists go before the others.
    for (const at of [...(chosen === undefined ? [] : [chosen]), ...bad, ...others]) {
      if (put.some((other) => Math.abs(at - other) < step)) continue;
      put.push(at);
      c.fillStyle = bad.has(at) ? variable("--bad") : variable(at === chosen ? "--text" : "--muted");
      write(units[at].name, (at + 0.5) * size);
    }
  };
  c.textBaseline = "middle";
  c.textAlign = "right";
  side(readouts, tall, LINE, cursor?.readout, rows, (name, at) => c.fillText(name, left - MARK - 3, Math.max(top + at, LINE / 2), left - MARK - 4));
  c.textAlign = "center";
  const room = longest * LETTER + 6;
  side(builders, wide, room, cursor?.builder, columns, (name, at) => c.fillText(name, Math.max(left + at, room / 2), LINE / 2, room));
}

/** @param {CanvasRenderingContext2D} c @param {Places} place @param {Pair} cursor */
function frame(c, { left, top, wide, tall }, { readout, builder }) {
  const room = Math.max(0, 4 - Math.min(wide, tall) / 2);
  const [x, y] = [left + builder * wide - room, top + readout * tall - room];
  for (const [width, colour] of /** @type {[number, string][]} */ ([[4, variable("--background")], [2, variable("--text")]])) {
    c.lineWidth = width;
    c.strokeStyle = colour;
    c.strokeRect(x, y, wide + 2 * room, tall + 2 * room);
  }
}
