// The browser of the distribution, and pages that complain.

import { accessSync, constants } from "node:fs";
import { chromium } from "playwright-core";
import { hurryPages } from "./hurry.js";

// Nothing here is timed: this is when a test that hangs is given up.
export const WATCHDOG_MS = Number(process.env.PAGE_WATCHDOG_MS ?? 180_000);

export function browserPath() {
  const path = process.env.CHROMIUM ?? "/usr/bin/chromium";
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return null;
  }
}

export const SKIP = browserPath() === null ? "there is no Chromium at /usr/bin/chromium; set CHROMIUM to the path of one" : false;

export async function launch() {
  return chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"] });
}

// Opens the page of a server. With `bare`, there are its modules to import, and nothing else. `prepare` is called
// with the context of the page. `page.complaints` has what the browser said in its console, and errors.
export async function open(browser, server, { hash = "", bare = false, ready = !bare, prepare = async () => {}, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  await hurryPages(context);
  await prepare(context);
  const page = await context.newPage();
  page.setDefaultTimeout(WATCHDOG_MS);
  page.complaints = [];
  page.on("console", (message) => page.complaints.push(message.text()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.goto(server.url + (bare ? "healthz" : hash), { timeout: WATCHDOG_MS });
  if (ready) await page.waitForSelector("#panel-log");
  return page;
}

// Waits until a condition in the page holds, and returns its value.
export async function until(page, condition, argument) {
  const found = await page.waitForFunction(condition, argument, { timeout: WATCHDOG_MS, polling: 50 });
  return found.jsonValue();
}
