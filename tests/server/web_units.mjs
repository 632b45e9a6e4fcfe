// Tests of the page's pure modules. test_web_files.py runs them with `node --test`, next to copies of the modules.
import assert from "node:assert/strict";
import test from "node:test";
import { blocks, formOf } from "./blocks.js";
import { finishedSentences, inlines } from "./markdown.js";
import { EventParser, events } from "./sse.js";
import { counted, duration, Offsets, pieces, printable, sentence, shorten, size } from "./text.js";
import { answerText, markdownOf, sourceLines } from "./transcript.js";

const STREAM = "\ufeff: a comment\r\nevent: delta\r\ndata: {\"text\": \"Größe 👩‍👧 \"}\r\nid: 7\r\n\r\ndata: one\rdata:two\r\rdata\n\nevent: lost\n\n:\nretry: 5\nunknown: x\ndata:  spaced\n\ndata: never ends";
const EVENTS = [
  { event: "delta", data: "{\"text\": \"Größe 👩‍👧 \"}", id: "7" },
  { event: "message", data: "one\ntwo", id: "7" },
  { event: "message", data: "", id: "7" },
  { event: "message", data: " spaced", id: "7" },
];

const FORMS = ["answer", "markdown", "rst", "plain", "records", "code"];

/** @param {Uint8Array[]} chunks */
async function read(chunks) {
  const found = [];
  for await (const event of events(new ReadableStream({ start(to) { chunks.forEach((chunk) => to.enqueue(chunk)); to.close(); } }))) found.push(event);
  return found;
}

test("events are the same wherever the bytes are split", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  assert.deepEqual(await read([bytes]), EVENTS);
  for (let at = 0; at <= bytes.length; at++) assert.deepEqual(await read([bytes.slice(0, at), bytes.slice(at)]), EVENTS, `split at ${at}`);
  assert.deepEqual(await read([...bytes].map((byte) => Uint8Array.of(byte))), EVENTS);
});

test("an event without data is dropped together with its name", () => {
  assert.deepEqual(new EventParser().push("event: a\n\ndata: x\n\n"), [{ event: "message", data: "x", id: "" }]);
});

test("leaving the loop cancels the response", async () => {
  let isCancelled = false;
  const body = new ReadableStream({ pull(to) { to.enqueue(new TextEncoder().encode("data: x\n\n")); }, cancel() { isCancelled = true; } });
  for await (const event of events(body)) { assert.equal(event.data, "x"); break; }
  await new Promise((resolve) => setTimeout(resolve));
  assert.ok(isCancelled);
});

test("offsets of code points match counting one by one", () => {
  for (const text of ["", "plain", "👍", "a👍b👩‍👧c", "👍".repeat(50), "é\u0301漢😀\udc00x\ud800"]) {
    const points = [...text];
    const offsets = new Offsets(text);
    for (let point = 0, unit = 0; point <= points.length; point++) {
      assert.equal(offsets.unit(point), unit, `${text} at ${point}`);
      unit += points[point]?.length ?? 0;
    }
  }
  assert.equal(new Offsets("ab").unit(99), 2);
});

test("control and hidden characters become visible without changing offsets", () => {
  for (const text of ["a\u202eb", "\x1b[31m", "\u{e0041}x", "\u2028", "e\u0301", "👩‍👧", "\u061c\u200f", "\x00\x7f\x9b"]) assert.equal(printable(text).length, text.length);
  assert.equal(printable("a\u202e\x1b\x7f\u{e0041}"), "a\ufffd\u241b\u2421\ufffd\ufffd");
  assert.equal(printable("👩‍👧 नहीं می‌خواهم\tx\n"), "👩‍👧 नहीं می‌خواهم\tx\n");
  assert.equal(printable(null), "");
});

const words = (text, nodes) => nodes.map((node) => (node.kind === "mark" ? `⟦${node.number}⟧` : node.children ? `<${node.kind}>${words(text, node.children)}</>` : node.kind === "code" ? `<c>${text.slice(node.start, node.end)}</>` : text.slice(node.start, node.end))).join("");
const drawnBlock = (text, block) => {
  if (block.kind === "pre") return `pre${block.margin || ""}:${text.slice(block.start, block.end)}`;
  if (block.rows) return `table${block.isHeaded ? "+" : ""}:${block.rows.map((row) => row.map((cell) => words(text, cell)).join("|")).join("/")}`;
  if (block.items) return `${block.kind}${block.first}:${block.items.map((item) => `${item.depth}.${words(text, item.children)}`).join("|")}`;
  return `${block.kind}${block.level ?? ""}:${words(text, block.children)}`;
};
const drawn = (text, form, headings) => blocks(text, form, headings).map((block) => drawnBlock(text, block));
const nodesOf = (block) => block.rows?.flat(2) ?? block.items?.flatMap((item) => item.children) ?? block.children ?? [block];

test("the subset of Markdown", () => {
  assert.deepEqual(drawn("# Title\nA **bold** and *em* [1].\nSecond line\n\n> quoted"), ["h1:Title", "p:A <strong>bold</> and <em>em</> ⟦1⟧.\nSecond line", "quote:quoted"]);
  assert.deepEqual(drawn("- a\n  - b\n- c\n\n3. x\n4. y"), ["ul1:0.a|1.b|0.c", "ol3:0.x|0.y"]);
  assert.deepEqual(drawn("```js\nlet *x* [1]\n```\nafter"), ["pre:let *x* [1]", "p:after"]);
  assert.deepEqual(drawn("```\nopen"), ["pre:open"]);
  assert.deepEqual(drawn("snake_case_name, 2 * 3 * 4, `a*b*[1]`, **open, \\*not\\*"), ["p:snake_case_name, 2 * 3 * 4, <c>a*b*[1]</>, **open, *not*"]);
  assert.deepEqual(drawn("[1234] [a] [12][3]"), ["p:[1234] [a] ⟦12⟧⟦3⟧"]);
});

test("tables of answers need a line below their head", () => {
  assert.deepEqual(drawn("| a | b |\n| --- | :-: |\n| `x|` | **y** |\n| z\nend"), ["table+:a|b/`x|`|<strong>y</>/z", "p:end"]);
  assert.deepEqual(drawn("a | b\nc"), ["p:a | b\nc"]);
  assert.deepEqual(drawn("1. one\n   more\n2. two\nend"), ["ol1:0.one\n   more|0.two", "p:end"]);
});

test("documents in Markdown", () => {
  assert.deepEqual(drawn("---\ntitle: x\n---\n## A `b` ##\nText with a [link](http://x.example/a \"t\") and ![picture](x.png).\n\n    code *here*\n\nTitle\n=====\n***\nEnd", "markdown"), [
    "pre:title: x", "h2:A <c>b</>", "p:Text with a <link>link</> and <link>picture</>.", "pre4:    code *here*", "h1:Title", "p:End",
  ]);
  assert.deepEqual(drawn("a | b\n--|--\n1 | 2\n\n| lone | row |", "markdown"), ["table+:a|b/1|2", "table:lone|row"]);
  assert.deepEqual(drawn("---\nnot front matter", "markdown"), ["p:not front matter"]);
  assert.deepEqual(drawn("<Sandpack>\n\nText <b>x</b>\n<LearnMore path=\"/a\">\n```\n<App />\n```\n</Sandpack>", "markdown"), ["p:Text <b>x</b>", "pre:<App />"]);
});

test("documents in reST", () => {
  assert.deepEqual(drawn("=====\nTitle\n=====\n\nPart\n----\n\nUse ``f(x)``, :func:`~a.b` and `the page <http://x.example>`_. So::\n\n  code *x*\n    more\n\nEnd snake_case_ **b**.", "rst"), [
    "h1:Title", "h2:Part", "p:Use <c>f(x)</>, <c>a.b</> and <link>the page</>. So:", "pre2:  code *x*\n    more", "p:End snake_case_ <strong>b</>.",
  ]);
  assert.deepEqual(drawn(".. _target:\n\n.. contents:: :local:\n\n.. note:: Take *care*\n   here\n\n.. code-block:: python\n   :linenos:\n\n   x = 1\n\n.. py:function:: run(a, *, b)\n\n   Runs.", "rst"), [
    "p:<strong>note</> Take <em>care</>", "quote:here", "pre3:   x = 1", "p:<strong>py:function</> <c>run(a, *, b)</>", "quote:Runs.",
  ]);
  assert.deepEqual(drawn("=== ===\na   b\n=== ===\n1   2\n=== ===\n\n>>> 1 + 1\n2\n\n- a\n  b", "rst"), ["pre:=== ===\na   b\n=== ===\n1   2\n=== ===", "pre:>>> 1 + 1\n2", "ul1:0.a\n  b"]);
});

test("plain documents have known headings, lists and tables, and code is as it is", () => {
  assert.deepEqual(drawn("A *title*\nof two\n\n# text\n- one\n| a | b |\n| c | d |", "plain", new Map([[0, { end: 16, level: 2 }]])), ["h2:A *title*\nof two", "p:# text", "ul1:0.one", "table+:a|b/c|d"]);
  assert.deepEqual(drawn("# a\n\n*b*", "code"), ["pre:# a\n\n*b*"]);
  assert.deepEqual(["a.md", "a.RST", "a.pdf", "a.py", "", "md"].map(formOf), ["markdown", "rst", "plain", "code", "plain", "plain"]);
});

test("records of sheets with the same fields are tables, and their texts stay as they are", () => {
  const text = "Region: North; Q1: 1200; Note: a; b\n\nRegion: *South*; Q1: ; Note: c\n\nNot a record; at all\n\nRegion: West; Q2: 7";
  assert.equal(formOf("sales.csv"), "records");
  const [first, words, second] = blocks(text, "records");
  const said = (/** @type {any} */ block) => block.rows.map((/** @type {any} */ row) => row.map((/** @type {any} */ cell) => text.slice(cell[0].start, cell[0].end)));
  assert.deepEqual(said(first), [["Region", "Q1", "Note"], ["North", "1200", "a; b"], ["*South*", "", "c"]]);
  assert.equal(words.kind, "p");
  assert.deepEqual(said(second), [["Region", "Q2"], ["West", "7"]]);
});

test("links, images and HTML of answers stay plain text", () => {
  for (const text of ["[x](javascript:alert(1))", "![x](http://evil/x.png)", "<b onclick=x>y</b>", "<http://evil>"]) assert.deepEqual(drawn(text), [`p:${text}`]);
});

test("nodes of any text are in order and do not overlap", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  const letters = ["*", "**", "_", "`", "``", "[1]", "\n", "\n\n", "- ", "1. ", "# ", "> ", "```", "\\", "a", "b c", "👍", "|", "|-|", "::", ".. a::", "   ", "    ", "==", "====", "[a](b)", "![", ":r:`", "<x>`_", "+--+"];
  for (let turn = 0; turn < 2000; turn++) {
    const text = Array.from({ length: random(24) }, () => letters[random(letters.length)]).join("");
    for (const form of FORMS) {
    let at = 0;
    const walk = (nodes) => nodes.forEach((node) => {
      if (node.children) return walk(node.children);
      assert.ok(node.start >= at && node.end >= node.start && node.end <= text.length, JSON.stringify(text));
      at = node.end;
      return undefined;
    });
    blocks(text, form, new Map([[3, { end: Math.min(9, text.length), level: 1 }]])).forEach((block) => walk(nodesOf(block)));
    }
  }
});

test("long answers of any shape take linear time", () => {
  for (const form of FORMS) for (const shape of ["|", "|-", "| a |\n", "::\n\n  x\n", ".. a::\n", "a\n==\n", "    x\n\n", "[a](b", "![", ":a:`", "`a <", "=\n", "---\n", "> a\n\n", "*a ", "**a*b_", "`a``b```", "[1]", "- x\n", "> ", "\\", "_a_", "[", "```\n"]) {
    const began = process.cpuUsage().user;
    blocks(shape.repeat(100_000 / shape.length), form);
    assert.ok(process.cpuUsage().user - began < 2e6, `${form}: ${shape}`);
  }
});

test("pieces have the values of all ranges that cover them", () => {
  assert.deepEqual(pieces(0, 10, [{ start: 2, end: 6, value: "a" }, { start: 4, end: 99, value: "b" }]), [
    { start: 0, end: 2, values: [] }, { start: 2, end: 4, values: ["a"] }, { start: 4, end: 6, values: ["a", "b"] }, { start: 6, end: 10, values: ["b"] },
  ]);
});

test("figures and sentences", () => {
  assert.deepEqual([size(0), size(999), size(1500), size(48_213), size(3e9)], ["0 B", "999 B", "1.5 kB", "48 kB", "3.0 GB"]);
  assert.deepEqual([duration(3), duration(2310), duration(61_000)], ["3 ms", "2.3 s", "1 min 1 s"]);
  assert.deepEqual([counted(1, "job"), counted(1200, "job")], ["1 job", "1,200 jobs"]);
  assert.deepEqual([sentence("no text"), sentence("Why?"), sentence("")], ["No text.", "Why?", ""]);
  assert.equal(shorten("one two three  four", 15), "one two three…");
  assert.equal(finishedSentences("One. Two is", 0), "One.");
  assert.equal(finishedSentences("One. Two is. ", 4), " Two is.");
});

test("transcripts list each cited source once", () => {
  const cited = { mark: 1, title: "Fleet", headings: ["Fleet", "Aurora"], page: null, line: 3, url: "/#/c/a/d/x?s=0-9", span: { doc: "fleet.md" } };
  const web = { mark: 3, title: "Terns\u202e", headings: [], page: 1200, line: null, url: "https://birds.invalid/terns", span: { doc: "t" } };
  const turn = { question: "When?\nAnd where?", text: "Then [1][3].", answer: { citations: [cited, cited, web] } };
  const base = "http://docs.invalid:80/";
  const lines = ["[1] Fleet › Aurora, line 3, http://docs.invalid/#/c/a/d/x?s=0-9", "[3] Terns\ufffd, page 1,200, https://birds.invalid/terns"];
  assert.deepEqual(sourceLines(turn.answer, base), lines);
  assert.equal(answerText(turn, base), `Then [1][3].\n\nSources:\n${lines.join("\n")}\n`);
  assert.equal(answerText({ ...turn, answer: { citations: [] } }, base), "Then [1][3].");
  const whole = markdownOf("Ships", [turn, { question: "Hidden?", text: "", answer: null }], base);
  const gone = "*The documents of this answer are not visible any more.*";
  assert.equal(whole, `# Ships\n\n> When?\n> And where?\n\nThen [1][3].\n\n- ${lines.join("\n- ")}\n\n> Hidden?\n\n${gone}\n`);
});
