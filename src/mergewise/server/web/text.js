// Conversion of texts and numbers for the page: visible control characters, offsets, and formats.

// Each replacement has the same length as the replaced character, so that all offsets stay the same.
const STEERING =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\u115f\u1160\u17b4\u17b5\u180e\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufdd0-\ufdef\ufffe\uffff]/g;
// Unicode tags, which can spell a hidden text. Each takes two UTF-16 units.
const TAGS = /\udb40[\udc00-\udcff]/g;

/**
 * Make a text safe to show: control characters become pictures, direction overrides and hidden characters become U+FFFD.
 * @param {unknown} value
 * @returns {string} a text of the same length in UTF-16 units
 */
export function printable(value) {
  return String(value ?? "").replace(STEERING, picture).replace(TAGS, "\ufffd\ufffd");
}

/** @param {string} steering */
function picture(steering) {
  const code = steering.charCodeAt(0);
  if (code === 13) return "\n";
  return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "\u2421" : "\ufffd";
}

/** Put the text on one line. If it is too long, cut it at a word. @param {unknown} value @param {number} [length] */
export function shorten(value, length = 120) {
  const line = printable(value).split(/\s+/).filter(Boolean).join(" ");
  if (line.length <= length) return line;
  const cut = line.slice(0, length - 1).replace(/[\ud800-\udbff]$/, "");
  const word = cut.lastIndexOf(" ");
  return (word > (length * 2) / 3 ? cut.slice(0, word) : cut).trimEnd() + "…";
}

/** Turn a message into a sentence, with a capital letter and a full stop. @param {unknown} value @param {number} [length] */
export function sentence(value, length = 400) {
  const line = shorten(value, length);
  if (!line) return "";
  return line[0].toLocaleUpperCase() + line.slice(1) + (/[.!?…:;。？！]["”’)]?$/.test(line) ? "" : ".");
}

/** A converter of offsets in code points (the server's) to UTF-16 units (JavaScript's). */
export class Offsets {
  /** @param {string} text */
  constructor(text) {
    this.length = text.length;
    /** The positions of code points that take two units. @type {number[]} */
    this.wide = [];
    if (!/[\ud800-\udbff]/.test(text)) return;
    for (let unit = 0, point = 0; unit < text.length; point++) {
      const width = /** @type {number} */ (text.codePointAt(unit)) > 0xffff ? 2 : 1;
      if (width === 2) this.wide.push(point);
      unit += width;
    }
  }

  /** Return the UTF-16 unit at which a code point begins. @param {number} point */
  unit(point) {
    return Math.max(0, Math.min(this.length, point + this.#widerBefore((i) => this.wide[i] < point)));
  }

  /** @param {(i: number) => boolean} isBefore */
  #widerBefore(isBefore) {
    let low = 0;
    let high = this.wide.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Split a text at the bounds of the ranges.
 * @template T
 * @param {number} start @param {number} end
 * @param {{start: number, end: number, value: T}[]} ranges
 * @returns {{start: number, end: number, values: T[]}[]} each piece with the values of the ranges that contain it
 */
export function pieces(start, end, ranges) {
  const near = ranges.filter((range) => range.start < end && start < range.end);
  const inner = near.flatMap((range) => [range.start, range.end]).filter((at) => start < at && at < end);
  const cuts = [...new Set([start, ...inner, end])].sort((a, b) => a - b);
  return cuts.slice(1).map((stop, i) => ({
    start: cuts[i],
    end: stop,
    values: near.filter((range) => range.start <= cuts[i] && stop <= range.end).map((range) => range.value),
  }));
}

/** @param {number} count @param {string} noun @param {string} [plural] */
export function counted(count, noun, plural = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

const FIGURES = new Intl.NumberFormat("en");

/** @param {unknown} value */
export function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? FIGURES.format(value) : "–";
}

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes == null) return "";
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  let value = bytes;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000 && ms % 1000 === 0) return `${ms / 1000} s`;
  if (ms % 60_000 === 0) return `${ms / 60_000} min`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** Format a moment: the time if it is today, else the date. @param {string | number | null | undefined} value */
export function moment(value) {
  if (value == null || value === "") return "";
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  return today
    ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
}

/** Join title and headings on one line. @param {string | undefined} title @param {string[] | undefined} headings */
export function headingPath(title, headings) {
  const parts = [title, ...(headings ?? [])].filter(Boolean).map((part) => shorten(part, 160));
  return parts.filter((part, i) => i === 0 || part !== parts[i - 1]).join(" › ");
}
