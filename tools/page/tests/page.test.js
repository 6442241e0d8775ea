// The files of the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { until } from "../browser.js";
import { scenario } from "../harness.js";
import { files, PAGE, sent } from "../mock.js";

// The comments of the source are not sent, and what is sent is compressed.
test("a browser loads at most 100 kB, and parses at most 250 kB", () => {
  const texts = [...files(""), ...files("vendor/")].map(sent);
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
  const loaded = sum(texts.map((text) => gzipSync(text, { level: 9 }).length));
  const parsed = sum(texts.map((text) => Buffer.byteLength(text)));
  assert.ok(loaded <= 100_000, `${loaded} bytes`);
  assert.ok(parsed <= 250_000, `${parsed} bytes`);
});

test("modules are short", () => {
  for (const name of files("")) {
    const lines = readFileSync(PAGE + name, "utf8").split("\n").length;
    assert.ok(lines <= 300, `${name} has ${lines} lines`);
  }
});

test("nothing names another server", () => {
  for (const name of files("")) {
    const text = readFileSync(PAGE + name, "utf8").replaceAll("http://www.w3.org/2000/svg", "");
    assert.doesNotMatch(text, /https?:\/\/[a-z0-9]/i, name);
  }
});

test("each vendored library has its licence beside it", () => {
  for (const name of ["preact", "htm", "uplot"]) {
    assert.match(readFileSync(`${PAGE}vendor/${name}.LICENSE.txt`, "utf8"), /MIT License|Apache License/);
  }
});

scenario("the page is allowed by the policy default-src 'self', and every file that it loads is its own", async (mock, show) => {
  const page = await show();
  await until(page, () => globalThis.sheaf.numbers.answers > 1);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  const own = new Set([...files(""), ...files("vendor/")].map((name) => `/assets/${name}`));
  const loaded = new Set(mock.requests.filter((path) => path.startsWith("/assets/")));
  assert.deepEqual([...loaded].filter((path) => !own.has(path)), []);
  // Nothing is there that is not used. The browser asks for the icon when it likes.
  const idle = [...own].filter((path) => !loaded.has(path) && !path.endsWith("/icon.svg"));
  assert.deepEqual(idle.sort(), ["/assets/index.html"]);
});

scenario("elements have labels, and headings a structure", async (mock, show) => {
  const page = await show();
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select, [role=img]")].filter((element) => {
    const label = element.closest("label")?.textContent ?? "";
    return `${element.textContent}${element.getAttribute("aria-label") ?? ""}${label}`.trim() === "";
  }).map((element) => element.outerHTML));
  assert.deepEqual(unnamed, []);
  assert.equal(await page.locator("h1").count(), 1);
  assert.equal(await page.locator("main").count(), 1);
  assert.equal(await page.locator("section:not([aria-labelledby])").count(), 0);
});

scenario("dark pages have other colours", async (mock, show) => {
  const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await show({ colorScheme: "light" });
  const dark = await show({ colorScheme: "dark" });
  assert.notEqual(await background(light), await background(dark));
  await until(dark, () => globalThis.sheaf.numbers.answers > 0);
  // A change of the scheme repaints the charts.
  await dark.emulateMedia({ colorScheme: "light" });
  await until(dark, () => getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)");
});

scenario("people who want less motion get one picture a second", async (mock, show) => {
  const page = await show({ reducedMotion: "reduce" });
  await until(page, () => globalThis.sheaf.numbers.answers > 0);
  assert.ok(await page.evaluate(() => globalThis.sheaf.numbers.options.paceMs() >= 1000));
});
