// The map of readout units and builder units: words, cells, marks, keys, and what is asked of the server.

import assert from "node:assert/strict";
import { until, WATCHDOG_MS } from "../browser.js";
import { BROKEN, reads, scenario, text } from "../harness.js";
import { sampleMap, troubledMap } from "../sample-map.js";

const CANVAS = "#panel-map .map canvas";

// Returns the lightness in the middle of cells, without values that are written there. All are read between two drawings, from a map of now: on a
// slow machine an answer may come late, and the page shows an old map without colours until it is there.
async function luminancesAt(page, cells) {
  const read = await page.waitForFunction(async ({ cells, selector }) => {
    const { places } = await import("./assets/map-draw.js");
    if (/last map is old/.test(document.querySelector(".map-summary").textContent)) return null;
    const canvas = document.querySelector(selector);
    const { left, top, wide, tall } = places(globalThis.sheaf.map.answer, canvas.parentElement.clientWidth);
    const [c, scale] = [canvas.getContext("2d"), devicePixelRatio];
    return cells.map(([readout, builder]) => {
      const [x, y] = [left + (builder + 0.15) * wide, top + (readout + 0.5) * tall];
      const [red, green, blue] = c.getImageData(x * scale, y * scale, 1, 1).data;
      return 0.3 * red + 0.59 * green + 0.11 * blue;
    });
  }, { cells, selector: CANVAS }, { timeout: WATCHDOG_MS, polling: 50 });
  return read.jsonValue();
}

// Returns the middle of a cell, from the corner of the canvas.
function place(page, readout, builder) {
  return page.evaluate(async ({ readout, builder, selector }) => {
    const { places } = await import("./assets/map-draw.js");
    const { left, top, wide, tall } = places(globalThis.sheaf.map.answer, document.querySelector(selector).parentElement.clientWidth);
    return { x: left + (builder + 0.5) * wide, y: top + (readout + 0.5) * tall };
  }, { readout, builder, selector: CANVAS });
}

scenario("the map says in words who is in trouble, and its colours agree", async (mock, show) => {
  mock.map = troubledMap(4, 4);
  const page = await show({ hash: "#panel=map", colorScheme: "light" });
  await page.waitForSelector(CANVAS);
  const told = await page.locator(".map-summary li").evaluateAll((list) => list.map((item) => item.innerText.replace(/\s+/g, " ").trim()));
  assert.match(told[0], /^▲ builder unit bu2 has not reported for 4.2 s: nothing is known of its column look at its host/);
  assert.match(told[1], /^▲ readout unit ru3: 3 of 3 builder units wait for it, the oldest event for 2.1 s look whether/);
  assert.match(await page.getAttribute(CANVAS, "aria-label"), /^Map: readout unit ru3/);
  const [long, short] = await luminancesAt(page, [[3, 0], [0, 0]]);
  assert.ok(long < 0.6 * short, "a long wait is much darker");
  const dark = await show({ hash: "#panel=map", colorScheme: "dark" });
  await dark.waitForSelector(CANVAS);
  const [longInTheDark, shortInTheDark] = await luminancesAt(dark, [[3, 0], [0, 0]]);
  assert.ok(longInTheDark > 2 * shortInTheDark, "in the dark it is much brighter");
  await dark.click('.map-summary li:nth-child(2) button');
  await until(dark, () => document.querySelector("#map-cell").textContent.startsWith("ru3 → bu0"));
}, /willReadFrequently/);

scenario("colours grow in lightness without a turn, so that they are read without hue", async (mock, show) => {
  mock.map = sampleMap(1, 60, { wait: (_, builder) => 10 ** (-3 + (5 * builder) / 59), rate: (_, builder) => (5e6 * builder) / 59 });
  for (const [colorScheme, kind] of [["light", "wait"], ["dark", "wait"], ["light", "rate"], ["dark", "rate"]]) {
    const page = await show({ hash: `#panel=map&map=${kind}`, colorScheme });
    await page.waitForSelector(CANVAS);
    const seen = await luminancesAt(page, Array.from({ length: 60 }, (_, builder) => [0, builder]));
    if (colorScheme === "light") seen.reverse();
    const turns = seen.filter((value, at) => at > 0 && value < seen[at - 1]);
    assert.deepEqual(turns, [], `${colorScheme} ${kind}`);
    assert.ok(seen.at(-1) - seen[0] > 150, `${colorScheme} ${kind}: ${seen[0]} to ${seen.at(-1)}`);
  }
}, /willReadFrequently/);

scenario("pointer, finger and keys tell about a cell", async (mock, show) => {
  mock.map = troubledMap(8, 8);
  const page = await show({ hash: "#panel=map" });
  await page.waitForSelector(CANVAS);
  await reads(page, "#map-cell", /^Point at a cell/);
  await page.hover(CANVAS, { position: await place(page, 1, 3) });
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("ru1 → bu3"));
  await reads(page, "#map-cell", "ru1 → bu3: the oldest event has waited for 4.00 ms");
  await page.hover("#panel-map h2");
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("Point"));
  await page.click(CANVAS, { position: await place(page, 3, 1) });
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("ru3 → bu1"));
  await reads(page, "#map-cell", /^ru3 → bu1: the oldest event has waited for 2.00 s. ▲ readout unit ru3: 7 of 7 .*; look whether/);
  await page.focus(CANVAS);
  await page.keyboard.press("ArrowRight");
  await page.hover("#panel-map h2");
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("ru3 → bu2"));
  await reads(page, "#map-cell", /^ru3 → bu2: wait not known. ▲ builder unit bu2 has not reported/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("ru5 → bu7"));
  await reads(page, "#map-cell", /ru5 has only sources that are excluded$/);
  await page.keyboard.press("PageDown");
  await page.keyboard.press("ArrowRight");
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("ru7 → bu7"));
  await page.keyboard.press("Escape");
  await until(page, () => document.querySelector("#map-cell").textContent.startsWith("Point"));
  await page.keyboard.press("2");
  await until(page, () => location.hash.includes("panel=rate"));
});

scenario("what is not known and what is excluded have patterns of their own", async (mock, show) => {
  mock.map = troubledMap(8, 8);
  const page = await show({ hash: "#panel=map" });
  await page.waitForSelector(CANVAS);
  // Number of different pixels in a cell: a value has one colour, apart from its figures.
  const variety = (readout, builder) => page.evaluate(async ({ readout, builder, selector }) => {
    const { places } = await import("./assets/map-draw.js");
    const canvas = document.querySelector(selector);
    const { left, top, wide, tall } = places(globalThis.sheaf.map.answer, canvas.parentElement.clientWidth);
    const image = canvas.getContext("2d").getImageData(left + builder * wide + 3, top + readout * tall + 3, 18, tall - 6);
    return new Set(new Uint32Array(image.data.buffer)).size;
  }, { readout, builder, selector: CANVAS });
  assert.equal(await variety(0, 0), 1);
  assert.ok(await variety(0, 2) > 4, "no data");
  const excluded = await variety(5, 0);
  assert.ok(excluded > 1 && excluded !== await variety(0, 2), "excluded");
}, /willReadFrequently/);

scenario("the payload is another map, with a link of its own", async (mock, show) => {
  const page = await show({ hash: "#panel=map" });
  await page.waitForSelector(CANVAS);
  await reads(page, ".map-legend", /^1 ms 10 ms 100 ms 1 s 10 s 100 s not known/);
  await page.click('#panel-map a:has-text("Payload")');
  await until(page, () => globalThis.sheaf.map.answer?.head.quantity === "rate");
  await until(page, () => document.querySelector(".map-legend")?.textContent.includes("B/s"));
  await reads(page, ".map-legend", /^0 B\/s 5.00 MB\/s 10.0 MB\/s/);
  assert.match(await page.evaluate(() => location.hash), /map=rate/);
});

scenario("a map that is not in sight is not asked for", async (mock, show) => {
  const page = await show({ viewport: { width: 1400, height: 300 } });
  await until(page, () => globalThis.sheaf.numbers.answers > 5);
  assert.equal(mock.count("/api/v1/map"), 0);
  await page.keyboard.press("m");
  await page.waitForSelector(CANVAS);
  assert.ok(mock.count("/api/v1/map") > 0);
});

scenario("a server that gives no map, or a damaged one, is told of, and old cells are not shown as those of now", async (mock, show) => {
  const page = await show({ hash: "#panel=map" });
  await page.waitForSelector(CANVAS);
  for (const [damage, reason] of [
    [(bytes) => bytes.subarray(0, 10), "shorter than the header"],
    [(bytes) => bytes.subarray(0, bytes.length - 4), "a map of 4 by 4 units has"],
    [(bytes) => bytes.fill(0x7b, 24, 60), "are not JSON"],
    [(bytes) => bytes.fill(0, 0, 4), "a map begins with 0x0"],
  ]) {
    mock.damage = (path, bytes) => (path === "/api/v1/map" ? damage(bytes) : bytes);
    await until(page, (reason) => document.querySelector("#panel-map .problem")?.textContent.includes(reason), reason);
  }
  mock.damage = null;
  mock.map = null;
  await until(page, () => document.querySelector("#panel-map .problem")?.textContent.includes("answers 500"));
  await until(page, () => document.querySelector(".map-summary").textContent.includes("the last map is old"));
  assert.equal(await page.locator(".map-summary .bad").count(), 0);
  mock.map = sampleMap();
  await until(page, () => document.querySelector("#panel-map .problem") === null);
  await reads(page, ".map-summary", /^no wait is as long as 1 s/);
}, BROKEN);

scenario("a page without a run says so", async (mock, show) => {
  mock.map = sampleMap(0, 0, { summary: "no run has readout units and builder units yet" });
  const page = await show({ hash: "#panel=map" });
  await until(page, () => document.querySelector("#panel-map")?.textContent.includes("no run has readout units"));
  assert.equal(await page.locator(CANVAS).count(), 0);
});

scenario("cells of a large map have a pixel each at least, also on a phone", async (mock, show) => {
  mock.map = troubledMap(512, 512);
  for (const viewport of [{ width: 1180, height: 800 }, { width: 390, height: 844 }]) {
    const page = await show({ hash: "#panel=map", viewport });
    await page.waitForSelector(CANVAS);
    const { wide, tall, scrolls } = await page.evaluate(async (selector) => {
      const { places } = await import("./assets/map-draw.js");
      const canvas = document.querySelector(selector);
      return { ...places(globalThis.sheaf.map.answer, canvas.parentElement.clientWidth), scrolls: document.documentElement.scrollWidth > innerWidth };
    }, CANVAS);
    assert.ok(wide >= 1 && tall >= 1, `${wide} x ${tall}`);
    assert.equal(scrolls, false, "the map scrolls, and not the page");
    const [row, other] = await luminancesAt(page, [[3, 0], [10, 0]]);
    assert.ok(Math.abs(row - other) > 50, "the row is seen");
  }
}, /willReadFrequently/);
