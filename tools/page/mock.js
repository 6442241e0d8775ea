// A server of the monitor's API whose states and numbers a test decides. It serves the real page.

import { createServer } from "node:http";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { HURRY } from "./hurry.js";
import { MockControl } from "./mock-control.js";
import { encodeMap, sampleMap } from "./sample-map.js";
import { sampleColumns, sampleFigures, sampleHistograms, sampleState, sampleTrace, sampleTraces, sampleValue, sampleValues } from "./sample.js";

export const PAGE = fileURLToPath(new URL("../../crates/sheaf-monitor/page/", import.meta.url));
const SENT = /\.(html|js|css|svg)$/;
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const MAGIC = 0x564c4853;
const ROWS = { 100: 3000, 1000: 7200, 10000: 60480 };
const DAY_MS = 86_400_000;

// Returns the files in a folder of the page that a server sends: "" or "vendor/".
export function files(folder) {
  return readdirSync(PAGE + folder).filter((name) => SENT.test(name)).map((name) => folder + name);
}

// Returns a file of the page as it is sent: `without_ornaments` of assets.rs removes the same.
export function sent(name) {
  const text = readFileSync(PAGE + name, "utf8");
  if (name.startsWith("vendor/") || !/\.(js|css)$/.test(name)) return text;
  const code = text.replace(/^[ \t]*\/\/.*$/gm, "").replace(/^[ \t]*\/\*[^]*?\*\//gm, (comment) => comment.replace(/[^\n]/g, ""))
    .replace(/\/\*\* @.*?\*\/\s*/g, "").replace(/^[ \t]+/gm, "");
  return name.endsWith(".css") ? code.replace(/([:;,]) /g, "$1").replaceAll(" {", "{") : code;
}

export class Mock {
  constructor() {
    this.state = sampleState();
    this.columns = sampleColumns();
    // The figures of a node, null if it has none: name => list.
    this.figures = sampleFigures;
    this.traces = sampleTraces();
    this.histograms = sampleHistograms();
    // Values from outside. Null: the server refuses them.
    this.values = () => sampleValues();
    // What the map shows. Null: the server refuses it.
    this.map = sampleMap();
    // Run control, which a server of one run has not.
    this.operator = null;
    // Token without which nothing is shown, as to other hosts. Null: everybody may look.
    this.locked = null;
    // Each request, without its query.
    this.requests = [];
    // Live answers: "clock" has rows of the time that passes, "manual" those of `addRows`, "fast" a number of rows at once.
    this.live = "clock";
    this.fastRows = 600;
    this.originMs = Math.floor(Date.now() / 10_000) * 10_000 - 8 * DAY_MS;
    this.last = this.numberAt(Date.now());
    // What the stream does: "on", "silent" (open, sends nothing), "off" (refused).
    this.stream = "on";
    // Replaces a binary answer, to damage it: (path, bytes) => bytes.
    this.damage = null;
    this.value = sampleValue;
    this.listeners = new Set();
    this.waiting = new Set();
    this.server = createServer((request, response) => this.answer(request, response));
    this.beat = setInterval(() => this.send(), 400 / HURRY);
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
    return this;
  }

  async stop() {
    clearInterval(this.beat);
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  // Becomes a controller.
  control() {
    this.operator = new MockControl(this);
    return this.operator;
  }

  numberAt(ms) {
    return Math.floor((ms - this.originMs) / 100);
  }

  count(path) {
    return this.requests.filter((known) => known === path).length;
  }

  // Changes the state and sends it at once.
  change(edit) {
    edit(this.state);
    this.state.revision += 1;
    this.send();
  }

  send() {
    if (this.stream !== "on") return;
    for (const response of this.listeners) response.write(this.event());
  }

  event() {
    return `event: state\ndata: ${JSON.stringify({ ...this.state, time_ms: Date.now() })}\n\n`;
  }

  // Ends all streams; new ones are refused until `stream` is "on" again.
  breakStream() {
    this.stream = "off";
    for (const response of this.listeners) response.destroy();
    this.listeners.clear();
  }

  addRows(count) {
    this.last += count;
    for (const answer of this.waiting) answer();
  }

  // The server is started again: rows are numbered from 0.
  renumber() {
    this.originMs = Date.now() - 60_000;
    this.last = this.numberAt(Date.now());
    for (const answer of this.waiting) answer();
  }

  answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, "http://localhost");
    this.requests.push(pathname);
    if (this.requests.length > 100_000) this.requests.shift();
    response.setHeader("Content-Security-Policy", POLICY);
    response.setHeader("X-Content-Type-Options", "nosniff");
    response.setHeader("Cache-Control", "no-store");
    if (this.locked !== null && pathname.startsWith("/api/") && !this.admits(request, response, pathname)) return;
    if (pathname === "/api/v1/state") this.json(response, this.state);
    else if (pathname === "/healthz") response.end("ok\n");
    // A browser asks for it where a document names no icon.
    else if (pathname === "/favicon.ico") response.writeHead(204).end();
    else if (pathname === "/api/v1/columns") this.json(response, this.columns);
    else if (pathname === "/api/v1/stream") this.open(response);
    else if (pathname === "/api/v1/histograms") this.list(response, searchParams);
    else if (pathname === "/api/v1/values") this.giveValues(response);
    else if (pathname === "/api/v1/map") this.giveMap(response, searchParams.get("quantity"));
    else if (pathname === "/api/v1/traces") this.json(response, this.traces);
    else if (pathname.startsWith("/api/v1/traces/")) this.trace(response, pathname.slice("/api/v1/traces/".length));
    else if (request.method === "GET" && pathname.startsWith("/api/v1/nodes/")) this.node(response, decodeURIComponent(pathname.slice("/api/v1/nodes/".length)));
    else if (pathname === "/api/v1/history") this.history(response, Number(searchParams.get("step")));
    else if (pathname === "/api/v1/live") this.poll(request, response, Number(searchParams.get("after")));
    else if (pathname.startsWith("/api/v1/") && this.operator !== null) void this.operator.answer(request, response, pathname.slice("/api/v1/".length), searchParams);
    else this.asset(response, pathname);
  }

  // Answers requests for sessions, and those without the token.
  admits(request, response, pathname) {
    const isSession = pathname === "/api/v1/session";
    const cookie = /sheaf-1=([^;]*)/.exec(request.headers.cookie ?? "")?.[1];
    const token = request.headers.authorization?.replace("Bearer ", "") ?? cookie;
    const set = (value) => response.writeHead(204, { "Set-Cookie": `sheaf-1=${value}; Path=/; HttpOnly; SameSite=Strict` }).end();
    if (isSession && request.method === "DELETE") set("");
    else if (token !== this.locked) {
      response.writeHead(401, { "Content-Type": "application/json" }).end(JSON.stringify({ code: "token", text: "this token is not valid", remedy: "ask for a new one" }));
    } else if (isSession) set(token);
    else return true;
    return false;
  }

  list(response, wanted) {
    const [name, reference] = [wanted.get("name"), wanted.get("reference")];
    const histograms = this.histograms.histograms.filter((one) => name === null || one.name === name);
    this.json(response, { ...this.histograms, histograms, ...(reference && { reference: Number(reference) || null }) });
  }

  giveValues(response) {
    const values = this.values?.() ?? null;
    if (values === null) response.statusCode = 500;
    this.json(response, values ?? { code: "failed", text: "there are no values", remedy: "look again" });
  }

  giveMap(response, quantity) {
    if (this.map === null) {
      response.statusCode = 500;
      return this.json(response, { code: "failed", text: "there is no map", remedy: "look again" });
    }
    let bytes = encodeMap(this.map, quantity);
    if (this.damage !== null) bytes = this.damage("/api/v1/map", bytes);
    response.setHeader("Content-Type", "application/octet-stream");
    response.end(bytes);
  }

  asset(response, pathname) {
    const name = pathname === "/" ? "index.html" : pathname.replace(/^\/assets\//, "");
    if (!/^(vendor\/)?[a-z-]+\.(html|js|css|svg)$/.test(name)) return this.missing(response);
    try {
      const bytes = sent(name);
      response.setHeader("Content-Type", TYPES[name.split(".").at(-1)]);
      response.end(bytes);
    } catch {
      this.missing(response);
    }
  }

  missing(response) {
    response.statusCode = 404;
    response.end();
  }

  node(response, name) {
    const figures = this.state.nodes.some((node) => node.name === name) ? this.figures(name) : null;
    if (figures === null) this.missing(response);
    else this.json(response, { name, figures });
  }

  trace(response, name) {
    if (name === "7/1413") return this.json(response, sampleTrace());
    response.statusCode = 404;
    this.json(response, { code: "not_found", text: `event ${name} has no trace`, remedy: "choose another" });
  }

  json(response, value) {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(value));
  }

  open(response) {
    if (this.stream === "off") {
      response.statusCode = 503;
      response.end();
      return;
    }
    response.setHeader("Content-Type", "text/event-stream");
    response.flushHeaders();
    this.listeners.add(response);
    response.on("close", () => this.listeners.delete(response));
    if (this.stream === "on") response.write(this.event());
  }

  history(response, step) {
    if (this.live === "clock") this.last = Math.max(this.last, this.numberAt(Date.now()));
    const perRow = step / 100;
    const last = Math.floor((this.last + 1) / perRow) - 1;
    const rows = Math.min(ROWS[step], last + 1);
    this.binary(response, "/api/v1/history", step, last - rows + 1, rows);
  }

  poll(request, response, after) {
    let done = false;
    const finish = () => {
      if (done) return;
      done = true;
      clearTimeout(limit);
      clearInterval(look);
      this.waiting.delete(try_);
      const rows = Math.min(ROWS[100], Math.max(0, this.last - after));
      this.binary(response, "/api/v1/live", 100, this.last - rows + 1, rows);
    };
    const try_ = () => {
      if (this.live === "clock") this.last = Math.max(this.last, this.numberAt(Date.now()));
      if (this.live === "fast") this.last += this.fastRows;
      if (this.last !== after) finish();
    };
    const limit = setTimeout(finish, 1000);
    const look = setInterval(try_, 50);
    this.waiting.add(try_);
    request.on("close", () => {
      clearTimeout(limit);
      clearInterval(look);
      this.waiting.delete(try_);
    });
    try_();
  }

  binary(response, path, step, first, rows) {
    let bytes = encode(this.columns, step, this.originMs, first, rows, this.value);
    if (this.damage !== null) bytes = this.damage(path, bytes);
    response.setHeader("Content-Type", "application/octet-stream");
    response.end(bytes);
  }
}

// Encodes rows from number `first` as in the contract with the page.
export function encode(columns, step, originMs, first, rows, value) {
  const bytes = Buffer.alloc(32 + 4 * columns.length * rows);
  bytes.writeUInt32LE(MAGIC, 0);
  bytes.writeUInt32LE(columns.length, 4);
  bytes.writeUInt32LE(rows, 8);
  bytes.writeUInt32LE(step, 12);
  bytes.writeDoubleLE(originMs + first * step, 16);
  bytes.writeBigUInt64LE(BigInt(Math.max(0, first + rows - 1)), 24);
  let place = 32;
  for (const column of columns) {
    for (let row = 0; row < rows; row += 1) {
      bytes.writeFloatLE(value(column.id, originMs + (first + row) * step), place);
      place += 4;
    }
  }
  return bytes;
}
