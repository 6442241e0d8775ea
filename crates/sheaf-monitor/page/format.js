/** Numbers, units and times as text. All functions are pure. */

const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const PREFIXES = ["", "k", "M", "G", "T", "P"];
const SMALL = ["", "m", "µ", "n"];

/** Text for what is not known. */
export const UNKNOWN = "–";

/** @param {number} value @returns {string} an integer with thousands separators */
export function count(value) {
  return Number.isFinite(value) ? COUNT.format(value) : UNKNOWN;
}

/** @param {number} value @param {string} one @param {string} [many] @returns {string} such as `2 events` */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** @param {number} value @returns {string} three significant digits, without an exponent */
function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** @param {number} value @param {string} unit @returns {string} a value with a decimal prefix, such as `70.1 k/s` */
export function quantity(value, unit) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (unit === "1") return percent(value);
  if (unit === "s") return duration(value);
  if (value === 0) return joined("0", "", unit);
  let power = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && power < PREFIXES.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  const whole = power === 0 && Number.isInteger(scaled);
  return joined(whole ? String(scaled) : threeDigits(scaled), PREFIXES[power], unit);
}

/** @param {string} number @param {string} prefix @param {string} unit */
function joined(number, prefix, unit) {
  if (unit.startsWith("1/") && prefix === "") return number + unit.slice(1);
  const words = unit.startsWith("1/") ? `${prefix}${unit.slice(1)}` : prefix + unit;
  if (words === "") return number;
  // "events" and other nouns stand apart from a prefix.
  return unit.length > 3 && prefix !== "" ? `${number} ${prefix} ${unit}` : `${number} ${words}`;
}

/** @param {number} value seconds @returns {string} such as `12.3 ms` */
export function duration(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0 s";
  if (value >= 1) return value >= 120 ? runTime(value) : `${threeDigits(value)} s`;
  let power = 0;
  let scaled = value;
  while (scaled < 0.9995 && power < SMALL.length - 1) {
    scaled *= 1000;
    power += 1;
  }
  return `${threeDigits(scaled)} ${SMALL[power]}s`;
}

/** @param {number} seconds @returns {string} such as `1:02:03` or `2 d 01:02:03` */
export function runTime(seconds) {
  if (!Number.isFinite(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const clock = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  const hours = Math.floor(whole / 3600);
  if (hours < 24) return `${hours}:${clock}`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)}:${clock}`;
}

/**
 * Returns a fraction in percent. A fraction that is neither 0 nor 1 is never rounded to them.
 *
 * @param {number} fraction
 */
export function percent(fraction) {
  if (!Number.isFinite(fraction)) return UNKNOWN;
  const value = fraction * 100;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  if (value < 100 && value > 99.95) return "> 99.9 %";
  return `${value.toFixed(1)} %`;
}

/** @param {number} value @returns {string} with its sign, also if positive */
export function signed(value) {
  return value > 0 ? `+${count(value)}` : count(value).replace("-", "−");
}

/** @param {number} unixMs @param {number} nowMs @returns {string} local time, with the date if it is another day */
export function clock(unixMs, nowMs) {
  const then = new Date(unixMs);
  const time = [then.getHours(), then.getMinutes(), then.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
  const sameDay = then.toDateString() === new Date(nowMs).toDateString();
  if (sameDay) return time;
  return `${then.getFullYear()}-${padded(then.getMonth() + 1)}-${padded(then.getDate())} ${time}`;
}

/** @param {number} value */
function padded(value) {
  return String(value).padStart(2, "0");
}

/** @param {string} name an identifier @returns {string} as words: `dead_time` becomes `dead time` */
export function words(name) {
  return name.replaceAll("_", " ").replaceAll("-", " ");
}
