// Links, keyboard, search, tables, and small screens.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario } from "../harness.js";

scenario("the log can be searched, and filtered by level", async (mock, show) => {
  const page = await show();
  assert.equal(await page.locator(".log li").count(), 7);
  // Newest first.
  assert.match(await page.locator(".log li").first().innerText(), /takes 1.3 s for a write/);
  await page.fill("#log-search", "BU3");
  await until(page, () => document.querySelectorAll(".log li").length === 2);
  await reads(page, "#panel-log .shown", /2 of 7 messages/);
  await page.selectOption("#log-level", "error");
  await until(page, () => document.querySelectorAll(".log li").length === 1);
  await reads(page, ".log li", /✖ error bu3 bu3 ended: signal: 9 \(SIGKILL\) process-ended/);
  assert.equal(await page.locator(".log li .text a").getAttribute("href"), "/codes#process-ended");
  assert.equal(new URL(page.url()).hash, "#q=BU3&level=error");
  // The search goes on while messages come.
  mock.change((state) => state.log.push({ number: 100, time_ms: Date.now(), level: "error", code: "node-failed", node: "bu3", text: "again" }));
  await until(page, () => document.querySelectorAll(".log li").length === 2);
  assert.equal(await page.inputValue("#log-search"), "BU3");
});

scenario("a link restores panel, range, node and filters", async (mock, show) => {
  const page = await show({ hash: "#panel=nodes&range=2h&node=bu1&nodes=b&sort=-fill&q=disk&level=warning" });
  await until(page, () => document.activeElement?.id === "panel-nodes");
  await reads(page, ".range[aria-current]", "2 h");
  await page.waitForSelector("[data-figure]");
  await reads(page, ".details", /events \(stored\) 1,523,304 Events by outcome./);
  assert.equal(await page.inputValue("#node-filter"), "b");
  assert.equal(await page.locator(".nodes tr[data-node]").first().getAttribute("data-node"), "bu1");
  assert.equal(await page.locator(".log li").count(), 1);
  assert.equal(await page.locator('[aria-sort="descending"]').innerText(), "fullest ▼");
  await until(page, () => document.querySelector("#panel-rate canvas") !== null);
  await until(page, () => {
    const { top } = document.getElementById("panel-nodes").getBoundingClientRect();
    return top > 0 && top < innerHeight / 2;
  });
  // Links of the page keep the rest of the view.
  const link = await page.locator("#title-flow a").getAttribute("href");
  assert.equal(link, "#panel=flow&range=2h&node=bu1&nodes=b&sort=-fill&q=disk&level=warning");
});

scenario("the panel of a link stays in place while what is above it grows, until somebody scrolls", async (mock, show) => {
  const page = await show({ hash: "#panel=nodes" });
  const inPlace = () => {
    const { top } = document.getElementById("panel-nodes").getBoundingClientRect();
    return top > 0 && top < innerHeight / 2;
  };
  // Adds something high to a panel above, and answers two pictures later.
  const grow = () => page.evaluate(() => new Promise((resolve) => {
    const element = document.createElement("p");
    element.style.height = "3000px";
    document.getElementById("panel-rate").append(element);
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  }));
  // Browsers keep what is in sight in place, too, but not in all cases.
  await page.evaluate(() => (document.documentElement.style.overflowAnchor = "none"));
  await page.waitForSelector("#panel-rate canvas");
  await until(page, inPlace);
  await grow();
  await until(page, inPlace);
  const before = await page.evaluate(() => scrollY);
  await page.mouse.move(700, 450);
  await page.mouse.wheel(0, -100);
  await until(page, (y) => scrollY < y, before);
  await grow();
  assert.ok(await page.evaluate(() => document.getElementById("panel-nodes").getBoundingClientRect().top) > 3000);
});

scenario("what a link has wrong is ignored", async (mock, show) => {
  const page = await show({ hash: "#panel=nonsense&range=1y&level=loud&node=%3Cb%3E&sort=x" });
  await reads(page, ".range[aria-current]", "5 min");
  assert.equal(await page.locator(".nodes tr[data-node]").count(), mock.state.nodes.length);
});

scenario("the keyboard leads to panels, ranges, the search and the list of keys", async (mock, show) => {
  const page = await show();
  const panels = ["alarms", "rate", "dead-time", "flow", "books", "sources", "latency", "nodes", "log"];
  for (const [index, panel] of panels.entries()) {
    await page.keyboard.press(String(index + 1));
    await until(page, (id) => document.activeElement?.id === id, `panel-${panel}`);
    assert.equal(new URL(page.url()).hash, `#panel=${panel}`);
  }
  await page.keyboard.press("r");
  await until(page, () => document.querySelector(".range[aria-current]").textContent === "2 h");
  await page.keyboard.press("/");
  await until(page, () => document.activeElement?.id === "log-search");
  // In a field, keys are text.
  await page.keyboard.type("r1?");
  assert.equal(await page.inputValue("#log-search"), "r1?");
  assert.equal(await page.locator("dialog").count(), 0);
  await page.keyboard.press("Escape");
  await until(page, () => document.activeElement?.id !== "log-search");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await until(page, () => document.querySelector("dialog") === null);
});

scenario("nodes are sorted by any column, filtered, and show their figures", async (mock, show) => {
  const page = await show();
  const order = () => page.locator(".nodes tr[data-node]").evaluateAll((rows) => rows.map((row) => row.dataset.node));
  await page.click('[data-sort="restarts"]');
  await page.click('[data-sort="restarts"]');
  await until(page, () => document.querySelector(".nodes tr[data-node]").dataset.node === "bu3");
  await page.click('[data-sort="name"]');
  await until(page, () => document.querySelector(".nodes tr[data-node]").dataset.node === "bu0");
  assert.deepEqual(await order(), ["bu0", "bu1", "bu2", "bu3", "evm", "out0", "ru0", "ru1", "ru2", "ru3"]);
  await page.fill("#node-filter", "readout");
  await until(page, () => document.querySelectorAll(".nodes tr[data-node]").length === 4);
  assert.equal(await page.locator(".details").count(), 0);
  await page.click('.nodes [data-node="ru1"] button');
  await page.waitForSelector("[data-figure]");
  await reads(page, '[data-figure="received_bytes"]', "178,230,129,332");
  assert.match(page.url(), /node=ru1/);
  await page.click('.nodes [data-node="ru1"] button');
  await until(page, () => document.querySelector(".details") === null);
});

scenario("the figures of a node are loaded again while its row is open and can be seen", async (mock, show) => {
  const page = await show();
  const asked = () => mock.count("/api/v1/nodes/ru1");
  const shows = (value) => until(page, (text) => document.querySelector('[data-figure="received_bytes"]')?.textContent === text, value);
  let value = 1;
  mock.figures = () => [{ name: "received_bytes", text: "Payload.", value }];
  assert.equal(asked(), 0);
  await page.click('.nodes [data-node="ru1"] button');
  await shows("1");
  value = 2;
  await shows("2");
  // While the page is hidden, nothing is asked for; what was known stays.
  const hide = (hidden) => page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden ? "hidden" : "visible");
  await hide(true);
  value = 3;
  const before = asked();
  for (let round = 0; round < 5; round += 1) {
    mock.change((state) => {
      state.run.seconds += 1;
    });
    await until(page, (seconds) => globalThis.sheaf.store.state.run.seconds === seconds, mock.state.run.seconds);
  }
  assert.equal(await page.evaluate(() => globalThis.sheaf.figures.answer.figures[0].value), 2);
  assert.ok(asked() <= before + 1);
  await hide(false);
  await shows("3");
  // A closed row asks for nothing; opened again, it shows the last figures until there are new ones.
  await page.click('.nodes [data-node="ru1"] button');
  await until(page, () => document.querySelector(".details") === null);
  assert.equal(await page.evaluate(() => globalThis.sheaf.figures.node), "");
  await page.evaluate(() => globalThis.sheaf.navigation.set({ node: "ru1" }));
  await shows("3");
  // Another node never shows them.
  mock.figures = () => [];
  await page.evaluate(() => globalThis.sheaf.navigation.set({ node: "bu0" }));
  await until(page, () => document.querySelector(".details")?.textContent.includes("All its figures are 0."));
  assert.equal(await page.locator("[data-figure]").count(), 0);
});

scenario("figures that cannot be loaded are said in the row, with the last ones", async (mock, show) => {
  const page = await show({ hash: "#node=ru1" });
  await page.waitForSelector("[data-figure]");
  mock.figures = () => null;
  await page.waitForSelector(".details .problem");
  await reads(page, ".details .problem", /^Old figures: the server answers 404$/);
  assert.equal(await page.locator("[data-figure]").count(), 1);
  mock.figures = () => ({ no: "list" });
  await until(page, () => document.querySelector(".details .problem")?.textContent.includes("not a list"));
  mock.figures = () => [{ name: "again", text: "Payload.", value: 0.123456789 }];
  await page.waitForSelector('[data-figure="again"]');
  await reads(page, '[data-figure="again"]', "0.123457");
  assert.equal(await page.locator(".details .problem").count(), 0);
}, BROKEN);

scenario("nodes with numbers in their names are sorted by number", async (mock, show) => {
  const template = mock.state.nodes[0];
  mock.state.nodes = [10, 9, 2, 1].map((index) => ({ ...template, name: `ru${index}` }));
  const page = await show({ hash: "#sort=name" });
  const order = await page.locator(".nodes tr[data-node]").evaluateAll((rows) => rows.map((row) => row.dataset.node));
  assert.deepEqual(order, ["ru1", "ru2", "ru9", "ru10"]);
});

scenario("a box of the flow selects its node", async (mock, show) => {
  const page = await show();
  await page.click('.flow [data-node="ru2"]');
  await page.waitForSelector('.nodes tr.selected[data-node="ru2"]');
  assert.ok(await page.locator('.flow [data-node="ru2"].selected').count() === 1);
});

scenario("the selected row of a long table is in sight", async (mock, show) => {
  const template = mock.state.nodes[0];
  mock.state.nodes = Array.from({ length: 200 }, (_, index) => ({ ...template, name: `ru${index}` }));
  const page = await show({ hash: "#panel=nodes&node=ru150" });
  await until(page, () => document.querySelector("#panel-rate canvas") !== null);
  await until(page, () => {
    const row = document.querySelector(".nodes tr.selected").getBoundingClientRect();
    const table = document.querySelector("#panel-nodes .scroll").getBoundingClientRect();
    return row.top >= table.top && row.bottom <= table.bottom && row.bottom < innerHeight && row.top > 0;
  });
});

for (const [name, width] of [["a phone", 360], ["a tablet", 800], ["a desk", 1300]]) {
  scenario(`nothing is wider than ${name}`, async (mock, show) => {
    mock.state.run.directory = `/data/${"long".repeat(60)}`;
    mock.state.log.push({ number: 90, time_ms: Date.now(), level: "info", node: "a-node-with-a-long-name-0123456789", text: "word".repeat(100) });
    mock.state.nodes[0].name = "a-node-with-a-long-name-0123456789";
    const page = await show({ viewport: { width, height: 780 }, hash: "#node=ru1" });
    await until(page, () => globalThis.sheaf.numbers.answers > 1);
    const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(inner <= outer, `${inner} > ${outer}`);
    // The header stays in sight.
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await until(page, () => scrollY > 0 && document.querySelector(".header").getBoundingClientRect().top === 0);
  });
}
