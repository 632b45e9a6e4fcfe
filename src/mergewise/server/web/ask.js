// Ask: questions and follow-up questions, with their sources as soon as known and answers as they are written.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { ask, beginConversation, conversationOf, restoreConversation } from "./conversation.js";
import { Drawer } from "./drawer.js";
import { Feedback, Suggestions } from "./feedback.js";
import { finishedSentences } from "./markdown.js";
import { focusOn } from "./fragment.js";
import { DEFAULT_WAYS, DocumentProse, ErrorNote, Folded, href, Icon, keyOf, placeHref, Prose, QuestionField, Waiting, WayChoice } from "./parts.js";
import { browserSettings, useLoaded, useStore } from "./store.js";
import { counted, duration, headingPath, number, Offsets, pieces, printable, shorten } from "./text.js";
import { answerText } from "./transcript.js";

const GAP = " …\n".length; // between two parts of a passage
const LONG_QUOTATION = 500; // characters, 7 lines
const AS_WRITTEN = new Set(["code", "line"]); // kinds whose lines stay as they are
const LINES_BEFORE = 34; // pixels shown before the cited sentence of a folded passage

const MARKS = / ?\[\d{1,3}\]/g;
const MARK_UP = / ?\[\d{1,3}\]|`|(?<![\p{L}\p{N}_])[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?![\p{L}\p{N}_])|^#{1,6} /gmu; // of a model, for screen readers

/** @typedef {import("./conversation.js").Turn} Turn */

/** @param {{collection: string, info: any}} props */
export function AskView({ collection, info }) {
  const conversation = conversationOf(collection);
  const turns = useStore(conversation);
  const restored = useLoaded((signal) => restoreConversation(collection, signal), [collection]);
  const [question, setQuestion] = useState("");
  const [ways, setWays] = useState({ ...DEFAULT_WAYS, ...browserSettings.read("ways"), strategy: "" });
  const current = turns.at(-1);
  const isBusy = Boolean(current?.controller);
  const change = (/** @type {import("./parts.js").Ways} */ next) => {
    setWays(next);
    browserSettings.write("ways", next);
  };
  const send = (words = question) => {
    const asked = words.trim();
    if (!asked || isBusy) return;
    setQuestion("");
    ask(collection, asked, ways);
  };
  const stop = () => current?.controller?.abort();
  useEffect(() => {
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      if (isBusy) stop();
      else document.getElementById("question-field")?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [current?.controller]);
  const field = html`
    <div class="composer">
      <${QuestionField} value=${question} onInput=${setQuestion} onSend=${() => send()} label=${turns.length ? "Follow-up question" : "Your question"}
        placeholder=${turns.length ? "Ask a follow-up question" : "Ask your documents"} isFocused=${!matchMedia("(pointer: coarse)").matches}>
        ${isBusy
          ? html`<button type="button" class="round" aria-label="Stop" title="Stop" onClick=${stop}><${Icon} name="stop" /></button>`
          : html`<button type="submit" class="round primary" aria-label="Ask" title="Ask" disabled=${!question.trim()}><${Icon} name="send" /></button>`}
      </${QuestionField}>
      <div class="beneath">
        <${WayChoice} info=${info} ways=${ways} onChange=${change} hasMode />
        <p class="beneath-acts"><${Drawer} collection=${collection} />${turns.length ? html`<button type="button" class="plain" aria-label="New conversation" onClick=${() => beginConversation(collection)}>New</button>` : null}</p>
      </div>
    </div>`;
  if (!turns.length && restored.isLoading) return html`<${Waiting} />`;
  if (!turns.length) {
    return html`
      <div class="start">
        <h1 tabindex="-1">What would you like to know?</h1>
        ${field}
        ${restored.error ? html`<${ErrorNote} error=${restored.error} retry=${restored.reload} />` : null}
        <${Suggestions} collection=${collection} info=${info} ask=${send} />
        <${Holdings} collection=${collection} info=${info} />
      </div>`;
  }
  return html`
    <h1 class="sr" tabindex="-1">Questions to ${shorten(info?.title || collection, 60)}</h1>
    <div class="conversation">
      ${turns.map((turn, i) => html`<${TurnPart} key=${turn.id} collection=${collection} turn=${turn} isLast=${i === turns.length - 1} isIndexing=${Boolean(info?.indexing)} again=${(/** @type {string} */ words) => (words ? ask(collection, words, ways, true) : ask(collection, turn.question, ways))} />`)}
    </div>
    ${field}
    <${Listener} turn=${current} />
  `;
}

/** The size of the collection, or a hint to add documents. @param {{collection: string, info: any}} props */
function Holdings({ collection, info }) {
  if (!info || (!info.documents && info.indexing)) return null;
  if (!info.documents && info.read_only) return html`<p class="holdings">No documents yet.</p>`;
  if (!info.documents) {
    return html`<p class="holdings">No documents yet. <a href=${href(collection, "documents")}>Add documents</a> first.</p>`;
  }
  return html`<p class="holdings"><a class="quiet" href=${href(collection, "documents")}>${counted(info.documents, "document")}</a>${info.characters ? `, ${number(info.characters)} characters` : ""}</p>`;
}

/** @param {{collection: string, turn: Turn, isLast: boolean, isIndexing?: boolean, again?: (words?: string) => void}} props `again` asks the same, or other words without the earlier turns */
export function TurnPart({ collection, turn, isLast, isIndexing = false, again }) {
  const [active, setActive] = useState(0);
  const [sought, setSought] = useState({ mark: 0 });
  const top = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (isLast && turn.id > 1) top.current?.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }, [turn.id]);
  const id = `t${turn.id}`;
  const follow = (/** @type {number} */ mark) => {
    setActive(mark);
    setSought({ mark });
  };
  return html`
    <section class="turn" ref=${top} aria-labelledby=${`${id}q`}>
      <h2 class="asked" id=${`${id}q`} dir="auto">${printable(turn.question)}</h2>
      <div class="sides">
        <div class="main">
          <${AnswerPart} turn=${turn} active=${active} point=${setActive} follow=${follow} isIndexing=${isIndexing} again=${again} collection=${collection} />
        </div>
        ${turn.context || !["failed", "stopped", "withheld"].includes(turn.state) ? html`<${Sources} id=${id} collection=${collection} turn=${turn} active=${active} sought=${sought} />` : null}
      </div>
    </section>
  `;
}

/** @param {{turn: Turn, active: number, point: (mark: number) => void, follow: (mark: number) => void, isIndexing: boolean, again?: (words?: string) => void, collection: string}} props */
function AnswerPart({ turn, active, point, follow, isIndexing, again, collection }) {
  const { answer, context, text, state } = turn;
  const marks = context?.passages.length ?? 0;
  const ranges = useMemo(() => rangesOf(text, answer?.unverified_spans, { class: "unverified", title: "Not supported by the cited sources" }), [text, answer]);
  const isQuoted = answer?.citations.some((/** @type {any} */ one) => one.quoted);
  const mark = (/** @type {number} */ value) => {
    if (value < 1 || value > marks) return null;
    const path = headingPath(context.passages[value - 1].title, context.passages[value - 1].headings);
    return html`<button type="button" class=${`cite${active === value ? " active" : ""}`} aria-label=${`Source ${value}: ${path}`} title=${path}
      onMouseEnter=${() => point(value)} onMouseLeave=${() => point(0)} onFocus=${() => point(value)} onClick=${() => follow(value)}>${value}</button>\u2060`;
  };
  const isPending = state === "asking" || state === "reading" || (state === "writing" && !text);
  return html`
    <div class=${`answer${answer && !answer.found ? " nothing" : ""}`} aria-busy=${Boolean(turn.controller)}>
      ${context && context.question !== turn.question ? html`<${Searched} question=${context.question} again=${again} />` : null}
      ${isPending ? html`<${Waiting}>${state === "asking" ? "Searching" : `Reading ${counted(marks, "passage")}`}</${Waiting}>` : null}
      ${text ? html`<div class=${`said prose${state === "writing" ? " writing" : ""}`}>
        ${isQuoted ? html`<${Quotations} turn=${turn} mark=${mark} />` : html`<${Prose} text=${text} ranges=${ranges} mark=${mark} />`}</div>` : null}
      ${state === "stopped" ? html`<p class="note">Stopped.</p>` : null}
      ${state === "withheld" ? html`<p class="note">The documents of this answer were removed, or you may not see them.${again ? html` <button type="button" class="plain" onClick=${() => again()}>Ask again</button>` : null}</p>` : null}
      ${state === "failed" ? html`<${ErrorNote} error=${turn.error} retry=${again && (() => again())} />` : null}
      ${answer ? html`<${Doubts} answer=${answer} isIndexing=${isIndexing} />` : null}
      ${answer ? html`<${AnswerFoot} collection=${collection} turn=${turn} />` : null}
      ${answer ? html`<${Feedback} collection=${collection} turn=${turn} />` : null}
    </div>
  `;
}

/**
 * Convert spans of the server, in code points, to ranges of a text.
 * @template T
 * @param {string} text @param {any[] | undefined} spans @param {T} value @returns {{start: number, end: number, value: T}[]}
 */
function rangesOf(text, spans, value) {
  const offsets = new Offsets(text);
  return (spans ?? []).map((span) => ({ start: offsets.unit(span.start), end: offsets.unit(span.end), value }));
}

/** The question that was searched for instead of a follow-up, which can be changed. @param {{question: string, again?: (words: string) => void}} props */
function Searched({ question, again }) {
  const [words, setWords] = useState(question);
  const isOther = words.trim() && words.trim() !== question;
  return html`
    <form class="line searched" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); if (isOther) again?.(words.trim()); }}>
      <label>Searched for <input type="text" dir="auto" maxlength="8000" readonly=${!again} value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label>
      ${isOther ? html`<button type="submit">Ask this</button>` : null}
    </form>`;
}

/** An answer of quotations, each drawn as its document is. A blank line separates them. @param {{turn: Turn, mark: (mark: number) => any}} props */
function Quotations({ turn, mark }) {
  const { text, answer, context } = turn;
  const quoted = /** @type {any[]} */ (answer.citations).map((one) => ({ one, ...rangesOf(text, [one.quoted], null)[0] }));
  return [...text.matchAll(/(?:[^\n]+\n?)+/g)].map((paragraph) => {
    const own = quoted.filter(({ start }) => paragraph.index <= start && start < paragraph.index + paragraph[0].length);
    if (!own.length) return html`<p dir="auto">${printable(paragraph[0].trim())}</p>`;
    const lead = text.slice(paragraph.index, own[0].start).replace(/:? ?“$/, "").replace(/\\(?=\[)/g, "");
    const parts = own.map(({ one, start }, i) => html`${i && text.slice(own[i - 1].end, start).includes("…") ? html`<p class="gap">…</p>` : null}
      <${Excerpt} parts=${partsOf(one.text, [one.span], context?.kinds ?? [], [])} name=${one.span.doc} />`);
    const isLong = own.reduce((sum, { one }) => sum + one.text.length, 0) > LONG_QUOTATION;
    return html`<blockquote class="quotation" dir="auto"><span>${mark(own[0].one.mark)}</span><div>
      ${lead ? html`<p class="heading" dir="auto">${printable(lead)}</p>` : null}${isLong ? html`<${Folded}>${parts}</${Folded}>` : parts}</div></blockquote>`;
  });
}

/** Notes on the reliability of the answer. While documents are indexed, the page says so above. @param {{answer: any, isIndexing: boolean}} props */
function Doubts({ answer, isIndexing }) {
  const notes = [];
  if (answer.indexing && !isIndexing) notes.push("Not all documents were indexed when you asked: ask again.");
  // the answer itself says that it is probably not in the documents, or unsure
  else if (answer.found === false && answer.indexing) notes.push("The answer may be in a document that is not indexed yet: ask again later.");
  const unverified = answer.unverified_spans?.length ?? 0;
  if (unverified) notes.push(`${counted(unverified, "sentence")} (underlined) ${unverified === 1 ? "is" : "are"} not supported by the cited sources.`);
  else if (answer.unsupported > 0) notes.push(`${Math.round(100 * answer.unsupported)} % of the sentences are not supported by the sources.`);
  if (answer.complete === false) notes.push("The answer is incomplete: the model reached its token limit.");
  if (answer.removed_marks) notes.push(`${counted(answer.removed_marks, "citation mark")} without a source ${answer.removed_marks === 1 ? "was" : "were"} removed.`);
  return notes.map((note) => html`<p class="note" role="note">${note}</p>`);
}

/** @param {{collection: string, turn: Turn}} props */
function AnswerFoot({ collection, turn }) {
  const { answer } = turn;
  const [isCopied, setCopied] = useState(false);
  const usage = answer.usage ?? {};
  const timings = answer.timings ?? {};
  const facts = [
    timings.total_ms != null ? duration(timings.total_ms) : "",
    usage.calls ? `${counted(usage.calls, "model call")}, ${number(usage.input_tokens + usage.output_tokens)} tokens` : "",
  ].filter(Boolean);
  const copy = () => navigator.clipboard?.writeText(answerText(turn, document.baseURI)).then(() => setCopied(true), () => {});
  return html`
    <footer class="foot">
      <p class="where">${facts.join(" · ")}</p>
      <p class="actions">
        <a href=${href(collection, "merge")}>How it was found</a>
        <button type="button" class="plain" onClick=${copy}>${isCopied ? "Copied" : "Copy"}</button>
      </p>
    </footer>
  `;
}

/**
 * The passages of an answer: first the cited ones, then the others behind a line with their number. Arrow keys go from card to card.
 * @param {{id: string, collection: string, turn: Turn, active: number, sought: {mark: number}}} props
 */
function Sources({ id, collection, turn, active, sought }) {
  const { context, answer } = turn;
  if (!context) return html`<aside class="sources" aria-hidden="true"><div class="ghost"></div><div class="ghost"></div></aside>`;
  const passages = /** @type {any[]} */ (context.passages);
  const citations = /** @type {any[]} */ (answer?.citations ?? []);
  const isCited = (/** @type {any} */ passage) => citations.some((one) => one.mark === passage.mark);
  const cited = citations.length ? passages.filter(isCited) : passages;
  const others = passages.filter((passage) => !cited.includes(passage));
  const card = (/** @type {any} */ passage) => html`<${SourceCard} key=${passage.mark} id=${id} collection=${collection} passage=${passage}
    kinds=${context.kinds ?? []} citations=${citations.filter((one) => one.mark === passage.mark)} isActive=${active === passage.mark} sought=${sought.mark === passage.mark ? sought : null} />`;
  const walk = (/** @type {any} */ event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[/** @type {string} */ (event.key)];
    const here = event.target.closest(".passage");
    if (!step || !here || event.target.closest("pre, .grid")) return;
    const cards = [...event.currentTarget.querySelectorAll(".passage")].filter((one) => one.checkVisibility());
    event.preventDefault();
    focusOn(cards[cards.indexOf(here) + step]);
  };
  return html`
    <aside class="sources" aria-labelledby=${`${id}s`} onKeyDown=${walk}>
      <h3 class="label" id=${`${id}s`}>${!passages.length ? "No sources" : citations.length ? counted(cited.length, "cited source") : counted(passages.length, "source")}</h3>
      ${passages.length ? cited.map(card) : html`<p class="where">No passages match the question.</p>`}
      ${others.length ? html`<details class="uncited" open=${others.some((passage) => passage.mark === sought.mark) || undefined}>
        <summary>${counted(others.length, "source")} not cited</summary>${others.map(card)}</details>` : null}
    </aside>
  `;
}

/**
 * A passage, opened at its cited sentence.
 * @param {{id: string, collection: string, passage: any, kinds: any[], citations: any[], isActive: boolean, sought: {mark: number} | null}} props
 */
function SourceCard({ id, collection, passage, kinds, citations, isActive, sought }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [isLong, setLong] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const parts = useMemo(() => partsOf(passage.text, passage.verbatim ? passage.spans : [], kinds, citations.map((one) => one.span)), [passage, citations.length]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    if (isOpen) return;
    setLong(element.scrollHeight > element.clientHeight + 4);
    const first = /** @type {HTMLElement | null} */ (element.querySelector(".cited"));
    element.scrollTop = first ? first.getBoundingClientRect().top - element.getBoundingClientRect().top + element.scrollTop - LINES_BEFORE : 0;
  }, [parts, isOpen]);
  useLayoutEffect(() => {
    if (sought) focusOn(document.getElementById(`${id}p${passage.mark}`));
  }, [sought]);
  const path = headingPath(passage.title, passage.headings) || shorten(passage.doc) || "No title";
  const place = citations[0]?.span ?? passage.spans[0];
  const where = [shorten(passage.doc, 60), passage.page ? `page ${number(passage.page)}` : passage.line ? `line ${number(passage.line)}` : ""].filter(Boolean);
  return html`
    <article class=${`passage${isActive ? " active" : ""}`} id=${`${id}p${passage.mark}`} tabindex="0" aria-label=${`Source ${passage.mark}: ${path}`}>
      <header>
        <span class="number" aria-hidden="true">${passage.mark}</span>
        <h3 dir="auto">${place ? html`<a class="quiet" href=${placeHref(collection, keyOf(place.doc), place)}>${path}</a>` : path}</h3>
        <p class="where" dir="auto">${where.join(" · ")}</p>
      </header>
      <div class=${`excerpt${isOpen ? " open" : isLong ? " long" : ""}`} ref=${box}>
        <${Excerpt} parts=${parts} name=${passage.doc ?? ""} />
      </div>
      ${isLong ? html`<button type="button" class="plain" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? "Show less" : "Show more"}</button>` : null}
    </article>
  `;
}

/** @typedef {{text: string, isCode: boolean, isApart: boolean, ranges: import("./parts.js").Range[]}} Part `isApart`: after a gap */

/** @param {{parts: Part[], name: string}} props */
function Excerpt({ parts, name }) {
  return parts.map((part, i) => html`${i && part.isApart ? html`<p class="gap">…</p>` : null}
    <${DocumentProse} text=${part.text} name=${name} isCode=${part.isCode} ranges=${part.ranges} />`);
}

/**
 * Return the parts of a text from spans of documents, with code and lines of records apart, each with the ranges that are cited.
 * @param {string} text @param {any[]} spans @param {any[]} kinds @param {any[]} cited @returns {Part[]}
 */
function partsOf(text, spans, kinds, cited) {
  if (!spans.length) return [{ text, isCode: false, isApart: false, ranges: [] }];
  const offsets = new Offsets(text);
  let at = 0;
  return spans.flatMap((span) => {
    const first = at;
    const unit = (/** @type {number} */ point) => offsets.unit(first + Math.max(0, Math.min(point, span.end) - span.start));
    const within = (/** @type {any[]} */ some) => some.filter((one) => one.doc === span.doc && one.start < span.end && span.start < one.end)
      .map((one) => ({ start: unit(one.start), end: unit(one.end), value: { class: "cited" } }));
    at += span.end - span.start + GAP;
    const marked = within(cited);
    /** @type {{start: number, end: number, isCode: boolean}[]} */
    const bounds = [];
    for (const { start, end, values } of pieces(unit(span.start), unit(span.end), within(kinds.filter((one) => AS_WRITTEN.has(one.kind))))) {
      const last = bounds.at(-1);
      const isCode = values.length > 0;
      if (last && (last.isCode === isCode || !text.slice(start, end).trim())) last.end = end;
      else bounds.push({ start, end, isCode });
    }
    return bounds.map(({ start, end, isCode }) => {
      const isApart = start === unit(span.start);
      const margin = (isApart && isCode && span.margin) || "";
      const from = start - margin.length;
      return {
        text: margin + text.slice(start, end),
        isCode,
        isApart,
        ranges: marked.map((range) => ({ ...range, start: range.start - from, end: range.end - from })),
      };
    }).filter((part) => part.text.trim());
  });
}

/** The finished sentences of the answer for screen readers, each once. @param {{turn: Turn | undefined}} props */
function Listener({ turn }) {
  const [spoken, setSpoken] = useState({ id: 0, at: 0, words: "" });
  useEffect(() => {
    if (!turn) return;
    const at = spoken.id === turn.id ? spoken.at : 0;
    const isOver = !turn.controller;
    const words = isOver ? turn.text.slice(at) : finishedSentences(turn.text, at);
    if (words) setSpoken({ id: turn.id, at: at + words.length, words: printable(words.replace(turn.answer?.mode === "extractive" ? MARKS : MARK_UP, "")) });
  }, [turn?.text, turn?.controller]);
  const state = turn?.state === "reading" ? `${counted(turn.context?.passages.length ?? 0, "source")} found.` : "";
  return html`<div class="sr" aria-live="polite" aria-atomic="true">${spoken.id === turn?.id ? spoken.words : state}</div>`;
}
