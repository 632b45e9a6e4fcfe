// A parser of the marks within a paragraph: code, emphasis, links by their labels, and marks like [1].
// Images, HTML and the links of answers stay plain text. Every node has its offsets in the text.

/**
 * @typedef {{kind: "text" | "code", start: number, end: number}} Words
 * @typedef {{kind: "mark", number: number, start: number, end: number}} Mark
 * @typedef {{kind: "em" | "strong" | "link", children: Inline[], start: number, end: number, target?: string}} Emphasis
 * @typedef {Words | Mark | Emphasis} Inline
 */

const DEEPEST = 12; // nesting of emphasis; deeper marks stay text
const LINK = /(?<lead>!?\[)(?<label>[^\]\[]{1,300})\]\((?<target>[^)\s]{0,500})(?:\s"[^"\n]{0,200}")?\)/y;
const ROLE = /(?<lead>(?::[\w.+-]{1,40}){0,2}:?`(?!`)[~!]?)(?<label>[^`<]{1,300}?)(?:\s*<(?<target>[^>`]{0,500})>)?`(?!`)_{0,2}/y;

/**
 * @param {string} text @param {number} start @param {number} end
 * @param {string} [form] `markdown` and `rst` show links by their labels; `plain` and `records` have text only
 * @returns {Inline[]}
 */
export function inlines(text, start, end, form = "answer") {
  if (form === "plain" || form === "records") return [{ kind: "text", start, end }];
  /** @type {{mark: string, start: number, children: Inline[]}[]} */
  const stack = [{ mark: "", start, children: [] }];
  const ticks = codeEnds(text, start, end);
  let plain = start;
  let at = start;
  const top = () => stack[stack.length - 1];
  const flush = (/** @type {number} */ to) => {
    if (plain < to) top().children.push({ kind: "text", start: plain, end: to });
  };
  const fold = () => {
    const frame = /** @type {{mark: string, start: number, children: Inline[]}} */ (stack.pop());
    top().children.push({ kind: "text", start: frame.start, end: frame.start + frame.mark.length }, ...frame.children);
  };
  while (at < end) {
    const letter = text[at];
    const link = linkAt(text, at, end, form);
    if (link) {
      flush(at);
      top().children.push(link.node);
      at = plain = link.next;
    } else if (letter === "\\" && at + 1 < end && /[\\`*_[\]]/.test(text[at + 1])) {
      flush(at);
      plain = at + 1;
      at += 2;
    } else if (letter === "`" && ticks.has(at)) {
      const { width, stop } = /** @type {{width: number, stop: number}} */ (ticks.get(at));
      flush(at);
      top().children.push({ kind: "code", start: at + width, end: stop });
      at = plain = stop + width;
    } else if (letter === "[") {
      const mark = /^\[(\d{1,3})\]/.exec(text.slice(at, Math.min(end, at + 5)));
      if (mark) {
        flush(at);
        top().children.push({ kind: "mark", number: Number(mark[1]), start: at, end: at + mark[0].length });
        plain = at + mark[0].length;
      }
      at += mark ? mark[0].length : 1;
    } else if (letter === "*" || (letter === "_" && form !== "rst")) {
      const double = text[at + 1] === letter && at + 1 < end;
      const mark = double ? letter + letter : letter;
      const before = at > start ? text[at - 1] : " ";
      const after = at + mark.length < end ? text[at + mark.length] : " ";
      const within = letter === "_" && isWord(before) && isWord(after);
      const opener = stack.findLastIndex((frame) => frame.mark === mark);
      if (opener > 0 && !/\s/.test(before) && !within && at > stack[opener].start + mark.length) {
        flush(at);
        while (stack.length - 1 > opener) fold();
        const frame = /** @type {{mark: string, start: number, children: Inline[]}} */ (stack.pop());
        top().children.push({ kind: double ? "strong" : "em", children: frame.children, start: frame.start, end: at + mark.length });
        plain = at + mark.length;
      } else if (!/\s/.test(after) && !within && stack.length < DEEPEST && opener < 0) {
        flush(at);
        stack.push({ mark, start: at, children: [] });
        plain = at + mark.length;
      }
      at += mark.length;
    } else at += 1;
  }
  flush(end);
  while (stack.length > 1) fold();
  return top().children;
}

/**
 * Return the link or role at an offset, and the offset behind it.
 * @param {string} text @param {number} at @param {number} end @param {string} form
 * @returns {{node: Inline, next: number} | null}
 */
function linkAt(text, at, end, form) {
  const pattern = form === "markdown" && /[![]/.test(text[at]) ? LINK : form === "rst" && /[:`]/.test(text[at]) ? ROLE : null;
  if (!pattern) return null;
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  if (!found?.groups || at + found[0].length > end) return null;
  const { lead, label, target = "" } = found.groups;
  const [from, to] = [at + lead.length, at + lead.length + label.length];
  const next = at + found[0].length;
  if (lead.startsWith(":")) return { node: { kind: "code", start: from, end: to }, next };
  return { node: { kind: "link", target, children: inlines(text, from, to), start: at, end: next }, next };
}

/** @param {string} letter */
function isWord(letter) {
  return /[\p{L}\p{N}_]/u.test(letter);
}

/** Map the start of each code span to the width of its backticks and the position of the closing ones. @param {string} text @param {number} start @param {number} end */
function codeEnds(text, start, end) {
  const runs = [...text.slice(start, end).matchAll(/`+/g)].map((run) => ({ at: start + run.index, width: run[0].length }));
  /** @type {Map<number, {width: number, stop: number}>} */
  const found = new Map();
  /** @type {Map<number, number>} */
  const nextOfWidth = new Map();
  for (const run of runs.toReversed()) {
    const stop = nextOfWidth.get(run.width);
    if (stop !== undefined) found.set(run.at, { width: run.width, stop });
    nextOfWidth.set(run.width, run.at);
  }
  return found;
}

/** Return the finished sentences of a text from `from` on, for screen readers. @param {string} text @param {number} from */
export function finishedSentences(text, from) {
  const rest = text.slice(from);
  const ends = [...rest.matchAll(/[.!?。！？…][)"'”’»\]]*(?=\s)|\n+/gu)];
  const last = ends.at(-1);
  return last ? rest.slice(0, last.index + last[0].length) : "";
}
