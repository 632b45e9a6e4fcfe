// Compare: two to four strategies for one question, side by side. What only one of them has is marked.

import { html, useRef, useState } from "./vendor/preact.js";
import { isAbort, Problem, stream, within } from "./api.js";
import { lastTurn } from "./conversation.js";
import { BudgetBar, DEFAULT_WAYS, Empty, ErrorNote, Icon, namesOf, PassageCard, QuestionField, Waiting, WayChoice, wayFields } from "./parts.js";
import { kept } from "./store.js";
import { counted, duration, printable, shorten } from "./text.js";
import { contextOf, rangesIn } from "./trace.js";

const FEWEST = 2;
const MOST = 4;
const FIRST = ["weave", "topk", "auto-merge"]; // where nobody chose yet

/** @typedef {{context: import("./trace.js").Context | null, only: import("./trace.js").Span[], ms: number, problem: any}} Run */
/** @typedef {{question: string, strategies: string[], runs: (Run | null)[], isBusy: boolean, error: any}} Comparison */

/** @param {any} run @returns {Run} */
function runOf(run) {
  return { context: run.context ? contextOf(run.context) : null, only: run.only ?? [], ms: run.ms, problem: run.problem ? new Problem(run.problem) : null };
}

/** The last comparison of each collection, which stays while other views are looked at. @type {Map<string, Comparison>} */
const made = new Map();

/** @param {{collection: string, info: any}} props */
export function CompareView({ collection, info }) {
  const strategies = namesOf(info?.strategies);
  const [comparison, setComparison] = useState(/** @type {Comparison | null} */ (made.get(collection) ?? null));
  const [question, setQuestion] = useState(comparison?.question ?? lastTurn(collection)?.question ?? "");
  const [chosen, setChosen] = useState(/** @type {string[] | null} */ (kept.read("compared")));
  const [ways, setWays] = useState({ ...DEFAULT_WAYS });
  const controller = useRef(/** @type {AbortController | null} */ (null));
  const known = (chosen ?? []).filter((name) => strategies.includes(name));
  const picked = chosen ? known : [...FIRST.filter((name) => strategies.includes(name)), ...strategies.filter((name) => !FIRST.includes(name))].slice(0, 3);
  const toggle = (/** @type {string} */ name) => {
    const next = picked.includes(name) ? picked.filter((other) => other !== name) : [...picked, name];
    if (next.length > MOST) return;
    setChosen(next);
    kept.write("compared", next);
  };
  const isReady = question.trim() && picked.length >= FEWEST;
  const isFull = picked.length >= MOST;
  const send = async () => {
    if (!isReady || comparison?.isBusy) return;
    controller.current = new AbortController();
    /** @type {Comparison} */
    let now = { question: question.trim(), strategies: picked, runs: picked.map(() => null), isBusy: true, error: null };
    const put = (/** @type {Partial<Comparison>} */ change) => {
      now = { ...now, ...change };
      made.set(collection, now);
      setComparison(now);
    };
    put({});
    const { strategy: _, ...fields } = /** @type {Record<string, unknown>} */ (wayFields(ways));
    const { rounds, ...shared } = fields;
    const runs = picked.map((strategy) => ({ strategy, ...(rounds ? { rounds } : {}) }));
    try {
      const body = { question: now.question, runs, ...shared, stream: true };
      for await (const { event, data } of stream(within(collection, "/compare"), { body, signal: controller.current.signal })) {
        if (event === "run") put({ runs: now.runs.map((run, i) => (i === data.index ? runOf(data) : run)) });
      }
      put({ isBusy: false });
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
      <fieldset class="pills"><legend class="sr">Two to four strategies</legend>
        ${strategies.map((name) => html`
          <label>
            <input type="checkbox" checked=${picked.includes(name)} disabled=${isFull && !picked.includes(name)} onChange=${() => toggle(name)} />
            <span>${shorten(name, 40)}</span>
          </label>`)}
      </fieldset>
      <div class="beneath"><${WayChoice} info=${info} ways=${ways} onChange=${setWays} hasMode=${false} hasStrategy=${false} />
        ${picked.length < FEWEST ? html`<p class="where">Choose two to four strategies.</p>` : null}</div>
    </div>
    ${comparison
      ? html`<${Columns} collection=${collection} comparison=${comparison} isAsked=${comparison.question === question.trim()} />`
      : html`<${Empty} title="Nothing was compared yet">
          <p>Each strategy merges in its own way. Here you see what each of them gives to a model, and what it alone has.</p>
        </${Empty}>`}
    ${comparison?.error ? html`<${ErrorNote} error=${comparison.error} retry=${send} />` : null}
  `;
}

/** @param {{collection: string, comparison: Comparison, isAsked: boolean}} props */
function Columns({ collection, comparison, isAsked }) {
  return html`
    <section class="comparison wide" aria-labelledby="compared">
      <h2 class=${isAsked ? "sr" : "asked"} id="compared" dir="auto">${printable(comparison.question)}</h2>
      <ul class="legend" aria-label="Legend">
        <li><mark class="k only">only here</mark><span>no other strategy has this</span></li>
        <li><span class="plain-word">plain</span><span>another one has it too</span></li>
      </ul>
      <div class="columns" style=${{ "--columns": comparison.strategies.length }} tabindex="0" role="group" aria-label="Strategies">
        ${comparison.strategies.map((strategy, i) => html`<${Column} key=${i} collection=${collection} strategy=${strategy} run=${comparison.runs[i]} number=${i + 1} isBusy=${comparison.isBusy} />`)}
      </div>
    </section>
  `;
}

/** @param {{collection: string, strategy: string, run: Run | null, number: number, isBusy: boolean}} props */
function Column({ collection, strategy, run, number: place, isBusy }) {
  const context = run?.context;
  const prefix = `s${place}p`;
  const only = (run?.only ?? []).map((span) => ({ ...span, value: { class: "k only", title: "only here" } }));
  const ranges = (context?.passages ?? []).map((passage) => {
    if (!passage.verbatim) return [{ start: 0, end: passage.text.length, value: { class: "k only", title: "only here" } }];
    return rangesIn(passage, only);
  });
  const alone = ranges.map((own) => own.reduce((sum, range) => sum + range.end - range.start, 0));
  const length = (context?.passages ?? []).reduce((sum, passage) => sum + passage.text.length, 0) || 1;
  const kinds = (context?.passages ?? []).map((passage, i) => (2 * alone[i] > passage.text.length ? "only" : "shared"));
  const share = alone.reduce((sum, one) => sum + one, 0) / length;
  const facts = context ? [counted(context.passages.length, "passage"), duration(run?.ms), `${Math.round(100 * share)} % only here`] : [];
  return html`
    <section class="column" aria-labelledby=${`s${place}`}>
      <header>
        <h3 id=${`s${place}`}>${shorten(context?.strategy ?? strategy, 80)}</h3>
        ${context ? html`<p class="where">${facts.join(" · ")}</p><${BudgetBar} context=${context} kinds=${kinds} prefix=${prefix} />` : null}
      </header>
      ${!run && isBusy ? html`<${Waiting}>Assembling</${Waiting}>` : null}
      ${run?.problem ? html`<${ErrorNote} error=${run.problem} />` : null}
      ${!context && !run && !isBusy ? html`<p class="where">Not assembled.</p>` : null}
      ${context && !context.passages.length ? html`<p class="where">Nothing was found.</p>` : null}
      ${(context?.passages ?? []).map((passage, i) => html`<${PassageCard} key=${i} collection=${collection} passage=${passage} prefix=${prefix} ranges=${ranges[i]} />`)}
    </section>
  `;
}
