// Merge: the assembly of a context, step by step. The server draws it.

import { html, useEffect, useState } from "./vendor/preact.js";
import { request, within } from "./api.js";
import { lastTurn } from "./conversation.js";
import { Fragment } from "./fragment.js";
import { DEFAULT_WAYS, Empty, ErrorNote, Icon, QuestionField, Waiting, WayChoice, wayFields } from "./parts.js";
import { browserSettings, Store, useStore } from "./store.js";
import { duration, number, printable, shorten } from "./text.js";

/** The last context assembled in this view, by collection. @type {Map<string, Store<any>>} */
const assembled = new Map();

/** @param {string} collection */
function assembledStore(collection) {
  const known = assembled.get(collection) ?? new Store(/** @type {any} */ (null));
  assembled.set(collection, known);
  return known;
}

/** @param {{collection: string, info: any}} props */
export function MergeView({ collection, info }) {
  const store = assembledStore(collection);
  const shown = useStore(store);
  const turn = lastTurn(collection);
  const isNews = turn && turn.id !== shown?.after;
  const [question, setQuestion] = useState(isNews ? turn.context.question : (shown?.question ?? ""));
  const [ways, setWays] = useState({ ...DEFAULT_WAYS, ...browserSettings.read("lab-ways"), mode: "" });
  const [state, setState] = useState({ isBusy: false, error: /** @type {any} */ (null) });
  const change = (/** @type {import("./parts.js").Ways} */ next) => {
    setWays(next);
    browserSettings.write("lab-ways", next);
  };
  const send = async () => {
    if (!question.trim() || state.isBusy) return;
    setState({ isBusy: true, error: null });
    try {
      const found = await request(within(collection, "/context"), { body: { question: question.trim(), ...wayFields(ways), include: ["trace", "html"] } });
      store.set({ question: question.trim(), context: found.context, timings: found.timings, after: turn?.id ?? 0 });
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  useEffect(() => {
    if (isNews) send();
  }, []);
  return html`
    <h1 tabindex="-1">How a context is merged</h1>
    <div class="composer calm">
      <${QuestionField} value=${question} onInput=${setQuestion} onSend=${send} label="Question" placeholder="Show the context of a question">
        <button type="submit" class="round primary" aria-label="Assemble" title="Assemble" disabled=${!question.trim() || state.isBusy}><${Icon} name="send" /></button>
      </${QuestionField}>
      <div class="beneath"><${WayChoice} info=${info} ways=${ways} onChange=${change} hasStrategy /></div>
    </div>
    ${state.error ? html`<${ErrorNote} error=${state.error} retry=${send} />` : null}
    ${state.isBusy ? html`<${Waiting}>Assembling</${Waiting}>` : null}
    ${shown?.context ? html`<${ContextPart} key=${shown.question + shown.context.strategy} shown=${shown} isAsked=${shown.question === question.trim()} />` : null}
    ${shown || state.isBusy || state.error ? null : html`
      <${Empty} title="No question yet">
        <p>A context is the text that a model reads: passages within a token budget, each with its reason.</p>
      </${Empty}>`}
  `;
}

/** @param {{shown: {question: string, context: any, timings?: any}, isAsked: boolean}} props */
function ContextPart({ shown, isAsked }) {
  const { question, context, timings } = shown;
  const trace = context.trace ?? [];
  const [step, setStep] = useState(trace.length);
  const pale = (/** @type {HTMLElement} */ element) => {
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll("[data-step]"))) one.classList.toggle("later", Number(one.dataset.step) >= step);
  };
  return html`
    <section class="merged-context" aria-labelledby="context-of">
      <h2 class=${isAsked ? "sr" : "asked"} id="context-of" dir="auto">${printable(question)}</h2>
      ${timings?.assemble_ms == null ? null : html`<p class="facts">Assembled in ${duration(timings.assemble_ms)}</p>`}
      ${trace.length ? html`<${Stepper} trace=${trace} step=${step} setStep=${setStep} />` : null}
      <${Fragment} drawn=${context.html} placed=${pale} inputs=${[step]} />
    </section>
  `;
}

/** @param {{trace: any[], step: number, setStep: (step: number) => void}} props */
function Stepper({ trace, step, setStep }) {
  const now = step > 0 ? trace[step - 1] : null;
  const words = now ? `${now.action}: ${shorten(now.reason, 200)}` : "Before the first step";
  return html`
    <div class="stepper">
      <button type="button" class="round" aria-label="Previous step" disabled=${step <= 0} onClick=${() => setStep(step - 1)}>‹</button>
      <input type="range" min="0" max=${trace.length} value=${step} aria-label="Steps of the trace"
        aria-valuetext=${`Step ${step} of ${trace.length}: ${words}`} onInput=${(/** @type {any} */ event) => setStep(Number(event.target.value))} />
      <button type="button" class="round" aria-label="Next step" disabled=${step >= trace.length} onClick=${() => setStep(step + 1)}>›</button>
      <p class="where" dir="auto"><b>${number(step)} of ${number(trace.length)}</b> ${words}</p>
    </div>
  `;
}
