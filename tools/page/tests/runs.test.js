// The runs, the record of one of them, and the commands that were given.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario, text } from "../harness.js";
import { sampleRecord } from "../sample.js";

async function rows(page) {
  const found = await page.locator(".runs tr[data-run]").evaluateAll((list) => list.map((row) => row.innerText.replace(/\s+/g, " ").trim()));
  return found.map((row) => row.replace(/\d{4}-\d\d-\d\d /, "").replace(/\d\d:\d\d:\d\d/, "TIME"));
}

scenario("the last runs are listed, the newest first", async (mock, show) => {
  mock.control();
  const page = await show();
  await page.waitForSelector(".runs tr[data-run]");
  assert.deepEqual(await rows(page), [
    "▸ 124 TIME – ● in progress – – –",
    "▸ 123 TIME 0:30:00 ✓ good 912,331 0 5.0 %",
    "▸ 122 TIME 0:30:00 ✖ not good 912,331 212 5.0 % ✖ bad",
    "▸ 121 TIME – ✖ not closed – – –",
    "▸ 120 TIME 0:30:00 ✓ good 912,331 0 5.0 % ✓ good threshold raised",
    "▸ 119 TIME 0:30:00 ✓ good 912,331 0 5.0 %",
  ]);
});

scenario("the list is loaded again when a run begins or ends, and not otherwise", async (mock, show) => {
  const operator = mock.control();
  const page = await show();
  await page.waitForSelector('[data-run="124"]');
  const asked = mock.count("/api/v1/runs");
  for (let round = 0; round < 4; round += 1) {
    mock.change((state) => {
      state.run.seconds += 1;
    });
    await until(page, (seconds) => globalThis.sheaf.store.state.run.seconds === seconds, mock.state.run.seconds);
  }
  assert.equal(mock.count("/api/v1/runs"), asked);
  operator.records.push(sampleRecord(125, { state: "in_progress", ended_ns: null, end: null, ledger: null }));
  operator.become("running", (control) => {
    control.run = 125;
  });
  await page.waitForSelector('[data-run="125"]');
});

scenario("a record has a link of its own", async (mock, show) => {
  const operator = mock.control();
  const page = await show({ hash: "#panel=runs&run=122" });
  await page.waitForSelector("#record .lines");
  const record = await text(page, "#record");
  for (const part of [
    /^Run 122 close began/, /, failure: bu3 ended: signal 9 \(SIGKILL\) triggers 1,000,000 accepted of 1,052,632 offered events 912,331 stored, 87,669 rejected lost 212 books ✓ balance dead time output 90.0 s/,
    /file stream0-part0.shf: 912,331 events, 29.3 GB/, /code filter: \/opt\/tpc\/libtracks.so/, /changed filter.workers: 4 → 8 changed run.events: not set → 1000000/,
    /directory \/data\/run000122, by sheaf 0.1.0/, /bob ✖ bad/,
    /−1.250 alice \(page\) start cosmics done: run 122 is running \+1,234.500 bob \(sheaf ctl\) exclude source 17 \(<i>ecal<\/i>\) ✖ failed: the run ended \+1,240.000 bob pause not known/,
    /12 further commands between the first and the last 1 are left out/,
  ]) assert.match(record, part);
  await until(page, () => document.activeElement?.id === "panel-runs");
  await page.click('[data-run="121"] a');
  await until(page, () => document.querySelector("#record h3")?.textContent.includes("121") && document.querySelector("#record .lines") !== null);
  assert.equal(new URL(page.url()).hash, "#panel=runs&run=121");
  await reads(page, "#record", /ended –/);
  operator.records[2].ledger = { ...sampleRecord(1).ledger, balanced: false, problems: ["1 trigger is missing"], dropped: { builder_lost: 3 } };
  operator.become("paused");
  await until(page, () => document.getElementById("record").textContent.includes("✖ 1 trigger is missing"));
  await reads(page, "#record", /87,669 rejected, 3 builder_lost/);
  await page.click("#record h3 a");
  await until(page, () => document.getElementById("record") === null);
});

scenario("a run that is not there, and a list that cannot be loaded, are said", async (mock, show) => {
  const operator = mock.control();
  const page = await show({ hash: "#run=7" });
  await until(page, () => document.querySelector("#record .problem")?.textContent === "Cannot load run 7: there is no run 7; look at the list of runs");
  operator.records.push(sampleRecord(7));
  await page.waitForSelector("#record .lines");
  operator.records = [];
  operator.become("idle");
  await until(page, () => document.getElementById("panel-runs").textContent.includes("no run yet"));
}, BROKEN);

scenario("a run is started like an earlier one, and asked about before", async (mock, show) => {
  const operator = mock.control();
  const page = await show({ hash: "#token=emil-token&run=122" });
  await page.waitForSelector("#record .like summary");
  await until(page, () => document.querySelector("[data-like]").getAttribute("aria-disabled") === "true");
  operator.become("idle", (control) => {
    Object.assign(control.commands.find(({ command }) => command === "start"), { allowed: true, why: null });
  });
  const hidden = await page.locator("[data-like]").isVisible();
  assert.equal(hidden, false);
  await page.click("#record .like summary");
  await until(page, () => document.querySelector("[data-like]").getAttribute("aria-disabled") === "false");
  await page.click('[data-like="122"]');
  await until(page, () => globalThis.sheaf.store.state.control.operation !== null);
  assert.deepEqual(operator.received.map(({ path, body }) => [path, body.command, body.like]), [["operations", "start", "122"]]);
});

scenario("the configuration of a run gets a name, and a run is started with it", async (mock, show) => {
  const operator = mock.control();
  operator.become("idle", (control) => {
    Object.assign(control.commands.find(({ command }) => command === "start"), { allowed: true, why: null });
  });
  const page = await show({ hash: "#token=emil-token&run=122" });
  await page.click("#record .like summary");
  assert.equal(await page.locator(".configurations").count(), 0);
  await until(page, () => document.querySelector(".like form button").getAttribute("aria-disabled") === "false");
  for (const version of [1, 2]) {
    await page.fill(".like [name=name]", "cosmics");
    await page.click(".like form button");
    await page.waitForSelector(`[data-configuration="cosmics@${version}"]`, { state: "attached" });
  }
  await page.click(".configurations summary");
  await reads(page, ".configurations summary", /Configurations with names \(2\)/);
  const rows = page.locator("[data-configuration]");
  assert.match((await rows.first().innerText()).replace(/\s+/g, " "), /cosmics 2 122 .* emil/);
  await page.click('[data-like="cosmics@1"]');
  await until(page, () => globalThis.sheaf.store.state.control.operation !== null);
  assert.deepEqual(operator.received.filter(({ path }) => path === "operations").map(({ body }) => body.like), ["cosmics@1"]);
});

scenario("an operator is told before that a run like an earlier one needs an expert", async (mock, show) => {
  const operator = mock.control();
  operator.become("idle", (control) => {
    Object.assign(control.commands.find(({ command }) => command === "start"), { allowed: true, why: null });
  });
  const page = await show({ hash: "#token=alice-token&run=122" });
  await page.click("#record .like summary");
  await until(page, () => document.querySelector(".like small")?.textContent === "alice is an operator: ask for a token of an expert");
  assert.equal(await page.locator("[data-like]").getAttribute("aria-disabled"), "true");
  assert.equal(await page.locator(".like form button").getAttribute("aria-disabled"), "true");
});

scenario("comments and judgements are added to a run", async (mock, show) => {
  const operator = mock.control();
  const page = await show({ hash: "#token=alice-token&run=123" });
  await page.waitForSelector("#record .lines");
  await until(page, () => document.querySelector("#record .remark button").getAttribute("aria-disabled") === "false");
  const add = "#record .remark button";
  // Nothing is nothing.
  await page.click(add);
  await page.fill("#record [name=text]", "<i>beam</i> was off");
  await page.selectOption("#record [name=quality]", "bad");
  await page.click(add);
  await until(page, () => document.querySelector(".comments")?.textContent.includes("alice ✖ bad <i>beam</i> was off"));
  assert.deepEqual(operator.received.map(({ path, body }) => [path, body]), [["runs/123/comments", { text: "<i>beam</i> was off", quality: "bad" }]]);
  assert.equal(await page.inputValue("#record [name=text]"), "");
  await until(page, () => document.querySelector('[data-run="123"]').textContent.includes("✖ bad <i>beam</i> was off"));
  // A comment has no name that would make a second one the same: it is not sent again by itself.
  operator.broken = "after";
  await page.evaluate(() => {
    const { operator } = globalThis.sheaf;
    const send = operator.fetch;
    globalThis.sent = 0;
    operator.fetch = (change, signal) => {
      globalThis.sent += 1;
      return send.call(operator, change, signal);
    };
  });
  await page.selectOption("#record [name=quality]", "good");
  await page.click(add);
  await until(page, () => document.querySelector("#record .problem")?.textContent.includes("it is not known whether the request arrived"));
  await until(page, () => document.querySelector('[data-run="123"]').textContent.includes("✓ good"));
  assert.equal(await page.evaluate(() => globalThis.sent), 1);
}, BROKEN);

scenario("without a token nobody comments, and the lock of another is no obstacle", async (mock, show) => {
  const operator = mock.control();
  operator.change((control) => {
    control.lock = { by: "bob", until_ms: Date.now() + 200_000 };
  });
  const page = await show({ hash: "#run=123" });
  await page.waitForSelector("#record .lines");
  await reads(page, "#record .remark", /Add commands need a token$/);
  await page.fill("#record [name=text]", "no");
  await page.keyboard.press("Enter");
  await page.evaluate(() => globalThis.sheaf.operator.use("alice-token"));
  await until(page, () => document.querySelector("#record .remark button").getAttribute("aria-disabled") === "false");
  assert.deepEqual(operator.received, []);
});

scenario("commands are listed with who gave them and the answer, also those that were refused", async (mock, show) => {
  const operator = mock.control();
  const page = await show({ hash: "#token=alice-token" });
  await page.waitForSelector(".audit li");
  assert.equal(await page.locator(".audit li").count(), 3);
  assert.match(await page.locator(".audit li").nth(1).innerText(), /^(\d{4}-\d\d-\d\d )?\S+ carol start ✖ refused bob has the lock until 12:40$/);
  await until(page, () => document.querySelector('[data-command="pause"]').getAttribute("aria-disabled") === "false");
  await page.click('[data-command="pause"]');
  await until(page, () => document.querySelector(".audit li")?.innerText.includes("alice pause accepted"));
  // A refusal changes no state; the list is loaded again all the same.
  operator.become("running");
  await until(page, () => document.querySelector('[data-command="pause"]').getAttribute("aria-disabled") === "false" && globalThis.sheaf.store.state.control.operation === null);
  operator.audit.push({ at_ms: Date.now() + 1, by: "alice", action: "pause", answer: "refused", text: "<b>no</b>" });
  operator.next = { status: 409, body: { code: "state", text: "no", remedy: "wait" } };
  await page.click('[data-command="pause"]');
  await until(page, () => document.querySelector(".audit li")?.innerText.includes("pause ✖ refused <b>no</b>"));
}, BROKEN);

scenario("a hidden page asks for no records", async (mock, show) => {
  const operator = mock.control();
  const page = await show();
  await page.waitForSelector('[data-run="124"]');
  const hide = (hidden) => page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden ? "hidden" : "visible");
  await hide(true);
  const before = mock.count("/api/v1/runs") + mock.count("/api/v1/audit");
  for (const state of ["stopping", "configured", "running", "paused"]) {
    operator.become(state);
    await until(page, (revision) => globalThis.sheaf.store.state.control.revision === revision, operator.control.revision);
  }
  assert.equal(mock.count("/api/v1/runs") + mock.count("/api/v1/audit"), before);
  await hide(false);
  await until(page, () => document.querySelector("[data-state=paused]") !== null);
  while (mock.count("/api/v1/runs") + mock.count("/api/v1/audit") < before + 2) await page.evaluate(() => new Promise(requestAnimationFrame));
});
