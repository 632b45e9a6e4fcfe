// Components that several views share. All texts become text nodes; no HTML is made from strings.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { Problem, save, waiting } from "./api.js";
import { blocks, formOf } from "./blocks.js";
import { useStore } from "./store.js";
import { counted, number, pieces, printable, sentence, shorten } from "./text.js";

/**
 * @typedef {{start: number, end: number, value: {class: string, title?: string, before?: any}}} Range in UTF-16 units of a text;
 *   `before` is shown before the range
 */

const LONG_LINE = 55; // characters from which a line of prose counts as wrapped by its author
const WRAP = new RegExp(`^(?=[^\\n]{${LONG_LINE},}$)(?![ \\t]{2}|[#|>\`~:.]|[-*+=] *[-*+=])[^\\n]*(\\n)(?=[\\p{L}\\p{N}_(\\[“"'<]|[*_\`]{1,2}[\\p{L}\\p{N}_])`, "gmu");

/** Return the URL of a view. @param {string} collection @param {string} view @param {Record<string, string | number | undefined>} [query] */
export function href(collection, view, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/c/${encodeURIComponent(collection)}/${view}${search}`;
}

/** Return the key of a document in URLs: its id as base64url. @param {string} id */
export function keyOf(id) {
  const bytes = Array.from(new TextEncoder().encode(id), (byte) => String.fromCharCode(byte));
  return btoa(bytes.join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** Return the URL of a place in a document. @param {string} collection @param {string} key @param {{start: number, end: number}} [span] */
export function placeHref(collection, key, span) {
  return href(collection, `d/${key}`) + (span ? `?s=${span.start}-${span.end}` : "");
}

/** Render a text with its ranges marked. @param {string} text @param {number} start @param {number} end @param {Range[]} ranges */
function markRanges(text, start, end, ranges) {
  return pieces(start, end, ranges).map((piece) => {
    const words = printable(text.slice(piece.start, piece.end));
    if (!piece.values.length) return words;
    const names = [...new Set(piece.values.map((value) => value.class))].filter(Boolean).join(" ");
    const before = ranges.find((range) => range.value.before && range.start === piece.start)?.value.before ?? null;
    return [before, names ? html`<mark class=${names} title=${piece.values.find((value) => value.title)?.title}>${words}</mark>` : words];
  });
}

/** @param {string} text @param {import("./markdown.js").Inline[]} nodes @param {Range[]} ranges @param {(mark: number) => any} mark @returns {any[]} */
function inlineNodes(text, nodes, ranges, mark) {
  return nodes.map((node) => {
    if (node.kind === "mark") return mark(node.number) ?? markRanges(text, node.start, node.end, ranges);
    if (!("children" in node)) {
      const words = markRanges(text, node.start, node.end, ranges);
      return node.kind === "code" ? html`<code>${words}</code>` : words;
    }
    const inner = inlineNodes(text, node.children, ranges, mark);
    if (node.kind === "link") return html`<span class="link" title=${shorten(node.target, 300) || undefined}>${inner}</span>`;
    return node.kind === "em" ? html`<em>${inner}</em>` : html`<strong>${inner}</strong>`;
  });
}

/** Render code without the margin of its lines. @param {string} text @param {import("./blocks.js").Code} code @param {Range[]} ranges */
function codeLines(text, { start, end, margin }, ranges) {
  if (!margin) return markRanges(text, start, end, ranges);
  const lines = [...text.slice(start, end).matchAll(/[^\n]*(?:\n|$)/g)];
  return lines.map((line) => {
    const from = start + line.index;
    return markRanges(text, from + Math.min(margin, line[0].search(/\S|\n|$/)), from + line[0].length, ranges);
  });
}

/**
 * The text of a model or a document, rendered from the subset of light mark-up that `blocks` reads.
 * @param {{text: string, form?: import("./blocks.js").Form, headings?: Map<number, import("./blocks.js").KnownHeading>, ranges?: Range[], mark?: (mark: number) => any}} props
 */
export function Prose({ text, form = "answer", headings, ranges = [], mark = () => null }) {
  const found = useMemo(() => blocks(text, form, headings), [text, form, headings]);
  const inner = (/** @type {import("./markdown.js").Inline[]} */ nodes) => inlineNodes(text, nodes, ranges, mark);
  return found.map((block) => {
    if (block.kind === "pre") return html`<pre tabindex="0" dir="ltr"><code>${codeLines(text, block, ranges)}</code></pre>`;
    if (block.kind === "table") {
      const row = (/** @type {any[]} */ cells, /** @type {string} */ tag) => html`<tr>${cells.map((cell) => html`<${tag} dir="auto">${inner(cell)}</${tag}>`)}</tr>`;
      const [head, ...rest] = block.rows;
      return html`<div class="grid" tabindex="0" role="group" aria-label="Table"><table>
        ${block.isHeaded ? html`<thead>${row(head, "th")}</thead>` : null}<tbody>${(block.isHeaded ? rest : block.rows).map((cells) => row(cells, "td"))}</tbody></table></div>`;
    }
    if ("items" in block) {
      const items = block.items.map((item) => html`<li data-depth=${item.depth || undefined}>${inner(item.children)}</li>`);
      return block.kind === "ol" ? html`<ol dir="auto" start=${block.first}>${items}</ol>` : html`<ul dir="auto">${items}</ul>`;
    }
    if (block.kind === "quote") return html`<blockquote dir="auto">${inner(block.children)}</blockquote>`;
    return html`<p dir="auto" class=${block.kind === "h" ? `heading h${Math.min(4, block.level)}` : undefined}>${inner(block.children)}</p>`;
  });
}

/** The first lines of a long text, with a button for the rest. It also shows while it has the focus. @param {{children: any}} props */
export function Folded({ children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<div class=${isOpen ? undefined : "folded"}>${children}</div>
    <button type="button" class="plain" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? "Show less" : "Show all"}</button>`;
}

const WRAPPED_FORMATS = /\.(txt|text|adoc|html?|xhtml|pdf)$/i;

/**
 * The text of a document, or of a part of one, in the form that its name tells. Code without a first fence, and lines of records,
 * are shown as they are.
 * @param {{text: string, name: string, isCode?: boolean, ranges?: Range[], headings?: Map<number, import("./blocks.js").KnownHeading>, language?: string}} props
 */
export function DocumentProse({ text, name, isCode = false, ranges, headings, language }) {
  const form = !isCode ? formOf(name) : /^ {0,3}(?:```|~~~)/.test(text) ? "markdown" : "code";
  const words = useMemo(() => (WRAPPED_FORMATS.test(name) ? text.replace(WRAP, (line) => `${line.slice(0, -1)} `) : text), [text, name]);
  const shown = isCode ? words.replace(/\n(?: {0,3}(?:```|~~~)[`~]*)?\s*$/, "") : words;
  return html`<div class=${`text prose as-${form}`} dir="auto" lang=${language || undefined}><${Prose} text=${shown} form=${form} headings=${headings} ranges=${ranges} /></div>`;
}

/** An error with its hint. @param {{error: any, retry?: () => void}} props */
export function ErrorNote({ error, retry }) {
  const problem = error instanceof Problem ? error : new Problem({ detail: error?.message });
  const title = problem.status === 403 ? "Not allowed with this token" : "Error";
  return html`
    <div class="note bad" role="alert">
      <p><b>${title}:</b> <span dir="auto">${sentence(problem.message, 600)}</span></p>
      ${problem.hint ? html`<p dir="auto">${sentence(problem.hint, 600)}</p>` : null}
      ${problem.errors.slice(0, 6).map((one) => html`<p><code>${shorten(one.pointer, 80)}</code> ${shorten(one.detail, 200)}</p>`)}
      ${problem.instance ? html`<p class="where">Request ${shorten(problem.instance, 80)}</p>` : null}
      ${retry ? html`<p><button type="button" onClick=${retry}>Try again</button></p>` : null}
    </div>
  `;
}

/** A link that downloads a file of the API. @param {{path: string, children?: any}} props */
export function Download({ path, children }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const get = (/** @type {Event} */ event) => { event.preventDefault(); setError(null); save(path).catch(setError); };
  return html`<a href=${`api/v1/${path}`} download onClick=${get}>${children}</a>${error ? html`<${ErrorNote} error=${error} />` : null}`;
}

/** @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** A loading line. It appears after a moment, to avoid flicker. @param {{children?: any}} props */
export function Waiting({ children = "Loading" }) {
  return html`<p class="waiting" role="status"><span class="dots" aria-hidden="true"></span>${children}</p>`;
}

/** A progress bar. @param {{done: number, total: number, label: string}} props */
export function Meter({ done, total, label }) {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  const percent = Math.round(100 * share);
  return html`
    <div class="meter" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${percent}>
      <span style=${{ "--share": share }}></span>
    </div>`;
}

/** The ribbon that counts down while requests wait for a busy server. */
export function WaitingLine() {
  const { until, why } = useStore(waiting);
  const [, tick] = useState(0);
  useEffect(() => {
    if (!until) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 250);
    return () => clearInterval(timer);
  }, [until]);
  const left = Math.max(1, Math.ceil((until - Date.now()) / 1000));
  return html`<div role="status">${until ? html`<p class="ribbon">${why}: retry in ${counted(left, "second")}.</p>` : null}</div>`;
}

/**
 * A question field that grows with its text, and sends on Enter.
 * @param {{value: string, onInput: (value: string) => void, onSend: () => void, label: string, placeholder?: string, id?: string, isFocused?: boolean, children?: any}} props
 */
export function QuestionField({ value, onInput, onSend, label, placeholder = "", id = "question-field", isFocused = false, children }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    if (isFocused) field.current?.focus({ preventScroll: true });
  }, [isFocused]);
  return html`
    <form class="asking" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); onSend(); }}>
      <div class="field">
        <label class="sr" for=${id}>${label}</label>
        <div class="grows" data-value=${`${value} `}>
          <textarea id=${id} ref=${field} rows="1" dir="auto" maxlength="8000" placeholder=${placeholder} value=${value}
            onInput=${(/** @type {any} */ event) => onInput(event.target.value)}
            onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
              if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              onSend();
            }}></textarea>
        </div>
        ${children}
      </div>
    </form>
  `;
}

/** @param {{name: "send" | "stop" | "gear" | "close"}} props */
export function Icon({ name }) {
  const paths = {
    send: "M12 19V5M6 11l6-6 6 6",
    stop: "M8 8h8v8H8z",
    gear: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M11 14.5v5",
    close: "M7 7l10 10M17 7L7 17",
  };
  return html`<svg class=${`icon ${name}`} viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`;
}

/** The options of a question, as form values. @typedef {{strategy: string, budget: string, mode: string, rounds: string, chat: string}} Ways */

/** @type {Ways} */
export const DEFAULT_WAYS = { strategy: "", budget: "", mode: "", rounds: "", chat: "" };

/** Convert the form values to fields of a request. @param {Ways} ways */
export function wayFields(ways) {
  const budget = ways.budget.trim();
  return {
    ...(ways.strategy ? { strategy: ways.strategy } : {}),
    ...(budget ? { budget: budget === "auto" ? "auto" : Number(budget) } : {}),
    ...(ways.rounds ? { rounds: Number(ways.rounds) } : {}),
    ...(ways.chat ? { chat: ways.chat } : {}),
  };
}

/**
 * The options of a question. Only the views of the lab offer strategies.
 * @param {{info: any, ways: Ways, onChange: (ways: Ways) => void, hasMode?: boolean, hasStrategy?: boolean}} props
 */
export function WayChoice({ info, ways, onChange, hasMode = false, hasStrategy = false }) {
  const set = (/** @type {keyof Ways} */ name) => (/** @type {any} */ event) => onChange({ ...ways, [name]: event.target.value });
  const chats = namesOf(info?.chats);
  const defaults = info?.defaults ?? {};
  const changed = [
    hasStrategy ? shorten(ways.strategy || defaults.strategy, 40) : "",
    ways.budget === "auto" ? "automatic budget" : Number(ways.budget) ? `${number(Number(ways.budget))} tokens` : "",
    hasMode ? ways.mode : "",
    ways.chat,
  ].filter(Boolean);
  const choice = (/** @type {keyof Ways} */ name, /** @type {string} */ label, /** @type {string[]} */ values, /** @type {string} */ none) => html`
    <label><span>${label}</span><select value=${ways[name]} onChange=${set(name)}>
      <option value="">${none}</option>
      ${values.map((value) => html`<${Choice} value=${value} lacks=${info?.lacks?.[name]?.[value]} />`)}
    </select></label>`;
  return html`
    <details class="ways">
      <summary><${Icon} name="gear" /><span>${["Options", ...changed].join(" · ")}</span></summary>
      <div class="choices">
        ${hasStrategy ? choice("strategy", "Strategy", namesOf(info?.strategies), "default") : null}
        <label><span>Budget in tokens</span>
          <input type="text" inputmode="numeric" list="budgets" pattern="auto|[0-9]{2,5}" value=${ways.budget} placeholder=${defaults.budget ?? ""} onInput=${set("budget")} />
        </label>
        <datalist id="budgets"><option value="auto" /><option value="300" /><option value=${defaults.budget} /><option value="4000" /></datalist>
        ${choice("rounds", "Rounds of search", ["1", "2", "3", "4"], "1")}
        ${hasMode ? choice("mode", "Mode", namesOf(info?.modes), "default") : null}
        ${chats.length ? choice("chat", "Model", chats, "default") : null}
      </div>
    </details>
  `;
}

/**
 * The chosen strategies, each with a button that removes it, and a list of the others.
 * @param {{info: any, picked: string[], onChange: (picked: string[]) => void, most?: number}} props
 */
export function StrategyPicker({ info, picked, onChange, most = Infinity }) {
  const others = namesOf(info?.strategies).filter((name) => !picked.includes(name));
  return html`
    <fieldset class="pills"><legend>Strategies</legend>
      ${picked.map((name) => html`<button type="button" key=${name} aria-label=${`Remove ${name}`} onClick=${() => onChange(picked.filter((other) => other !== name))}>
        ${shorten(name, 40)}<${Icon} name="close" /></button>`)}
      ${others.length && picked.length < most ? html`<select aria-label="Add a strategy" value="" onChange=${(/** @type {any} */ event) => onChange([...picked, event.target.value])}>
        <option value="">Add …</option>${others.map((name) => html`<${Choice} value=${name} lacks=${info?.lacks?.strategy[name]} />`)}</select>` : null}
    </fieldset>`;
}

/** An option that cannot be chosen without a model. @param {{value: string, lacks?: string | null}} props */
function Choice({ value, lacks }) {
  return html`<option value=${value} disabled=${Boolean(lacks)}>${shorten(value, 40)}${lacks ? ` (${shorten(lacks, 70)})` : ""}</option>`;
}

/** Return the names in a list of names, a list of records with names, or a mapping. @param {any} values @returns {string[]} */
export function namesOf(values) {
  if (!values || typeof values !== "object") return [];
  if (!Array.isArray(values)) return Object.keys(values);
  return values.map((value) => (typeof value === "string" ? value : String(value?.name ?? value?.id ?? ""))).filter(Boolean);
}
