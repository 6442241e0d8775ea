// Measures how long the page takes to redraw the map: `node bench-map.js [READOUTS BUILDERS [REDRAWS]]`. Each redraw has other values, and
// the pixels are read back, so that the time is that of the whole picture.

import { launch, open, until } from "./browser.js";
import { Mock } from "./mock.js";
import { troubledMap } from "./sample-map.js";

const [readouts = 512, builders = 512, redraws = 200] = process.argv.slice(2).map(Number);
const mock = await new Mock().start();
mock.map = troubledMap(readouts, builders);
const browser = await launch();
const page = await open(browser, mock, { hash: "#panel=map" });
await until(page, () => globalThis.sheaf.map.answers > 0 && document.querySelector("#panel-map .map canvas") !== null);
const times = await page.evaluate(async (redraws) => {
  const { drawMap } = await import("./assets/map-draw.js");
  const canvas = document.querySelector("#panel-map .map canvas");
  const { answer } = globalThis.sheaf.map;
  const c = canvas.getContext("2d");
  const times = { calls: [], whole: [] };
  for (let number = 0; number < redraws; number += 1) {
    const values = answer.values.map((value) => value * (1 + number / redraws));
    const next = { ...answer, values };
    const begun = performance.now();
    drawMap(canvas, next, { cursor: { readout: number % 8, builder: 1 }, old: false });
    times.calls.push(performance.now() - begun);
    c.getImageData(0, 0, 1, 1);
    times.whole.push(performance.now() - begun);
    await new Promise(requestAnimationFrame);
  }
  return times;
}, redraws);
const quantile = (list, fraction) => [...list].sort((a, b) => a - b)[Math.floor(fraction * (list.length - 1))].toFixed(2);
for (const [name, list] of Object.entries(times)) {
  console.log(`${readouts} x ${builders}, ${redraws} redraws, ${name === "calls" ? "drawing calls" : "with the pixels read back"}: median ${quantile(list, 0.5)} ms, 95 % within ${quantile(list, 0.95)} ms`);
}
await browser.close();
await mock.stop();
