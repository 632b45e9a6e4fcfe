// The frame of the page: login, choice of the collection, navigation, and the state of the connection.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact.js";
import { all, connection, issuer, keepSecret, request, session, signIn, within } from "./api.js";
import { AskView } from "./ask.js";
import { CompareView } from "./compare.js";
import { DocumentsView } from "./documents.js";
import { EvaluateView } from "./evaluate.js";
import { MergeView } from "./merge.js";
import { Empty, ErrorNote, href, Icon, Meter, Waiting, WaitingLine } from "./parts.js";
import { SettingsView } from "./settings.js";
import { SharedView } from "./shared.js";
import { SourceView } from "./source.js";
import { browserSettings, useLoaded, useStore } from "./store.js";
import { sentence, shorten } from "./text.js";

const INDEXING_POLL = 2_000; // ms between two polls while documents are indexed

const VIEWS = /** @type {Record<string, {label: string, view: any}>} */ ({
  ask: { label: "Ask", view: AskView },
  documents: { label: "Documents", view: DocumentsView },
});
const LAB = /** @type {Record<string, {label: string, view: any}>} */ ({
  merge: { label: "Merge", view: MergeView },
  compare: { label: "Compare", view: CompareView },
  evaluate: { label: "Evaluate", view: EvaluateView },
});

/** @typedef {{collection: string, view: string, key: string, query: URLSearchParams}} Route */

/** Parse `#/c/NAME/VIEW`, `#/c/NAME/d/KEY?s=START-END` or `#/settings`. @param {string} hash @returns {Route} */
export function routeOf(hash) {
  // browsers leave a second # where programs appended a text to highlight
  const [path, search = ""] = hash.replace(/^#/, "").replace(/#.*/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decodePart);
  const query = new URLSearchParams(search);
  if (parts[0] === "settings") return { collection: "", view: "settings", key: "", query };
  if (parts[0] !== "c") return { collection: "", view: "", key: "", query };
  const view = parts[2] ?? "ask";
  return view === "d" ? { collection: parts[1] ?? "", view: "source", key: parts[3] ?? "", query } : { collection: parts[1] ?? "", view, key: "", query };
}

/** @param {string} part */
function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return the token `t` or the session's secret `s` in the URL, and remove it from the URL. @param {"t" | "s"} name */
function takeFromUrl(name) {
  const value = new URLSearchParams(location.hash.replace(/^#/, "")).get(name);
  if (value) history.replaceState(null, "", location.pathname + location.search);
  return value;
}

function App() {
  const [route, setRoute] = useState(routeOf(location.hash));
  const isSignedIn = useStore(session);
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const arrive = async () => {
      const token = takeFromUrl("t");
      const secret = takeFromUrl("s");
      setError(null);
      if (secret) keepSecret(secret);
      if (token) await signIn(token).catch((problem) => { session.set(false); setError(problem); });
      else if (session.value === null) await request("collections?limit=1").then(() => session.set(true), (problem) => problem.status === 401 || setError(problem));
      setRoute(routeOf(location.hash));
    };
    arrive();
    addEventListener("hashchange", arrive);
    return () => removeEventListener("hashchange", arrive);
  }, []);
  if (isSignedIn === false) return html`<${Frame}><${SignIn} error=${error} /></${Frame}>`;
  if (isSignedIn === null) return html`<${Frame}>${error ? html`<${ErrorNote} error=${error} retry=${() => location.reload()} />` : html`<${Waiting} />`}</${Frame}>`;
  return html`<${Rooms} route=${route} />`;
}

/** @param {{route: Route}} props */
function Rooms({ route }) {
  const isHere = useStore(connection) === "here";
  const { value: collections, error, reload } = useLoaded((signal) => all("collections", signal), [isHere]);
  const names = (collections ?? []).map((one) => String(one.name));
  const last = browserSettings.read("collection");
  const name = route.collection || (names.includes(last) ? last : names[0]) || "";
  const summary = collections?.find((one) => one.name === name);
  const detail = useLoaded((signal) => (name && summary ? request(within(name), { signal }) : Promise.resolve(undefined)), [name, Boolean(summary), isHere]);
  const { value: models } = useLoaded((signal) => (collections ? request("models", { signal }) : Promise.resolve(undefined)), [collections, isHere]);
  const found = detail.value?.name === name ? detail.value : summary;
  const lacking = (/** @type {any[]} */ parts = []) => Object.fromEntries(parts.map((one) => [one.name, one.lacks]));
  const lacks = { mode: lacking(models?.modes), strategy: lacking(models?.strategies) };
  const info = found && { ...found, modes: models?.modes, chats: models?.chats, lacks };
  useEffect(() => {
    if (summary) browserSettings.write("collection", name);
  }, [name, Boolean(summary)]);
  const view = route.view || "ask";
  const known = { ...VIEWS, ...LAB, source: { label: "Source", view: SourceView }, shared: { label: "Shared conversation", view: SharedView }, settings: { label: "Settings", view: SettingsView } }[view];
  const indexing = info?.indexing;
  useEffect(() => {
    if (indexing?.percent == null) return undefined;
    const timer = setInterval(() => document.hidden || detail.reload(), INDEXING_POLL);
    return () => clearInterval(timer);
  }, [name, indexing?.percent == null]);
  const title = known?.label ?? "Page not found";
  useEffect(() => {
    document.title = `${title} · ${shorten(info?.title || name || "mergewise", 60)}`;
  }, [title, name, info?.title]);
  const inner = () => {
    if (!collections) return error ? html`<${ErrorNote} error=${error} retry=${reload} />` : html`<${Waiting} />`;
    if (!known) return html`<${Empty} title="Page not found"><p><a href="#/">Go to the questions</a></p></${Empty}>`;
    if (view === "settings") return html`<${SettingsView} collections=${collections} changed=${reload} />`;
    if (!names.length) return html`<${Empty} title="No collection yet"><p>A collection holds the documents for your questions. Create one in the <a href="#/settings">settings</a>.</p></${Empty}>`;
    if (!summary) return html`<${Empty} title="Collection not found"><p>It does not exist, or this token has no access. <a href="#/">Go to the other collections</a></p></${Empty}>`;
    const View = known.view;
    // a reader of a document needs no notice, and the documents show the progress themselves
    const isNoticed = indexing && (view === "ask" || view in LAB || (view === "documents" && indexing.percent == null));
    return html`
      ${isNoticed ? html`<${IndexingNote} collection=${name} indexing=${indexing} start=${!info.read_only} changed=${detail.reload} />` : null}
      <${View} key=${view === "source" ? route.key : name} collection=${name} info=${info} itemKey=${route.key} query=${route.query} changed=${detail.reload} />`;
  };
  return html`<${Frame} view=${view} name=${name} collections=${collections ?? []}><${Boundary} key=${`${view} ${name} ${route.key}`}>${inner()}</${Boundary}></${Frame}>`;
}

/** The progress of indexing, or the reason of its failure with a button to try again. @param {{collection: string, indexing: any, start: boolean, changed: () => void}} props */
function IndexingNote({ collection, indexing, start, changed }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const sync = () => request(within(collection, "/jobs"), { body: { kind: "sync" } }).then(changed, setError);
  if (indexing.percent != null) {
    return html`<div class="unfinished"><p>${sentence(indexing.notice)}${indexing.document ? html` Now: <bdi>${shorten(indexing.document, 70)}</bdi>` : null}</p><${Meter} done=${indexing.percent} total=${100} label="Progress of indexing" /></div>`;
  }
  return html`<div class="unfinished"><p>${sentence(indexing.notice)}</p>${start ? html`<button type="button" onClick=${sync}>Try again</button>` : null}
    ${error ? html`<${ErrorNote} error=${error} />` : null}</div>`;
}

/** Show the error of a failed view, so that the rest of the page keeps working. @param {{children?: any}} props */
function Boundary({ children }) {
  const [error, reset] = useErrorBoundary();
  return error ? html`<${ErrorNote} error=${error} retry=${reset} />` : children;
}

/** Focus the question field. Returns false if the view has none. */
function focusField() {
  const field = /** @type {HTMLTextAreaElement | null} */ (document.querySelector("#question-field"));
  field?.focus();
  return Boolean(field);
}

/** @param {{view?: string, name?: string, collections?: any[], children?: any}} props */
function Frame({ view = "", name = "", collections = [], children }) {
  const state = useStore(connection);
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useRef(view);
  const wantsField = useRef(false);
  useEffect(() => {
    // a new view starts at its top, also for screen readers
    if (seen.current !== view) {
      scrollTo(0, 0);
      if (!(wantsField.current && focusField())) main.current?.focus({ preventScroll: true });
      wantsField.current = false;
    }
    seen.current = view;
  }, [view]);
  useEffect(() => {
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) return;
      event.preventDefault();
      if (focusField() || !name) return;
      wantsField.current = true;
      location.hash = href(name, "ask");
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [name]);
  const link = (/** @type {string} */ key, /** @type {any} */ label, /** @type {string} */ to, /** @type {string} */ hint = "") =>
    html`<a href=${to} class="tab" aria-current=${view === key ? "page" : undefined} aria-label=${hint || undefined} title=${hint || undefined}>${label}</a>`;
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
    <header class="bar-top">
      <a class="brand" href="#/">mergewise</a>
      ${collections.length > 1 && view !== "settings" ? html`<${Chooser} name=${name} view=${view} collections=${collections} />` : null}
      <nav aria-label="Views">
        ${name ? Object.entries(VIEWS).map(([key, { label }]) => link(key, label, href(name, key))) : null}
        ${name ? html`<a href=${href(name, "merge")} class="tab" aria-current=${view in LAB ? "true" : undefined}>Lab</a>` : null}
      </nav>
      ${collections.length || name || view ? html`<span class="settings-link">${link("settings", html`<${Icon} name="gear" />`, "#/settings", "Settings")}</span>` : null}
    </header>
    <div role="status">${state === "away" ? html`<p class="ribbon">The server does not answer. This page continues as soon as the server is back.</p>` : null}</div>
    <${WaitingLine} />
    <main id="main" tabindex="-1" ref=${main} class=${`view-${view || "start"}`}>
      ${view in LAB ? html`<nav class="lab" aria-label="Lab">${Object.entries(LAB).map(([key, { label }]) => link(key, label, href(name, key)))}</nav>` : null}
      ${children}
    </main>
  `;
}

/** @param {{name: string, view: string, collections: any[]}} props */
function Chooser({ name, view, collections }) {
  const go = (/** @type {any} */ event) => { location.hash = href(event.target.value, view === "source" ? "documents" : view || "ask"); };
  return html`
    <label class="chooser"><span class="sr">Collection</span>
      <select value=${name} onChange=${go}>
        ${collections.some((one) => one.name === name) ? null : html`<option value=${name}>Choose …</option>`}
        ${collections.map((one) => html`<option value=${one.name}>${shorten(one.title || one.name, 48)}</option>`)}</select>
    </label>`;
}

/** @param {{error: any}} props */
function SignIn({ error }) {
  const [token, setToken] = useState("");
  const [own, setProblem] = useState(/** @type {any} */ (null));
  const problem = own ?? error;
  const address = useStore(issuer);
  const [isBusy, setBusy] = useState(false);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    await signIn(token.trim()).catch(setProblem);
    setBusy(false);
  };
  return html`
    <div class="start signin">
      <h1 tabindex="-1">Welcome</h1>
      ${address ? html`<p><a class="primary" href=${address}>Sign in with your account</a></p>` : null}
      <p>This server requires a token. It printed a token at its first start, and at every start the file that holds it.</p>
      <form onSubmit=${send}>
        <label for="token">Token</label>
        <div class="field"><input id="token" type="password" autocomplete="off" spellcheck="false" value=${token} placeholder="mw_…" onInput=${(/** @type {any} */ event) => setToken(event.target.value)} />
        <button type="submit" class="primary" disabled=${!token.trim() || isBusy}>Sign in</button></div>
      </form>
      ${problem ? html`<p class="note bad" role="alert">${problem.status === 401 || problem.status === 422 ? "Unknown or expired token." : shorten(problem.message, 300)}</p>` : null}
      <p class="where">For a new token, run this command in the folder where the server was started:
        <code>mergewise server add-token -s read -s write</code> If the server was started with a directory of data, name it too:
        <code>mergewise server add-token DIRECTORY -s read -s write</code></p>
    </div>`;
}

const scheme = browserSettings.read("scheme");
if (scheme === "light" || scheme === "dark") document.documentElement.dataset.scheme = scheme;
const place = document.getElementById("app");
if (place) render(html`<${App} />`, place);
