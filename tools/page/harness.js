// What the tests need: one browser for all of them, and for each test a server and what it opened.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { launch, open, SKIP, WATCHDOG_MS } from "./browser.js";
import { Mock } from "./mock.js";

let launched = null;
if (SKIP === false) {
  before(async () => {
    launched = await launch();
  });
  after(async () => {
    await launched.close();
  });
}

// The browser that all tests of this process share.
export function browser() {
  return launched;
}

// A test in the browser. `body` gets the server and a function that opens pages; at the end, no page may have complained,
// except of what `excused` matches.
export function scenario(name, body, excused = null) {
  test(name, { skip: SKIP, timeout: 2 * WATCHDOG_MS }, async () => {
    const mock = await new Mock().start();
    const pages = [];
    const show = async (options = {}) => {
      const page = await open(launched, mock, options);
      pages.push(page);
      return page;
    };
    try {
      await body(mock, show);
      const complaints = pages.flatMap((page) => page.complaints).filter((text) => excused === null || !excused.test(text));
      assert.deepEqual(complaints, []);
    } finally {
      for (const page of pages) await page.context().close();
      await mock.stop();
    }
  });
}

// Returns the text of an element with single spaces.
export async function text(page, selector) {
  return (await page.locator(selector).innerText()).replace(/\s+/g, " ").trim();
}

// Waits until an element has this text, a string or an expression. A page on a busy machine is stale for a moment, and says so.
export async function reads(page, selector, expected, message) {
  const holds = (found) => (expected instanceof RegExp ? expected.test(found) : found === expected);
  const givenUpAt = performance.now() + WATCHDOG_MS;
  let found = await text(page, selector);
  while (!holds(found) && performance.now() < givenUpAt) {
    await sleep(50);
    found = await text(page, selector);
  }
  assert[expected instanceof RegExp ? "match" : "equal"](found, expected, message);
}

// What the browser itself says of connections that a test breaks.
export const BROKEN = /Failed to load resource|net::ERR_/;
