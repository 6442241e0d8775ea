/** The map of readout units and builder units: its binary form, and when it is loaded. */

/** @import { MapHead } from "./types.js" */
import { MalformedAnswer } from "./binary.js";

const MAGIC = 0x504d4853;
const HEADER_BYTES = 24;
const MAX_UNITS = 65_535;
const PAUSE_MS = 500;
/** The same from this many cells on: an answer has a megabyte. */
const LARGE = 65_536;
const LARGE_PAUSE_MS = 2000;
const LIMIT_MS = 15_000;
/** Answers that are older than this are not of now. */
const OLD_MS = 5000;

/**
 * @typedef {object} MapAnswer
 * @property {number} timeMs When it was made, Unix time.
 * @property {MapHead} head
 * @property {Float32Array} values Builder unit by builder unit; NaN is unknown.
 */

/** @param {ArrayBuffer} bytes @returns {MapAnswer} @throws {MalformedAnswer} */
export function decodeMap(bytes) {
  if (bytes.byteLength < HEADER_BYTES) throw new MalformedAnswer(`${bytes.byteLength} bytes, shorter than the header of a map`);
  const header = new DataView(bytes, 0, HEADER_BYTES);
  const [magic, builders, readouts, length] = [0, 4, 8, 12].map((place) => header.getUint32(place, true));
  if (magic !== MAGIC) throw new MalformedAnswer(`a map begins with 0x${magic.toString(16)}`);
  if (builders > MAX_UNITS || readouts > MAX_UNITS) throw new MalformedAnswer(`a map of ${readouts} by ${builders} units`);
  const begin = HEADER_BYTES + length;
  const expected = begin + 4 * builders * readouts;
  if (begin % 4 !== 0 || bytes.byteLength !== expected) {
    throw new MalformedAnswer(`${bytes.byteLength} bytes; a map of ${readouts} by ${builders} units has ${expected}`);
  }
  const head = parse(new TextDecoder().decode(new Uint8Array(bytes, HEADER_BYTES, length)));
  if (head.readouts?.length !== readouts || head.builders?.length !== builders || !Array.isArray(head.troubles)) {
    throw new MalformedAnswer("the names of a map do not fit its size");
  }
  return { timeMs: header.getFloat64(16, true), head, values: new Float32Array(bytes, begin, builders * readouts) };
}

/** @param {string} text @returns {MapHead} */
function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    throw new MalformedAnswer("the names of a map are not JSON");
  }
}

export class MapFeed {
  /** @param {{base: string, onChange: () => void}} options */
  constructor(options) {
    this.options = options;
    this.quantity = "";
    /** @type {MapAnswer | null} */
    this.answer = null;
    /** When the answer arrived, by `performance.now()`. */
    this.arrived = 0;
    /** Number of answers so far. */
    this.answers = 0;
    /** @type {string | null} */
    this.problem = null;
    this.resting = false;
    document.addEventListener("visibilitychange", () => void this.load());
    for (const event of ["scroll", "resize"]) addEventListener(event, () => void this.load(), { passive: true });
  }

  /** Loads a map now, and again and again while it is in sight. @param {string} quantity empty for none */
  want(quantity) {
    if (quantity !== this.quantity) {
      this.answer = this.problem = null;
      this.quantity = quantity;
    }
    void this.load();
  }

  /** Returns whether what is shown is not of now. */
  get old() {
    return this.answer === null || performance.now() - this.arrived > OLD_MS;
  }

  async load() {
    const { quantity } = this;
    if (quantity === "" || this.resting || document.visibilityState !== "visible" || !inSight()) return;
    this.resting = true;
    try {
      const response = await fetch(`${this.options.base}map?quantity=${quantity}`, { signal: AbortSignal.timeout(LIMIT_MS), cache: "no-store" });
      if (!response.ok) throw new Error(`the server answers ${response.status}`);
      const answer = decodeMap(await response.arrayBuffer());
      if (quantity === this.quantity) {
        this.answer = answer;
        this.arrived = performance.now();
        this.problem = null;
        this.answers += 1;
      }
    } catch (error) {
      if (quantity === this.quantity) this.problem = error instanceof Error ? error.message : String(error);
    }
    this.options.onChange();
    const isLarge = (this.answer?.values.length ?? 0) >= LARGE;
    // Another quantity is wanted at once.
    const pause = quantity !== this.quantity ? 0 : isLarge ? LARGE_PAUSE_MS : PAUSE_MS;
    setTimeout(() => {
      this.resting = false;
      void this.load();
    }, pause);
  }
}

/** Returns whether a part of the panel is in the window. */
function inSight() {
  const place = document.getElementById("panel-map")?.getBoundingClientRect();
  return place !== undefined && place.bottom > 0 && place.top < innerHeight;
}
