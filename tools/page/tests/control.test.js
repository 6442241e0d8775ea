// Run control: buttons, questions, the lock, tokens, and requests that do not get through.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario, text } from "../harness.js";
import { COMMANDS, sampleFault, samplePartitions, sampleSequence } from "../sample.js";

const ALICE = "#token=alice-token";
const STATES = ["idle", "configuring", "configured", "running", "paused", "stopping"];

function button(command) {
  return `[data-command="${command}"]`;
}

// Opens the page of a person whose token the server has confirmed.
async function signedIn(show, options = {}) {
  const page = await show({ hash: ALICE, ...options });
  await until(page, () => globalThis.sheaf.operator.me !== null);
  await until(page, () => document.querySelector(".access b") !== null);
  return page;
}

// Waits until the page shows this revision of run control.
async function shown(page, operator) {
  await until(page, (revision) => globalThis.sheaf.store.state.control.revision === revision, operator.control.revision);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

// Where the buttons are, and the rows below the header, once the data are those of now: what a busy machine makes stale says so, and a
// narrow header needs another line for it.
function places(page) {
  return until(page, () => {
    if (document.querySelector(".now.stale") !== null) return null;
    return [...document.querySelectorAll("[data-command], .operation, .access, #panel-alarms")].map((element) => {
      const { left, top, width } = element.getBoundingClientRect();
      return element.dataset.command === undefined ? [Math.round(top)] : [left, top, width].map(Math.round);
    });
  });
}

async function problem(page, place = ".commands .problem") {
  await page.waitForSelector(place);
  return text(page, place);
}

scenario("the page of one run has no run control, and asks for nothing of it", async (mock, show) => {
  const page = await show({ hash: `${ALICE}&panel=runs&run=3` });
  await until(page, () => globalThis.sheaf.numbers.answers > 1);
  for (const part of ["#control", "#panel-runs", "#panel-commands", "#panel-faults"]) assert.equal(await page.locator(part).count(), 0, part);
  assert.deepEqual(mock.requests.filter((path) => /api.*(runs|audit|me$|lock)/.test(path)), []);
  for (const key of ["s", "c", "x", "u", "a"]) await page.keyboard.press(key);
  assert.equal(await page.locator(".over").count(), 0);
  await page.keyboard.press("?");
  assert.doesNotMatch(await text(page, "#help"), /Runs|reset/);
});

scenario("other partitions are shown with who has them, and links to the pages of their controllers", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  assert.equal(await page.locator("#partitions").count(), 0);
  operator.change((control) => Object.assign(control, { partition: "tracker", partitions: samplePartitions() }));
  await shown(page, operator);
  await reads(page, "#partitions", /partition tracker/);
  const of = (name) => text(page, `#partitions [data-partition="${name}"]`);
  assert.match(await of("calo"), /calo: run 125 by bob since/);
  assert.match(await of("cosmics"), /run 125 of calo by bob since .*; a new run of tracker by alice/);
  assert.match(await of("muon"), /muon: free/);
  assert.match(await of(""), /whole system: run 125 of calo by bob/);
  assert.equal(await page.locator('#partitions [data-partition="tracker"]').count(), 0);
  const links = await page.locator("#partitions a").evaluateAll((found) => found.map((link) => link.getAttribute("href")));
  assert.deepEqual(links, ["http://127.0.0.1:7071/"], "an address that is none of a page is no link");
  // What is not known is not shown as free.
  operator.change((control) => Object.assign(control, { partitions: null }));
  await shown(page, operator);
  await reads(page, "#partitions", /others not known/);
});

scenario("each button can be pressed in exactly the states that allow its command, and says why not in others", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  for (const state of STATES) {
    operator.become(state);
    await shown(page, operator);
    for (const { command, allowed, why } of operator.control.commands) {
      const found = page.locator(button(command));
      assert.equal(await found.getAttribute("aria-disabled"), String(!allowed), `${command} in ${state}`);
      assert.equal(await found.getAttribute("title"), why ?? "", `${command} in ${state}`);
      assert.equal(await page.locator(`#${await found.getAttribute("aria-describedby")}`).textContent(), why ?? "");
      // A press of a button that is disabled says why, by mouse and by keyboard.
      if (allowed || !["start", "resume"].includes(command)) continue;
      await found.click({ force: true });
      await until(page, (words) => document.querySelector(".commands .problem")?.textContent === words, `✖ ${why}`);
      await page.click(".over .answers button");
      await until(page, () => document.querySelector(".over") === null);
      await found.press("Enter");
      await page.waitForSelector(".over");
      await page.keyboard.press("Escape");
      await until(page, () => document.querySelector(".over") === null);
    }
    await reads(page, button("stop"), state === "stopping" ? "Stop now" : "Stop");
    assert.equal(await page.locator(".over").count(), 0);
  }
  assert.deepEqual(operator.received, []);
});

scenario("states are named in words, with run, person, end and target", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  await reads(page, ".summary-line", "● running target running run 124, by alice, ends after 1,000,000 events tpc test stand");
  operator.become("stopping", (control) => {
    control.ends = { events: null, duration_ms: null };
  });
  await shown(page, operator);
  await reads(page, ".summary-line", "stopping target configured run 124, by alice, ends when stopped tpc test stand");
  operator.become("paused", (control) => {
    control.ends = { events: 1, duration_ms: 90_000 };
  });
  await shown(page, operator);
  await reads(page, ".summary-line", "Ⅱ paused target paused run 124, by alice, ends after 1 event or 0:01:30 tpc test stand");
  operator.become("idle");
  await shown(page, operator);
  await reads(page, ".summary-line", "not configured target idle no run tpc test stand");
});

scenario("an operation is shown with progress, time and limit, and then how it ended", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  operator.become("configured");
  await shown(page, operator);
  await page.click(button("configure"));
  await until(page, () => /^… configure by alice: 0:00:\d\d of at most 0:01:00; waits for ru3$/.test(document.querySelector(".operation").textContent));
  operator.change(({ operation }) => {
    operation.began_ms -= 70_000;
    operation.deadline_ms -= 70_000;
  });
  await until(page, () => document.querySelector(".operation.bad")?.textContent.includes("LATE"));
  operator.end("done", "10 nodes are configured", "configured");
  await until(page, () => /^✓ configure by alice done (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d; 10 nodes are configured$/.test(document.querySelector(".operation").textContent));
  operator.end("failed", "ru3 does not answer", "idle");
  await until(page, () => document.querySelector(".operation.bad")?.textContent.startsWith("✖ configure by alice failed"));
  await until(page, () => document.querySelector("[role=status]").textContent.includes("configure failed: ru3 does not answer"));
  operator.end("superseded", "bob gave reset", "idle");
  await until(page, () => document.querySelector(".operation").textContent.startsWith("▲ configure by alice superseded"));
});

scenario("configure, pause, resume and stop are sent once each, with the revision that is shown", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  for (const [state, command] of [["idle", "configure"], ["running", "pause"], ["paused", "resume"], ["running", "stop"]]) {
    operator.become(state);
    await shown(page, operator);
    const { revision } = operator.control;
    const before = operator.received.length;
    await page.click(button(command));
    await until(page, (name) => globalThis.sheaf.store.state.control.operation?.command === name, command);
    const [{ method, path, body, match }, ...more] = operator.received.slice(before);
    assert.deepEqual([method, path, match, more], ["POST", "operations", `"${revision}"`, []]);
    assert.deepEqual(Object.keys(body).sort(), ["command", "request"]);
    assert.equal(body.command, command);
    assert.ok(body.request.length >= 16 && body.request.length <= 64);
  }
  assert.equal(new Set(operator.received.map(({ body }) => body.request)).size, 4);
  assert.equal(await page.locator(".over").count(), 0);
});

scenario("start has a form whose fields may be empty", async (mock, show) => {
  const operator = mock.control();
  operator.become("configured");
  const page = await signedIn(show);
  await page.click(button("start"));
  await until(page, () => document.activeElement?.name === "events");
  // States arrive while somebody types.
  await page.fill("[name=events]", "1000");
  await page.fill("[name=duration]", "1.5");
  await page.selectOption("[name=unit]", "60000");
  await page.fill("[name=comment]", " beam is back ");
  operator.change(() => {});
  await shown(page, operator);
  assert.equal(await page.inputValue("[name=events]"), "1000");
  assert.equal(operator.received.length, 0);
  await page.click(".over .answers button:first-child");
  await until(page, () => document.querySelector(".over") === null);
  const { request, ...settings } = operator.received[0].body;
  assert.deepEqual(settings, { command: "start", events: 1000, duration_ms: 90_000, comment: "beam is back" });
  operator.become("configured");
  await shown(page, operator);
  await page.click(button("start"));
  await until(page, () => document.activeElement?.name === "events");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector(".over") === null);
  assert.deepEqual(Object.keys(operator.received[1].body).sort(), ["command", "request"]);
  // The browser says what is wrong with a number.
  operator.become("configured");
  await shown(page, operator);
  await page.click(button("start"));
  await page.fill("[name=events]", "-1");
  await page.keyboard.press("Enter");
  assert.ok(await page.evaluate(() => document.querySelector("[name=events]:invalid") !== null));
  await page.keyboard.press("Escape");
  await until(page, () => document.querySelector(".over") === null && document.activeElement?.dataset.command === "start");
  assert.equal(operator.received.length, 2);
});

scenario("reset and stop now ask first, and the answer at hand is no", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  operator.become("stopping");
  await shown(page, operator);
  for (const [command, body] of [["stop", { command: "stop", now: true }], ["reset", { command: "reset" }]]) {
    const before = operator.received.length;
    await page.click(button(command));
    await until(page, () => document.activeElement?.textContent === "Cancel");
    assert.match(await text(page, ".over"), command === "stop" ? /^Stop run 124 now\? This drops the 431 events in flight/ : /^Reset\? This kills the processes of run 124, and drops/);
    await page.keyboard.press("Enter");
    await until(page, (name) => document.querySelector(".over") === null && document.activeElement?.dataset.command === name, command);
    assert.equal(operator.received.length, before);
    await page.click(button(command));
    await page.click(".over .answers button:first-child");
    await until(page, () => document.querySelector(".over") === null);
    const { request, ...sent } = operator.received.at(-1).body;
    assert.deepEqual(sent, body);
    operator.become("stopping");
    await shown(page, operator);
  }
});

scenario("a question about a stop does not become one about a stop that drops events", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  await page.keyboard.press("e");
  await until(page, () => document.querySelector(".over")?.textContent.includes("Stop run 124?"));
  operator.become("stopping");
  await shown(page, operator);
  assert.equal(await page.locator(".over .answers button").first().innerText(), "Stop");
  await page.click(".over .answers button:first-child");
  await until(page, () => document.querySelector(".over") === null);
  assert.equal(operator.received[0].body.now, undefined);
});

scenario("keys ask about commands, and do nothing by themselves", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  for (const [key, asked] of [["p", "Pause run 124?"], ["e", "Stop run 124?"], ["x", "Reset?"], ["o", "Configure tpc test stand?"]]) {
    await page.keyboard.press(key);
    await until(page, (words) => document.querySelector(".over")?.textContent.includes(words), asked);
    await page.keyboard.press("Escape");
    await until(page, () => document.querySelector(".over") === null);
  }
  // One that is not possible says why, and cannot be confirmed.
  await page.keyboard.press("o");
  assert.equal(await problem(page), "a run is in progress");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.deepEqual(operator.received, []);
  await page.keyboard.press("p");
  await until(page, () => document.activeElement?.textContent === "Pause" && document.activeElement.closest(".over") !== null);
  await page.keyboard.press("Enter");
  await until(page, () => globalThis.sheaf.store.state.control.operation?.command === "pause");
  operator.become("paused");
  await shown(page, operator);
  await page.keyboard.press("p");
  await until(page, () => document.querySelector(".over")?.textContent.includes("Resume run 124?"));
  await page.keyboard.press("Escape");
  await page.keyboard.press("c");
  await until(page, () => document.activeElement?.dataset.command === "resume");
  await page.keyboard.press("?");
  await reads(page, "#help", /Runs[^]*Commands[^]*reset: each asks first/);
});

scenario("a click on an old page does nothing, and says so", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  mock.stream = "silent";
  operator.become("paused");
  await page.click(button("pause"));
  assert.match(await problem(page), /^✖ the page was out of date; nothing was done Remedy: look at the state/);
  assert.equal(operator.operations.size, 0);
  await page.click(".over .answers button");
  await until(page, () => document.querySelector(".over") === null);
}, BROKEN);

scenario("refusals are shown where the click was, with text and remedy", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  for (const [status, body, expected] of [
    [409, { code: "state", text: "the run is ending", remedy: "wait until it has ended" }, "✖ the run is ending Remedy: wait until it has ended"],
    [423, { code: "locked", text: "bob has the lock until 12:40", remedy: "ask bob" }, "✖ bob has the lock until 12:40 Remedy: ask bob"],
    [429, { code: "wait", text: "<b>busy</b>", remedy: "<i>wait</i>" }, "✖ <b>busy</b> Remedy: <i>wait</i>"],
    [500, null, "✖ the server answers 500"],
  ]) {
    operator.next = { status, body };
    await page.click(button("pause"));
    await until(page, (words) => document.querySelector(".commands .problem")?.innerText.replace(/\s+/g, " ").trim() === words, expected);
  }
  // One to a server that is busy is sent again.
  const before = operator.received.length;
  operator.next = { status: 503, body: { code: "busy", text: "run control does not answer", remedy: "try again" } };
  await page.click(button("pause"));
  await until(page, () => globalThis.sheaf.store.state.control.operation?.command === "pause" && document.querySelector(".over") === null);
  assert.deepEqual(new Set(operator.received.slice(before).map(({ body }) => body.request)).size, 1);
  // A form stays open with what was typed.
  operator.become("configured");
  await shown(page, operator);
  await page.click(button("start"));
  await page.fill("[name=events]", "7");
  operator.next = { status: 400, body: { code: "invalid", text: "events must be less", remedy: "give less" } };
  await page.keyboard.press("Enter");
  assert.match(await problem(page), /events must be less/);
  assert.equal(await page.inputValue("[name=events]"), "7");
}, BROKEN);

for (const when of ["after", "before"]) {
  scenario(`a command whose connection fails ${when} it had its effect is repeated with the same request`, async (mock, show) => {
    const operator = mock.control();
    const page = await signedIn(show);
    operator.broken = when;
    await page.click(button("pause"));
    await until(page, () => document.querySelector(".commands .problem")?.textContent.includes("the same request is sent again"));
    // Meanwhile another press does nothing.
    await page.click(button("pause"), { force: true });
    operator.broken = "";
    await until(page, () => globalThis.sheaf.operator.busy.size === 0);
    await until(page, () => document.querySelector(".over") === null);
    const ids = new Set(operator.received.map(({ body }) => body.request));
    assert.equal(ids.size, 1);
    assert.ok(operator.received.length >= (when === "after" ? 2 : 1));
    assert.equal(operator.operations.size, 1);
  }, BROKEN);
}

scenario("a command without an answer can be given up", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  operator.broken = "before";
  await page.click(button("pause"));
  await until(page, () => document.querySelector(".over .answers button")?.textContent === "Give up");
  await page.click(".over .answers button");
  await until(page, () => document.querySelector(".commands .problem")?.textContent.includes("it is not known whether the request arrived"));
  assert.equal(await page.evaluate(() => globalThis.sheaf.operator.busy.size), 0);
  await page.click(".over .answers button");
  await until(page, () => document.querySelector(".over") === null);
  // Nothing is sent later.
  operator.broken = "";
  operator.become("running");
  await shown(page, operator);
  assert.deepEqual(operator.received, []);
}, BROKEN);

scenario("a token goes from the address to the storage of the tab, and not further", async (mock, show) => {
  mock.control();
  const page = await signedIn(show, { hash: "#token=alice-token&panel=nodes&node=ru1" });
  assert.equal(new URL(page.url()).hash, "#panel=nodes&node=ru1");
  await reads(page, ".access b", "alice");
  assert.deepEqual(await page.evaluate(() => [{ ...sessionStorage }, { ...localStorage }, document.cookie]), [{ "sheaf-token": "alice-token" }, {}, ""]);
  await page.waitForSelector(".nodes tr.selected");
  for (const link of await page.locator("a").evaluateAll((links) => links.map(({ href }) => href))) assert.doesNotMatch(link, /token/);
  await page.reload();
  await until(page, () => document.querySelector(".access b")?.textContent === "alice");
  // Another one in the address of an open page takes its place.
  await page.evaluate(() => {
    location.hash = "#token=root-token";
  });
  await until(page, () => document.querySelector(".access b")?.textContent === "root");
  assert.equal(new URL(page.url()).hash, "");
  await page.click(".access .link");
  await page.waitForSelector(".access [name=token]");
  assert.deepEqual(await page.evaluate(() => ({ ...sessionStorage })), {});
});

scenario("without a token buttons are disabled, and the page says how to get one", async (mock, show) => {
  const operator = mock.control();
  const page = await show();
  await reads(page, ".access", /^Commands need a token: open the address that sheaf serve prints, or paste one of sheaf token/);
  for (const command of COMMANDS) assert.equal(await page.locator(button(command)).getAttribute("aria-disabled"), "true");
  assert.equal(await page.locator(button("pause")).getAttribute("title"), "commands need a token");
  assert.equal(mock.count("/api/v1/me"), 0);
  // One that is not valid is refused and forgotten.
  await page.fill("[name=token]", "wrong");
  await page.keyboard.press("Enter");
  assert.match(await problem(page, ".access .problem"), /this token is not valid Remedy: ask for a new one/);
  assert.deepEqual(await page.evaluate(() => ({ ...sessionStorage })), {});
  await page.fill("[name=token]", "with a gap");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector(".access .problem")?.textContent.includes("this is not a token"));
  await page.fill("[name=token]", " alice-token ");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector(".access b")?.textContent === "alice");
  assert.equal(await page.locator(".problem").count(), 0);
  assert.equal(await page.locator(button("pause")).getAttribute("aria-disabled"), "false");
  // One that expires is said where the click was.
  operator.next = { status: 401, body: { code: "unauthorized", text: "the token has expired", remedy: "sheaf token" } };
  await page.click(button("pause"));
  assert.match(await problem(page), /the token has expired/);
  await page.waitForSelector(".access [name=token]");
}, BROKEN);

scenario("a viewer may look", async (mock, show) => {
  mock.control();
  const page = await show({ hash: "#token=vera-token" });
  await until(page, () => document.querySelector(".access b")?.textContent === "vera");
  assert.match(await page.locator(button("pause")).getAttribute("title"), /^vera is a viewer/);
  assert.equal(await page.locator("#lock").count(), 0);
});

scenario("the lock is taken, given back, and hinders others until an admin takes it by force", async (mock, show) => {
  const operator = mock.control();
  const alice = await signedIn(show);
  const root = await signedIn(show, { hash: "#token=root-token" });
  await reads(alice, ".access", /lock: free Take lock/);
  await alice.click("#lock");
  await until(alice, () => /^lock: yours until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d$/.test(document.querySelector(".lock").textContent));
  assert.equal(await alice.locator(button("pause")).getAttribute("aria-disabled"), "false");
  await until(root, () => document.querySelector(".lock").textContent.startsWith("lock: alice until"));
  assert.match(await root.locator(button("pause")).getAttribute("title"), /^alice has the lock until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d$/);
  await reads(root, "#lock", "Take by force");
  await root.click("#lock");
  await until(alice, () => document.querySelector(".lock").textContent.startsWith("lock: root until"));
  // A page that is in use renews its lock, however slow this machine is.
  const bodies = operator.received.map(({ body }) => body);
  assert.deepEqual(bodies.at(-1), { force: true });
  assert.ok(bodies.length > 1 && bodies.slice(0, -1).every(({ force }) => force === false), JSON.stringify(bodies));
  // An operator cannot take it by force.
  assert.equal(await alice.locator("#lock").count(), 0);
  assert.equal(await alice.locator(button("pause")).getAttribute("aria-disabled"), "true");
  await root.click("#lock");
  await until(alice, () => document.querySelector(".lock").textContent === "lock: free");
  assert.equal(operator.received.at(-1).method, "DELETE");
  operator.next = { status: 423, body: { code: "locked", text: "bob was faster", remedy: "ask bob" } };
  await alice.click("#lock");
  assert.equal(await problem(alice, ".access .problem"), "✖ bob was faster Remedy: ask bob");
}, BROKEN);

scenario("the lock is renewed while the page is used, and not for ever", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  await page.evaluate(() => Object.assign(globalThis.sheaf.operator, { used: -Infinity, next: 0 }));
  const lock = (seconds) => operator.change((control) => {
    control.lock = { by: "alice", until_ms: Date.now() + 1000 * seconds };
  });
  lock(120);
  for (let round = 0; round < 4; round += 1) {
    operator.change(() => {});
    await shown(page, operator);
  }
  assert.deepEqual(operator.received, []);
  // There is time left.
  lock(290);
  await shown(page, operator);
  await page.mouse.click(5, 5);
  operator.change(() => {});
  await shown(page, operator);
  assert.deepEqual(operator.received, []);
  lock(120);
  await until(page, () => globalThis.sheaf.store.state.control.lock.until_ms > Date.now() + 240_000);
  assert.deepEqual(operator.received.map(({ method, path, body }) => [method, path, body]), [["PUT", "lock", { force: false }]]);
});

scenario("faults are above the alarms until somebody has seen them", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  assert.equal(await page.locator("#panel-faults").count(), 0);
  operator.change((control) => {
    control.faults = [sampleFault(), { ...sampleFault(), id: 4, node: null, code: "no_disk", text: "<b>full</b>" }];
  });
  await page.waitForSelector("#panel-faults");
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("main > section")].slice(0, 2).map(({ id }) => id)), ["panel-faults", "panel-alarms"]);
  const first = page.locator("#panel-faults li").first();
  assert.match((await first.innerText()).replace(/\s+/g, " "), /^✖ node_died bu3: the process ended: signal 9 \(SIGKILL\) since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, 0:\d\d:\d\d Seen Remedy: look at the log of bu3/);
  assert.match(await page.locator("#panel-faults li").nth(1).innerText(), /no_disk <b>full<\/b>/);
  assert.match(await page.title(), /^\(4\)/);
  operator.next = { status: 404, body: { code: "no_fault", text: "there is no fault 3", remedy: "somebody was faster" } };
  await first.locator("button").click();
  assert.match(await problem(page, "#panel-faults .problem"), /there is no fault 3 Remedy: somebody was faster/);
  await first.locator("button").click();
  await until(page, () => document.querySelectorAll("#panel-faults li").length === 1);
  assert.equal(operator.received.at(-1).path, "faults/3/cleared");
  await page.click(".access .link");
  await until(page, () => document.querySelector(".seen").getAttribute("aria-disabled") === "true");
}, BROKEN);

scenario("an alarm is silenced with a reason, and is last in the list until the silence ends", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  page.on("dialog", (dialog) => void dialog.accept("its disk is new"));
  const [first, second] = [0, 1].map((index) => page.locator("#panel-alarms .alarm").nth(index));
  await first.locator("button").click();
  await page.waitForSelector(".alarm.silenced");
  assert.deepEqual(operator.received.at(-1).body, { code: "loss", culprit: "builder_lost", duration_ms: 3_600_000, why: "its disk is new" });
  assert.match(await first.innerText(), /dead time/);
  assert.match(await second.innerText(), /✖ error 212 events were lost[^]*Silenced until [^]* by alice: its disk is new/);
  assert.match(await page.title(), /^\(1\)/);
  assert.doesNotMatch(await page.locator("[aria-live=polite]").first().textContent(), /events were lost/);
  await second.locator("button").click();
  await until(page, () => document.querySelector(".alarm.silenced") === null);
  assert.equal(`${operator.received.at(-1).method} ${operator.received.at(-1).path}`, "DELETE silences/2");
}, BROKEN);

scenario("alarms that have ended stay until somebody has seen them", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  assert.doesNotMatch(await text(page, "#panel-alarms"), /Ended/);
  mock.change((state) => {
    state.past_alarms = state.alarms.map((alarm, index) => ({ ...alarm, ended_ms: Date.now(), times: index + 1 }));
    state.alarms = [];
  });
  await page.waitForSelector(".past");
  await reads(page, "#panel-alarms", /✓ none Ended Seen \d\d:\d\d:\d\d error: 212 events were lost: builder_lost \d\d:\d\d:\d\d warning: 33 % dead time[^]* \(2 times\)/);
  await page.click("#panel-alarms button");
  await until(page, () => document.querySelector(".past") === null);
  assert.equal(operator.received.at(-1).path, "alarms/seen");
}, BROKEN);

scenario("nothing moves when states change", async (mock, show) => {
  const operator = mock.control();
  for (const width of [1400, 1180, 800, 360]) {
    const page = await signedIn(show, { viewport: { width, height: 800 } });
    let first = null;
    for (const state of STATES) {
      for (const text of [null, "waits ".repeat(40)]) {
        operator.become(state, (control) => {
          if (text !== null) control.operation = { id: 5, command: "stop", by: "alice", began_ms: Date.now(), deadline_ms: Date.now() + 60_000, progress: text };
        });
        await shown(page, operator);
        const found = await places(page);
        first ??= found;
        assert.deepEqual(found, first, `${state} at ${width}`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      }
    }
    await page.context().close();
  }
});

scenario("on a phone everything of run control is in sight", async (mock, show) => {
  const operator = mock.control();
  operator.change((control) => {
    control.faults = [{ ...sampleFault(), text: "word".repeat(60) }];
    control.system = "long".repeat(40);
    control.operation = { id: 5, command: "start", by: "b".repeat(60), began_ms: Date.now(), deadline_ms: null, progress: "w".repeat(200) };
  });
  for (const hash of ["", ALICE, "#token=root-token"]) {
    const page = await show({ hash: `${hash}${hash ? "&" : "#"}run=122`, viewport: { width: 360, height: 740 } });
    if (hash !== "") await until(page, () => document.querySelector(".access b") !== null);
    await page.waitForSelector("#record .lines");
    if (hash !== "") await page.click(button("reset"));
    await shown(page, operator);
    const out = await page.evaluate(() => [...document.querySelectorAll("#control button, #control input, .over")].filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width === 0 || left < 0 || right > innerWidth;
    }).map((element) => element.outerHTML));
    assert.deepEqual(out, []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    assert.equal(await page.locator(".header #control").count(), 0);
    await page.context().close();
  }
});

scenario("a run that was killed is stale, and the page says why", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  operator.become("idle");
  mock.change((state) => {
    Object.assign(state.events, { drops: [], incomplete: 0 });
    state.fragments.drops = [];
    state.nodes.find((node) => node.role === "manager").age_ms = 7400;
  });
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("the run ended without its last figures"));
  await reads(page, "#losses", /none when last seen/);
  assert.equal(await page.locator(button("configure")).getAttribute("aria-disabled"), "false");
});

scenario("a state whose control cannot be read is said, not shown", async (mock, show) => {
  mock.control();
  const page = await show();
  mock.change((state) => {
    state.control = { state: "running" };
  });
  await until(page, () => document.querySelector(".now.stale")?.textContent.includes("whose control cannot be read"));
});

scenario("a source in trouble is excluded with its button, and included again", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  const row = (source) => page.locator(`.sources [data-source="${source}"]`);
  assert.equal(await row(44).textContent(), "Exclude");
  await row(44).click();
  await until(page, () => /source 44: excluded/.test(document.querySelector(".excluded")?.textContent ?? ""));
  assert.equal(await row(44).count(), 0, "it has one button");
  assert.deepEqual(operator.control.sources.map(({ source, included }) => [source, included]), [[44, false]]);
  await page.click('.excluded [data-source="44"]');
  await until(page, () => /source 44: included with its next fragment/.test(document.querySelector(".excluded").textContent));
  await row(17).click();
  await until(page, () => /source 17 makes the triggers; stop the run/.test(document.querySelector("#panel-sources").textContent));
  operator.change((now) => { now.lock = { by: "bob", until_ms: Date.now() + 600_000 }; });
  await shown(page, operator);
  assert.match(await row(17).getAttribute("title"), /^bob has the lock/);
}, BROKEN);

scenario("a node is excluded, included and started again with its buttons", async (mock, show) => {
  const operator = mock.control();
  const page = await signedIn(show);
  const state = () => page.locator('tr[data-node="ru1"] td:nth-child(3)').textContent();
  await page.click('tr[data-node="ru1"] button');
  await page.click('[data-change="Exclude ru1"]');
  await until(page, () => document.querySelector('[data-change="Include ru1"]') !== null);
  assert.equal(await state(), "excluded");
  assert.deepEqual(operator.received.at(-1).body, { included: false });
  await page.click('[data-change="Include ru1"]');
  await until(page, () => document.querySelector('[data-change="Exclude ru1"]') !== null);
  await page.click('[data-change="Start again ru1"]');
  await until(page, () => /starting again/.test(document.querySelector('tr[data-node="ru1"]').textContent));
  assert.match(operator.received.at(-1).body.request, /^[0-9a-f-]{36}$/, "a request has a name, so that it has one effect");
  await page.click('tr[data-node="bu1"] button');
  await page.click('[data-change="Exclude bu1"]');
  await until(page, () => /no builder unit would be left; stop the run/.test(document.querySelector("#panel-nodes").textContent));
  await page.click('tr[data-node="evm"] button');
  await until(page, () => document.querySelector("[data-change]") === null);
}, BROKEN);

scenario("an event manager with a standby is started again with its button", async (mock, show) => {
  const operator = mock.control();
  mock.change((state) => {
    state.run.standby = { ready: true, take_overs: 0, held_messages: 0, wait_seconds: 0 };
  });
  const page = await signedIn(show);
  await page.click('tr[data-node="evm"] button');
  await until(page, () => document.querySelectorAll("[data-change]").length === 1);
  await page.click('[data-change="Start again evm"]');
  await until(page, () => /starting again/.test(document.querySelector('tr[data-node="evm"]').textContent));
  assert.equal(operator.received.at(-1).path, "nodes/evm/recover");
  operator.change((now) => {
    now.nodes = [{ node: "evm", included: true, excluded: false, recovering: false, not_recovered: "its standby is not ready" }];
  });
  await reads(page, ".details .controls", /Not started again: its standby is not ready/);
});

scenario("a sequence is shown, and is paused, resumed, skipped and stopped", async (mock, show) => {
  const operator = mock.control();
  operator.change((now) => { now.sequence = sampleSequence(); });
  const page = await signedIn(show);
  const bar = () => page.locator("#sequence .operation").textContent();
  assert.match(await bar(), /^sequence thresholds by alice running, row 2 of 3, 1 done, 0:0(1:[0-4]|0:[0-5])\d left$/);
  const press = (action) => page.click(`[data-sequence="${action}"]`);
  await press("pause");
  await until(page, () => /sequence thresholds by alice paused.*: alice paused it/.test(document.querySelector("#sequence")?.textContent ?? ""));
  await press("resume");
  await until(page, () => /alice running/.test(document.querySelector("#sequence").textContent));
  await press("skip");
  await until(page, () => /row 3 of 3, 1 done, 1 skipped/.test(document.querySelector("#sequence").textContent));
  assert.deepEqual(operator.received.at(-1).body, { action: "skip", row: 2 }, "a skip names its row");
  operator.change((now) => { now.lock = { by: "bob", until_ms: Date.now() + 600_000 }; });
  await shown(page, operator);
  assert.match(await page.locator('[data-sequence="stop"]').getAttribute("title"), /^bob has the lock/);
  operator.change((now) => { now.lock = null; });
  await shown(page, operator);
  await press("stop");
  await until(page, () => document.querySelector("[data-sequence]") === null);
}, BROKEN);
