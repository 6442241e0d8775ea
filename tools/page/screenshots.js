// Writes pictures of the page: `npm run screenshots -- [FOLDER [NAME...]]`, all of them into shots/ by default.

import { mkdirSync } from "node:fs";
import { launch, open, until } from "./browser.js";
import { Mock } from "./mock.js";
import { sampleMap, troubledMap } from "./sample-map.js";
import { advance, sampleFault } from "./sample.js";

const [folder = "shots", ...names] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const mock = await new Mock().start();
const browser = await launch();

// Counts go on, so that there are rates.
setInterval(() => mock.change(advance), 250).unref();

async function picture(name, options, act = async () => {}) {
  if (names.length > 0 && !names.includes(name)) return;
  const page = await open(browser, mock, { viewport: { width: 1400, height: 1000 }, ...options });
  await until(page, () => globalThis.sheaf.numbers.answers > 2 && globalThis.sheaf.store.rates.accepted > 0);
  await act(page);
  await page.screenshot({ path: `${folder}/${name}.png`, fullPage: options.fullPage ?? false });
  for (const complaint of page.complaints) console.log(`${name}: ${complaint}`);
  await page.context().close();
}

await picture("running", { colorScheme: "light" });
await picture("running-full", { colorScheme: "light", viewport: { width: 1400, height: 2300 }, hash: "#node=bu1" });
await picture("dark", { colorScheme: "dark", viewport: { width: 1400, height: 2250 }, hash: "#range=2h" });
await picture("phone", { colorScheme: "light", viewport: { width: 390, height: 844 } });
await picture("phone-full", { colorScheme: "light", viewport: { width: 390, height: 3800 } });
await picture("help", { colorScheme: "light" }, async (page) => {
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
});
await picture("overview", { colorScheme: "light", viewport: { width: 1180, height: 740 } });
await picture("trace", { colorScheme: "light", viewport: { width: 1180, height: 620 }, hash: "#panel=traces&trace=7%2F1413" }, (page) => page.waitForSelector(".waterfall tr"));
await picture("histograms", { colorScheme: "light", viewport: { width: 1180, height: 760 }, hash: "#panel=histograms&histogram=charge" }, (page) => page.waitForSelector("#histogram canvas"));
await picture("histograms-phone", { colorScheme: "dark", viewport: { width: 390, height: 844 }, hash: "#panel=histograms" }, (page) => page.waitForSelector(".histograms canvas"));
await picture("values", { colorScheme: "light", viewport: { width: 1180, height: 330 }, hash: "#panel=values" }, (page) => page.waitForSelector(".values tbody tr"));
await picture("values-dark", { colorScheme: "dark", viewport: { width: 1180, height: 330 }, hash: "#panel=values" }, (page) => page.waitForSelector(".values tbody tr"));
await picture("values-phone", { colorScheme: "light", viewport: { width: 390, height: 844 }, hash: "#panel=values" }, (page) => page.waitForSelector(".values tbody tr"));
await picture("flow", { colorScheme: "light", viewport: { width: 1180, height: 560 }, hash: "#panel=flow" });

// The map.
const mapDrawn = (page) => page.waitForSelector("#panel-map .map canvas");
for (const [name, map, options, act] of [
  ["map", troubledMap(8, 8), { colorScheme: "light", viewport: { width: 1180, height: 466 } }],
  ["map-dark", troubledMap(8, 8), { colorScheme: "dark", viewport: { width: 1180, height: 520 } }],
  ["map-2", troubledMap(2, 2), { colorScheme: "light", viewport: { width: 1180, height: 420 } }],
  ["map-512", troubledMap(512, 512), { colorScheme: "light", viewport: { width: 1180, height: 760 } }],
  ["map-512-dark", troubledMap(512, 512), { colorScheme: "dark", viewport: { width: 1180, height: 760 } }],
  ["map-phone", troubledMap(8, 8), { colorScheme: "light", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }, (page) => page.locator("#panel-map .map canvas").click({ position: { x: 120, y: 120 } })],
  ["map-phone-512", troubledMap(512, 512), { colorScheme: "light", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }],
  ["map-rate", troubledMap(8, 8), { colorScheme: "light", viewport: { width: 1180, height: 520 }, hash: "#panel=map&map=rate" }],
]) {
  mock.map = map;
  await picture(name, { hash: "#panel=map", ...options }, async (page) => {
    await mapDrawn(page);
    await act?.(page);
  });
}
mock.map = sampleMap();

// Run control.
const operator = mock.control();
operator.change((control) => {
  control.faults = [sampleFault()];
});
const asAlice = "#token=alice-token";
for (const colorScheme of ["light", "dark"]) {
  await picture(`control-${colorScheme}`, { colorScheme, hash: asAlice });
  await picture(`runs-${colorScheme}`, { colorScheme, hash: `${asAlice}&panel=runs&run=122` }, (page) => page.waitForSelector("#record .lines"));
  operator.become("configured");
  await picture(`start-${colorScheme}`, { colorScheme, hash: asAlice, viewport: { width: 1180, height: 420 } }, (page) => page.click('[data-command="start"]'));
  await picture(`no-token-${colorScheme}`, { colorScheme, viewport: { width: 1180, height: 420 } });
  operator.become("stopping", (control) => {
    control.lock = { by: "bob", until_ms: Date.now() + 200_000 };
    control.operation = { id: 9, command: "stop", by: "bob", began_ms: Date.now() - 12_000, deadline_ms: Date.now() + 20_000, progress: "12 events in flight, waits for the output of bu1" };
  });
  await picture(`locked-${colorScheme}`, { colorScheme, hash: "#token=root-token", viewport: { width: 1180, height: 420 } });
  mock.state.control.lock = null;
  await picture(`question-${colorScheme}`, { colorScheme, hash: asAlice, viewport: { width: 390, height: 844 } }, (page) => page.click('[data-command="stop"]'));
  operator.become("running");
  await picture(`control-phone-${colorScheme}`, { colorScheme, viewport: { width: 390, height: 844 } });
  await picture(`runs-phone-${colorScheme}`, { colorScheme, hash: `${asAlice}&panel=runs&run=122`, viewport: { width: 390, height: 844 } }, (page) => page.waitForSelector("#record .lines"));
}
mock.state.control = undefined;
await picture("stale", { colorScheme: "light", viewport: { width: 1180, height: 500 } }, async (page) => {
  mock.stream = "silent";
  await page.waitForSelector(".now.stale");
  await until(page, () => document.querySelector(".now.stale").textContent.includes("sends nothing"));
});
await browser.close();
await mock.stop();
