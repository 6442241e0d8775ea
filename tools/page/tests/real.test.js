// The page of a real run.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { open, SKIP, until, WATCHDOG_MS } from "../browser.js";
import { Command, SHEAF, useWorkingTree } from "../command.js";
import { BROKEN, browser, reads } from "../harness.js";
import { files } from "../mock.js";

const skip = SKIP || (SHEAF === "" ? "the variable SHEAF does not name a built command" : false);

// Without a rate, a run takes all processors, and fills the disk before a slow browser has drawn the page.
const RATE = ["--trigger-rate", "1000"];

test("a real run is on its page until it ends", { skip, timeout: 2 * WATCHDOG_MS }, async () => {
  const command = new Command();
  let page = null;
  try {
    await command.start([...RATE, "--duration", "0", "--readouts", "2", "--builders", "2"]);
    await command.during(async () => {
      for (const name of [...files(""), ...files("vendor/")]) {
        const { status } = await fetch(`${command.url}assets/${name}`);
        assert.equal(status, 200, `${SHEAF} has no ${name}: build it again; a new file also needs a line in assets.rs`);
      }
      page = await open(browser(), command, { prepare: useWorkingTree });
      await until(page, () => document.querySelector(".phase")?.textContent === "● running");
      await until(page, () => {
        const stored = document.querySelector('#book-events [data-bin="stored"]')?.textContent ?? "";
        return Number(stored.replaceAll(",", "")) > 0;
      });
      // A chart has points: the newest value is one of the drawn ones.
      await until(page, () => {
        const { ring } = globalThis.sheaf.numbers;
        return ring !== undefined && ring.value(0, ring.last) > 0;
      });
      await until(page, () => /^\d.*\/s$/.test(document.querySelector("#panel-rate li output").textContent));
      await reads(page, "#balance", /✓ balance/);
      await page.click('.nodes [data-node="ru1"] button');
      await until(page, () => Number(document.querySelector('[data-figure="received_bytes"]')?.textContent.replaceAll(",", "")) > 0);
      assert.deepEqual(page.complaints, []);
    });

    // Without a time for it after the run, the page goes with the command.
    command.signal("SIGINT");
    assert.equal(await command.ended, 0, command.printed);
    await until(page, () => document.querySelector(".now.stale")?.textContent.includes("no connection to the server"));
    assert.match(await page.title(), /^STALE/);
    assert.equal(await page.locator(".header .ok").count(), 0);
    assert.deepEqual(page.complaints.filter((complaint) => !BROKEN.test(complaint)), []);
  } finally {
    await page?.context().close();
    await command.stop();
  }
});

// Returns a port that nobody uses now.
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const noCertificate = spawnSync("openssl", ["version"]).status !== 0 && "there is no openssl to make a certificate with";

test("a viewer on another host sees a run over TLS", { skip: skip || noCertificate, timeout: 2 * WATCHDOG_MS }, async () => {
  const command = new Command();
  let page = null;
  try {
    const inside = { cwd: command.directory, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
    const port = await freePort();
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=localhost",
      "-addext", "subjectAltName=DNS:localhost", "-keyout", "page.key", "-out", "page.pem"], inside);
    writeFileSync(join(command.directory, "run.toml"),
      `[monitor.remote]\nlisten = "127.0.0.1:${port}"\ncertificate = "page.pem"\nkey = "page.key"\n`);
    const token = execFileSync(SHEAF, ["token", "add", "vera", "--role", "viewer", "--directory", "output/control"], inside).trim();
    await command.start(["run.toml", ...RATE, "--duration", "0"]);
    await command.during(async () => {
      const remote = { url: `https://localhost:${port}/` };
      page = await open(browser(), remote, { ready: false, prepare: useWorkingTree, ignoreHTTPSErrors: true });
      await page.waitForSelector(".locked");
      assert.equal(await page.locator(".panel").count(), 0);
      await page.fill(".locked [name=token]", token);
      await page.keyboard.press("Enter");
      await until(page, () => document.querySelector(".phase")?.textContent === "● running");
      await until(page, () => {
        const { ring } = globalThis.sheaf.numbers;
        return ring !== undefined && ring.value(0, ring.last) > 0;
      });
      const cookies = await page.context().cookies();
      assert.deepEqual(cookies.map(({ name, httpOnly, secure, sameSite }) => [name, httpOnly, secure, sameSite]), [[`sheaf-${port}`, true, true, "Strict"]]);
      assert.deepEqual(page.complaints.filter((complaint) => !BROKEN.test(complaint)), []);
    });
  } finally {
    await page?.context().close();
    await command.stop();
  }
});
