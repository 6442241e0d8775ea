/**
 * Colours, dashes and patterns of charts. The colours are those of Okabe and Ito, which people with any kind of colour
 * vision tell apart. Bluish green is not among them: on this page it stands for "in order" and nothing else.
 */

const COLOURS = ["#0072b2", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00"];
const DARK_COLOURS = ["#3d9bd4", "#e69f00", "#cc79a7", "#8fd0f5", "#ee7b2e"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [14, 4]];

/** Returns whether the page is dark. */
export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {number} index */
export function colour(index) {
  const colours = isDark() ? DARK_COLOURS : COLOURS;
  return colours[index % colours.length];
}

/** @param {number} index @returns {number[]} lengths of strokes and gaps */
export function dash(index) {
  return DASHES[index % DASHES.length];
}

/** Returns the value of a variable of the style sheet. @param {string} name */
export function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @type {((c: CanvasRenderingContext2D, size: number) => void)[]} */
const STROKES = [
  () => {},
  (c, size) => lines(c, [[0, size, size, 0], [-1, 1, 1, -1], [size - 1, size + 1, size + 1, size - 1]]),
  (c, size) => c.fillRect(size / 4, size / 4, size / 3, size / 3),
  (c, size) => lines(c, [[0, size / 2, size, size / 2]]),
  (c, size) => lines(c, [[size / 2, 0, size / 2, size]]),
  (c, size) => lines(c, [[0, 0, size, size], [-1, size - 1, 1, size + 1], [size - 1, -1, size + 1, 1]]),
  (c, size) => lines(c, [[0, size / 2, size, size / 2], [size / 2, 0, size / 2, size]]),
];

/** @param {CanvasRenderingContext2D} c @param {number[][]} ends */
function lines(c, ends) {
  c.beginPath();
  for (const [x0, y0, x1, y1] of ends) {
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
  }
  c.stroke();
}

/** @type {Map<string, HTMLCanvasElement>} */
const TILES = new Map();

/** Returns a square of the pattern of an area. @param {number} index */
function tile(index) {
  const scale = Math.max(1, Math.round(devicePixelRatio));
  const key = `${index} ${scale} ${isDark()}`;
  const known = TILES.get(key);
  if (known !== undefined) return known;
  if (TILES.size > 64) TILES.clear();
  const canvas = document.createElement("canvas");
  const size = 8;
  canvas.width = canvas.height = size * scale;
  const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  c.scale(scale, scale);
  c.fillStyle = colour(index);
  c.fillRect(0, 0, size, size);
  c.fillStyle = c.strokeStyle = variable("--background");
  c.lineWidth = 1.5;
  STROKES[index % STROKES.length](c, size);
  TILES.set(key, canvas);
  return canvas;
}

/** Returns the fill of an area: a colour with a pattern. @param {CanvasRenderingContext2D} c @param {number} index */
export function pattern(c, index) {
  return c.createPattern(tile(index), "repeat") ?? colour(index);
}
