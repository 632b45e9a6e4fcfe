// Compare: two to four strategies for one question, side by side. Text that only one of them has is marked.

import { html, useRef, useState } from "./vendor/preact.js";
import { isAbort, Problem, request, within } from "./api.js";
import { lastTurn } from "./conversation.js";
import { Fragment } from "./fragment.js";
import { DEFAULT_WAYS, Empty, ErrorNote, Icon, namesOf, QuestionField, StrategyPicker, Waiting, WayChoice, wayFields } from "./parts.js";
import { browserSettings } from "./store.js";
import { printable } from "./text.js";

const FEWEST = 2;
const MOST = 4;
const FIRST = ["weave", "topk", "auto-merge"]; // initial choice

/** @typedef {{question: string, html: string, runs: any[], isBusy: boolean, error: any}} Comparison */

/** The last comparison of each collection. @type {Map<string, Comparison>} */
const made = new Map();

/** @param {{collection: string, info: any}} props */
export function CompareView({ collection, info }) {
  const strategies = namesOf(info?.strategies);
  const [comparison, setComparison] = useState(/** @type {Comparison | null} */ (made.get(collection) ?? null));
  const [question, setQuestion] = useState(comparison?.question ?? lastTurn(collection)?.question ?? "");
  const [chosen, setChosen] = useState(/** @type {string[] | null} */ (browserSettings.read("compared")));
  const [ways, setWays] = useState(DEFAULT_WAYS);
  const controller = useRef(/** @type {AbortController | null} */ (null));
  const known = (chosen ?? []).filter((name) => strategies.includes(name));
  const picked = chosen ? known : [...FIRST.filter((name) => strategies.includes(name)), ...strategies.filter((name) => !FIRST.includes(name))].slice(0, 3);
  const pick = (/** @type {string[]} */ next) => {
    setChosen(next);
    browserSettings.write("compared", next);
  };
  const isReady = question.trim() && picked.length >= FEWEST;
  const send = async () => {
    if (!isReady || comparison?.isBusy) return;
    controller.current = new AbortController();
    /** @type {Comparison} */
    let now = { question: question.trim(), html: "", runs: [], isBusy: true, error: null };
    const put = (/** @type {Partial<Comparison>} */ change) => {
      now = { ...now, ...change };
      made.set(collection, now);
      setComparison(now);
    };
    put({});
    const { strategy: _, rounds, ...shared } = /** @type {Record<string, unknown>} */ (wayFields(ways));
    const runs = picked.map((strategy) => ({ strategy, ...(rounds ? { rounds } : {}) }));
    try {
      const body = { question: now.question, runs, ...shared, include: ["html"] };
      const found = await request(within(collection, "/compare"), { body, signal: controller.current.signal });
      put({ html: found.html, runs: found.runs, isBusy: false });
    } catch (error) {
      put({ isBusy: false, error: isAbort(error) ? null : error });
    }
  };
  return html`
    <h1 tabindex="-1">Strategies side by side</h1>
    <div class="composer calm">
      <${QuestionField} value=${question} onInput=${setQuestion} onSend=${send} label="Question" placeholder="One question for all of them">
        ${comparison?.isBusy
          ? html`<button type="button" class="round" aria-label="Stop" title="Stop" onClick=${() => controller.current?.abort()}><${Icon} name="stop" /></button>`
          : html`<button type="submit" class="round primary" aria-label="Compare" title="Compare" disabled=${!isReady}><${Icon} name="send" /></button>`}
      </${QuestionField}>
      <${StrategyPicker} info=${info} picked=${picked} onChange=${pick} most=${MOST} />
      <div class="beneath"><${WayChoice} info=${info} ways=${ways} onChange=${setWays} />
        ${picked.length < FEWEST ? html`<p class="where">Choose two to four strategies.</p>` : null}</div>
    </div>
    ${comparison
      ? html`<${Columns} comparison=${comparison} isAsked=${comparison.question === question.trim()} />`
      : html`<${Empty} title="No comparison yet">
          <p>Each strategy merges passages in its own way. Here you see the context of each strategy, and the text that only one of them has.</p>
        </${Empty}>`}
    ${comparison?.error ? html`<${ErrorNote} error=${comparison.error} retry=${send} />` : null}
  `;
}

/** @param {{comparison: Comparison, isAsked: boolean}} props */
function Columns({ comparison, isAsked }) {
  const failures = comparison.runs.filter((run) => run.problem);
  return html`
    <section class="comparison wide" aria-labelledby="compared">
      <h2 class=${isAsked ? "sr" : "asked"} id="compared" dir="auto">${printable(comparison.question)}</h2>
      ${comparison.isBusy ? html`<${Waiting}>Assembling</${Waiting}>` : null}
      ${failures.map((run) => html`<${ErrorNote} error=${new Problem(run.problem)} />`)}
      <${Fragment} drawn=${comparison.html} />
    </section>
  `;
}
