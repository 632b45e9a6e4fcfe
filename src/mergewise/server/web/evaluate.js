// Evaluate: strategies measured on a set of questions. Tables with their intervals, differences, and question by question.

import { html, useEffect, useState } from "./vendor/preact.js";
import { all, Problem, request, within } from "./api.js";
import { Empty, ErrorNote, Meter, namesOf, Waiting } from "./parts.js";
import { useLoaded } from "./store.js";
import { counted, duration, moment, number, printable, sentence, shorten } from "./text.js";

const POLL = 1_500;
const FIRST = ["weave", "topk"]; // strategies where nobody chose yet
const LARGEST = 1_900_000; // bytes of a question set: the server takes 2 MB of JSON
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
    ${jobs && !own.length ? html`<${Empty} title="Nothing was measured yet"><p>With questions whose answers you know, you see which strategy finds them, at what price, and where one fails.</p></${Empty}>` : null}
    ${shown ? html`<${Report} key=${shown.id} collection=${collection} id=${shown.id} />` : null}
  `;
}

/** Questions of a file: JSON or a JSON value a line. @param {string} text @returns {any[]} */
export function questionsOf(text) {
  const trimmed = text.replace(/^\ufeff/, "").trim();
  let found;
  try {
    found = JSON.parse(trimmed);
  } catch {
    found = trimmed.split("\n").filter((line) => line.trim()).map((line, i) => {
      try {
        return JSON.parse(line);
      } catch {
        throw new Problem({ detail: `Line ${i + 1} is no JSON.`, hint: 'A question set has one JSON object a line: {"question": …, "answers": […]}.' });
      }
    });
  }
  const questions = Array.isArray(found) ? found : (found.questions ?? [found]);
  if (!Array.isArray(questions) || !questions.length) throw new Problem({ detail: "There are no questions in this file." });
  return questions;
}

/** @param {{collection: string, info: any, begun: () => void}} props */
function Start({ collection, info, begun }) {
  const strategies = namesOf(info?.strategies);
  const [questions, setQuestions] = useState(/** @type {{name: string, list: any[]} | null} */ (null));
  const [picked, setPicked] = useState(/** @type {string[] | null} */ (null));
  const [budgets, setBudgets] = useState("640");
  const [state, setState] = useState({ isBusy: false, error: /** @type {any} */ (null) });
  const chosen = picked ?? FIRST.filter((name) => strategies.includes(name));
  const read = async (/** @type {any} */ event) => {
    const file = /** @type {File | undefined} */ (event.target.files?.[0]);
    if (!file) return;
    try {
      if (file.size > LARGEST) throw new Problem({ detail: "This file is larger than 1.9 MB.", hint: "Larger sets: `mergewise eval` on the command line." });
      setQuestions({ name: file.name, list: questionsOf(await file.text()) });
      setState({ isBusy: false, error: null });
    } catch (error) {
      setQuestions(null);
      setState({ isBusy: false, error });
    }
  };
  const start = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState({ isBusy: true, error: null });
    const body = { kind: "evaluate", request: { questions: questions?.list, name: questions?.name, strategies: chosen, budgets: budgets.split(/[\s,]+/).filter(Boolean).map(Number) } };
    await request(within(collection, "/jobs"), { body }).then(
      () => { setState({ isBusy: false, error: null }); begun(); },
      (error) => setState({ isBusy: false, error }),
    );
  };
  const toggle = (/** @type {string} */ name) => setPicked(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]);
  return html`
    <form class="panel" onSubmit=${start}>
      <div class="line">
        <label for="set">Question set</label>
        <input id="set" type="file" accept=".json,.jsonl,application/json" onChange=${read} />
        ${questions ? html`<span class="where">${counted(questions.list.length, "question")}</span>` : html`<span class="where">JSON, or one JSON object a line</span>`}
      </div>
      <fieldset class="pills"><legend>Strategies</legend>
        ${strategies.map((name) => html`<label><input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} /><span>${shorten(name, 40)}</span></label>`)}
      </fieldset>
      <div class="line">
        <label for="sizes">Budgets, tokens</label>
        <input id="sizes" type="text" class="short" value=${budgets} onInput=${(/** @type {any} */ event) => setBudgets(event.target.value)} />
        <button type="submit" class="primary" disabled=${!questions || !chosen.length || state.isBusy}>Measure</button>
      </div>
      ${state.error ? (state.error.status === 501 || state.error.status === 404
        ? html`<p class="note">This server does not run evaluations. The command line does: <code>mergewise eval</code>.</p>`
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
  const { value, error, reload } = useLoaded((signal) => request(within(collection, `/evaluations/${encodeURIComponent(id)}`), { signal }), [collection, id]);
  if (error) return html`<${ErrorNote} error=${error} retry=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  const reports = [value.report ?? []].flat();
  if (!reports.length) return html`<p class="where">This run left no report.</p>`;
  return html`<div class="evaluation">${reports.map((report) => html`<${SetReport} report=${report} />`)}</div>`;
}

/** @param {{report: any}} props */
function SetReport({ report }) {
  return html`
    <section class="set-report">
      <h2 class="set" dir="auto">${shorten(report.name, 200)}</h2>
      <p class="facts">${shorten(report.facts, 400)}</p>
      ${(report.tables ?? []).map((/** @type {any} */ table) => html`<${Figures} table=${table} />`)}
      ${report.differences?.length ? html`<${Differences} first=${report.first} differences=${report.differences} />` : null}
      ${report.remarks?.length ? html`<ul class="remarks">${report.remarks.map((/** @type {string} */ remark) => html`<li>${shorten(remark, 600)}</li>`)}</ul>` : null}
      <${Questions} questions=${report.questions ?? []} />
    </section>
  `;
}

/** @param {{table: any}} props */
function Figures({ table }) {
  const columns = /** @type {any[]} */ (table.columns);
  const lines = /** @type {any[]} */ (table.lines);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${shorten(table.title, 120)}>
      <table>
        <caption>${shorten(table.title, 200)}</caption>
        <thead><tr>
          <th scope="col">Strategy</th><th scope="col">Budget</th>
          ${columns.map((column) => html`<th scope="col" title=${shorten(column.about, 300)}>${shorten(column.label, 40)}</th>`)}
        </tr></thead>
        <tbody>${lines.map((line) => html`<tr>
          <th scope="row" dir="auto">${shorten(line.strategy, 80)}</th><td>${number(line.budget)}</td>
          ${line.cells.map((/** @type {any} */ cell, /** @type {number} */ i) => html`<${Cell} cell=${cell} column=${columns[i]} />`)}
        </tr>`)}</tbody>
      </table>
    </div>
    <dl class="about">
      ${columns.map((column) => (column.about ? html`<div><dt>${shorten(column.label, 40)}</dt><dd>${shorten(column.about, 300)}</dd></div>` : null))}
    </dl>
  `;
}

/** @param {{cell: any, column: any}} props */
function Cell({ cell, column }) {
  const decimals = column?.decimals ?? 3;
  const value = cell?.value;
  if (value == null) return html`<td>-</td>`;
  const [low, high] = cell.interval ?? [];
  const percent = (/** @type {number} */ share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return html`<td><b>${value.toFixed(decimals)}</b>
    ${low == null ? null : html`<span class="bounds">${low.toFixed(decimals)} to ${high.toFixed(decimals)}</span>`}
    ${low == null || column?.is_share === false ? null : html`<span class="range" aria-hidden="true" style=${{ "--low": percent(low), "--high": percent(high), "--at": percent(value) }}></span>`}</td>`;
}

/** @param {{first: string, differences: any[]}} props */
function Differences({ first, differences }) {
  const reach = Math.max(0.01, ...differences.flatMap((one) => [Math.abs(one.interval[0]), Math.abs(one.interval[1])]));
  const signed = (/** @type {number} */ value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const at = (/** @type {number} */ value) => `${(50 + (50 * value) / reach).toFixed(1)}%`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Differences">
      <table>
        <caption>Against ${shorten(first, 80)}, question by question</caption>
        <thead><tr>${["Strategy", "Budget", "Figure", "Difference", "", "p", "Better", "Worse", "Apart"].map((label) => (label ? html`<th scope="col">${label}</th>` : html`<td></td>`))}</tr></thead>
        <tbody>${differences.map((one) => html`<tr><th scope="row" dir="auto">${shorten(one.strategy, 80)}</th><td>${number(one.budget)}</td><td class="name">${shorten(one.column, 40)}</td>
          <td><b>${signed(one.mean)}</b><span class="bounds">${signed(one.interval[0])} to ${signed(one.interval[1])}</span></td>
          <td><span class="range around-zero" aria-hidden="true" style=${{ "--low": at(one.interval[0]), "--high": at(one.interval[1]), "--at": at(one.mean) }}></span></td>
          <td>${one.probability < 0.001 ? "<0.001" : one.probability.toFixed(3)}</td><td>${number(one.better)}</td><td>${number(one.worse)}</td>
          <td><span class=${`verdict${one.is_apart ? " good" : ""}`}>${one.is_apart ? "yes" : "no"}</span></td></tr>`)}</tbody>
      </table>
    </div>
  `;
}

const QUESTIONS_AT_FIRST = 50;

/** @param {{questions: any[]}} props */
function Questions({ questions }) {
  const [filter, setFilter] = useState("all");
  const [count, setCount] = useState(QUESTIONS_AT_FIRST);
  if (!questions.length) return null;
  const isMissed = (/** @type {any} */ question) => question.attempts.some((/** @type {any} */ attempt) => !attempt.is_good);
  const differs = (/** @type {any} */ question) => new Set(question.attempts.map((/** @type {any} */ attempt) => `${attempt.is_good} ${attempt.verdict}`)).size > 1;
  const shown = questions.map((question, i) => ({ question, place: i + 1 })).filter(({ question }) => (filter === "missed" ? isMissed(question) : filter === "differ" ? differs(question) : true));
  const choose = (/** @type {string} */ value) => {
    setFilter(value);
    setCount(QUESTIONS_AT_FIRST);
  };
  const filters = [["all", "all"], ["missed", "missed by some"], ["differ", "where strategies differ"]];
  return html`
    <section class="questions">
      <h3 class="label">Question by question: ${number(questions.filter(isMissed).length)} of ${number(questions.length)} missed by some</h3>
      <p class="filters" role="radiogroup" aria-label="Which questions">Show
        ${filters.map(([value, label]) => html`
          <label><input type="radio" name="questions" value=${value} checked=${filter === value} onChange=${() => choose(value)} />${label}</label>`)}
      </p>
      ${shown.length ? null : html`<p class="where">None.</p>`}
      ${shown.slice(0, count).map(({ question, place }) => html`<${Question} key=${place} question=${question} place=${place} />`)}
      ${shown.length > count ? html`<p class="more"><button type="button" onClick=${() => setCount(count + 200)}>${number(shown.length - count)} more</button></p>` : null}
    </section>
  `;
}

/** @param {{question: any, place: number}} props */
function Question({ question, place }) {
  const attempts = /** @type {any[]} */ (question.attempts);
  const gold = /** @type {string[]} */ (question.gold);
  const wrong = attempts.filter((attempt) => !attempt.is_good);
  return html`
    <article class="passage asked" aria-label=${`Question ${place}`}>
      <header><span class="number" title=${printable(question.id)}>${place}</span><h3 dir="auto">${shorten(question.text, 600)}</h3></header>
      <p class="gold">Gold: ${gold.slice(0, 6).map((one, i) => html`${i ? " or " : ""}<q dir="auto">${shorten(one, 600)}</q>`)}
        ${gold.length ? null : html`<i>no answer in the documents</i>`}</p>
      <ul class="verdicts">
        ${attempts.map((attempt) => html`
          <li>${shorten(attempt.strategy, 60)} ${number(attempt.budget)}${" "}
            <span class=${`verdict ${attempt.is_good ? "good" : "bad"}`}>${attempt.is_good ? "✓" : "✗"} ${shorten(attempt.verdict, 60)}</span></li>`)}
      </ul>
      ${wrong.length ? html`
        <details><summary>What was found instead</summary>${wrong.map((attempt) => html`<${WrongAttempt} attempt=${attempt} />`)}</details>` : null}
    </article>
  `;
}

/** @param {{attempt: any}} props */
function WrongAttempt({ attempt }) {
  const lost = /** @type {[string, string][]} */ (attempt.lost ?? []);
  const found = /** @type {[string, string][]} */ (attempt.found ?? []);
  const quoted = (/** @type {string} */ words, /** @type {string} */ about) => html`
    <q dir="auto">${shorten(words, 600)}</q> <span class="where">${shorten(about, 120)}</span>`;
  return html`
    <div class="wrong">
      <h4>${shorten(attempt.strategy, 60)} at ${number(attempt.budget)}: ${shorten(attempt.verdict, 60)}</h4>
      ${attempt.said ? html`<p>It said: <bdi>${shorten(attempt.said, 600)}</bdi></p>` : null}
      ${lost.map(([words, stage]) => html`<p>Lost ${quoted(words, stage)}</p>`)}
      ${found.length ? html`<ul>${found.map(([where, words]) => html`<li>${quoted(words, where)}</li>`)}</ul>` : html`<p class="where">Nothing was found.</p>`}
    </div>
  `;
}
