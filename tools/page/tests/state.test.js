// The panels show what the state says.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { reads, scenario, text } from "../harness.js";
import { sampleSummary } from "../sample.js";

function number(value) {
  return value.toLocaleString("en-US");
}

scenario("the books show every bin of the state exactly", async (mock, show) => {
  const page = await show();
  const { triggers, events, fragments } = mock.state;
  const expected = {
    triggers: { accepted: triggers.accepted, vetoed: triggers.vetoed },
    events: { stored: events.stored, rejected: events.rejected, dropped: events.dropped, "in flight": events.in_flight },
    fragments: { stored: fragments.stored, rejected: fragments.rejected, dropped: fragments.dropped, "in flight": fragments.in_flight },
  };
  const totals = { triggers: triggers.offered, events: triggers.accepted, fragments: fragments.received };
  for (const [book, bins] of Object.entries(expected)) {
    await reads(page, `#book-${book} .total`, number(totals[book]));
    for (const [bin, value] of Object.entries(bins)) {
      await reads(page, `#book-${book} [data-bin="${bin}"]`, number(value), `${bin} of ${book}`);
    }
    await reads(page, `#book-${book} tfoot`, /= total ✓/);
  }
  for (const drop of [...events.drops, ...fragments.drops]) {
    await reads(page, `[data-drop="${drop.reason}"]`, number(drop.count));
  }
});

scenario("the largest exact numbers are shown to the last digit", async (mock, show) => {
  mock.state.triggers.offered = 9_007_199_254_740_991;
  const page = await show();
  await reads(page, "#book-triggers .total", "9,007,199,254,740,991");
  await reads(page, "#book-triggers tfoot", /✖ −9,007,199,248,328,607 against the total/);
});

scenario("a change of the state is on the page without anything being asked", async (mock, show) => {
  const page = await show();
  const before = mock.count("/api/v1/state");
  mock.change((state) => {
    state.run.phase = "finishing";
    state.run.waits_for = "finishing: 12 events in flight, waiting for the output of bu1";
    state.triggers.accepted += 1;
  });
  await until(page, () => document.querySelector(".phase").textContent === "finishing");
  await reads(page, ".waits", "12 events in flight, waiting for the output of bu1");
  await reads(page, "#book-events .total", number(mock.state.triggers.accepted));
  assert.equal(mock.count("/api/v1/state"), before);
});

scenario("losses and imbalances are in the header", async (mock, show) => {
  mock.state.events.drops = [];
  mock.state.events.dropped = 0;
  const page = await show();
  await reads(page, "#losses", /✓ none/);
  await reads(page, "#balance", /✓ balance/);
  mock.change((state) => {
    state.events.drops = [{ reason: "builder_lost", count: 3, account: "loss" }, { reason: "incomplete", count: 9, account: "as configured" }];
    state.fragments.drops = [{ reason: "late", count: 1, account: "loss" }];
    state.imbalance = { triggers: 2, fragments: -1 };
  });
  await page.waitForSelector("#losses.bad");
  await reads(page, "#losses", "✖ LOST 3 events builder_lost; 1 fragment late");
  await reads(page, "#balance", "✖ NOT BALANCED +2 triggers, −1 fragment");
  assert.ok(await page.locator(".header #losses.bad").isVisible());
});

scenario("the header says whether the run survives its event manager", async (mock, show) => {
  const page = await show();
  await page.waitForSelector("#balance");
  assert.equal(await page.locator("#standby").count(), 0, "this run is to have no standby");
  mock.change((state) => {
    state.run.standby = { ready: true, take_overs: 0, held_messages: 3, wait_seconds: 0.0002 };
  });
  await page.waitForSelector("#standby.ok");
  await reads(page, "#standby", "standby ✓ ready");
  mock.change((state) => {
    state.run.standby = { ready: false, take_overs: 2, held_messages: 0, wait_seconds: 0 };
  });
  await page.waitForSelector("#standby.bad");
  await reads(page, "#standby", "▲ no standby unprotected 2 take-overs");
});

scenario("the header says which readout units have no mirror", async (mock, show) => {
  const page = await show();
  await page.waitForSelector("#balance");
  assert.equal(await page.locator("#mirrors").count(), 0, "this run is to have no mirrors");
  const become = (unmirrored) => mock.change((state) => {
    state.run.unmirrored = unmirrored;
  });
  become([]);
  await page.waitForSelector("#mirrors.ok");
  await reads(page, "#mirrors", "mirrors ✓ ready");
  become(["ru1"]);
  await page.waitForSelector("#mirrors.bad");
  await reads(page, "#mirrors", "▲ no mirror ru1");
  become(["ru0", "ru1", "ru2", "ru3", "ru4"]);
  await reads(page, "#mirrors", "▲ no mirror ru0, ru1, ru2 and 2 more");
});

scenario("the alarm of a host has those of its nodes folded under it", async (mock, show) => {
  const page = await show();
  mock.change((state) => {
    const node = (name) => ({ code: "node-silent", severity: "error", text: `${name} has published nothing for 4 s`, culprit: name,
      remedy: "look at its host", since_ms: Date.now(), silence: null, folded: [] });
    const folded = ["bu0", "bu1"].map(node);
    state.alarms = [{ ...node("daq07"), code: "host-silent", text: "all 2 nodes on daq07 are silent", folded }];
  });
  await until(page, () => document.querySelectorAll(".alarm").length === 1);
  const alarm = page.locator(".alarm");
  assert.match(await alarm.innerText(), /error all 2 nodes on daq07 are silent[^]*Remedy: look at its host[^]*2 nodes/);
  assert.doesNotMatch(await alarm.innerText(), /bu0/);
  await alarm.locator("summary").click();
  assert.match(await alarm.innerText(), /bu0 has published nothing for 4 s\s+bu1 has published/);
  // It stays open while new states come.
  mock.send();
  await until(page, () => document.querySelector(".alarm details").open);
  assert.match(await page.title(), /^\(1\) /);
});

scenario("an alarm is first below the header, with culprit and remedy, and goes when it is over", async (mock, show) => {
  const page = await show();
  const first = await page.evaluate(() => document.querySelector("main").firstElementChild.id);
  assert.equal(first, "panel-alarms");
  const alarms = page.locator(".alarm");
  assert.equal(await alarms.count(), 2);
  // Errors come before warnings.
  assert.match(await alarms.nth(0).innerText(), /✖ error 212 events were lost: builder_lost since[^]*Remedy: docs.operating/);
  // What is to blame is a node here, and a reason there.
  assert.doesNotMatch(await alarms.nth(0).innerText(), /culprit/);
  assert.match(await alarms.nth(1).innerText(), /▲ warning[^]*; culprit bu1[^]*Remedy: add builder units/);
  assert.match(await page.locator("[aria-live=polite]").first().textContent(), /events were lost/);
  assert.match(await page.title(), /^\(2\) run 7 running/);
  mock.change((state) => {
    state.alarms = [];
  });
  await until(page, () => document.querySelectorAll(".alarm").length === 0);
  await reads(page, "#panel-alarms", /✓ none/);
});

scenario("dead time names its cause, its culprit and the remedy", async (mock, show) => {
  const page = await show();
  await reads(page, "#dead-now", /Now dead: builders have no credit left; culprit bu1 Remedy: add builder units/);
  await reads(page, ".causes", /builder credit 3.10 s 3.3 % 209,331 bu1 2.90 s/);
  mock.change((state) => {
    state.dead_time.now = null;
  });
  await until(page, () => document.getElementById("dead-now") === null);
  await reads(page, "#panel-dead-time", /✓ Now: triggers are taken/);
  for (const [phase, said] of [["starting", "triggers have not begun yet"], ["ready", "triggers have not begun yet"], ["closing", "no more triggers are taken"]]) {
    mock.change((state) => {
      state.run.phase = phase;
    });
    await until(page, (words) => document.getElementById("panel-dead-time").textContent.includes(words), said);
    assert.doesNotMatch(await text(page, "#panel-dead-time"), /✓/);
  }
});

scenario("the flow marks culprits and nodes that are down in words", async (mock, show) => {
  const page = await show();
  await reads(page, '.flow [data-node="bu1"]', /◀ culprit/);
  await reads(page, '.flow [data-node="bu3"]', /✖ down/);
  assert.doesNotMatch(await text(page, '.flow [data-node="bu0"]'), /culprit|down/);
  await reads(page, '.flow [data-node="bu1"]', /128\/128/);
});

scenario("among many nodes the troubled ones come first", async (mock, show) => {
  const template = mock.state.nodes.find((node) => node.name === "bu0");
  mock.state.nodes = Array.from({ length: 300 }, (_, index) => ({ ...template, name: `bu${index}`, up: index !== 200 }));
  mock.state.nodes[250].fill = { slots: { value: 128, limit: 128, unit: "events" } };
  mock.state.alarms = [];
  mock.state.dead_time.now.culprit = "bu123";
  const page = await show();
  const first = await page.locator(".boxes.many .box").evaluateAll((boxes) => boxes.slice(0, 4).map((box) => [box.dataset.node, box.ariaLabel]));
  assert.deepEqual(first, [["bu123", "bu123, culprit"], ["bu200", "bu200, down"], ["bu250", "bu250"], ["bu0", "bu0"]]);
  assert.ok(await page.locator('.boxes.many [data-node="bu123"]').isVisible());
});

scenario("sources in trouble are listed, and latencies are summed", async (mock, show) => {
  const page = await show();
  await reads(page, "#panel-sources", /✖ 2 of 64 sources in trouble/);
  await reads(page, "#panel-sources", /17 DU3-DOM7 ru1 7.20 s ago, held back nothing/);
  await reads(page, "#panel-sources", /44 DU9-DOM2 – never source absent 1,204/);
  mock.change((state) => {
    state.sources[0].last_seen_seconds = 0.1;
  });
  await until(page, () => document.getElementById("panel-sources").textContent.includes("✖ 1 of 64 sources in trouble"));
  await reads(page, "#panel-sources", /▲ 1 of 64 sources held back/);
  const counts = mock.state.latency.counts.reduce((sum, value) => sum + value, 0);
  await reads(page, ".latency", new RegExp(`events ${number(counts)} mean 2.79 ms half within 5.00 ms 99 % within 20.0 ms all within 100 ms`));
  assert.equal(await page.locator(".histogram rect").count(), mock.state.latency.counts.filter((value) => value > 0).length);
});

scenario("the end of a run shows its result", async (mock, show) => {
  const page = await show();
  assert.equal(await page.locator("#panel-verdict").count(), 0);
  mock.change((state) => {
    state.run.phase = "closed";
    state.run.verdict = { good: false, lines: sampleSummary() };
    for (const node of state.nodes) node.up = false;
  });
  await page.waitForSelector("#panel-verdict");
  await reads(page, "#panel-verdict", /^Result of run 7 ✖ not good kept all 6,093,210 accepted triggers/);
  // The columns of the summary stay aligned, also where it is wider than the screen.
  assert.equal(await page.locator(".summary").textContent(), sampleSummary().join("\n"));
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".summary")).whiteSpace), "pre");
  // It is no fault that nodes have ended.
  assert.equal(await page.locator(".nodes .bad, .flow .bad:not(a[href*=sources] .bad)").count(), 0);
  await reads(page, '.nodes [data-node="ru0"]', /readout ended/);
});

scenario("before the event manager has published, a run is starting and has no books", async (mock, show) => {
  const { nodes } = mock.state;
  Object.assign(mock.state.run, { phase: "starting", number: null, began_ms: null, seconds: 0, waits_for: "starting: waiting for ru0, ru1" });
  Object.assign(mock.state.triggers, { offered: 0, accepted: 0, vetoed: 0 });
  Object.assign(mock.state.fragments, { received: 0, stored: 0, rejected: 0, dropped: 0, in_flight: 0, drops: [] });
  Object.assign(mock.state, { values: { declared: 0, fresh: 0, stale: 0, unknown: 0 } });
  Object.assign(mock.state, { age_ms: null, alarms: [], sources: [], latency: { bounds_s: [], counts: [], sum_s: 0 } });
  mock.state.dead_time = { live_seconds: 0, dead_seconds: 0, now: null, causes: [] };
  mock.state.nodes = nodes.map((node) => ({ ...node, up: false, age_ms: null, fill: {} }));
  const page = await show({ hash: "#node=ru1" });
  await reads(page, ".header", /^Sheaf run STARTING waiting for ru0, ru1 ✓/);
  assert.match(await page.title(), /^run starting/);
  assert.equal(await page.locator(".facts:not(.latency)").count(), 0);
  await reads(page, "#panel-books", /no books yet/);
  assert.doesNotMatch(await text(page, "#panel-sources"), /✓/);
  await reads(page, "#panel-dead-time", /triggers have not begun yet/);
  await reads(page, '.nodes [data-node="bu0"]', /builder not yet – 0 –/);
  await reads(page, ".details", /It has published nothing yet/);
  assert.equal(mock.requests.filter((path) => path.includes("/nodes/")).length, 0);
  assert.equal(await page.locator(".bad").count(), 0);
  // Nor does an event manager that has just begun know the number of its run.
  mock.change((state) => {
    state.run.number = 0;
    state.age_ms = 10;
    state.nodes = nodes;
  });
  await until(page, () => document.querySelector('.nodes [data-node="bu0"]').textContent.includes("✓ up"));
  await reads(page, ".header", /^Sheaf run STARTING/);
  mock.change((state) => Object.assign(state.run, { phase: "running", number: 8, began_ms: Date.now(), waits_for: null }));
  await until(page, () => document.querySelector(".phase").textContent.includes("running"));
  await reads(page, ".header", /^Sheaf run 8 ● RUNNING 0:00:00 ✓/);
});

scenario("a run that is ready or paused says so, and what it waits for", async (mock, show) => {
  const page = await show();
  mock.change((state) => Object.assign(state.run, { phase: "ready", waits_for: "ready: waiting for the start command" }));
  await until(page, () => document.querySelector(".phase").textContent === "ready");
  await reads(page, ".waits", "waiting for the start command");
  mock.change((state) => {
    Object.assign(state.run, { phase: "paused", waits_for: null });
    state.dead_time.now = { cause: "paused", culprit: null };
    state.dead_time.causes.push({ cause: "paused", text: "the run is paused", remedy: "resume the run", seconds: 1, vetoed: 0, culprits: [] });
  });
  await until(page, () => document.querySelector(".phase").textContent === "Ⅱ paused");
  assert.equal(await page.locator(".phase.ok").count(), 0);
  await reads(page, "#dead-now", /the run is paused Remedy: resume the run/);
});

scenario("an output that fails is marked, in flow and table", async (mock, show) => {
  const page = await show();
  mock.change((state) => {
    state.nodes.find((node) => node.name === "out0").output_failing = true;
  });
  await until(page, () => document.querySelector('.flow [data-node="out0"]').textContent.includes("✖ output fails"));
  await reads(page, '.nodes [data-node="out0"]', /✖ output fails/);
});

scenario("numbers are written with units, and no fraction is rounded to all or nothing", async (mock, show) => {
  const page = await show({ bare: true });
  const written = await page.evaluate(async () => {
    const { count, duration, percent, quantity, runTime, signed } = await import("/assets/format.js");
    return [
      count(1234567), count(Number.NaN), quantity(70_123, "1/s"), quantity(0, "1/s"), quantity(999_960, "B"), quantity(12, "events"),
      quantity(1.5e6, "events"), quantity(0.5, "1"), quantity(-2500, "B"), duration(0.000_012_34), duration(0.9999), duration(59), duration(3723), runTime(90_061), runTime(-1),
      percent(0), percent(1e-6), percent(0.999_99), percent(1), signed(3), signed(-1200), signed(0),
    ];
  });
  assert.deepEqual(written, [
    "1,234,567", "–", "70.1 k/s", "0/s", "1.00 MB", "12 events",
    "1.50 M events", "50.0 %", "-2.50 kB", "12.3 µs", "1.00 s", "59.0 s", "1:02:03", "1 d 01:01:01", "0:00:00",
    "0.0 %", "< 0.1 %", "> 99.9 %", "100.0 %", "+3", "−1,200", "0",
  ]);
});

scenario("no run, and no nodes, are states like others", async (mock, show) => {
  Object.assign(mock.state, { nodes: [], sources: [], alarms: [], log: [] });
  Object.assign(mock.state.run, { phase: "none", number: null, began_ms: null, seconds: 0, sources: 0, directory: null });
  mock.state.latency.counts.fill(0);
  const page = await show();
  await reads(page, ".header", /no run/);
  assert.doesNotMatch(await text(page, ".header"), /losses|books/);
  await reads(page, "#panel-latency", /no event has ended yet/);
});

scenario("text of the server is text, never elements", async (mock, show) => {
  const evil = '<script>globalThis.broken = true</script><img src=x onerror="globalThis.broken = true">';
  mock.state.nodes[0].name = evil;
  mock.state.log.push({ number: 99, time_ms: Date.now(), level: "error", node: evil, text: evil });
  mock.state.alarms[0].text = evil;
  mock.state.alarms[0].remedy = evil;
  mock.state.run.directory = evil;
  mock.columns[0].title = evil;
  mock.state.sources[0].name = evil;
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  assert.ok((await page.locator(".log li").first().innerText()).includes(evil));
  assert.ok((await page.locator(".alarm").first().innerText()).includes(evil));
  assert.equal(await page.evaluate(() => document.querySelectorAll("#page script, #page img").length), 0);
  assert.equal(await page.evaluate(() => document.querySelectorAll('a[href^="javascript"]').length), 0);
  assert.equal(await page.evaluate(() => globalThis.broken), undefined);
});
