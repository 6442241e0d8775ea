// Histograms: drawings, comparisons, links, old ones.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { reads, scenario, text } from "../harness.js";

// Returns the number of colours in a canvas, which is 1 if nothing is drawn.
const colours = (page, selector) => page.locator(selector).evaluate((canvas) => {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
});

scenario("histograms are drawn, and those that differ from the reference are named", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".histograms canvas");
  const shown = await page.locator(".histograms li").evaluateAll((list) => list.map((item) => item.innerText.replace(/\s+/g, " ").trim()));
  assert.equal(shown.length, 4);
  assert.match(shown[0], /^Charge 13,\d{3} entries, mean 1830, RMS 310.7 ▲ differs from run 6$/);
  assert.match(shown[2], /^Hits 81,234 entries, x mean 31.4, RMS 18.2, y mean 3.6, RMS 2.2$/);
  await reads(page, "#panel-histograms > p", /^▲ 1 of 3 differ from run 6: charge$/);
  for (let item = 1; item <= 4; item += 1) assert.ok(await colours(page, `.histograms li:nth-child(${item}) canvas`) > 4, `${item}`);
  assert.ok(await colours(page, ".histograms li:nth-child(3) canvas") > 20, "a map has many");
}, /willReadFrequently/);

scenario("a histogram has a link of its own, which says how it was compared", async (mock, show) => {
  const page = await show({ hash: "#panel=histograms&histogram=charge" });
  await page.waitForSelector("#histogram canvas");
  await reads(page, "#histogram", /Charge close charge, source 3: 13,\d{3} entries, mean 1830, RMS 310.7, 12 out of range, 1 publisher Compared with run 6: χ² 1214 for 47 degrees of freedom, probability 3e-220, Kolmogorov distance 0.21 ▲ differs/);
  await page.click("#histogram h3 a");
  await until(page, () => document.querySelector("#histogram") === null);
  await page.keyboard.press("h");
  await until(page, () => location.hash.includes("panel=histograms"));
  await page.click('.histograms a:has-text("Gain")');
  await page.waitForSelector("#histogram canvas");
  await reads(page, "#histogram", /Not compared: fewer than 50 entries/);
});

scenario("histograms are found by name, and another reference run can be chosen", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".histograms canvas");
  await page.fill('#panel-histograms input[name="histograms"]', "GAIN");
  await page.locator('#panel-histograms input[name="histograms"]').press("Enter");
  await until(page, () => document.querySelectorAll(".histograms li").length === 1);
  await page.fill('#panel-histograms input[name="reference"]', "4");
  await page.locator('#panel-histograms input[name="reference"]').press("Enter");
  await until(page, () => document.querySelector("#panel-histograms > p")?.textContent.includes("from run 4"));
  assert.match(await page.evaluate(() => location.hash), /histograms=GAIN&reference=4/);
});

scenario("what no publisher confirms is old, and what is new is drawn", async (mock, show) => {
  mock.histograms.histograms[0].updated_ms = Date.now() - 120_000;
  const page = await show();
  await page.waitForSelector(".histograms canvas");
  await reads(page, ".histograms li:first-child", /▲ 0:(0[2-9]|[1-5]\d):\d\d old/);
  mock.histograms.histograms[0].entries = 7;
  mock.change((state) => {
    state.time_ms += 5_000;
  });
  await until(page, () => document.querySelector(".histograms li")?.textContent.includes("7 entries"));
});

scenario("a run without histograms says how to get some", async (mock, show) => {
  mock.histograms = { ...mock.histograms, reference: null, histograms: [] };
  const page = await show();
  await until(page, () => document.querySelector("#panel-histograms")?.textContent.includes("sheaf.monitor"));
});
