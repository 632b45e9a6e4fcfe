// What the steps of a trace say: why each stretch of a context is there, how steps lead to each other, and what was left out.
// The static pages read traces by the same rules (mergewise/page/reasons.py, hops.py).

import { keyOf, Offsets } from "./text.js";

/**
 * @typedef {{doc: string, start: number, end: number}} Span
 * @typedef {{action: string, cause: string, reason: string, inputs: Span[], output: Span | null, score: number | null, hop?: {number: number, name: string}}} Step
 * @typedef {{mark: number, document: {key: string, id: string, title: string}, headings: string[], page?: number | null, line?: number | null, text: string, score: number, verbatim: boolean, spans: Span[]}} Passage
 * @typedef {{text: string, tokens: number, budget: number, strategy: string, passages: Passage[], trace?: Step[], question?: string}} Context
 * @typedef {{kind: string, why: string, score: number | null, doc: string, start: number, end: number}} Reason
 * @typedef {{from: number, to: number, kind: string, reasons: Reason[]}} Stretch
 * @typedef {{id: number, kind: string, step: Step | null, doc: string, start: number, end: number, children: TraceNode[], first: number}} TraceNode
 */

/** Kinds of stretches, the most telling first: the name for people, what it means, the causes of steps that give it. */
export const KINDS = /** @type {Record<string, {label: string, meaning: string, causes: string[]}>} */ ({
  hop: { label: "hop", meaning: "a name in the evidence led here", causes: ["hop"] },
  named: { label: "named", meaning: "the question names what this section defines", causes: ["named"] },
  cut: { label: "cut", meaning: "the first sentences of a piece that did not fit whole", causes: ["cut"] },
  fused: { label: "fused", meaning: "sentences kept when chunks were fused", causes: ["fusion"] },
  hit: { label: "hit", meaning: "found by the search", causes: ["search", "take"] },
  neighbour: { label: "neighbour", meaning: "came with what stands beside it", causes: ["neighbour"] },
  merged: { label: "merged", meaning: "the rest of a section whose parts were found", causes: ["merge"] },
  round: { label: "later round", meaning: "found by a further round of search", causes: ["round"] },
  other: { label: "other", meaning: "another step of the strategy", causes: ["other"] },
  taken: { label: "taken", meaning: "no step of the trace says why", causes: [] },
  written: { label: "written", meaning: "a model wrote this; it is no text of a document", causes: [] },
});
const RANK = Object.fromEntries(Object.keys(KINDS).map((kind, i) => [kind, i]));
const KIND_OF_CAUSE = Object.fromEntries(Object.entries(KINDS).flatMap(([kind, { causes }]) => causes.map((cause) => [cause, kind])));
const LEFT_OUT = /** @type {Record<string, string>} */ ({ left: "left out", skip: "did not fit", drop: "dropped", stop: "not worth its tokens" });
const GAP = " …\n"; // stands between the parts of a passage that do not touch

/** A context of the API, its documents with their keys. @param {any} context @returns {Context} */
export function contextOf(context) {
  const document = (/** @type {any} */ passage) => ({ key: keyOf(passage.doc ?? ""), id: passage.doc ?? "", title: passage.title });
  return { ...context, trace: context.trace ?? [], passages: context.passages.map((/** @type {any} */ passage) => ({ ...passage, document: document(passage) })) };
}

const overlap = (/** @type {Span} */ a, /** @type {Span} */ b) => a.doc === b.doc && a.start < b.end && b.start < a.end;
const holds = (/** @type {Span} */ a, /** @type {Span} */ b) => a.doc === b.doc && a.start <= b.start && b.end <= a.end;

/**
 * The spans of a verbatim passage, each with the units of the passage's text where it stands.
 * @param {Passage} passage
 * @returns {{doc: string, start: number, end: number, from: number, to: number}[]}
 */
export function partsOf(passage) {
  if (!passage.verbatim) return [];
  const offsets = new Offsets(passage.text);
  let at = 0;
  return passage.spans.map((span) => {
    const start = at;
    at += span.end - span.start + GAP.length;
    return { doc: span.doc, start: span.start, end: span.end, from: offsets.unit(start), to: offsets.unit(start + span.end - span.start) };
  });
}

/**
 * Ranges of documents as ranges of a passage's text.
 * @template T
 * @param {Passage} passage
 * @param {{doc: string, start: number, end: number, value: T}[]} spans
 * @returns {{start: number, end: number, value: T}[]} in units of the text
 */
export function rangesIn(passage, spans) {
  const offsets = new Offsets(passage.text);
  return partsOf(passage).flatMap((part) => {
    const first = offsets.point(part.from);
    return spans
      .filter((span) => overlap(part, span))
      .map((span) => ({
        start: offsets.unit(first + Math.max(0, span.start - part.start)),
        end: offsets.unit(first + Math.min(part.end, span.end) - part.start),
        value: span.value,
      }));
  });
}

/** What the steps say of the text that they cover. A merge that was later passed over says nothing. @param {Step[]} trace @returns {Reason[]} */
export function reasonsOf(trace) {
  const passed = trace.filter((step) => step.cause === "skip" || step.cause === "drop").flatMap((step) => step.inputs);
  return trace.flatMap((step) => {
    const kind = KIND_OF_CAUSE[step.cause];
    const at = step.cause === "cut" ? null : step.output;
    if (!kind || (at && passed.some((span) => holds(span, at)))) return [];
    const why = step.cause === "search" ? KINDS[kind].meaning : step.reason;
    return coversOf(step).map((span) => ({ kind, why, score: step.score, doc: span.doc, start: span.start, end: span.end }));
  });
}

/** The text that a step says something of. @param {Step} step */
function coversOf(step) {
  return step.output ? [step.output] : step.inputs;
}

/**
 * The stretches of a passage, each of one kind.
 * @param {Passage} passage @param {Reason[]} reasons
 * @returns {Stretch[]}
 */
export function stretchesOf(passage, reasons) {
  const ranges = rangesIn(passage, reasons.map((reason) => ({ ...reason, value: reason })));
  /** @type {Stretch[]} */
  const found = [];
  for (const part of partsOf(passage)) {
    const own = ranges.filter((range) => range.start < part.to && part.from < range.end);
    const cuts = [...new Set([part.from, part.to, ...own.flatMap((range) => [range.start, range.end])])].filter((at) => part.from <= at && at <= part.to).sort((a, b) => a - b);
    for (let i = 1; i < cuts.length; i++) {
      const [from, to] = [cuts[i - 1], cuts[i]];
      const reasonsHere = own
        .filter((range) => range.start <= from && to <= range.end)
        .map((range) => range.value)
        .sort((a, b) => RANK[a.kind] - RANK[b.kind] || (b.score ?? 0) - (a.score ?? 0));
      const hasWords = /[\p{L}\p{N}]/u.test(passage.text.slice(from, to));
      const kind = hasWords ? (reasonsHere[0]?.kind ?? (own.length ? "neighbour" : "taken")) : "";
      const last = found.at(-1);
      if (last && last.to === from && last.kind === kind && last.reasons[0]?.why === reasonsHere[0]?.why) last.to = to;
      else found.push({ from, to, kind, reasons: reasonsHere });
    }
  }
  return found;
}

/** The kind that most characters of a passage have. @param {Passage} passage @param {Stretch[]} stretches */
export function mainKind(passage, stretches) {
  if (!passage.verbatim) return "written";
  const lengths = /** @type {Record<string, number>} */ ({});
  for (const { kind, from, to } of stretches) if (kind) lengths[kind] = (lengths[kind] ?? 0) + to - from;
  return Object.keys(lengths).sort((a, b) => lengths[b] - lengths[a])[0] ?? "taken";
}

/**
 * Candidates of which nothing is in the context, the best first; of those that overlap the best alone.
 * @param {Context} context
 * @returns {{doc: string, start: number, end: number, label: string, why: string, score: number | null}[]}
 */
export function leftOut(context) {
  const taken = context.passages.flatMap((passage) => passage.spans);
  const out = (context.trace ?? [])
    .filter((step) => LEFT_OUT[step.cause])
    .flatMap((step) => step.inputs.map((span) => ({ ...span, label: LEFT_OUT[step.cause], why: step.reason, score: step.score })))
    .filter((span) => span.start < span.end && !taken.some((own) => overlap(own, span)))
    .sort((a, b) => (b.score ?? -1) - (a.score ?? -1));
  /** @type {typeof out} */
  const found = [];
  for (const span of out) if (found.length < 200 && !found.some((other) => overlap(other, span))) found.push(span);
  return found;
}

/**
 * The trace as a tree. A hop hangs on the evidence that names it, what it led to on the hop, the parts of a merge on the merge,
 * and everything else on the question. `first` of a node is the number of its step, from 0.
 * @param {Step[]} trace @param {number} [most]
 * @returns {{roots: TraceNode[], more: number}}
 */
export function treeOf(trace, most = 300) {
  /** @type {TraceNode[]} */
  const roots = [];
  /** @type {TraceNode[]} */
  const nodes = [];
  let more = 0;
  const add = (/** @type {string} */ kind, /** @type {Step | null} */ step, /** @type {Span} */ span, /** @type {number} */ first, /** @type {TraceNode[]} */ among) => {
    /** @type {TraceNode} */
    const node = { id: nodes.length, kind, step, ...span, children: [], first };
    nodes.push(node);
    among.push(node);
    return node;
  };
  trace.forEach((step, i) => {
    const isLink = step.cause === "link" && step.output && step.inputs.length;
    const kind = isLink ? "link" : KIND_OF_CAUSE[step.cause];
    if (!kind || !coversOf(step).length) return;
    if (nodes.length >= most) {
      more += 1;
      return;
    }
    const target = /** @type {Span} */ (step.output ?? step.inputs[0]);
    if (isLink) {
      const evidence = step.inputs[0];
      const known = nodes.findLast((node) => node.kind !== "link" && overlap(node, evidence) && node.kind !== "merged");
      const above = known ?? add("evidence", null, evidence, i, nodes.findLast((node) => node.kind === "link" && overlap(node, evidence))?.children ?? roots);
      add("link", step, target, i, above.children);
    } else if (step.cause === "merge" || step.cause === "fusion") {
      const parts = roots.filter((node) => !["link", "merged", "fused"].includes(node.kind) && (step.output ? holds(target, node) : step.inputs.some((span) => holds(span, node))));
      const node = add(kind, step, target, i, roots);
      for (const part of parts) roots.splice(roots.indexOf(part), 1);
      node.children.push(...parts);
    } else {
      for (const span of step.cause === "cut" ? [target] : coversOf(step)) {
        const same = nodes.find((node) => node.doc === span.doc && node.start === span.start && node.end === span.end && node.kind !== "link");
        if (same) {
          if (same.kind === "evidence" || RANK[kind] < RANK[same.kind]) Object.assign(same, { kind, step });
          continue;
        }
        const above = nodes.findLast((node) => (node.kind === "link" && kind === "hop" ? overlap(node, span) : ["merged", "fused"].includes(node.kind) && holds(node, span)));
        add(kind, step, span, i, above?.children ?? roots);
      }
    }
  });
  return { roots, more };
}
