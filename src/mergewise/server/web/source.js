// Source: the text of a document with the cited place marked, and other text of the context marked pale.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { request, within } from "./api.js";
import { lastTurn } from "./conversation.js";
import { DocumentProse, Download, Empty, ErrorNote, href, keyOf, placeHref, Waiting } from "./parts.js";
import { useLoaded } from "./store.js";
import { counted, number, Offsets, sentence, shorten, size } from "./text.js";

const WINDOW = 40_000; // characters per request
const LARGEST = 150_000; // characters per request for a longer cited place
const BEFORE = 6_000; // characters to load before the place

/** @typedef {{start: number, end: number, text: string}} TextWindow in code points */

/** @param {{collection: string, itemKey: string, query: URLSearchParams}} props */
export function SourceView({ collection, itemKey, query }) {
  const span = spanOf(query.get("s"));
  const address = within(collection, `/documents/${encodeURIComponent(itemKey)}`);
  const { value: document, error, reload } = useLoaded((signal) => request(address, { signal }), [address]);
  if (error) {
    return error.status === 404
      ? html`<${Empty} title="Document not found"><p>It was removed, or never existed in this collection. <a href=${href(collection, "documents")}>Go to the documents</a></p></${Empty}>`
      : html`<${ErrorNote} error=${error} retry=${reload} />`;
  }
  if (!document) return html`<${Waiting} />`;
  return html`<${DocumentText} collection=${collection} address=${address} document=${document} span=${span} itemKey=${itemKey} />`;
}

/** @param {string | null} value @returns {{start: number, end: number} | null} */
function spanOf(value) {
  const found = /^(\d{1,12})-(\d{1,12})$/.exec(value ?? "");
  if (!found) return null;
  const [start, end] = [Number(found[1]), Number(found[2])];
  return start < end ? { start, end } : null;
}

/** @param {{collection: string, address: string, document: any, span: {start: number, end: number} | null, itemKey: string}} props */
function DocumentText({ collection, address, document, span, itemKey }) {
  const length = Number(document.characters) || 0;
  const outline = /** @type {any[]} */ (document.outline ?? []);
  const [windows, setWindows] = useState(/** @type {TextWindow | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [goal, setGoal] = useState(span);
  const [isGone, setGone] = useState(false);
  const held = useRef({ height: 0, isAbove: false });
  const isSought = useRef(true);
  const load = async (/** @type {number} */ start, /** @type {number} */ end, /** @type {AbortSignal} */ signal) => {
    const answer = await request(`${address}/text?start=${start}&end=${end}`, { signal });
    const text = typeof answer === "string" ? answer : String(answer.text ?? "");
    return { start: Number(answer.start ?? start), end: Number(answer.end ?? end), text };
  };
  useEffect(() => {
    isSought.current = true;
    setGoal(span);
  }, [span?.start, span?.end]);
  useEffect(() => {
    if (windows && (!goal || (windows.start <= goal.start && goal.start < windows.end))) return undefined;
    const controller = new AbortController();
    const start = goal ? sectionStart(outline, goal.start - BEFORE) : 0;
    setError(null);
    const end = Math.max(start + WINDOW, Math.min((goal?.end ?? 0) + BEFORE, start + LARGEST));
    load(start, Math.min(length || end, end), controller.signal).then(setWindows, (problem) => controller.signal.aborted || setError(problem));
    return () => controller.abort();
  }, [address, goal?.start, goal?.end]);
  const extend = (/** @type {boolean} */ isAbove) => {
    if (!windows) return;
    const [start, end] = isAbove ? [sectionStart(outline, windows.start - WINDOW), windows.start] : [windows.end, Math.min(length, windows.end + WINDOW)];
    held.current = { height: globalThis.document.documentElement.scrollHeight, isAbove };
    load(start, end, new AbortController().signal).then(
      (more) => setWindows((now) => now && (isAbove ? { start: more.start, end: now.end, text: more.text + now.text } : { start: now.start, end: more.end, text: now.text + more.text })),
      setError,
    );
  };
  // text inserted above must not move the text on screen
  useLayoutEffect(() => {
    if (held.current.isAbove) scrollBy({ top: globalThis.document.documentElement.scrollHeight - held.current.height, behavior: "instant" });
    held.current = { height: 0, isAbove: false };
  }, [windows]);
  useEffect(() => {
    // scroll to the place only once, when its text is loaded: text inserted later must not scroll the page
    const place = isSought.current && globalThis.document.querySelector(".here");
    if (!place) return;
    isSought.current = false;
    place.scrollIntoView({ block: "center", behavior: "instant" });
    place.closest("pre, .grid")?.scrollTo({ left: 0, behavior: "instant" });
  }, [windows, goal?.start, goal?.end]);
  const others = useMemo(() => spansOfContext(collection, document.id), [collection, itemKey]);
  const path = span ? headingsAt(outline, span.start) : [];
  const page = span ? /** @type {any[]} */ (document.pages ?? []).find((one) => one.start <= span.start && span.start < one.end) : null;
  const facts = [
    counted(length, "character"),
    size(document.bytes),
    shorten(document.media_type, 40),
    document.pages?.length ? counted(document.pages.length, "page") : "",
  ].filter(Boolean);
  const isPrinted = !isGone && (document.media_type === "application/pdf" || /\.pdf$/i.test(document.id)) && document.pages?.length > 0;
  const above = [page ? `Page ${number(page.number)}` : "", path.map((title) => shorten(title, 80)).join(" › ")].filter(Boolean).join(" · ");
  return html`
    <div class=${`document${isPrinted ? " with-page" : ""}`}>
      <header class="top">
        <p class="where"><a class="quiet" href=${href(collection, "ask")}>${lastTurn(collection) ? "Back to the answer" : "Ask"}</a> / <a class="quiet" href=${href(collection, "documents")}>Documents</a></p>
        <h1 tabindex="-1" dir="auto">${shorten(document.title || document.id, 300)}</h1>
        <p class="facts"><span dir="auto">${shorten(document.id, 120)}</span> · ${facts.join(" · ")}</p>
        ${document.has_original ? html`<div class="actions"><${Download} path=${`${address}/original`}>Original file</${Download}></div>` : null}
      </header>
      ${outline.length > 1 ? html`<${Outline} collection=${collection} itemKey=${itemKey} outline=${outline} isClosed=${isPrinted} at=${span?.start ?? -1} />` : null}
      <div class="paper">
        ${span ? html`<${CitedPlaces} collection=${collection} itemKey=${itemKey} at=${span.start} />` : null}
        ${span ? html`<p class="path where" dir="auto">${above || "The cited place"}</p>` : null}
        ${isPrinted ? html`<${PrintedPage} address=${address} pages=${document.pages} at=${Math.max(0, document.pages.indexOf(page))} span=${span} gone=${() => setGone(true)} />` : null}
        ${error ? html`<${ErrorNote} error=${error} retry=${() => { setWindows(null); setGoal(goal ? { ...goal } : null); }} />` : null}
        ${!windows && !error ? html`<${Waiting} />` : null}
        ${windows && windows.start > 0 ? html`<p class="more">
          <button type="button" onClick=${() => extend(true)}>Earlier text</button>
          <span class="where">${number(windows.start)} characters before</span></p>` : null}
        ${windows ? html`<${TextOf} part=${windows} span=${span} others=${others} name=${document.id} language=${document.language} outline=${outline} pages=${document.pages ?? []} />` : null}
        ${windows && windows.end < length ? html`<p class="more">
          <button type="button" onClick=${() => extend(false)}>Later text</button>
          <span class="where">${number(length - windows.end)} characters after</span></p>` : null}
      </div>
    </div>
  `;
}

/** Links to the places that the last answer cites before and after this one. The arrow keys follow them. @param {{collection: string, itemKey: string, at: number}} props */
function CitedPlaces({ collection, itemKey, at }) {
  const places = /** @type {any[]} */ (lastTurn(collection)?.answer?.citations ?? []).map((one) => ({ ...one.span, mark: one.mark, key: keyOf(one.span.doc) }));
  const index = places.findIndex((place) => place.key === itemKey && place.start === at);
  const to = (/** @type {number} */ step) => places[index + step] && placeHref(collection, places[index + step].key, places[index + step]);
  useLayoutEffect(() => {
    const onKey = (/** @type {any} */ event) => {
      const next = to({ ArrowRight: 1, ArrowLeft: -1 }[/** @type {string} */ (event.key)] ?? 0);
      if (index >= 0 && next && /^Arrow[LR]/.test(event.key) && !event.altKey && !event.target.closest("input, select, textarea, pre, .grid")) location.hash = next;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  if (index < 0) return null;
  const link = (/** @type {number} */ step, /** @type {string} */ name, /** @type {string} */ sign) =>
    to(step) ? html`<a class="quiet" href=${to(step)} aria-label=${name}>${sign}</a>` : html`<span aria-hidden="true">${sign}</span>`;
  return html`<nav class="cited-places where" aria-label="Sources of the answer">${link(-1, "Previous source", "‹")} Source ${places[index].mark}: ${number(index + 1)} of ${number(places.length)} ${link(1, "Next source", "›")}</nav>`;
}

/** Return the last heading before an offset, where text can begin without being cut within code or a table. @param {any[]} outline @param {number} at */
function sectionStart(outline, at) {
  const heading = outline.findLast((one) => one.start <= at)?.start ?? 0;
  return at - heading > WINDOW ? at : Math.max(0, heading);
}

/** Return the spans of a document in the last context of this collection. @param {string} collection @param {string} id */
function spansOfContext(collection, id) {
  return (lastTurn(collection)?.context.passages ?? []).flatMap((/** @type {any} */ passage) => passage.spans.filter((/** @type {any} */ span) => span.doc === id));
}

/** @param {any[]} outline @param {number} at @returns {string[]} from the outermost heading */
function headingsAt(outline, at) {
  /** @type {any[]} */
  const open = [];
  for (const heading of outline) {
    if (heading.start > at) break;
    while (open.length && open[open.length - 1].level >= heading.level) open.pop();
    open.push(heading);
  }
  return open.map((heading) => heading.title);
}

/** @param {{collection: string, itemKey: string, outline: any[], isClosed: boolean, at: number}} props */
function Outline({ collection, itemKey, outline, isClosed, at }) {
  const isWide = !isClosed && matchMedia("(min-width: 64rem)").matches;
  const current = outline.findLast((heading) => heading.start <= at);
  const top = Math.min(...outline.map((heading) => heading.level));
  const shown = outline.length > 400 ? outline.filter((heading) => heading.level <= top + 1).slice(0, 400) : outline;
  return html`
    <details class="outline" open=${isWide}>
      <summary>Headings (${number(outline.length)})</summary>
      <nav aria-label="Headings"><ul>
        ${shown.map((heading) => {
          const here = heading === current ? "location" : undefined;
          const to = placeHref(collection, itemKey, heading);
          return html`<li data-depth=${Math.min(4, heading.level - top)}><a class="quiet" dir="auto" aria-current=${here} href=${to}>${shorten(heading.title, 90)}</a></li>`;
        })}
      </ul></nav>
    </details>
  `;
}

/** @param {{part: TextWindow, span: {start: number, end: number} | null, others: {start: number, end: number}[], name: string, language?: string, outline: any[], pages: any[]}} props */
function TextOf({ part, span, others, name, language, outline, pages }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { headings, ranges } = useMemo(() => {
    const offsets = new Offsets(part.text);
    const unit = (/** @type {number} */ point) => offsets.unit(point - part.start);
    const near = (/** @type {any[]} */ spans) => spans.filter((one) => one.start < part.end && part.start < one.end);
    const marked = (/** @type {any[]} */ spans, /** @type {string} */ name) => near(spans).map((one) => ({ start: unit(one.start), end: unit(one.end), value: { class: name } }));
    const top = Math.min(...outline.map((heading) => heading.level));
    return {
      headings: new Map(near(outline).map((heading) => [unit(heading.start), { end: unit(heading.end), level: heading.level - top + 1 }])),
      ranges: [
        ...marked(others, "pale"),
        ...marked(span ? [span] : [], "here"),
        // one character at the start of each page, where its number is shown
        ...near(pages.map((page) => ({ ...page, end: page.start + 1 }))).map((page) => ({
          start: unit(page.start),
          end: unit(page.end),
          value: { class: "", before: html`<span class="page-mark">page ${number(page.number)}</span>` },
        })),
      ],
    };
  }, [part, span?.start, span?.end, others]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    element.querySelector("#place")?.removeAttribute("id");
    element.querySelector(".here")?.setAttribute("id", "place");
  }, [ranges]);
  return html`<div ref=${box}><${DocumentProse} text=${part.text} name=${name} language=${language} headings=${headings} ranges=${ranges} /></div>`;
}

/**
 * A page of a PDF as it is printed, with the cited place marked. It is drawn on a canvas, so that no image address is needed.
 * @param {{address: string, pages: any[], at: number, span: {start: number, end: number} | null, gone: () => void}} props `gone`: the server has no file
 */
function PrintedPage({ address, pages, at, span, gone }) {
  const [index, setIndex] = useState(at);
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const page = pages[index];
  useEffect(() => setIndex(at), [at]);
  const place = span ? `?start=${span.start}&end=${span.end}` : "";
  const { value: picture, error, isLoading } = useLoaded((signal) => request(`${address}/pages/${page.number}${place}`, { signal, headers: { Accept: "image/png" } }), [address, page.number, place]);
  useEffect(() => { if (error?.status === 404) gone(); }, [error]);
  useLayoutEffect(() => {
    if (!picture || !canvas.current) return;
    Object.assign(canvas.current, { width: picture.width, height: picture.height });
    canvas.current.getContext("2d")?.drawImage(picture, 0, 0);
  }, [picture]);
  const turn = (/** @type {number} */ step, /** @type {string} */ name, /** @type {string} */ sign) => html`
    <button type="button" class="round small" aria-label=${name} disabled=${!pages[index + step]} onClick=${() => setIndex(index + step)}>${sign}</button>`;
  return html`
    <figure class="printed" aria-busy=${isLoading}>
      <figcaption>${turn(-1, "Previous page", "‹")}<span>Page ${number(page.number)} of ${number(pages.length)}</span>${turn(1, "Next page", "›")}</figcaption>
      ${error ? html`<p class="where">${sentence(error.message)}</p>` : html`<canvas ref=${canvas} role="img" aria-label=${`Page ${page.number} as printed`}></canvas>`}
    </figure>`;
}
