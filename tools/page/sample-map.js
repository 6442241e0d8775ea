// A map of readout units and builder units in which a row, a column or a cell is in trouble.

const MAGIC = 0x504d4853;

// Returns a map of this size. `wait` gives the seconds of a pair, `rate` its bytes per second, NaN what is not known.
export function sampleMap(readouts = 4, builders = 4, edit = {}) {
  const unit = (kind) => (_, index) => ({ name: `${kind}${index}`, condition: "reporting" });
  return {
    readouts: Array.from({ length: readouts }, unit("ru")),
    builders: Array.from({ length: builders }, unit("bu")),
    summary: "no wait is as long as 1 s; the longest: bu1 for ru1, 12 ms",
    troubles: [],
    wait: (readout, builder) => 0.002 * ((readout * 7 + builder * 3) % 7),
    rate: (readout, builder) => 5e6 + 3e5 * ((readout * 5 + builder * 3) % 4),
    ...edit,
  };
}

// A map whose readout unit 3 is slow, with a builder unit that does not report and a readout unit that is excluded.
export function troubledMap(readouts, builders) {
  const map = sampleMap(readouts, builders);
  const { wait, rate } = map;
  const slow = Math.min(3, readouts - 1);
  const known = builders > 2 ? builders - 1 : builders;
  const text = `readout unit ru${slow}: ${known} of ${known} builder units wait for it, the oldest event for 2.1 s`;
  map.summary = text;
  map.troubles = [{ readout: slow, builder: null, seconds: 2.1, text, remedy: "look whether one of its sources is silent (Sources), then at its host and its network port" }];
  map.wait = (readout, builder) => (readout === slow ? 2.1 - 0.1 * (builder % 4) : wait(readout, builder));
  if (builders > 2) {
    const silent = `builder unit bu2 has not reported for 4.2 s: nothing is known of its column`;
    map.builders[2] = { name: "bu2", condition: "silent", age_ms: 4200 };
    map.troubles.unshift({ readout: null, builder: 2, seconds: 4.2, text: silent, remedy: "look at its host: its process is stopped, hangs or gets no processor time" });
    const all = map.wait;
    map.wait = (readout, builder) => (builder === 2 ? NaN : all(readout, builder));
    map.rate = (readout, builder) => (builder === 2 ? NaN : rate(readout, builder));
  }
  if (readouts > 5) map.readouts[5].condition = "excluded";
  return map;
}

// Encodes a map as in the contract with the page.
export function encodeMap(map, quantity) {
  const { readouts, builders, summary, troubles } = map;
  const head = JSON.stringify({ run: 7, quantity, unit: quantity === "wait" ? "s" : "B/s", readouts, builders, summary, troubles });
  const length = Math.ceil(Buffer.byteLength(head) / 4) * 4;
  const bytes = Buffer.alloc(24 + length + 4 * readouts.length * builders.length, " ");
  [MAGIC, builders.length, readouts.length, length].forEach((value, at) => bytes.writeUInt32LE(value, 4 * at));
  bytes.writeDoubleLE(Date.now(), 16);
  bytes.write(head, 24);
  let place = 24 + length;
  for (let builder = 0; builder < builders.length; builder += 1) {
    for (let readout = 0; readout < readouts.length; readout += 1, place += 4) bytes.writeFloatLE(map[quantity](readout, builder), place);
  }
  return bytes;
}
