// Run control of the mock server: tokens, the lock, operations that a request names once, runs and the audit trail.

import { sampleAudit, sampleControl, sampleRecords } from "./sample.js";

// Tokens and the people that they belong to.
export const TOKENS = {
  "alice-token": { name: "alice", role: "operator" },
  "emil-token": { name: "emil", role: "expert" },
  "vera-token": { name: "vera", role: "viewer" },
  "root-token": { name: "root", role: "admin" },
};

const LOCK_MS = 300_000;

export class MockControl {
  constructor(mock) {
    this.mock = mock;
    mock.state.control = sampleControl();
    Object.assign(mock.state.run, { number: 124, directory: "/data/run000124" });
    this.records = sampleRecords();
    this.configurations = [];
    this.audit = sampleAudit();
    // Each request that changes something: {method, path, body, match, token}.
    this.received = [];
    // Operations by the text that names their request.
    this.operations = new Map();
    // Whether connections fail before such a request has an effect, or "after" it had one. A browser itself repeats a request on
    // another connection, so nothing here counts them.
    this.broken = "";
    // Replaces the next answer: {status, body}.
    this.next = null;
  }

  get control() {
    return this.mock.state.control;
  }

  // Puts run control into a state, with what is allowed in it.
  become(state, edit = () => {}) {
    this.mock.change((all) => {
      const { lock, faults, last, revision } = all.control;
      all.control = { ...sampleControl(state), lock, faults, last, revision: revision + 1 };
      edit(all.control);
    });
  }

  change(edit) {
    this.mock.change((state) => {
      state.control.revision += 1;
      edit(state.control);
    });
  }

  // Answers a request below /api/v1/ if it is one of run control.
  async answer(request, response, path, query) {
    const { method } = request;
    const me = TOKENS[(request.headers.authorization ?? "").replace("Bearer ", "")];
    const give = (status, body) => {
      response.statusCode = status;
      this.mock.json(response, body);
    };
    const refuse = (status, code, text, remedy) => give(status, { code, text, remedy });
    if (method === "GET") return this.read(path, query, me, give, refuse);
    const body = await read(request);
    const match = request.headers["if-match"];
    if (this.broken === "before") return request.socket.destroy();
    this.received.push({ method, path, body, match });
    if (this.next !== null) {
      const { status, body: text } = this.next;
      this.next = null;
      return give(status, text);
    }
    const answer = this.broken === "after" ? () => request.socket.destroy() : give;
    if (me === undefined) return refuse(401, "unauthorized", "this token is not valid", "ask for a new one: sheaf token");
    if (me.role === "viewer") return refuse(403, "forbidden", "vera is a viewer", "ask for a token of an operator");
    this.write({ method, path, body, match, me }, answer, refuse);
  }

  read(path, query, me, give, refuse) {
    const run = /^runs\/(\d+)$/.exec(path)?.[1];
    if (path === "me") return me === undefined ? refuse(401, "unauthorized", "this token is not valid", "ask for a new one: sheaf token") : give(200, me);
    if (path === "runs") return give(200, { runs: this.records.slice(-Number(query.get("last"))) });
    if (path === "configurations") return give(200, { configurations: this.configurations, unreadable: 0 });
    if (path === "audit") return give(200, { entries: this.audit });
    const record = this.records.find((known) => known.run === Number(run));
    if (record === undefined) return refuse(404, "no_run", `there is no run ${run}`, "look at the list of runs");
    return give(200, record);
  }

  write({ method, path, body, match, me }, give, refuse) {
    const { control } = this;
    if (path === "lock") {
      if (method === "DELETE") this.change((now) => { now.lock = null; });
      else if (control.lock !== null && control.lock.by !== me.name && !(body.force && me.role === "admin")) {
        return refuse(423, "locked", `${control.lock.by} has the lock`, "ask, or take it by force as an admin");
      } else this.change((now) => { now.lock = { by: me.name, until_ms: Date.now() + LOCK_MS }; });
      return give(200, {});
    }
    const fault = /^faults\/(\d+)\/cleared$/.exec(path)?.[1];
    if (fault !== undefined) {
      this.change((now) => { now.faults = now.faults.filter(({ id }) => id !== Number(fault)); });
      return give(200, {});
    }
    if (path === "alarms/seen") {
      this.mock.change((state) => { state.past_alarms = []; });
      return give(200, {});
    }
    if (path === "silences") {
      const silence = { id: 2, by: me.name, why: body.why, until_ms: Date.now() + body.duration_ms };
      this.mock.change(({ alarms }) => { alarms.find(({ code, culprit }) => code === body.code && culprit === body.culprit).silence = silence; });
      return give(200, { silence });
    }
    const silence = /^silences\/(\d+)$/.exec(path)?.[1];
    if (silence !== undefined) {
      this.mock.change(({ alarms }) => { for (const alarm of alarms) if (alarm.silence?.id === Number(silence)) alarm.silence = null; });
      return give(200, {});
    }
    if (path === "sequence/actions") {
      if (control.lock !== null && control.lock.by !== me.name) return refuse(423, "locked", `${control.lock.by} has the lock`, "ask");
      this.change((now) => {
        if (body.action === "skip") Object.assign(now.sequence, { row: body.row + 1, skipped: 1 });
        else now.sequence.state = { pause: "paused", resume: "running", stop: "ended" }[body.action];
        now.sequence.reason = body.action === "pause" ? `${me.name} paused it, after the present run` : null;
      });
      return give(200, { sequence: this.control.sequence });
    }
    const source = Number(/^sources\/(\d+)\/included$/.exec(path)?.[1]);
    if (!Number.isNaN(source)) {
      if (control.lock !== null && control.lock.by !== me.name) return refuse(423, "locked", `${control.lock.by} has the lock`, "ask");
      if (source === 17 && !body.included) return refuse(409, "state", "source 17 makes the triggers", "stop the run");
      this.change((now) => {
        now.sources = now.sources.filter((known) => known.source !== source);
        now.sources.push({ source, name: null, included: body.included, excluded: true });
      });
      return give(200, { sources: this.control.sources });
    }
    const node = /^nodes\/([^/]+)\/(included|recover)$/.exec(path);
    if (node !== null) {
      const [, name, what] = node;
      if (control.lock !== null && control.lock.by !== me.name) return refuse(423, "locked", `${control.lock.by} has the lock`, "ask");
      if (what === "included" && !body.included && name === "bu1") return refuse(409, "state", "no builder unit would be left", "stop the run instead");
      this.change((now) => {
        now.nodes = now.nodes.filter((known) => known.node !== name);
        const included = what === "recover" || body.included;
        if (what === "recover" || !included) now.nodes.push({ node: name, included, excluded: !included, recovering: what === "recover", not_recovered: null });
      });
      return give(200, { nodes: this.control.nodes });
    }
    const run = /^runs\/(\d+)\/comments$/.exec(path)?.[1];
    if (run !== undefined) {
      const record = this.records.find((known) => known.run === Number(run));
      record.comments.push({ time_ns: Date.now() * 1e6, author: me.name, ...body });
      return give(200, {});
    }
    if (path === "configurations") {
      if (me.role === "operator") return refuse(403, "role", `${me.name} is an operator`, "ask for a token of an expert");
      const { name, run } = body;
      const version = this.configurations.filter((known) => known.name === name).length + 1;
      const configuration = { name, version, run, by: me.name, time_ns: Date.now() * 1e6 };
      this.configurations.push(configuration);
      return give(200, { configuration, known: false });
    }
    if (path !== "operations") return refuse(404, "nothing", "nothing is here", "");
    // A request that was given before is the same operation, also if the state has another revision since.
    const known = this.operations.get(body.request);
    if (known !== undefined) return give(200, { operation: known });
    if (match !== undefined && match !== `"${control.revision}"`) return refuse(412, "stale", `the revision is ${control.revision}`, "look again");
    if (control.lock !== null && control.lock.by !== me.name) return refuse(423, "locked", `${control.lock.by} has the lock`, "ask");
    const allowed = control.commands.find(({ command }) => command === body.command);
    if (!allowed?.allowed) return refuse(409, "state", allowed.why, "wait");
    this.operate(body, me, give);
  }

  operate({ command, request }, me, give) {
    const now = Date.now();
    const operation = { id: 5 + this.operations.size, command, by: me.name, began_ms: now, deadline_ms: now + 60_000, progress: "waits for ru3" };
    this.operations.set(request, operation);
    this.audit.push({ at_ms: now, by: me.name, action: command, answer: "accepted", text: "" });
    give(202, { operation });
    this.change((control) => { control.operation = operation; });
  }

  // Ends the operation that is in progress.
  end(result, text, state = this.control.state) {
    this.become(state, (control) => {
      const { progress, deadline_ms, ...rest } = [...this.operations.values()].at(-1);
      control.last = { ...rest, ended_ms: Date.now(), result, text };
    });
  }
}

async function read(request) {
  let text = "";
  for await (const part of request) text += part;
  return text === "" ? undefined : JSON.parse(text);
}
