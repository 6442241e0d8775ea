/** The person at the page: token, lock, and requests that change something. */

/** @import { Control, Me, RoleOfPerson, State } from "./types.js" */
import { clock } from "./format.js";

const KEY = "sheaf-token";
/** Longest time for an answer: longer than that after which the server says that it is busy. */
const LIMIT_MS = 30_000;
/** A request without an answer, or to a busy server, is sent again for this long. */
const REPEAT_MS = 60_000;
const SHORTEST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** The lock is renewed with less time left than this, if the page was used within it. */
const RENEW_MS = 4 * 60_000;
const BETWEEN_MS = 10_000;

/** Roles of people, each with the rights of those before it. @type {RoleOfPerson[]} */
const ROLES = ["viewer", "operator", "expert", "admin"];

/** @typedef {{status: number, body: any}} Answer */
/** What came of a request. @typedef {{text: string, remedy: string}} Said */
/**
 * @typedef {object} Change A request that changes something.
 * @property {string} path
 * @property {string} [method]
 * @property {object} [body]
 * @property {number} [revision] The state that the person saw.
 * @property {boolean} [once] Whether it must not be sent again: twice it would have two effects.
 */

export class Operator {
  /**
   * `isGuarded` tells whether the server shows nothing without a token; then the browser gets a cookie for one, and `onSession` is called.
   *
   * @param {{base: string, onChange: () => void, isGuarded: () => boolean, onSession: () => void}} options
   */
  constructor(options) {
    this.options = options;
    this.token = stored("");
    /** Token of which the browser has a session, as far as this tab knows. */
    this.entered = "";
    /** @type {Me | null} */
    this.me = null;
    /** Command whose form or question is open, empty if none is. */
    this.asked = "";
    /** What is shown at each place of the page, and which places wait for an answer. @type {Map<string, Said>} */
    this.said = new Map();
    /** @type {Map<string, AbortController>} */
    this.busy = new Map();
    /** Number of answers to requests that change something. */
    this.answers = 0;
    this.used = performance.now();
    this.next = 0;
    for (const kind of ["pointerdown", "keydown"]) {
      addEventListener(kind, () => {
        this.used = performance.now();
      }, true);
    }
    addEventListener("hashchange", () => this.take());
    this.take();
  }

  /** Takes a token out of the address. */
  take() {
    const found = /[#&]token=([^&]*)/.exec(location.hash);
    if (found === null) return;
    const rest = location.hash.replace(found[0], "").replace(/^[#&]*/, "#");
    history.replaceState(null, "", rest === "#" ? location.pathname : rest);
    this.use(found[1]);
  }

  /** @param {string} token empty to forget it */
  use(token) {
    this.me = null;
    this.asked = "";
    this.said.clear();
    this.token = token.trim();
    if (/[^!-~]/.test(this.token)) {
      this.token = "";
      this.said.set("access", { text: "this is not a token", remedy: "copy all of it, and nothing else" });
    }
    this.next = 0;
    stored(this.token, true);
    this.options.onChange();
    this.entered = "";
    if (this.options.isGuarded() && !this.said.has("access")) void this.session();
  }

  /** Gets the page for a token that is known, when the server shows nothing without one. */
  enter() {
    if (this.token === "" || this.busy.has("access")) return;
    if (this.token !== this.entered) {
      void this.session();
    } else if (!this.said.has("access")) {
      this.said.set("access", { text: "the token is good, but the browser keeps no cookie of this page", remedy: "allow cookies of this address, and load the page again" });
      this.options.onChange();
    }
  }

  /** Begins the session of a token in this browser, or ends it without one. */
  async session() {
    const { token } = this;
    if (!await this.change("access", { path: "session", method: token === "" ? "DELETE" : "POST" })) return;
    this.entered = token;
    this.options.onSession();
  }

  /** Does what is due with a new state. @param {State} state */
  follow({ time_ms, control }) {
    const now = performance.now();
    // Without a token, this browser may have a session, or a proxy may know who this is.
    if (!control || (this.token === "" && !this.options.isGuarded()) || now < this.next) return;
    if (this.me === null) {
      this.next = now + LONGEST_PAUSE_MS;
      void this.identify();
    } else if (control.lock?.by === this.me.name && control.lock.until_ms - time_ms < RENEW_MS
      && now - this.used < RENEW_MS && document.visibilityState === "visible") {
      this.next = now + BETWEEN_MS;
      void this.lock(false);
    }
  }

  async identify() {
    const token = this.token;
    const answer = await this.fetch({ path: "me", method: "GET" });
    if (token !== this.token || answer === null) return;
    this.said.delete("access");
    if (answer.status === 200 && answer.body?.name) this.me = answer.body;
    else if (token !== "") this.refuse("access", answer);
    this.options.onChange();
  }

  /** Returns why this person can change nothing, null if they can. @returns {string | null} */
  get hindrance() {
    return this.lacks("operator");
  }

  /** Returns why this person does not have a role, null if they have it. @param {RoleOfPerson} role @returns {string | null} */
  lacks(role) {
    if (this.me === null) return this.token === "" ? "commands need a token" : "the server has not confirmed the token yet";
    if (ROLES.indexOf(this.me.role) >= ROLES.indexOf(role)) return null;
    return `${this.me.name} is ${withArticle(this.me.role)}: ask for a token of ${withArticle(role)}`;
  }

  /** Returns why this person can give no command, null if they can. @param {State} state @param {RoleOfPerson} [role] that the command needs @returns {string | null} */
  obstacle({ time_ms, control }, role = "operator") {
    const lock = control?.lock;
    return this.lacks(role) ?? (lock && lock.by !== this.me?.name ? `${lock.by} has the lock until ${clock(lock.until_ms, time_ms)}` : null);
  }

  /** Opens the question of a command. Without one, closes it, and gives up a request without an answer. @param {string} command */
  ask(command) {
    if (command === "") this.busy.get("command")?.abort();
    this.asked = command;
    this.said.delete("command");
    this.options.onChange();
  }

  /** Says why a command cannot be given: where there is no pointer, a button has no title. @param {string} why */
  explain(why) {
    this.asked = "";
    this.said.set("command", { text: why, remedy: "" });
    this.options.onChange();
  }

  /** Gives a command. @param {string} command @param {number} revision @param {object} [settings] */
  async command(command, revision, settings) {
    const body = { command, request: crypto.randomUUID(), ...settings };
    if (!await this.change("command", { path: "operations", body, revision })) return;
    this.asked = "";
    this.options.onChange();
  }

  /** Takes or renews the lock. @param {boolean} force */
  async lock(force) {
    await this.change("access", { path: "lock", method: "PUT", body: { force } });
  }

  /** Sends a request of one place of the page. @param {string} place @param {Change} change @returns {Promise<boolean>} whether it was accepted */
  async change(place, change) {
    if (this.busy.has(place)) return false;
    const abort = new AbortController();
    this.busy.set(place, abort);
    this.said.delete(place);
    this.options.onChange();
    const answer = await this.insist(place, change, abort.signal);
    this.busy.delete(place);
    this.said.delete(place);
    this.answers += 1;
    const accepted = answer !== null && answer.status < 300;
    if (!accepted) this.refuse(place, answer);
    this.options.onChange();
    return accepted;
  }

  /** Sends a request until there is an answer other than "busy", or it is given up. @param {string} place @param {Change} change @param {AbortSignal} signal */
  async insist(place, change, signal) {
    const end = performance.now() + REPEAT_MS;
    for (let pause = SHORTEST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      const answer = await this.fetch(change, signal);
      if ((answer !== null && answer.status !== 503) || change.once || signal.aborted || performance.now() > end) return answer;
      this.said.set(place, { text: answer === null ? "no answer from the server yet" : said(answer).text, remedy: "the same request is sent again; it has one effect" });
      this.options.onChange();
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
        setTimeout(resolve, pause);
      });
      if (signal.aborted) return null;
    }
  }

  /** @param {Change} change @param {AbortSignal} [given] @returns {Promise<Answer | null>} null if there is no answer */
  async fetch({ path, method = "POST", body, revision }, given) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.token !== "") headers.Authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method !== "GET") headers["Sheaf-Via"] = "page";
    if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
    const limit = AbortSignal.timeout(LIMIT_MS);
    const signal = given ? AbortSignal.any([given, limit]) : limit;
    try {
      const response = await fetch(this.options.base + path, { method, headers, signal, body: JSON.stringify(body) });
      const text = await response.text();
      return { status: response.status, body: parsed(text) };
    } catch {
      return null;
    }
  }

  /** Remembers why something was refused. @param {string} place @param {Answer | null} answer */
  refuse(place, answer) {
    this.said.set(place, said(answer));
    if (answer?.status !== 401) return;
    // It has expired, or was never valid.
    this.token = stored("", true);
    this.me = null;
  }
}

/** @param {Answer | null} answer @returns {Said} */
function said(answer) {
  if (answer === null) {
    return { text: "the server did not answer: it is not known whether the request arrived", remedy: "look at the state when the connection is back" };
  }
  const { text = `the server answers ${answer.status}`, remedy = "" } = answer.body ?? {};
  if (answer.status !== 412) return { text: String(text), remedy: String(remedy) };
  return { text: "the page was out of date; nothing was done", remedy: "look at the state, and give the command again if it is still right" };
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Returns the token of this tab, or keeps another one. @param {string} token @param {boolean} [keep] */
function stored(token, keep = false) {
  try {
    if (token !== "") sessionStorage.setItem(KEY, token);
    else if (keep) sessionStorage.removeItem(KEY);
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    // The browser forbids it: the token lasts until the page is loaded again.
    return token;
  }
}

/** @param {RoleOfPerson} role */
function withArticle(role) {
  return role === "viewer" ? "a viewer" : `an ${role}`;
}
