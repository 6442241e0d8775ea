// Remarkable events, and the waterfall of one of them.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario } from "../harness.js";

const rows = (page, of) => page.locator(`${of} tr`).evaluateAll((list) => list.map((row) => row.innerText.replace(/\s+/g, " ").trim()));

scenario("remarkable events are listed with duration and reason", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".traces tbody tr");
  const listed = (await rows(page, ".traces tbody")).map((row) => row.replace(/\d\d:\d\d:\d\d/, "TIME").replace(/\d{4}-\d\d-\d\d /, ""));
  assert.deepEqual(listed, ["3,611 TIME 22.2 ms incomplete; without source 3", "1,413 TIME 90.4 ms slow"]);
});

scenario("a waterfall has a link of its own, and its longest bar is that of the slow stage", async (mock, show) => {
  const page = await show({ hash: "#panel=traces&trace=7%2F1413" });
  await page.waitForSelector(".waterfall tr");
  await reads(page, "#trace", /^Event 1,413 of run 7 close ▲ without source 3 \(ecal-left\): source_skipped event 90.4 ms stored readout.hold ru1 1.40 ms source 4 was last/);
  const widths = await page.locator(".waterfall .when span").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
  const [event, ...stages] = widths;
  assert.equal(Math.max(...stages), stages[3], "the filter");
  assert.ok(event > stages[3] && stages.every((width) => width > 0), widths.join(" "));
  await page.click("#trace h3 a");
  await until(page, () => document.querySelector("#trace") === null);
});

scenario("an event is found by its id, or the page says why it has no trace", async (mock, show) => {
  const page = await show();
  await page.fill('#panel-traces input[name="event"]', "1,413");
  await page.click("#panel-traces button");
  await page.waitForSelector(".waterfall tr");
  await page.fill('#panel-traces input[name="event"]', "5");
  await page.click("#panel-traces button");
  await page.waitForSelector("#trace .problem");
  await reads(page, "#trace", /event 7\/5 has no trace; choose another/);
}, BROKEN);

scenario("the list grows with the run, and is not loaded otherwise", async (mock, show) => {
  const page = await show();
  await page.waitForSelector(".traces tbody tr");
  const asked = mock.count("/api/v1/traces");
  mock.change((state) => {
    state.run.seconds += 0.1;
  });
  await until(page, (seconds) => globalThis.sheaf.store.state.run.seconds === seconds, mock.state.run.seconds);
  assert.equal(mock.count("/api/v1/traces"), asked);
  mock.traces.events = [];
  mock.change((state) => {
    state.run.seconds += 10;
  });
  await until(page, () => document.querySelector("#panel-traces")?.textContent.includes("no slow, incomplete, dropped or quarantined event"));
});
