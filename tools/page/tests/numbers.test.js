// Numbers: the form of the answers, rings, history and live rows.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario } from "../harness.js";
import { encode } from "../mock.js";

const COLUMNS = [{ id: "a" }, { id: "b" }];

// Decodes bytes in the page: the rows of each column, or the text of the error.
function decode(page, bytes, step, columns) {
  return page.evaluate(async ([list, stepMs, width]) => {
    const { decode: read } = await import("/assets/binary.js");
    try {
      const answer = read(new Uint8Array(list).buffer, stepMs, width);
      return { ...answer, columns: answer.columns.map((column) => [...column]) };
    } catch (error) {
      return `${error.name}: ${error.message}`;
    }
  }, [[...bytes], step, columns]);
}

function changed(bytes, edit) {
  const copy = Buffer.from(bytes);
  edit(copy);
  return copy;
}

scenario("answers are decoded, and malformed ones are refused with a reason", async (mock, show) => {
  const page = await show({ bare: true });
  const good = encode(COLUMNS, 100, 1_700_000_000_000, 41, 3, (id, ms) => (id === "a" ? (ms / 100) % 1000 : Number.NaN));
  assert.deepEqual(await decode(page, good, 100, 2), {
    stepMs: 100, rows: 3, firstMs: 1_700_000_004_100, last: 43, columns: [[41, 42, 43], [Number.NaN, Number.NaN, Number.NaN]],
  });
  const empty = encode(COLUMNS, 100, 0, 41, 0, () => 0);
  assert.equal((await decode(page, empty, 100, 2)).rows, 0);
  const cases = [
    [good.subarray(0, 31), 100, 2, /31 bytes, shorter than a header/],
    [Buffer.alloc(0), 100, 2, /0 bytes/],
    [changed(good, (bytes) => bytes.write("HTML")), 100, 2, /they begin with 0x/],
    [good.subarray(0, good.length - 4), 100, 2, /52 bytes; 2 columns of 3 rows have 56/],
    [Buffer.concat([good, Buffer.alloc(1)]), 100, 2, /57 bytes/],
    [good, 1000, 2, /a step of 100 ms instead of 1000 ms/],
    [good, 100, 3, /2 columns instead of 3/],
    [changed(good, (bytes) => bytes.writeUInt32LE(0xffffffff, 8)), 100, 2, /4294967295 rows are more than/],
    [changed(good, (bytes) => bytes.writeUInt32LE(0xffffffff, 4)), 100, 0xffffffff, /4294967295 columns/],
    [changed(good, (bytes) => bytes.writeDoubleLE(Number.NaN, 16)), 100, 2, /the first row has the time NaN/],
    [changed(good, (bytes) => bytes.writeBigUInt64LE(2n ** 60n, 24)), 100, 2, /end with number 1152921504606846976/],
    [changed(good, (bytes) => bytes.writeBigUInt64LE(1n, 24)), 100, 2, /3 rows end with number 1/],
  ];
  for (const [bytes, step, columns, reason] of cases) {
    const result = await decode(page, bytes, step, columns);
    assert.match(String(result), /^MalformedAnswer: malformed numbers from the server/);
    assert.match(result, reason);
  }
});

scenario("no bytes whatever break the decoder", async (mock, show) => {
  const page = await show({ bare: true });
  const good = encode(COLUMNS, 100, 1_700_000_000_000, 41, 3, () => 1);
  const results = await page.evaluate(async (list) => {
    const { decode: read } = await import("/assets/binary.js");
    const kinds = new Set();
    for (let place = 0; place < 32; place += 1) {
      for (let value = 0; value < 256; value += 1) {
        const bytes = new Uint8Array(list);
        bytes[place] = value;
        try {
          read(bytes.buffer, 100, 2);
          kinds.add("decoded");
        } catch (error) {
          kinds.add(error.name);
        }
      }
    }
    return [...kinds].sort();
  }, [...good]);
  assert.deepEqual(results, ["MalformedAnswer", "decoded"]);
});

scenario("a ring keeps the newest rows, with gaps where rows are missing", async (mock, show) => {
  const page = await show({ bare: true });
  const values = await page.evaluate(async () => {
    const { Ring } = await import("/assets/ring.js");
    const answer = (last, rows, value) => ({ stepMs: 100, rows, firstMs: 1000 + 100 * (last - rows + 1), last, columns: [new Float32Array(rows).fill(value)] });
    const ring = new Ring(100, 5, 1);
    const look = () => Array.from({ length: 12 }, (_, number) => ring.value(0, number));
    ring.append(answer(3, 2, 1));
    const first = look();
    ring.append(answer(7, 2, 2));
    const gap = look();
    ring.append(answer(7, 5, 9));
    const known = look();
    ring.append(answer(1_000_000, 3, 3));
    return { first, gap, known, far: [ring.value(0, 999_997), ring.value(0, 999_998), ring.value(0, 1_000_000)], time: ring.timeOf(2), length: ring.data.length };
  });
  const n = Number.NaN;
  assert.deepEqual(values.first, [n, n, 1, 1, n, n, n, n, n, n, n, n]);
  assert.deepEqual(values.gap, [n, n, n, 1, n, n, 2, 2, n, n, n, n]);
  assert.deepEqual(values.known, values.gap);
  assert.deepEqual(values.far, [n, 3, 3]);
  assert.equal(values.time, 1200);
  assert.equal(values.length, 5);
});

scenario("coarse rings go on with the means of fine rows", async (mock, show) => {
  const page = await show({ bare: true });
  const rows = await page.evaluate(async () => {
    const { Ring } = await import("/assets/ring.js");
    const fine = new Ring(100, 100, 1);
    const coarse = new Ring(1000, 10, 1);
    // The coarse history ends with row 4, of the time 4 s to 5 s.
    coarse.append({ stepMs: 1000, rows: 5, firstMs: 1e6, last: 4, columns: [new Float32Array(5).fill(7)] });
    fine.append({ stepMs: 100, rows: 75, firstMs: 1e6, last: 74, columns: [Float32Array.from({ length: 75 }, (_, row) => row)] });
    coarse.extend(fine);
    const before = [coarse.last, ...[3, 4, 5, 6, 7].map((number) => coarse.value(0, number))];
    fine.append({ stepMs: 100, rows: 1, firstMs: 1e6 + 7500, last: 75, columns: [new Float32Array([1075])] });
    coarse.extend(fine);
    coarse.extend(fine);
    return [before, coarse.value(0, 7)];
  });
  assert.deepEqual(rows[0], [7, 7, 7, 54.5, 64.5, 72]);
  assert.ok(Math.abs(rows[1] - (70 + 71 + 72 + 73 + 74 + 1075) / 6) < 1e-3);
});

scenario("no peak is lost when rows are grouped, and stacks add up", async (mock, show) => {
  const page = await show({ bare: true });
  const found = await page.evaluate(async () => {
    const { Ring } = await import("/assets/ring.js");
    const { Points2D } = await import("/assets/series.js");
    const ring = new Ring(1000, 7200, 2);
    const flat = new Float32Array(7200).fill(1);
    const peak = new Float32Array(7200).fill(2);
    peak[5003] = 50;
    ring.append({ stepMs: 1000, rows: 7200, firstMs: 1e9, last: 7199, columns: [flat, peak] });
    const lines = new Points2D([0, 1], "lines", 7200);
    lines.read(ring);
    const stack = new Points2D([0, 1], "stack", 7200);
    stack.read(ring);
    const rising = lines.data[0].every((time, index, all) => index === 0 || time > all[index - 1]);
    return { most: Math.max(...lines.data[2]), lengths: lines.data.map((list) => list.length), rising, top: Math.min(...stack.data[2]), own: stack.at(1, 10) };
  });
  assert.equal(found.most, 50);
  assert.deepEqual(found.lengths, [1200, 1200, 1200]);
  assert.ok(found.rising);
  assert.equal(found.top, 3);
  assert.deepEqual(found.own, { least: 2, largest: 2 });
});

scenario("a malformed answer is said, and the curves return with good ones", async (mock, show) => {
  mock.damage = (path, bytes) => (path === "/api/v1/live" ? bytes.subarray(0, bytes.length - 4) : bytes);
  const page = await show();
  await page.waitForSelector(".problem");
  await reads(page, ".problem", /No curves: malformed numbers from the server: \d+ bytes/);
  mock.damage = null;
  await until(page, () => document.querySelector(".problem") === null && globalThis.sheaf.numbers.answers > 0);
});

scenario("columns that the page does not know have charts of their own", async (mock, show) => {
  mock.columns.push({ id: "humidity", title: "Humidity", unit: "%", panel: "hall" });
  mock.columns.push({ id: "delay", title: "Delay", unit: "s", panel: "flow" });
  const page = await show();
  await until(page, () => [...document.querySelectorAll("#panel-numbers figcaption")].some((title) => title.textContent.trim() === "hall, %"));
  assert.equal(await page.locator("#panel-rate .legend li").count(), 5);
  assert.equal(await page.locator("#panel-dead-time .legend li").count(), 4);
  // Columns of one panel with different units are in different charts.
  assert.equal(await page.locator("#panel-flow .chart").count(), 3);
});

scenario("live rows reach the curves as they come", async (mock, show) => {
  mock.live = "manual";
  mock.value = (id) => (id === "events_stored" ? 1500 : 0);
  const page = await show();
  await until(page, () => document.querySelector("#panel-rate li output").textContent === "1.50 k/s");
  mock.value = (id) => (id === "events_stored" ? 2500 : 0);
  mock.addRows(10);
  await until(page, () => document.querySelector("#panel-rate li output").textContent === "2.50 k/s");
  assert.equal(await page.evaluate(() => globalThis.sheaf.numbers.rings.get(100).last), mock.last);
});

scenario("all ranges show their history, and live rows after it", async (mock, show) => {
  const page = await show();
  for (const [range, step, rows] of [["2h", 1000, 7200], ["7d", 10_000, 60_480]]) {
    await page.evaluate((name) => globalThis.sheaf.navigation.set({ range: name }), range);
    await until(page, (ms) => globalThis.sheaf.numbers.rings.has(ms), step);
    const before = await page.evaluate((ms) => globalThis.sheaf.numbers.rings.get(ms).last, step);
    const known = await page.evaluate((ms) => {
      const ring = globalThis.sheaf.numbers.rings.get(ms);
      return ring.last - ring.first + 1;
    }, step);
    assert.ok(known >= rows, `${known} of ${rows}`);
    mock.live = "manual";
    mock.addRows((3 * step) / 100);
    await until(page, ([ms, last]) => globalThis.sheaf.numbers.rings.get(ms).last >= last + 3, [step, before]);
    await until(page, () => document.querySelector("#panel-rate li output").textContent.endsWith("k/s"));
  }
});

scenario("a hidden page asks for no numbers, and has them all when it is shown again", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 2);
  const hide = (hidden) => page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden ? "hidden" : "visible");
  await hide(true);
  // What had been sent before has arrived once a state that is sent now has.
  const arrive = async () => {
    mock.change((state) => state.run.number += 1);
    await until(page, (number) => globalThis.sheaf.store.state.run.number === number, mock.state.run.number);
  };
  await arrive();
  const numbers = () => mock.requests.filter((path) => /live|history|columns/.test(path)).length;
  const before = numbers();
  mock.live = "manual";
  for (let round = 0; round < 20; round += 1) {
    mock.addRows(100);
    await arrive();
  }
  assert.equal(numbers(), before);
  await hide(false);
  await until(page, (last) => globalThis.sheaf.numbers.rings.get(100)?.last === last, mock.last);
  const gaps = await page.evaluate(() => {
    const ring = globalThis.sheaf.numbers.rings.get(100);
    return Array.from({ length: 3000 }, (_, index) => ring.value(0, ring.last - index)).filter(Number.isNaN).length;
  });
  assert.equal(gaps, 0);
});

scenario("a history that could not be loaded is asked for again", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  mock.damage = (path, bytes) => (path === "/api/v1/history" ? bytes.subarray(0, 8) : bytes);
  await page.evaluate(() => globalThis.sheaf.navigation.set({ range: "7d" }));
  await page.waitForSelector(".problem");
  mock.damage = null;
  await until(page, () => globalThis.sheaf.numbers.rings.has(10_000) && document.querySelector(".problem") === null);
});

scenario("changing the range again and again leaves one chart of each kind", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  const look = () => page.evaluate(() => [document.querySelectorAll("canvas, .uplot").length, uPlot.sync("time").plots.length]);
  const before = await look();
  for (let round = 0; round < 8; round += 1) {
    for (const range of ["2h", "5min"]) {
      await page.evaluate((name) => new Promise((resolve) => {
        globalThis.sheaf.navigation.set({ range: name });
        requestAnimationFrame(resolve);
      }), range);
    }
  }
  assert.deepEqual(await look(), before);
});

scenario("values at the pointer are in the legend, with their time", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  await page.locator("#panel-rate .u-over").hover();
  await until(page, () => /at \d\d:\d\d:\d\d/.test(document.querySelector("#panel-rate figcaption").textContent));
  await reads(page, "#panel-rate .legend", /stored \d\d\.\d k\/s to \d\d\.\d k\/s/);
  // Pointers of all charts go together.
  await until(page, () => /at \d\d:\d\d:\d\d/.test(document.querySelector("#panel-dead-time figcaption").textContent));
});

scenario("a server that numbers its rows anew is followed", async (mock, show) => {
  mock.live = "manual";
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.rings.get(100)?.last > 0);
  mock.renumber();
  await until(page, (last) => globalThis.sheaf.numbers.rings.get(100)?.last === last, mock.last);
});

scenario("a server without numbers is asked again", async (mock, show) => {
  const columns = mock.columns;
  mock.columns = { none: true };
  const page = await show();
  await page.waitForSelector(".problem");
  await reads(page, ".problem", /No curves: no numbers from the server: the list of columns is not a list/);
  mock.columns = columns;
  await until(page, () => document.querySelectorAll("#panel-rate .chart").length === 1);
}, BROKEN);

scenario("a new run keeps the curves and marks its start", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  const generation = await page.evaluate(() => globalThis.sheaf.numbers.generation);
  mock.change((state) => Object.assign(state.run, { number: 8, began_ms: Date.now() }));
  await until(page, () => document.querySelector(".run b").textContent === "8");
  assert.deepEqual(await page.evaluate(() => globalThis.sheaf.store.starts.map((start) => start.number)), [7, 8]);
  assert.equal(await page.evaluate(() => globalThis.sheaf.numbers.generation), generation);
  // Many runs do not fill the memory.
  const kept = await page.evaluate(() => {
    for (let number = 1; number <= 1000; number += 1) globalThis.sheaf.store.note({ number, began_ms: number });
    return globalThis.sheaf.store.starts.length;
  });
  assert.equal(kept, 32);
});

scenario("thousands of live answers leave nothing behind", async (mock, show) => {
  const page = await show({ hash: "#range=2h" });
  await page.evaluate(() => globalThis.sheaf.navigation.set({ range: "5min" }));
  const session = await page.context().newCDPSession(page);
  const sizes = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return page.evaluate(() => {
      const { store, numbers } = globalThis.sheaf;
      return {
        rings: [...numbers.rings.values()].map((ring) => ring.data.length + ring.sums.length + ring.counts.length),
        samples: store.rates.samples.length <= 9,
        starts: store.starts.length,
        elements: document.querySelectorAll("*").length,
        heap: performance.memory.usedJSHeapSize,
      };
    });
  };
  await page.evaluate(() => {
    // A picture takes as long as many answers; they do not wait for one.
    globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 500);
    Object.assign(globalThis.sheaf.numbers.options, { paceMs: () => 0, drawn: () => Promise.resolve() });
  });
  mock.value = (id, ms) => ms % 7919;
  mock.live = "fast";
  mock.fastRows = 100;
  const answers = async (count) => {
    const wanted = count + await page.evaluate(() => globalThis.sheaf.numbers.answers);
    await until(page, (number) => globalThis.sheaf.numbers.answers >= number, wanted);
  };
  // All rings are full before.
  await answers(100);
  const before = await sizes();
  await answers(2000);
  mock.live = "manual";
  const after = await sizes();
  assert.ok(after.heap < before.heap + 8e6, `${before.heap} bytes before, ${after.heap} after`);
  delete before.heap;
  delete after.heap;
  assert.deepEqual(after, before);
});
