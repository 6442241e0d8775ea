/** Decodes the binary answers of the server: columns of numbers, little endian. */

const MAGIC = 0x564c4853;
const HEADER_BYTES = 32;
const MAX_COLUMNS = 1024;
const MAX_ROWS = 1_000_000;

/**
 * @typedef {object} Answer
 * @property {number} stepMs Time between rows.
 * @property {number} rows
 * @property {number} firstMs Unix time of the first row.
 * @property {number} last Number of the last row.
 * @property {Float32Array[]} columns Views into the answer, of `rows` values each; NaN is unknown.
 */

/** An answer that is not in the agreed form. */
export class MalformedAnswer extends Error {
  /** @param {string} what */
  constructor(what) {
    super(`malformed numbers from the server: ${what}; reload the page, which may be of another version`);
    this.name = "MalformedAnswer";
  }
}

/**
 * Decodes one answer.
 *
 * @param {ArrayBuffer} bytes
 * @param {number} stepMs Step that was requested.
 * @param {number} columns Number of columns that the server announced.
 * @returns {Answer}
 * @throws {MalformedAnswer}
 */
export function decode(bytes, stepMs, columns) {
  if (bytes.byteLength < HEADER_BYTES) {
    throw new MalformedAnswer(`${bytes.byteLength} bytes, shorter than a header of ${HEADER_BYTES}`);
  }
  const header = new DataView(bytes, 0, HEADER_BYTES);
  const magic = header.getUint32(0, true);
  if (magic !== MAGIC) throw new MalformedAnswer(`they begin with 0x${magic.toString(16)}`);
  const width = header.getUint32(4, true);
  const rows = header.getUint32(8, true);
  const step = header.getUint32(12, true);
  const firstMs = header.getFloat64(16, true);
  const last = header.getBigUint64(24, true);
  if (width > MAX_COLUMNS || rows > MAX_ROWS) {
    throw new MalformedAnswer(`${width} columns of ${rows} rows are more than ${MAX_COLUMNS} of ${MAX_ROWS}`);
  }
  if (width !== columns) throw new MalformedAnswer(`${width} columns instead of ${columns}`);
  if (step !== stepMs) throw new MalformedAnswer(`a step of ${step} ms instead of ${stepMs} ms`);
  const expected = HEADER_BYTES + 4 * width * rows;
  if (bytes.byteLength !== expected) {
    throw new MalformedAnswer(`${bytes.byteLength} bytes; ${width} columns of ${rows} rows have ${expected}`);
  }
  if (rows > 0 && !(firstMs > 0 && firstMs < 8.64e15)) {
    throw new MalformedAnswer(`the first row has the time ${firstMs} ms`);
  }
  if (rows > 0 && (last > BigInt(Number.MAX_SAFE_INTEGER) || last + 1n < BigInt(rows))) {
    throw new MalformedAnswer(`${rows} rows end with number ${last}`);
  }
  const views = Array.from({ length: width }, (_, index) => column(bytes, index, rows));
  return { stepMs: step, rows, firstMs, last: Number(last), columns: views };
}

/** @param {ArrayBuffer} bytes @param {number} index @param {number} rows */
function column(bytes, index, rows) {
  return new Float32Array(bytes, HEADER_BYTES + 4 * index * rows, rows);
}
