// A parser of a Markdown subset for answers: paragraphs, headings, lists, quotations, code, emphasis, and marks like [1].
// Images, HTML and links stay plain text. Every node has its offsets in the text.

/**
 * @typedef {{kind: "text" | "code", start: number, end: number}} Words
 * @typedef {{kind: "mark", number: number, start: number, end: number}} Mark
 * @typedef {{kind: "em" | "strong", children: Inline[], start: number, end: number}} Emphasis
 * @typedef {Words | Mark | Emphasis} Inline
 * @typedef {{kind: "p" | "h" | "quote", children: Inline[]}} Paragraph
 * @typedef {{kind: "pre", start: number, end: number}} Code
 * @typedef {{kind: "ul" | "ol", first: number, items: {depth: number, children: Inline[]}[]}} List
 * @typedef {Paragraph | Code | List} Block
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6}[ \t]+/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+•]|(\d{1,4})[.)])[ \t]+/;
const DEEPEST = 12; // nesting of emphasis; deeper marks stay text

/** @param {string} text @returns {Block[]} */
export function blocks(text) {
  /** @type {Block[]} */
  const found = [];
  /** @type {{start: number, end: number, kind: "p" | "quote"} | null} */
  let open = null;
  const close = () => {
    if (open) found.push({ kind: open.kind, children: inlines(text, open.start, open.end) });
    open = null;
  };
  let at = 0;
  while (at < text.length) {
    const end = lineEnd(text, at);
    const line = text.slice(at, end);
    const next = end + 1;
    const fence = FENCE.exec(line);
    const item = ITEM.exec(line);
    const heading = HEADING.exec(line);
    const quote = QUOTE.exec(line);
    if (fence) {
      close();
      const stop = fenceEnd(text, next, fence[1]);
      found.push({ kind: "pre", start: Math.min(next, text.length), end: Math.min(text.length, Math.max(next, stop.end)) });
      at = stop.next;
      continue;
    }
    if (!line.trim()) close();
    else if (heading) {
      close();
      found.push({ kind: "h", children: inlines(text, at + heading[0].length, end) });
    } else if (item) {
      close();
      const entry = { depth: Math.min(4, Math.floor(item[1].replace(/\t/g, "    ").length / 2)), children: inlines(text, at + item[0].length, end) };
      const kind = item[3] ? "ol" : "ul";
      const last = found.at(-1);
      if (last && "items" in last && (last.kind === kind || entry.depth > 0) && !blankBefore(text, at, 2)) last.items.push(entry);
      else found.push({ kind, first: Number(item[3] ?? 1), items: [entry] });
    } else {
      const kind = quote ? "quote" : "p";
      if (open && open.kind === kind && !quote) open.end = end;
      else {
        close();
        open = { kind, start: at + (quote?.[0].length ?? 0), end };
      }
    }
    at = next;
  }
  close();
  return found;
}

/** @param {string} text @param {number} at */
function lineEnd(text, at) {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

/** Check if blank lines come before a position. @param {string} text @param {number} at @param {number} lines */
function blankBefore(text, at, lines) {
  return /\n[ \t]*\n[ \t]*\n$/.test(text.slice(Math.max(0, at - 8 * lines), at));
}

/** Find the end of a code block: a fence as long as the first, or the end of the text. @param {string} text @param {number} from @param {string} mark */
function fenceEnd(text, from, mark) {
  for (let at = from; at < text.length; ) {
    const end = lineEnd(text, at);
    const fence = FENCE.exec(text.slice(at, end));
    if (fence && fence[1][0] === mark[0] && fence[1].length >= mark.length) return { end: Math.max(from, at - 1), next: end + 1 };
    at = end + 1;
  }
  return { end: text.length, next: text.length };
}

/**
 * @param {string} text @param {number} start @param {number} end
 * @returns {Inline[]}
 */
export function inlines(text, start, end) {
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
    if (letter === "\\" && at + 1 < end && /[\\`*_[\]]/.test(text[at + 1])) {
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
    } else if (letter === "*" || letter === "_") {
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
