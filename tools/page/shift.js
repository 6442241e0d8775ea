// Writes the pictures of docs/operating/first-shift.md: `SHEAF=... npm run shift -- [FOLDER]`, into shots/ by default. They are of real runs of
// examples/test-beam, so `python3` must have the package `sheaf`.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { launch, open, until } from "./browser.js";
import { SHEAF, useWorkingTree } from "./command.js";

const [folder = "shots"] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const place = mkdtempSync(join(tmpdir(), "sheaf-shift-"));
cpSync(new URL("../../examples/test-beam", import.meta.url).pathname, place, { recursive: true });
mkdirSync(join(place, "faults"));

const started = [];
function begin(program, ...args) {
  started.push(spawn(program, args, { cwd: place, stdio: "ignore" }));
}

function ctl(...args) {
  const { status, stderr } = spawnSync(SHEAF, ["ctl", ...args], { cwd: place, encoding: "utf8" });
  if (status !== 0) throw new Error(`sheaf ctl ${args.join(" ")}: ${stderr}`);
}

async function written(name) {
  const path = join(place, name);
  while (!existsSync(path) || readFileSync(path).length === 0) await sleep(100);
  return readFileSync(path, "utf8").trim();
}

const browser = await launch();
async function picture(server, name, panel, ready, height) {
  const options = { colorScheme: "light", viewport: { width: 1180, height }, prepare: useWorkingTree };
  const page = await open(browser, server, { ...options, hash: `#token=${server.token}${panel}` });
  await ready(page);
  await page.screenshot({ path: `${folder}/${name}.png` });
  for (const complaint of page.complaints) console.log(`${name}: ${complaint}`);
  await page.context().close();
}

// A run with this number of triggers on the page.
const triggers = (least) => (page) => until(page, (least) => globalThis.sheaf.store.state?.triggers.accepted > least, least);

try {
  begin(SHEAF, "serve", "test-beam.toml", "--processes", "--page", "127.0.0.1:0");
  const server = { url: `${await written("runs/control/address")}/`, token: await written("runs/control/own.token") };
  begin("python3", "monitor.py");
  ctl("start", "--events", "4000", "--until-end", "--comment", "the run before");
  ctl("start", "--comment", "20 GeV, late shift");
  await picture(server, "shift-good", "", triggers(4000), 760);
  const drawn = async (page) => {
    await page.waitForSelector("#histogram canvas");
    await page.locator("#panel-histograms").evaluate((panel) => panel.scrollIntoView());
  };
  await picture(server, "shift-histograms", "&panel=histograms&histogram=efficiency", drawn, 760);
  writeFileSync(join(place, "faults/plane-2"), "");
  await picture(server, "shift-silent", "", async (page) => {
    await until(page, () => document.body.textContent.includes("source plane-2 has given nothing for 1"));
  }, 760);
  ctl("exclude", "plane-2");
  ctl("stop");
} finally {
  for (const child of started) child.kill("SIGINT");
  await browser.close();
  await sleep(2000);
  rmSync(place, { recursive: true, force: true });
}
