// Merge: how a context came about. Its budget, the tree of its steps, every passage with its reasons, and what was left out.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { request, within } from "./api.js";
import { lastTurn } from "./conversation.js";
import { BudgetBar, DEFAULT_WAYS, Empty, ErrorNote, focusOn, Icon, PassageCard, placeHref, QuestionField, Waiting, WayChoice, wayFields } from "./parts.js";
import { kept, Store, useStore } from "./store.js";
import { counted, duration, headingPath, keyOf, number, printable, shorten } from "./text.js";
import { contextOf, KINDS, leftOut, mainKind, partsOf, reasonsOf, stretchesOf, treeOf } from "./trace.js";

/** @typedef {import("./trace.js").Context} Context @typedef {import("./trace.js").TraceNode} TraceNode */

/** The context that is looked at, by collection: a question's own, or one that was assembled here. @type {Map<string, Store<any>>} */
const looked = new Map();

/** @param {string} collection */
function lookedAt(collection) {
  const known = looked.get(collection) ?? new Store(/** @type {any} */ (null));
  looked.set(collection, known);
  return known;
}

/** @param {{collection: string, info: any}} props */
export function MergeView({ collection, info }) {
  const store = lookedAt(collection);
  const own = useStore(store);
  const turn = lastTurn(collection);
  const isOwnNewer = own && own.after === (turn?.id ?? 0);
  const shown = isOwnNewer ? own : turn ? { question: turn.question, context: turn.context, timings: turn.answer?.timings } : null;
  const [question, setQuestion] = useState(shown?.question ?? "");
  const [ways, setWays] = useState({ ...DEFAULT_WAYS, ...kept.read("ways"), mode: "" });
  const [state, setState] = useState({ isBusy: false, error: /** @type {any} */ (null) });
  const send = async () => {
    if (!question.trim() || state.isBusy) return;
    setState({ isBusy: true, error: null });
    try {
      const found = await request(within(collection, "/context"), { body: { question: question.trim(), ...wayFields(ways), include: ["trace"] } });
      store.set({ question: question.trim(), context: contextOf(found.context), timings: found.timings, after: turn?.id ?? 0 });
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`
    <h1 tabindex="-1">How a context is merged</h1>
    <div class="composer calm">
      <${QuestionField} value=${question} onInput=${setQuestion} onSend=${send} label="Question" placeholder="A question whose context to look at">
        <button type="submit" class="round primary" aria-label="Assemble" title="Assemble" disabled=${!question.trim() || state.isBusy}><${Icon} name="send" /></button>
      </${QuestionField}>
      <div class="beneath"><${WayChoice} info=${info} ways=${ways} onChange=${setWays} hasMode=${false} /></div>
    </div>
    ${state.error ? html`<${ErrorNote} error=${state.error} retry=${send} />` : null}
    ${state.isBusy ? html`<${Waiting}>Assembling</${Waiting}>` : null}
    ${shown?.context ? html`<${ContextPart} key=${shown.question + shown.context.strategy} collection=${collection} shown=${shown} isAsked=${shown.question === question.trim()} />` : null}
    ${shown || state.isBusy || state.error ? null : html`
      <${Empty} title="Nothing was asked yet">
        <p>A context is what a model reads: passages that fit a budget, each with the reason why it is there.</p>
      </${Empty}>`}
  `;
}

/** @param {{collection: string, shown: {question: string, context: Context, timings?: any}, isAsked: boolean}} props */
function ContextPart({ collection, shown, isAsked }) {
  const { context } = shown;
  const trace = context.trace ?? [];
  const [step, setStep] = useState(trace.length);
  const reasons = useMemo(() => reasonsOf(trace), [trace]);
  const stretches = useMemo(() => context.passages.map((passage) => stretchesOf(passage, reasons)), [context]);
  const kinds = context.passages.map((passage, i) => mainKind(passage, stretches[i]));
  const begun = useMemo(() => context.passages.map((passage) => firstStep(passage, trace)), [context]);
  const counts = /** @type {Record<string, number>} */ ({});
  for (const stretch of stretches.flat()) if (stretch.kind) counts[stretch.kind] = (counts[stretch.kind] ?? 0) + 1;
  const documents = new Set(context.passages.map((passage) => passage.document.id)).size;
  const facts = [
    context.strategy,
    `${counted(context.passages.length, "passage")} of ${counted(documents, "document")}`,
    duration(shown.timings?.assemble_ms),
  ].filter(Boolean);
  return html`
    <section class="merged-context" aria-labelledby="context-of">
      <h2 class=${isAsked ? "sr" : "asked"} id="context-of" dir="auto">${printable(shown.question)}</h2>
      <p class="facts">${facts.join(" · ")}</p>
      <${BudgetBar} context=${context} kinds=${kinds} isPale=${(/** @type {number} */ i) => begun[i] >= step} />
      ${trace.length ? html`<${Stepper} trace=${trace} step=${step} setStep=${setStep} />` : null}
      ${trace.length ? html`<${Tree} collection=${collection} context=${context} step=${step} />` : html`<p class="where">This context came without a trace.</p>`}
      <h3 class="label">Passages</h3>
      <ul class="legend" aria-label="Legend">
        ${Object.entries(KINDS).filter(([kind]) => counts[kind]).map(([kind, { label, meaning }]) => html`
          <li><mark class=${`k ${kind}`}>${label}</mark><span>${meaning} (${counts[kind]})</span></li>`)}
      </ul>
      ${context.passages.length ? null : html`<p class="where">Nothing was found.</p>`}
      ${context.passages.map((passage, i) => {
        const ranges = stretches[i].filter((stretch) => stretch.kind).map((stretch) => ({ start: stretch.from, end: stretch.to, value: { class: `k ${stretch.kind}`, title: whyOf(stretch) } }));
        return html`<${PassageCard} key=${i} collection=${collection} passage=${passage} ranges=${trimmed(passage.text, ranges)} facts=${[passage.score != null ? `score ${passage.score.toFixed(2)}` : ""]}>
          <${Reasons} passage=${passage} stretches=${stretches[i]} />
        </${PassageCard}>`;
      })}
      <${LeftOut} collection=${collection} context=${context} />
      <${Steps} trace=${trace} />
    </section>
  `;
}

const TOOK_NOTHING = ["link", "left", "skip", "drop", "stop", "missing"];

/** The first step that says something of a passage. @param {import("./trace.js").Passage} passage @param {import("./trace.js").Step[]} trace */
function firstStep(passage, trace) {
  const parts = partsOf(passage);
  const isHere = (/** @type {import("./trace.js").Span} */ span) => parts.some((part) => part.doc === span.doc && part.start < span.end && span.start < part.end);
  const found = trace.findIndex((step) => !TOOK_NOTHING.includes(step.cause) && (step.output ? [step.output] : step.inputs).some(isHere));
  return Math.max(0, found);
}

/** @param {import("./trace.js").Stretch} stretch */
function whyOf(stretch) {
  const why = [...new Set(stretch.reasons.map((reason) => reason.why))].slice(0, 3).join("; ") || KINDS[stretch.kind].meaning;
  const score = stretch.reasons.find((reason) => reason.score != null)?.score;
  return `${KINDS[stretch.kind].label}: ${shorten(why, 300)}${score == null ? "" : ` · ${score.toFixed(2)}`}`;
}

/** Ranges without the white space at their ends. @param {string} text @param {any[]} ranges */
function trimmed(text, ranges) {
  return ranges.map((range) => {
    const words = text.slice(range.start, range.end);
    return { ...range, start: range.start + words.length - words.trimStart().length, end: range.end - (words.length - words.trimEnd().length) };
  });
}

/** @param {{trace: any[], step: number, setStep: (step: number) => void}} props */
function Stepper({ trace, step, setStep }) {
  const now = step > 0 ? trace[step - 1] : null;
  const words = now ? `${now.action}: ${shorten(now.reason, 200)}` : "Before the first step";
  return html`
    <div class="stepper">
      <button type="button" class="round" aria-label="Step back" disabled=${step <= 0} onClick=${() => setStep(step - 1)}>‹</button>
      <input type="range" min="0" max=${trace.length} value=${step} aria-label="Steps of the trace"
        aria-valuetext=${`Step ${step} of ${trace.length}: ${words}`} onInput=${(/** @type {any} */ event) => setStep(Number(event.target.value))} />
      <button type="button" class="round" aria-label="Step on" disabled=${step >= trace.length} onClick=${() => setStep(step + 1)}>›</button>
      <p class="where" dir="auto"><b>${number(step)} of ${number(trace.length)}</b> ${words}</p>
    </div>
  `;
}

/** @param {{collection: string, context: Context, step: number}} props */
function Tree({ collection, context, step }) {
  const { roots, more } = useMemo(() => treeOf(context.trace ?? []), [context]);
  const [isWhole, setWhole] = useState(false);
  if (!roots.length) return null;
  const order = [...roots].sort((a, b) => Number(isUsed(b, context)) - Number(isUsed(a, context)) || a.first - b.first);
  const shown = isWhole ? order : order.slice(0, 12);
  return html`
    <figure class="tree hops" aria-label="The trace as a tree">
      <p class="hop-question">Question</p>
      <ul>${shown.map((node) => html`<${Node} key=${node.id} collection=${collection} context=${context} node=${node} step=${step} />`)}</ul>
      ${order.length > shown.length ? html`<button type="button" class="plain" onClick=${() => setWhole(true)}>${number(order.length - shown.length)} more</button>` : null}
      ${more ? html`<figcaption>${number(more)} further steps are in the list below.</figcaption>` : null}
    </figure>
  `;
}

/** The passage that holds some of a span. @param {{doc: string, start: number, end: number}} span @param {Context} context */
function passageOf(span, context) {
  return context.passages.findIndex((passage) => passage.spans.some((own) => own.doc === span.doc && own.start < span.end && span.start < own.end));
}

/** @param {TraceNode} node @param {Context} context @returns {boolean} */
function isUsed(node, context) {
  return passageOf(node, context) >= 0 || node.children.some((child) => isUsed(child, context));
}

/** The text of a span, as far as a passage holds it. @param {{doc: string, start: number, end: number}} span @param {Context} context */
function quoteOf(span, context) {
  for (const passage of context.passages) {
    for (const part of partsOf(passage)) {
      if (part.doc !== span.doc || part.end <= span.start || span.end <= part.start) continue;
      const points = [...passage.text.slice(part.from, part.to)];
      return points.slice(Math.max(0, span.start - part.start), span.end - part.start).join("").replace(/^[#=|\s]+|[=|\s]+$|[*`]+/g, "");
    }
  }
  return "";
}

/** @param {{collection: string, context: Context, node: TraceNode, step: number}} props */
function Node({ collection, context, node, step }) {
  const at = passageOf(node, context);
  const passage = at < 0 ? null : context.passages[at];
  const quote = shorten(quoteOf(node, context), 130);
  const mark = passage ? (passage.mark) : 0;
  const isLink = node.kind === "link";
  const kind = isLink ? "hop" : node.kind === "evidence" ? "taken" : node.kind;
  const section = passage ? shorten(headingPath(passage.document.title, passage.headings).split(" › ").at(-1), 60) : shorten(node.doc.split("/").at(-1), 40);
  const label = isLink ? (node.step?.hop?.name ? `“${shorten(node.step.hop.name, 60)}”` : "hop") : node.kind === "evidence" ? "evidence" : KINDS[kind].label;
  const words = isLink || node.kind === "merged" || !quote ? section : quote;
  return html`
    <li class=${[at < 0 ? "pale" : "", node.first >= step ? "later" : ""].filter(Boolean).join(" ") || undefined}>
      <span class=${`chip ${kind}`} dir="auto" title=${node.step ? shorten(node.step.reason, 300) : undefined}>${label}</span>${" "}
      ${isLink ? html`<span aria-hidden="true">→ </span>` : null}
      <a class=${isLink || node.kind === "merged" ? "section quiet" : "evidence quiet"} dir="auto" href=${placeHref(collection, passage?.document.key ?? keyOf(node.doc), node)}>${words}</a>
      ${mark ? html` <button type="button" class="cite" aria-label=${`To passage ${mark}`} onClick=${() => focusOn(document.getElementById(`p${mark}`))}>${mark}</button>` : null}
      <${Score} value=${node.step?.score} />
      ${node.children.length ? html`<ul>${node.children.map((child) => html`<${Node} key=${child.id} collection=${collection} context=${context} node=${child} step=${step} />`)}</ul>` : null}
    </li>
  `;
}

/** @param {{passage: import("./trace.js").Passage, stretches: import("./trace.js").Stretch[]}} props */
function Reasons({ passage, stretches }) {
  const explained = stretches.filter((stretch) => stretch.kind);
  if (!explained.length) return null;
  return html`
    <details class="why"><summary>Why (${explained.length})</summary>
      <ul class="reasons">
        ${explained.slice(0, 40).map((stretch) => {
          const score = stretch.reasons.find((reason) => reason.score != null)?.score;
          return html`<li>
            <span class=${`chip ${stretch.kind}`}>${KINDS[stretch.kind].label}</span>
            <q dir="auto">${shorten(passage.text.slice(stretch.from, stretch.to), 72)}</q>
            <span class="because" dir="auto">${[...new Set(stretch.reasons.map((reason) => shorten(reason.why, 240)))].join("; ") || KINDS[stretch.kind].meaning}</span>
            <${Score} value=${score} />
          </li>`;
        })}
      </ul>
    </details>
  `;
}

/** @param {{value: number | null | undefined}} props */
function Score({ value }) {
  return value == null ? null : html`<span class="score">${value.toFixed(2)}</span>`;
}

const LEFT_AT_FIRST = 6;

/** @param {{collection: string, context: Context}} props */
function LeftOut({ collection, context }) {
  const out = useMemo(() => leftOut(context), [context]);
  const [count, setCount] = useState(LEFT_AT_FIRST);
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ ({}));
  const shown = out.slice(0, count);
  useEffect(() => {
    const controller = new AbortController();
    (async () => {
      for (const span of shown) {
        const id = `${span.doc} ${span.start}`;
        if (texts[id] !== undefined) continue;
        const answer = await request(within(collection, `/documents/${keyOf(span.doc)}/text?start=${span.start}&end=${Math.min(span.end, span.start + 600)}`), { signal: controller.signal }).catch(() => "");
        if (controller.signal.aborted) return;
        setTexts((now) => ({ ...now, [id]: typeof answer === "string" ? answer : String(answer?.text ?? "") }));
      }
    })();
    return () => controller.abort();
  }, [collection, context, count]);
  if (!out.length) return null;
  return html`
    <h3 class="label">Left out (${number(out.length)})</h3>
    <ul class="leftover">
      ${shown.map((span) => html`<li>
        <p class="quote" dir="auto">${shorten(texts[`${span.doc} ${span.start}`] ?? "", 260) || " "}</p>
        <p class="where">
          <a class="quiet" dir="auto" href=${placeHref(collection, keyOf(span.doc), span)}>${shorten(span.doc, 60)}</a>
          ${` · ${span.label}${span.why ? `: ${shorten(span.why, 200)}` : ""}`}<${Score} value=${span.score} />
        </p>
      </li>`)}
    </ul>
    ${out.length > count ? html`<button type="button" class="plain" onClick=${() => setCount(count + 12)}>${number(out.length - count)} more</button>` : null}
  `;
}

/** @param {{trace: any[]}} props */
function Steps({ trace }) {
  const [count, setCount] = useState(100);
  if (!trace.length) return null;
  return html`
    <details class="trace"><summary>Every step (${number(trace.length)})</summary>
      <ol class="steps">
        ${trace.slice(0, count).map((step) => html`
          <li><b>${shorten(step.action, 40)}</b> <span dir="auto">${shorten(step.reason, 240)}</span><${Score} value=${step.score} /></li>`)}
      </ol>
      ${trace.length > count ? html`<button type="button" class="plain" onClick=${() => setCount(count + 400)}>${number(trace.length - count)} more</button>` : null}
    </details>
  `;
}
