// A page that does not know what is says so.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario, text } from "../harness.js";

// Returns the visible elements that are green, which stands for "in order".
function green(page) {
  return page.evaluate(() => {
    const probe = document.createElement("span");
    probe.className = "ok";
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return [...document.querySelectorAll("#page *")].filter((element) => {
      const style = getComputedStyle(element);
      return [style.color, style.backgroundColor, style.borderTopColor].includes(colour);
    }).map((element) => element.outerHTML.slice(0, 80));
  });
}

scenario("a stream that falls silent makes the page stale, and a new state ends that", async (mock, show) => {
  mock.state.alarms = [];
  const page = await show();
  assert.equal(await page.locator(".now.stale").count(), 0);
  assert.notDeepEqual(await green(page), []);
  mock.stream = "silent";
  // For a moment, it is the age of the books that makes the page stale.
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("the server sends nothing"));
  await reads(page, ".now.stale", /^STALE \d+\.\d s old the server sends nothing/);
  assert.deepEqual(await green(page), []);
  assert.match(await page.evaluate(() => getComputedStyle(document.querySelector(".blind"), "::before").borderTopWidth), /^5px$/);
  await reads(page, "#panel-alarms", /none when last seen/);
  assert.match(await page.title(), /^STALE/);
  mock.stream = "on";
  mock.send();
  await until(page, () => document.querySelector(".now.stale") === null);
  assert.notDeepEqual(await green(page), []);
  assert.match(await page.title(), /^run 7/);
}, BROKEN);

scenario("what is below the header stays in place when the data become stale", async (mock, show) => {
  mock.control();
  const page = await show({ viewport: { width: 1400, height: 800 } });
  const places = () => page.evaluate(() => [".facts", ".commands", "main"].map((selector) => document.querySelector(selector).getBoundingClientRect().top));
  await until(page, () => document.querySelector(".now.stale") === null);
  const before = await places();
  mock.stream = "silent";
  await reads(page, ".now.stale", /^STALE \d+\.\d s old the server sends nothing/);
  assert.deepEqual(await places(), before);
});

scenario("a broken connection is said at once, and made again", async (mock, show) => {
  const page = await show();
  mock.breakStream();
  await page.waitForSelector(".now.stale");
  await until(page, () => document.querySelector(".now.stale").textContent.includes("no connection to the server"));
  // It is tried again, and again, with pauses that grow up to their limit.
  await until(page, () => globalThis.sheaf.store.connections >= 4);
  assert.ok(await page.evaluate(() => globalThis.sheaf.store.pauseMs > 500 && globalThis.sheaf.store.pauseMs <= 5000));
  assert.deepEqual(await green(page), []);
  mock.stream = "on";
  await until(page, () => document.querySelector(".now.stale") === null);
  assert.equal(await page.evaluate(() => globalThis.sheaf.store.pauseMs), 500);
}, BROKEN);

scenario("a server that accepts and says nothing is asked again", async (mock, show) => {
  mock.stream = "silent";
  const page = await show({ ready: false });
  await until(page, () => globalThis.sheaf?.store.connections >= 2);
  await reads(page, ".now", /^NO DATA/);
  mock.stream = "on";
  await page.waitForSelector("#panel-log");
  await until(page, () => document.querySelector(".now.stale") === null);
});

scenario("an event manager that does not report makes the page stale although states arrive", async (mock, show) => {
  const page = await show();
  mock.change((state) => {
    state.nodes.find((node) => node.role === "manager").age_ms = 7400;
  });
  await page.waitForSelector(".now.stale");
  await reads(page, ".now.stale", /STALE 7\.\d s old the event manager does not report/);
  // After the end of a run nobody reports, and its figures stay true.
  mock.change((state) => {
    state.run.phase = "closed";
  });
  await until(page, () => document.querySelector(".now.stale") === null);
});

scenario("another node that does not report is named, and hides only what is its own", async (mock, show) => {
  mock.state.alarms = [];
  const page = await show();
  const silence = (...names) => mock.change((state) => {
    for (const node of state.nodes) node.age_ms = names.includes(node.name) ? 5000 : 10;
  });
  silence("bu0");
  await page.waitForSelector("#silent");
  await reads(page, "#silent", "▲ silent: bu0");
  await reads(page, '.nodes [data-node="bu0"]', /▲ silent/);
  await reads(page, "#balance", /✓ balance/);
  await until(page, () => document.querySelector(".header .facts").textContent.includes("accepted, 0/s"));
  // The books of fragments are those of all readout units.
  silence("bu0", "bu1", "bu2", "ru0");
  await until(page, () => document.getElementById("silent").textContent.includes("and 1 more"));
  await reads(page, "#balance", /balanced when last seen/);
  assert.doesNotMatch(await text(page, "#panel-books"), /✓/);
  silence();
  await until(page, () => document.getElementById("silent") === null);
  await reads(page, "#balance", /✓ balance/);
});

scenario("states that come late are not taken for new ones", async (mock, show) => {
  const page = await show({ bare: true });
  const age = await page.evaluate(async () => {
    const { Delay } = await import("/assets/measures.js");
    const delay = new Delay();
    // The clocks differ by a day. States come at once, and then in a burst after a pause of eight seconds.
    for (let second = 0; second < 5; second += 1) delay.add(second * 1000, 86_400_000 + second * 1000);
    delay.add(13_000, 86_400_000 + 5000);
    const late = delay.seconds;
    delay.add(13_000, 86_400_000 + 13_000);
    return [late, delay.seconds];
  });
  assert.deepEqual(age, [8, 0]);
});

scenario("states that cannot be read are said, not shown", async (mock, show) => {
  const page = await show();
  mock.stream = "silent";
  for (const response of mock.listeners) response.write("event: state\ndata: {\"api\": 1,\n\n");
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("a state that is not JSON"));
  for (const response of mock.listeners) response.write("event: state\ndata: {\"api\": 2}\n\n");
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("version 2 of the API"));
  const { nodes, ...part } = mock.state;
  for (const response of mock.listeners) response.write(`event: state\ndata: ${JSON.stringify(part)}\n\n`);
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("whose nodes cannot be read"));
  assert.equal(nodes.length, await page.locator(".nodes tr[data-node]").count());
  mock.stream = "on";
  mock.send();
  await until(page, () => document.querySelector(".now.stale") === null);
});

scenario("a state that cannot be drawn does not leave the last one on the screen", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  const charts = await page.locator(".chart").count();
  const good = mock.state.nodes;
  mock.change((state) => {
    state.nodes = [{ name: "odd", up: true }];
  });
  await until(page, () => document.querySelector(".blind .stale")?.textContent.includes("cannot show what the server sends"));
  assert.equal(await page.locator(".header").count(), 0);
  assert.deepEqual(await green(page), []);
  mock.change((state) => {
    state.nodes = good;
  });
  await page.waitForSelector("#panel-log");
  await until(page, (count) => document.querySelectorAll(".chart canvas:not(.swatch)").length === count, charts);
  assert.equal(await page.locator(".now.stale").count(), 0);
});

scenario("a server of another version asks for a reload", async (mock, show) => {
  const page = await show();
  mock.change((state) => {
    state.version = "0.2.0";
  });
  await until(page, () => document.querySelector(".notice")?.textContent.includes("version 0.2.0"));
});
