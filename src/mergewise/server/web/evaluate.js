// Evaluate: runs of strategies on a question set, and the tables of their reports. The whole report is a separate page.

import { html, useEffect, useState } from "./vendor/preact.js";
import { all, Problem, request, within } from "./api.js";
import { Download, Empty, ErrorNote, Meter, namesOf, StrategyPicker, Waiting } from "./parts.js";
import { useLoaded } from "./store.js";
import { counted, duration, moment, number, printable, sentence, shorten } from "./text.js";

const POLL = 1_500;
const FIRST = ["weave", "topk"]; // initial choice of strategies
const LARGEST = 1_900_000; // bytes of a question set; the server accepts 2 MB of JSON
const ENDED = new Set(["done", "failed", "cancelled"]);

/** @param {{collection: string, info: any}} props */
export function EvaluateView({ collection, info }) {
  const { value: jobs, error, reload } = useLoaded((signal) => all(`jobs?kind=evaluate&collection=${encodeURIComponent(collection)}`, signal, 200), [collection]);
  const own = (jobs ?? []).filter((job) => job.kind === "evaluate" && job.collection === collection).sort((a, b) => b.created - a.created);
  const [chosen, setChosen] = useState("");
  const done = own.filter((job) => job.state === "done");
  const shown = done.find((job) => job.id === chosen) ?? done[0];
  const isRunning = own.some((job) => !ENDED.has(job.state));
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => document.hidden || reload(), POLL);
    return () => clearInterval(timer);
  }, [isRunning]);
  return html`
    <h1 tabindex="-1">Evaluation</h1>
    <${Start} collection=${collection} info=${info} begun=${reload} />
    ${error ? html`<${ErrorNote} error=${error} retry=${reload} />` : null}
    ${!jobs && !error ? html`<${Waiting} />` : null}
    ${own.length ? html`<${Runs} runs=${own} shown=${shown?.id} choose=${setChosen} reload=${reload} />` : null}
    ${jobs && !own.length ? html`<${Empty} title="No evaluation yet"><p>With questions and their known answers, you can measure how often each strategy finds the answers, and at what cost.</p></${Empty}>` : null}
    ${shown ? html`<${Report} key=${shown.id} collection=${collection} id=${shown.id} />` : null}
  `;
}

/** @param {{collection: string, info: any, begun: () => void}} props */
function Start({ collection, info, begun }) {
  const strategies = namesOf(info?.strategies);
  const [questions, setQuestions] = useState(/** @type {{name: string, text: string, count: number} | null} */ (null));
  const [picked, setPicked] = useState(/** @type {string[] | null} */ (null));
  const [budgets, setBudgets] = useState(String(info?.defaults?.budget ?? ""));
  const [state, setState] = useState({ isBusy: false, error: /** @type {any} */ (null) });
  const chosen = picked ?? FIRST.filter((name) => strategies.includes(name));
  const read = async (/** @type {any} */ event) => {
    const file = /** @type {File | undefined} */ (event.target.files?.[0]);
    if (!file) return;
    try {
      if (file.size > LARGEST) throw new Problem({ detail: "File too large (expected up to 1.9 MB).", hint: "For larger sets, use `mergewise eval` on the command line." });
      const words = await file.text();
      const read = await request(within(collection, "/jobs"), { body: { kind: "evaluate", request: { questions: words, name: file.name }, dry_run: true } });
      setQuestions({ name: file.name, text: words, count: read.estimate.questions });
      setState({ isBusy: false, error: null });
    } catch (error) {
      setQuestions(null);
      setState({ isBusy: false, error });
    }
  };
  const start = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState({ isBusy: true, error: null });
    const body = { kind: "evaluate", request: { questions: questions?.text, name: questions?.name, strategies: chosen, budgets: budgets.split(/[\s,]+/).filter(Boolean).map(Number) } };
    await request(within(collection, "/jobs"), { body }).then(
      () => { setState({ isBusy: false, error: null }); begun(); },
      (error) => setState({ isBusy: false, error }),
    );
  };
  return html`
    <form class="panel" onSubmit=${start}>
      <div class="line">
        <label for="set">Question set</label>
        <input id="set" type="file" accept=".csv,.tsv,.json,.jsonl" onChange=${read} />
        <span class="where">${questions ? counted(questions.count, "question") : "CSV with the columns question and answer, or JSON"}</span>
      </div>
      <${StrategyPicker} info=${info} picked=${chosen} onChange=${setPicked} />
      <div class="line">
        <label for="sizes">Budgets in tokens</label>
        <input id="sizes" type="text" class="short" value=${budgets} onInput=${(/** @type {any} */ event) => setBudgets(event.target.value)} />
        <button type="submit" class="primary" disabled=${!questions || !chosen.length || state.isBusy}>Measure</button>
      </div>
      ${state.error ? (state.error.status === 501 || state.error.status === 404
        ? html`<p class="note">This server does not run evaluations. Use the command line: <code>mergewise eval</code>.</p>`
        : html`<${ErrorNote} error=${state.error} />`) : null}
    </form>
  `;
}

/** @param {{runs: any[], shown: string | undefined, choose: (id: string) => void, reload: () => void}} props */
function Runs({ runs, shown, choose, reload }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const act = (/** @type {string} */ id, /** @type {string} */ what) => request(`jobs/${encodeURIComponent(id)}/${what}`, { method: "POST" }).then(reload, setError);
  return html`
    <h2>Runs</h2>
    <ul class="rows">
      ${runs.slice(0, 20).map((job) => {
        const took = job.started && job.finished ? duration(1000 * (job.finished - job.started)) : "";
        return html`<li key=${job.id} class="row">
          <div class="what"><p class="name">${moment(job.created)}${job.id === shown ? html` <span class="where">shown below</span>` : null}</p>
            <p class="where">${[job.progress?.total && !ENDED.has(job.state) ? `${number(job.progress.done)} of ${number(job.progress.total)}` : "", took].filter(Boolean).join(" · ")}</p>
            ${job.error ? html`<p class="reason" dir="auto">${sentence(job.error.detail ?? job.error)} ${sentence(job.error.hint)}</p>` : null}
            ${ENDED.has(job.state) ? null : html`<${Meter} done=${job.progress?.done ?? 0} total=${job.progress?.total ?? 0} label="Progress" />`}
          </div>
          <span class=${`state ${job.state}`}>${printable(job.state)}</span>
          <div class="acts">
            ${job.state === "done" && job.id !== shown ? html`<button type="button" onClick=${() => choose(job.id)}>Show</button>` : null}
            ${job.state === "failed" || job.state === "cancelled" ? html`<button type="button" onClick=${() => act(job.id, "retry")}>Retry</button>` : null}
            ${ENDED.has(job.state) ? null : html`<button type="button" class="plain" onClick=${() => act(job.id, "cancel")}>Cancel</button>`}
          </div>
        </li>`;
      })}
    </ul>
    ${error ? html`<${ErrorNote} error=${error} />` : null}
  `;
}

/** @param {{collection: string, id: string}} props */
function Report({ collection, id }) {
  const path = within(collection, `/evaluations/${encodeURIComponent(id)}`);
  const { value, error, reload } = useLoaded((signal) => request(path, { signal }), [collection, id]);
  if (error) return html`<${ErrorNote} error=${error} retry=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  const report = value.report;
  if (!report) return html`<p class="where">This run has no report.</p>`;
  const parts = /** @type {any[]} */ (report.parts);
  const lines = /** @type {string[]} */ ([...report.headline, ...report.remarks, ...parts.flatMap((part) => part.notes)]);
  return html`
    <section class="evaluation">
      <h2 class="set" dir="auto">${shorten(report.title, 200)}</h2>
      <p class="facts">${shorten(report.facts, 400)}</p>
      <ul class="remarks">${lines.map((line) => html`<li>${shorten(line.replaceAll("**", ""), 600)}</li>`)}</ul>
      <div class="facts"><${Download} path=${`${path}/page`}>Full report</${Download}> with curves, pairs of strategies and all questions.</div>
      ${parts.flatMap((part) => part.tables).map((table) => html`<${Figures} table=${table} />`)}
    </section>
  `;
}

/** @param {{table: any}} props */
function Figures({ table }) {
  const columns = /** @type {any[]} */ (table.columns);
  const figure = (/** @type {any} */ column, /** @type {number} */ value) => value.toFixed(column.decimals);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${shorten(table.title, 120)}>
      <table>
        <caption>${shorten(table.title, 200)}</caption>
        <thead><tr><th scope="col">Strategy</th><th scope="col">Budget</th>
          ${columns.map((column) => html`<th scope="col" title=${shorten(column.about, 300)}>${shorten(column.label, 40)}</th>`)}</tr></thead>
        <tbody>${table.rows.map((/** @type {any} */ row) => html`<tr>
          <th scope="row" dir="auto">${shorten(row.name, 80)}</th><td>${shorten(row.section, 40)}</td>
          ${row.cells.map((/** @type {any} */ cell, /** @type {number} */ i) => html`<td>
            <b class=${cell.mark}>${cell.value == null ? shorten(cell.note || "–", 40) : figure(columns[i], cell.value)}</b>
            ${cell.interval ? html`<span class="bounds">${cell.interval.map((/** @type {number} */ end) => figure(columns[i], end)).join(" to ")}</span>` : null}</td>`)}
        </tr>`)}</tbody>
      </table>
    </div>
  `;
}
