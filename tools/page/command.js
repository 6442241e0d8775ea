// The real command with its page, for tests and pictures. `$SHEAF` is its path.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sent } from "./mock.js";

export const SHEAF = process.env.SHEAF ?? "";

// A run in a directory of its own.
export class Command {
  constructor() {
    this.directory = mkdtempSync(join(tmpdir(), "sheaf-page-"));
  }

  // Returns once the page is served.
  async start(args) {
    this.printed = "";
    this.process = spawn(SHEAF, ["run", "--page=127.0.0.1:0", "--output", "output", ...args], {
      cwd: this.directory, stdio: ["ignore", "ignore", "pipe"],
    });
    // The exit status, null if a signal ended it.
    this.ended = new Promise((resolve) => this.process.on("close", resolve));
    this.url = await new Promise((resolve, reject) => {
      this.process.on("error", reject);
      this.process.on("close", () => reject(new Error(`sheaf ended before it served a page: ${this.printed}`)));
      this.process.stderr.on("data", (text) => {
        this.printed += text;
        const found = /the page is at (http:\/\/\S+?\/),/.exec(this.printed);
        if (found !== null) resolve(found[1]);
      });
    });
    return this;
  }

  // Returns what `body` returns. The run must outlast it: otherwise this fails at once with what the command printed, not when
  // the page has waited long enough for a server that is gone.
  async during(body) {
    const gone = this.ended.then((status) => {
      throw new Error(`sheaf ended with exit status ${status}: ${this.printed}`);
    });
    return Promise.race([body(), gone]);
  }

  signal(name) {
    this.process.kill(name);
  }

  // Ends the run, and removes its files.
  async stop() {
    if (this.process?.pid !== undefined) {
      this.process.kill("SIGKILL");
      await this.ended;
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

// Gives a browser the files of this working tree in place of those that the command was built with. Headers, and which files
// there are, remain those of the command: without one of them, the page does not work.
export async function useWorkingTree(context) {
  await context.route(/^https?:\/\/(127\.0\.0\.1|localhost):\d+\/(assets\/.*)?$/, async (route) => {
    const { pathname } = new URL(route.request().url());
    const response = await route.fetch().catch(() => null);
    if (response === null) {
      await route.abort("connectionfailed");
      return;
    }
    const name = pathname === "/" ? "index.html" : pathname.replace("/assets/", "");
    await route.fulfill(response.ok() ? { response, body: sent(name) } : { response });
  });
}
