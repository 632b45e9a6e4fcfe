// A parser of the blocks of answers and documents: paragraphs, headings, lists, quotations, code and tables, in Markdown and reST.
// HTML and images stay plain text. Every node has its offsets in the text.

import { inlines } from "./markdown.js";

/**
 * @typedef {import("./markdown.js").Inline} Inline
 * @typedef {{kind: "p" | "quote", children: Inline[]}} Paragraph
 * @typedef {{kind: "h", level: number, children: Inline[]}} Heading
 * @typedef {{kind: "pre", start: number, end: number, margin: number}} Code `margin`: hidden spaces before each line
 * @typedef {{depth: number, children: Inline[]}} Item
 * @typedef {{kind: "ul" | "ol", first: number, items: Item[]}} List
 * @typedef {{kind: "table", isHeaded: boolean, rows: Inline[][][]}} Table
 * @typedef {Paragraph | Heading | Code | List | Table} Block
 * @typedef {"answer" | "markdown" | "rst" | "plain" | "records" | "code"} Form `answer`: Markdown of a model, without links
 * @typedef {{end: number, level: number}} KnownHeading
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const HEADING_END = /[ \t]+(?:#+|\{[#.:][^{}]*\})[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+•]|(\d{1,4})[.)])[ \t]+/;
const RULE = /^ {0,3}(?:([-*_])(?:[ \t]*\1){2,}|<\/?[A-Z][\w.]*(?:\s[^<>]*)?>)[ \t]*$/;
const SETEXT = /^ {0,3}(?:=+|-{2,})[ \t]*$/;
const ROW = /^ {0,3}\|.*\|[ \t]*$/;
const SEPARATOR = /^ {0,3}(?=[^\n]*-)(?=[^\n]*\|)\|?(?:[ \t]*:?-+:?[ \t]*\|)*(?:[ \t]*:?-+:?[ \t]*)?$/;
const ADORNMENT = /^([!-/:-@[-`{-~])\1{2,}[ \t]*$/;
const DIRECTIVE = /^[ \t]*\.\.(?:[ \t]+([\w:+.-]{1,40}?)::(?:[ \t]+|$)|[ \t]|$)/;
const CODE_DIRECTIVE = /^(?:code|code-block|sourcecode|parsed-literal|prompt|math)$/;
const HIDDEN_DIRECTIVE = /^(?:contents|currentmodule|default-role|highlight|index|meta)$/;
const ENTRY_DIRECTIVE = /^(?:\w+:)?(?:class|function|method|attribute|data|option|module|exception|decorator)$/;
const OPTION = /^[ \t]+:[\w-]{1,40}:(?:[ \t]|$)/;
const VERBATIM = /^[ \t]*(?:\+[-=+]{3,}\+|={2,}(?: +={2,})+)[ \t]*$|^>>> /; // the border of a table in reST, or a Python session
const FIELD = /(?:^|; )([^:;\n]{1,80}): ([^;\n]*(?:;(?! [^:;\n]{1,80}: )[^;\n]*)*)/g; // of a record of a sheet
const MARKDOWN = new Set(["answer", "markdown"]);
const FORMS = /** @type {[RegExp, Form][]} */ ([
  [/\.(md|markdown|mdx|qmd|ipynb|adoc|asciidoc|org|tex|man|[1-8])$/i, "markdown"], // or read as Markdown
  [/\.rst$/i, "rst"],
  [/\.(csv|ods|tsv|xlsx)$/i, "records"],
  [/\.(bash|c|cc|cfg|cjs|cpp|cs|go|h|hpp|ini|java|jsx?|kt|mjs|php|pyi?|rb|rs|sh|sql|toml|tsx?|ya?ml)$/i, "code"],
]);

/** Return the form of a document by the suffix of its name. @param {string} name @returns {Form} */
export function formOf(name) {
  return FORMS.find(([suffix]) => suffix.test(name))?.[1] ?? "plain";
}

/**
 * @param {string} text
 * @param {Form} [form]
 * @param {Map<number, KnownHeading>} [headings] headings of a plain text by their start
 * @returns {Block[]}
 */
export function blocks(text, form = "answer", headings = new Map()) {
  if (form === "code") {
    const margin = Math.min(...[...text.matchAll(/^ *(?=\S)/gm)].map((spaces) => spaces[0].length));
    return [{ kind: "pre", start: 0, end: text.length, margin: Number.isFinite(margin) ? margin : 0 }];
  }
  const reader = new Reader(text, form, headings);
  const rules = RULES[form];
  while (reader.at < text.length) {
    reader.readLine();
    const rule = rules.find((one) => one(reader));
    if (!rule) reader.addLine();
  }
  reader.close();
  return reader.found;
}

/** The text at a line, and the blocks before it. A rule that applies moves `at` behind the lines that it reads. */
class Reader {
  /** @type {Block[]} */
  found = [];
  /** @type {{start: number, end: number, kind: "p" | "quote" | "item", item?: Item} | null} */
  open = null;
  isLiteral = false; // the next indented lines are code (reST)
  hasOptions = false; // the next lines may be options of a directive (reST)
  /** @type {string[]} */
  adornments = []; // of titles, from the highest level (reST)
  at = 0;
  end = 0;
  line = "";

  /** @param {string} text @param {Form} form @param {Map<number, KnownHeading>} headings */
  constructor(text, form, headings) {
    this.text = text;
    this.form = form;
    this.headings = headings;
  }

  readLine() {
    this.end = lineEnd(this.text, this.at);
    this.line = this.text.slice(this.at, this.end);
  }

  get margin() {
    return this.line.length - this.line.trimStart().length;
  }

  get below() {
    return this.text.slice(this.end + 1, lineEnd(this.text, this.end + 1));
  }

  /** @param {number} start @param {number} end */
  inner(start, end) {
    return inlines(this.text, start, end, this.form);
  }

  close() {
    const { open } = this;
    this.open = null;
    if (!open) return;
    if (this.form === "rst" && this.text.slice(open.start, open.end).trimEnd().endsWith("::")) {
      this.isLiteral = true;
      open.end = open.start + this.text.slice(open.start, open.end).trimEnd().length - 1;
      if (open.end - open.start < 2) return;
    }
    const children = this.inner(open.start, open.end);
    if (open.item) open.item.children = children;
    else this.found.push({ kind: open.kind === "quote" ? "quote" : "p", children });
  }

  /** Add a block that ends before `next`. @param {Block} block @param {number} next */
  add(block, next) {
    this.found.push(block);
    this.at = next;
    return true;
  }

  /** @param {number} level @param {number} start @param {number} end @param {number} [next] */
  addHeading(level, start, end, next = end + 1) {
    this.close();
    const ending = !MARKDOWN.has(this.form) ? null : HEADING_END.exec(this.text.slice(start, end));
    return this.add({ kind: "h", level, children: this.inner(start, ending ? start + ending.index : end) }, next);
  }

  /** Add a line of prose to the open paragraph, or open one. */
  addLine() {
    const { open, at, end, margin } = this;
    const quote = !MARKDOWN.has(this.form) ? null : QUOTE.exec(this.line);
    const isInList = this.found.at(-1)?.kind === "ul" || this.found.at(-1)?.kind === "ol";
    if (open && (open.kind === "item" ? margin > 0 : open.kind === "p" ? !quote : this.form === "rst")) open.end = end;
    else {
      this.close();
      const isQuoted = quote || (this.form === "rst" && margin > 0 && !isInList);
      this.open = { kind: isQuoted ? "quote" : "p", start: at + (quote ? quote[0].length : isQuoted ? margin : 0), end };
    }
    this.at = end + 1;
  }
}

/** @typedef {(reader: Reader) => boolean} Rule returns true if it applies to the line */

/** @type {Rule} */
function blank(reader) {
  if (reader.line.trim()) return false;
  reader.close();
  reader.at = reader.end + 1;
  return true;
}

/** @type {Rule} */
function knownHeading(reader) {
  const known = reader.headings.get(reader.at);
  return known !== undefined && reader.addHeading(known.level, reader.at, known.end, lineEnd(reader.text, known.end) + 1);
}

/** @type {Rule} */
function frontMatter(reader) {
  const ending = reader.at === 0 && /^---[ \t]*$/.test(reader.line) ? /\n---[ \t]*(?:\n|$)/.exec(reader.text) : null;
  return ending !== null && reader.add({ kind: "pre", start: reader.end + 1, end: Math.max(reader.end + 1, ending.index), margin: 0 }, ending.index + ending[0].length);
}

/** @type {Rule} */
function fence(reader) {
  const mark = FENCE.exec(reader.line);
  if (!mark) return false;
  reader.close();
  const start = Math.min(reader.end + 1, reader.text.length);
  const stop = fenceEnd(reader.text, reader.end + 1, mark[1]);
  return reader.add({ kind: "pre", start, end: Math.min(reader.text.length, Math.max(start, stop.end)), margin: 0 }, stop.next);
}

/** Code below a margin: four spaces in Markdown, any margin below a line that ends with two colons in reST. @type {Rule} */
function indented(reader) {
  const last = reader.found.at(-1)?.kind;
  const isMarkdown = reader.form === "markdown" && !reader.open && reader.margin >= 4 && last !== "ul" && last !== "ol";
  if (!isMarkdown && !(reader.isLiteral && reader.margin > 0 && !reader.open)) {
    reader.isLiteral &&= reader.margin > 0;
    return false;
  }
  const { text, at } = reader;
  const margin = isMarkdown ? 4 : reader.margin;
  let end = reader.end;
  for (let next = end + 1; next < text.length; next = lineEnd(text, next) + 1) {
    const line = text.slice(next, lineEnd(text, next));
    if (!line.trim()) continue;
    if (line.length - line.trimStart().length < margin) break;
    end = next + line.length;
  }
  reader.isLiteral = false;
  return reader.add({ kind: "pre", start: at, end, margin }, end + 1);
}

/** @type {Rule} */
function table(reader) {
  const { text, form, line, below } = reader;
  const isSeparated = below.includes("|") && SEPARATOR.test(below);
  if (!(line.includes("|") && isSeparated) && (form === "answer" || !ROW.test(line))) return false;
  reader.close();
  const rows = [];
  let { at } = reader;
  for (; at < text.length; at = lineEnd(text, at) + 1) {
    const row = text.slice(at, lineEnd(text, at));
    if (!row.includes("|")) break;
    if (!SEPARATOR.test(row)) rows.push(cells(row, at).map(({ start, end }) => reader.inner(start, end)));
  }
  return reader.add({ kind: "table", isHeaded: rows.length > 1 && (isSeparated || RULES[form].includes(knownHeading)), rows }, at);
}

/** Records with the same fields, such as `name: Ada; born: 1812`, as a table. @type {Rule} */
function records(reader) {
  const { text } = reader;
  /** @type {{names: string, cells: {start: number, end: number}[][]}} */
  const found = { names: "", cells: [] };
  let { at } = reader;
  for (; at < text.length; at = lineEnd(text, at) + 1) {
    const line = text.slice(at, lineEnd(text, at));
    const fields = [...line.matchAll(FIELD)];
    const names = fields.map((field) => field[1]).join("; ");
    if (line.trim() && (fields.length < 2 || fields.map((field) => field[0]).join("") !== line || (found.names && names !== found.names))) break;
    if (!line.trim()) continue;
    const bounds = fields.map((field) => ({ start: at + field.index + field[0].indexOf(field[1]), field }));
    if (!found.names) found.cells.push(bounds.map(({ start, field }) => ({ start, end: start + field[1].length })));
    found.names = names;
    found.cells.push(bounds.map(({ start, field }) => ({ start: start + field[1].length + 2, end: start + field[1].length + 2 + field[2].length })));
  }
  if (!found.names) return false;
  reader.close();
  return reader.add({ kind: "table", isHeaded: true, rows: found.cells.map((row) => row.map(({ start, end }) => reader.inner(start, end))) }, at);
}

/** Return the bounds of the cells of a row. @param {string} row @param {number} at */
function cells(row, at) {
  const bars = [...row.matchAll(/\\.|\|/g)].filter((found) => found[0] === "|").map((found) => found.index);
  const first = row.trimStart().startsWith("|") ? bars.shift() ?? 0 : -1;
  const last = row.trimEnd().endsWith("|") ? bars.pop() ?? row.length : row.length;
  const bounds = [first, ...bars, last];
  return bounds.slice(1).map((end, i) => {
    const words = row.slice(bounds[i] + 1, end);
    const start = bounds[i] + 1 + words.length - words.trimStart().length;
    return { start: at + start, end: at + Math.max(start, start + words.trim().length) };
  });
}

/** @type {Rule} */
function hashHeading(reader) {
  const mark = HEADING.exec(reader.line);
  return mark !== null && reader.addHeading(mark[1].length, reader.at + mark[0].length, reader.end);
}

/** A heading above a line of `=` or `-`. @type {Rule} */
function underlined(reader) {
  if (reader.open || ITEM.test(reader.line) || QUOTE.test(reader.line) || !SETEXT.test(reader.below)) return false;
  return reader.addHeading(reader.below.includes("=") ? 1 : 2, reader.at, reader.end, lineEnd(reader.text, reader.end + 1) + 1);
}

/** A line across the page, or with a tag of MDX, which is not shown. @type {Rule} */
function rule(reader) {
  if (!RULE.test(reader.line)) return false;
  reader.close();
  reader.at = reader.end + 1;
  return true;
}

/** A title of reST: above a line of punctuation, or between two. @type {Rule} */
function title(reader) {
  if (reader.open) return false;
  const { text, line, below, end } = reader;
  const over = ADORNMENT.exec(line);
  const belowEnd = end + 1 + below.length;
  const third = text.slice(belowEnd + 1, lineEnd(text, belowEnd + 1));
  const isBetween = over !== null && below.trim() !== "" && ADORNMENT.test(third) && third[0] === line[0];
  if (!isBetween && (over || !ADORNMENT.test(below))) {
    reader.at = over ? end + 1 : reader.at;
    return over !== null;
  }
  const style = isBetween ? line[0] + line[0] : below[0];
  if (!reader.adornments.includes(style)) reader.adornments.push(style);
  const level = reader.adornments.indexOf(style) + 1;
  return isBetween ? reader.addHeading(level, end + 1, belowEnd, belowEnd + third.length + 2) : reader.addHeading(level, reader.at, end, belowEnd + 1);
}

/** A directive, comment or target of reST. Comments and targets are not shown. @type {Rule} */
function directive(reader) {
  const { at, end, line } = reader;
  const mark = reader.isLiteral && reader.margin > 0 ? null : DIRECTIVE.exec(line);
  const isOption = reader.hasOptions && OPTION.test(line);
  reader.hasOptions = isOption || mark !== null;
  if (isOption) reader.at = end + 1;
  if (!mark) return isOption;
  reader.close();
  reader.at = end + 1;
  const name = mark[1] ?? "";
  reader.isLiteral = CODE_DIRECTIVE.test(name);
  if (!name || reader.isLiteral || HIDDEN_DIRECTIVE.test(name)) return true;
  const start = at + line.indexOf(name);
  const rest = at + mark[0].length;
  /** @type {Inline[]} */
  const children = [{ kind: "strong", start, end: start + name.length, children: [{ kind: "text", start, end: start + name.length }] }];
  if (rest < end) children.push({ kind: "text", start: rest - 1, end: rest }, ...(ENTRY_DIRECTIVE.test(name) ? [/** @type {Inline} */ ({ kind: "code", start: rest, end })] : reader.inner(rest, end)));
  return reader.add({ kind: "p", children }, end + 1);
}

/** A table of reST or a Python session, shown as it is written. @type {Rule} */
function verbatim(reader) {
  if (reader.open || !VERBATIM.test(reader.line)) return false;
  let end = reader.end;
  while (end < reader.text.length && reader.text.slice(end + 1, lineEnd(reader.text, end + 1)).trim()) end = lineEnd(reader.text, end + 1);
  return reader.add({ kind: "pre", start: reader.at, end, margin: reader.margin }, end + 1);
}

/** @type {Rule} */
function listItem(reader) {
  const mark = ITEM.exec(reader.line);
  if (!mark) return false;
  reader.close();
  const { at, end, text } = reader;
  /** @type {Item} */
  const item = { depth: Math.min(4, Math.floor(mark[1].replace(/\t/g, "    ").length / 2)), children: [] };
  const kind = mark[3] ? "ol" : "ul";
  const last = reader.found.at(-1);
  if (last && "items" in last && (last.kind === kind || item.depth > 0) && !blankBefore(text, at, 2)) last.items.push(item);
  else reader.found.push({ kind, first: Number(mark[3] ?? 1), items: [item] });
  reader.open = { kind: "item", start: at + mark[0].length, end, item };
  reader.at = end + 1;
  return true;
}

const RULES = /** @type {Record<string, Rule[]>} */ ({
  answer: [fence, blank, table, hashHeading, listItem],
  markdown: [frontMatter, fence, blank, indented, table, hashHeading, underlined, rule, listItem],
  rst: [blank, directive, indented, title, verbatim, listItem],
  plain: [knownHeading, blank, table, listItem],
  records: [knownHeading, blank, records, table, listItem],
});

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
    const fenced = FENCE.exec(text.slice(at, end));
    if (fenced && fenced[1][0] === mark[0] && fenced[1].length >= mark.length) return { end: Math.max(from, at - 1), next: end + 1 };
    at = end + 1;
  }
  return { end: text.length, next: text.length };
}
