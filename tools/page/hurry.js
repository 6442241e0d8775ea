// A machine that is as many times slower: with `PAGE_HURRY=20` the clocks of the tests and of the browser run 20 times faster, and timers
// of the page wait a twentieth of their time. A test that fails only then depends on how fast the machine is.

export const HURRY = Number(process.env.PAGE_HURRY ?? 1);

// Is run in the page as well, so it uses nothing from outside.
function hurry({ factor, origin }) {
  const RealDate = Date;
  const realNow = Date.now.bind(Date);
  const now = () => Math.round(origin + factor * (realNow() - origin));
  globalThis.Date = class extends RealDate {
    constructor(...given) {
      super(...(given.length === 0 ? [now()] : given));
    }
    static now = now;
  };
  if (globalThis.window === undefined) return;
  const realPerformance = performance.now.bind(performance);
  performance.now = () => factor * realPerformance();
  for (const name of ["setTimeout", "setInterval"]) {
    const real = globalThis[name].bind(globalThis);
    globalThis[name] = (call, wait = 0, ...given) => real(call, wait / factor, ...given);
  }
  const frame = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (draw) => frame(() => draw(performance.now()));
}

const origin = Date.now();
if (HURRY !== 1) hurry({ factor: HURRY, origin });

// Makes the clocks of a page run as fast as those of the tests.
export async function hurryPages(context) {
  if (HURRY !== 1) await context.addInitScript(hurry, { factor: HURRY, origin });
}
