// Values from outside: their states, trends and keys, and what the page says when it does not know.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario } from "../harness.js";
import { sampleValues } from "../sample.js";

const rows = (page) => page.locator(".values tbody tr").evaluateAll((list) => list.map((row) => row.innerText.replace(/\s+/g, " ").trim()));

scenario("each value has its number, unit, state and age, and one that is not known never looks as if it was", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".values tbody tr");
  const shown = await rows(page);
  assert.equal(shown.length, 4);
  assert.match(shown[0], /^beam sent by epics \(12\.52 nA\) ▲ stale 0:0\d:\d\d$/);
  assert.match(shown[1], /^crate \/run\/crate – not yet ▲ unknown the file has "ERR", which is not one number never$/);
  assert.match(shown[2], /^hv-ecal \/run\/hv\/ecal 1561\.25 V ▲ above 1550 \S+ m?s$/);
  assert.match(shown[3], /^magnet sent by epics 1\.4002 T ✓ fresh \S+ m?s$/);
  await reads(page, "#panel-values > p", /sent and refused: 2 undeclared/);
  // A gap begins a new line; the limit within the range is drawn, the others are not.
  assert.equal((await page.locator(".values tr:nth-child(4) path").getAttribute("d")).split("M").length - 1, 2);
  assert.equal(await page.locator(".values tr:nth-child(3) .limit").count(), 1);
  assert.match(await page.locator(".values tr:nth-child(3) svg").getAttribute("aria-label"), /^Last ten minutes: 1499 to 1557$/);
});

scenario("a value goes stale on the page, too, when the server does not say anything new of it", async (mock, show) => {
  const fixed = sampleValues();
  fixed.values[3].stale_ms = 2_000;
  mock.values = () => fixed;
  const page = await show();
  await page.waitForSelector(".values tbody tr");
  await until(page, () => /stale/.test(document.querySelector(".values tbody tr:nth-child(4)").textContent));
});

scenario("a value that rests is drawn as a line, whatever its last digits are", async (mock, show) => {
  const resting = sampleValues();
  resting.values[3].trend = Array.from({ length: 60 }, (_, index) => 1.4 + (index === 30 ? 1e-7 : 0));
  mock.values = () => ({ ...resting, time_ms: Date.now() });
  const page = await show();
  await page.waitForSelector(".values tbody tr");
  const heights = await page.locator(".values tr:nth-child(4) path").evaluate((path) => [...path.getAttribute("d").matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(([, y]) => y));
  assert.deepEqual(new Set(heights), new Set(["13.0"]));
  assert.match(await page.locator(".values tr:nth-child(4) svg").getAttribute("aria-label"), /1\.4 all the time/);
});

scenario("an answer that does not come makes all values unknown", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".values tbody tr");
  mock.values = null;
  await page.waitForSelector("#panel-values .problem");
  await reads(page, "#panel-values .problem", /there are no values; look again/);
  mock.stream = "silent";
  await until(page, () => /when last seen/.test(document.querySelector("#panel-values").textContent));
  for (const row of (await rows(page)).slice(2)) assert.match(row, /\(.*\).*\? \w+ when last seen/);
}, BROKEN);

scenario("the panel has a key and a link, and is not there without values", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".values tbody tr");
  await page.keyboard.press("v");
  await until(page, () => location.hash.includes("panel=values"));
  assert.equal(await page.evaluate(() => document.activeElement.id), "panel-values");
  mock.change((state) => {
    state.values = { declared: 0, fresh: 0, stale: 0, unknown: 0 };
  });
  await until(page, () => document.querySelector("#panel-values") === null);
  const before = mock.count("/api/v1/values");
  const states = await page.evaluate(() => globalThis.sheaf.store.state.time_ms);
  await until(page, (last) => globalThis.sheaf.store.state.time_ms > last + 2_500, states);
  assert.equal(mock.count("/api/v1/values"), before, "nobody asks for values");
});

scenario("on a phone, values fit into the width", async (mock, show) => {
  const page = await show({ viewport: { width: 390, height: 844 }, hash: "#panel=values" });
  await page.waitForSelector(".values tbody tr");
  assert.ok(await page.evaluate(() => document.querySelector(".values").scrollWidth <= document.querySelector("#panel-values").clientWidth));
});
