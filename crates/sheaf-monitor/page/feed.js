/** Answers of the server that are loaded again when there is something new. */

const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 5000;
const LIMIT_MS = 15_000;

/** @template T */
export class Feed {
  /** @param {{base: string, onChange: () => void}} options */
  constructor(options) {
    this.options = options;
    /** What to load, empty for nothing. */
    this.path = "";
    this.key = "";
    /** Key of the last answer. */
    this.loaded = "";
    /** @type {T | null} */
    this.answer = null;
    /** Text of the last failure, null if the last request succeeded. @type {string | null} */
    this.problem = null;
    this.pauseMs = PAUSE_MS;
    this.resting = false;
    document.addEventListener("visibilitychange", () => void this.load());
  }

  /** Loads `path` now, and again when `key` is another one. @param {string} path @param {string} key */
  want(path, key) {
    if (path !== this.path) {
      this.answer = this.problem = null;
      this.loaded = "";
    }
    this.path = path;
    this.key = `${path} ${key}`;
    void this.load();
  }

  async load() {
    const { path, key } = this;
    if (path === "" || key === this.loaded || this.resting || document.visibilityState !== "visible") return;
    this.resting = true;
    try {
      const answer = await this.get(path);
      if (path === this.path) {
        this.answer = answer;
        this.loaded = key;
        this.problem = null;
      }
      this.pauseMs = PAUSE_MS;
    } catch (error) {
      if (path === this.path) this.problem = error instanceof Error ? error.message : String(error);
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
    }
    this.options.onChange();
    const awake = () => {
      this.resting = false;
      void this.load();
    };
    // Another thing is wanted at once, a newer form of the same one after a pause.
    if (path === this.path) setTimeout(awake, this.pauseMs);
    else awake();
  }

  /** @param {string} path @returns {Promise<T>} */
  async get(path) {
    const response = await fetch(this.options.base + path, { signal: AbortSignal.timeout(LIMIT_MS), cache: "no-store" });
    if (!response.ok) throw new Error(await reason(response));
    return response.json();
  }
}

/** Returns why the server refused. @param {Response} response */
async function reason(response) {
  const text = `the server answers ${response.status}`;
  try {
    const { text: why, remedy } = await response.json();
    return [why ?? text, remedy].filter(Boolean).join("; ");
  } catch {
    return text;
  }
}
