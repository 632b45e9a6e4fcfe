// Settings: appearance, collections, models, tokens, limits, and signing out.

import { html, useState } from "./vendor/preact.js";
import { all, request, signOut } from "./api.js";
import { forgetConversations } from "./conversation.js";
import { ErrorNote, href, Waiting } from "./parts.js";
import { browserSettings, useLoaded } from "./store.js";
import { counted, duration, moment, number, printable, sentence, shorten, size } from "./text.js";

const SCOPES = ["read", "write", "feedback", "admin"];
const SCHEMES = [["auto", "System"], ["light", "Light"], ["dark", "Dark"]];
const DAY = 86_400; // seconds
const NO_TOKEN = { title: "", scopes: ["read"], collection: "", days: "" };

/** @param {{collections: any[], changed: () => void}} props */
export function SettingsView({ collections, changed }) {
  return html`
    <h1 tabindex="-1">Settings</h1>
    <${Appearance} />
    <${Collections} collections=${collections} changed=${changed} />
    <${Models} changed=${changed} />
    <${Tokens} collections=${collections} />
    <${Limits} />
    <section class="setting"><h2>This browser</h2><p><button type="button" onClick=${() => { forgetConversations(); signOut(); }}>Sign out</button></p></section>
  `;
}

function Appearance() {
  const [scheme, setScheme] = useState(document.documentElement.dataset.scheme ?? "auto");
  const choose = (/** @type {string} */ value) => {
    if (value === "auto") delete document.documentElement.dataset.scheme;
    else document.documentElement.dataset.scheme = value;
    browserSettings.write("scheme", value);
    setScheme(value);
  };
  return html`
    <section class="setting"><h2>Colours</h2>
      <fieldset class="pills"><legend class="sr">Colours</legend>
        ${SCHEMES.map(([value, label]) => html`
          <label><input type="radio" name="scheme" checked=${scheme === value} onChange=${() => choose(value)} /><span>${label}</span></label>`)}
      </fieldset>
    </section>`;
}

/** The error of a part that requires an admin token. @param {{error: any, retry: () => void}} props */
function Refused({ error, retry }) {
  return error.status === 403 || error.status === 404 ? html`<p class="where">Requires a token with the scope admin.</p>` : html`<${ErrorNote} error=${error} retry=${retry} />`;
}

/** @param {{collections: any[], changed: () => void}} props */
function Collections({ collections, changed }) {
  const [name, setName] = useState("");
  const [title, setTitle] = useState("");
  const [embedder, setEmbedder] = useState("");
  const { value: models } = useLoaded((signal) => request("models", { signal }), [collections]);
  const [error, setError] = useState(/** @type {any} */ (null));
  const make = (/** @type {Event} */ event) => {
    event.preventDefault();
    setError(null);
    request("collections", { body: { name, ...(title ? { title } : {}), ...(embedder ? { embedder } : {}) } }).then(() => { setName(""); setTitle(""); changed(); }, setError);
  };
  return html`
    <section class="setting"><h2>Collections</h2>
      <ul class="rows">${collections.map((one) => html`<li key=${one.name} class="row"><div class="what">
        <p class="name" dir="auto"><a class="quiet" href=${href(one.name, "ask")}>${shorten(one.title || one.name, 100)}</a></p>
        <p class="where">${[one.title ? one.name : "", counted(one.documents, "document"), shorten(one.embedder, 60), namesLine(one.views)].filter(Boolean).join(" · ")}</p></div></li>`)}</ul>
      <details class="make"><summary>New collection</summary>
        <form onSubmit=${make} class="line">
          <label>Name <input type="text" required pattern="[a-z0-9][a-z0-9\\-]{0,62}" value=${name} placeholder="handbook" onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
          <label>Title <input type="text" maxlength="200" value=${title} dir="auto" onInput=${(/** @type {any} */ event) => setTitle(event.target.value)} /></label>
          <label>Embedder <select value=${embedder} onChange=${(/** @type {any} */ event) => setEmbedder(event.target.value)}><option value="">default</option>
            ${(models?.embedders ?? []).map((/** @type {any} */ one) => html`<option>${one.name}</option>`)}</select></label>
          <button type="submit" class="primary" disabled=${!name}>Create</button>
        </form>
      </details>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </section>`;
}

/** Join names with commas. @param {any} names a list, or a mapping by name */
function namesLine(names) {
  return (Array.isArray(names) ? names : Object.keys(names)).map((one) => shorten(one?.name ?? one, 40)).join(", ");
}

/** @param {{changed: () => void}} props */
function Models({ changed }) {
  const { value, error, reload } = useLoaded((signal) => request("models", { signal }), []);
  const groups = MODEL_KINDS.map(([kind, label]) => ({ kind, label, models: /** @type {any[]} */ (value?.[kind] ?? []) })).filter(({ models }) => models.length);
  const renew = () => { reload(); changed(); };
  return html`
    <section class="setting"><h2>Models</h2>
      ${error ? html`<${Refused} error=${error} retry=${reload} />` : null}
      ${!value && !error ? html`<${Waiting} />` : null}
      ${value && (value.chats ?? []).every((/** @type {any} */ chat) => chat.name === "extractive") ? html`<p class="where">No chat model configured: answers are quotations.</p>` : null}
      ${groups.map(({ kind, label, models }) => html`<h3 class="label">${label}</h3>
        <ul class="rows">${models.map((model) => html`<${ModelRow} key=${model.name} kind=${kind} model=${model} mayTry=${value.may_change} changed=${renew} />`)}</ul>`)}
      ${value?.may_change ? html`<${NewModel} changed=${renew} />` : null}
      ${["strategies", "modes"].map((kind) => (value?.[kind]?.length ? html`
        <details class="make"><summary>${kind === "modes" ? "Answer modes" : "Strategies"} (${value[kind].length})</summary>
          <${Facts} rows=${value[kind].map((/** @type {any} */ one) => [one.name, [one.summary, one.lacks].filter(Boolean).join("; ")])} />
        </details>` : null))}
    </section>`;
}

const MODEL_KINDS = [["chats", "Chat"], ["embedders", "Embedders"], ["rerankers", "Rerankers"]];
const NO_MODEL = { kind: "chats", name: "", base_url: "", model: "", key: "" };

/** A model, with a button that tries one at an endpoint. @param {{kind: string, model: any, mayTry: boolean, changed: () => void}} props */
function ModelRow({ kind, model, mayTry, changed }) {
  const [trial, setTrial] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const { added, ...facts } = model;
  const path = `models/${kind}/${encodeURIComponent(model.name)}`;
  const run = () => { setTrial({ detail: "Trying" }); request(`${path}/try`, { method: "POST" }).then(setTrial, setError); };
  const remove = () => request(path, { method: "DELETE" }).then(changed, setError);
  return html`
    <li class="row">
      <div class="what">
        <p class="name" dir="auto">${shorten(model.name, 80)}</p>
        <p class="where">${model.name === "extractive" ? "no model: answers are quotations" : factsOf(facts)}</p>
        <div role="status">${trial ? html`<p class=${trial.ok === false ? "reason" : "where"} dir="auto">${sentence(trial.detail)} ${sentence(trial.hint)}</p>` : null}</div>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
      </div>
      <div class="acts">
        ${mayTry && /^(openai:|http)/.test(model.spec ?? "") ? html`<button type="button" aria-label=${`Try ${model.name}`} disabled=${trial && trial.ok == null} onClick=${run}>Try</button>` : null}
        ${added ? html`<button type="button" class="plain" aria-label=${`Remove ${model.name}`} onClick=${remove}>Remove</button>` : null}
      </div>
    </li>`;
}

/** @param {{changed: () => void}} props */
function NewModel({ changed }) {
  const [fields, setFields] = useState(NO_MODEL);
  const [error, setError] = useState(/** @type {any} */ (null));
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setFields({ ...fields, [name]: event.target.value });
  const make = (/** @type {Event} */ event) => {
    event.preventDefault();
    setError(null);
    const { kind, name, model, base_url, key } = fields;
    const body = { model, ...(base_url ? { base_url } : {}), ...(key ? { key } : {}) };
    request(`models/${kind}/${encodeURIComponent(name)}`, { method: "PUT", body }).then(() => { setFields(NO_MODEL); changed(); }, setError);
  };
  const isReranker = fields.kind === "rerankers";
  return html`
    <details class="make"><summary>New model, or a new key</summary>
      <form onSubmit=${make} class="line">
        <label>Kind <select value=${fields.kind} onChange=${set("kind")}>${MODEL_KINDS.map(([kind, label]) => html`<option value=${kind}>${label.replace(/s$/, "")}</option>`)}</select></label>
        <label>Name <input type="text" required pattern="[a-z0-9][a-z0-9\\-]{0,62}" value=${fields.name} placeholder="local" onInput=${set("name")} /></label>
        <label>Address <input type="url" required=${isReranker} value=${fields.base_url} placeholder=${isReranker ? "URL ending with /rerank" : "URL ending with /v1"} onInput=${set("base_url")} /></label>
        <label>Model <input type="text" required=${!isReranker} value=${fields.model} placeholder="qwen3" onInput=${set("model")} /></label>
        <label>Key <input type="password" autocomplete="off" value=${fields.key} placeholder="none, or as before" onInput=${set("key")} /></label>
        <button type="submit" class="primary" disabled=${!fields.name}>Save</button>
      </form>
      <p class="where">The server keeps the key in a file of its own and never shows it again. Without an address, OpenAI answers with the key of the server's environment. Answers use a chat model at once, new collections an embedder, and clients of the API a reranker.</p>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </details>`;
}

/** Join the fields of a record, without its name. @param {any} record */
function factsOf(record) {
  if (!record || typeof record !== "object") return "";
  const facts = Object.entries(record).filter(([name, value]) => name !== "name" && value && plain(value));
  const words = (/** @type {string} */ name, /** @type {any} */ value) => {
    if (name === "spec") return plain(value);
    return value === true ? name.replaceAll("_", " ") : `${name.replaceAll("_", " ")} ${plain(value)}`;
  };
  return facts.map(([name, value]) => words(name, value)).join(" · ");
}

/** @param {any} value @returns {string} */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, inner]) => `${name} ${plain(inner)}`).join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? number(value) : shorten(value, 200);
}

/** @param {{rows: [any, any][]}} props */
function Facts({ rows }) {
  return html`<dl class="facts-list">${rows.map(([name, value]) => html`<div><dt>${shorten(String(name).replaceAll("_", " "), 80)}</dt><dd dir="auto">${plain(value)}</dd></div>`)}</dl>`;
}

/** @param {{collections: any[]}} props */
function Tokens({ collections }) {
  const { value: tokens, error, reload } = useLoaded((signal) => all("tokens", signal), []);
  const [secret, setSecret] = useState(/** @type {any} */ (null));
  return html`
    <section class="setting"><h2>Tokens</h2>
      ${error ? html`<${Refused} error=${error} retry=${reload} />` : null}
      ${!tokens && !error ? html`<${Waiting} />` : null}
      ${secret ? html`<div class="note" role="status"><p><b>The new token. It is shown only once.</b></p><p class="secret"><code>${printable(secret)}</code></p>
        <p><button type="button" onClick=${() => navigator.clipboard?.writeText(secret)}>Copy</button> <button type="button" class="plain" onClick=${() => setSecret(null)}>Hide</button></p></div>` : null}
      ${tokens ? html`
        ${tokens.length ? html`<ul class="rows">${tokens.map((token) => html`<${TokenRow} key=${token.id} token=${token} removed=${reload} />`)}</ul>` : null}
        <${NewToken} collections=${collections} made=${(/** @type {any} */ made) => { setSecret(made.secret ?? made.token ?? ""); reload(); }} />` : null}
    </section>`;
}

/** @param {{token: any, removed: () => void}} props */
function TokenRow({ token, removed }) {
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const name = shorten(token.title || token.id, 80);
  const facts = [
    (token.scopes ?? []).join(", "),
    token.collections ? namesLine(token.collections) : "all collections",
    token.expires ? `until ${moment(token.expires)}` : "",
    token.rate ? `${number(token.rate)} requests per second` : "",
    token.title ? token.id : "",
  ];
  const remove = () => request(`tokens/${encodeURIComponent(token.id)}`, { method: "DELETE" }).then(removed, setError);
  return html`
    <li class="row">
      <div class="what">
        <p class="name" dir="auto">${name}</p>
        <p class="where">${facts.filter(Boolean).join(" · ")}</p>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
      </div>
      <div class="acts">
        ${isAsking
          ? html`<span class="confirm">Remove the token now?
              <button type="button" class="danger" onClick=${remove}>Remove</button>
              <button type="button" class="plain" onClick=${() => setAsking(false)}>Keep</button></span>`
          : html`<button type="button" class="plain" aria-label=${`Remove the token ${name}`} onClick=${() => setAsking(true)}>Remove</button>`}
      </div>
    </li>`;
}

/** @param {{collections: any[], made: (token: any) => void}} props */
function NewToken({ collections, made }) {
  const [fields, setFields] = useState(NO_TOKEN);
  const [error, setError] = useState(/** @type {any} */ (null));
  const make = (/** @type {Event} */ event) => {
    event.preventDefault();
    setError(null);
    const days = Number(fields.days);
    const body = {
      title: fields.title,
      scopes: fields.scopes,
      ...(fields.collection ? { collections: [fields.collection] } : {}),
      ...(days > 0 ? { expires: Math.floor(Date.now() / 1000 + days * DAY) } : {}),
    };
    request("tokens", { body }).then((token) => { setFields(NO_TOKEN); made(token); }, setError);
  };
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setFields({ ...fields, [name]: event.target.value });
  const toggle = (/** @type {string} */ scope) => {
    const others = fields.scopes.filter((one) => one !== scope);
    setFields({ ...fields, scopes: others.length < fields.scopes.length ? others : [...others, scope] });
  };
  return html`
    <details class="make"><summary>New token</summary>
      <form onSubmit=${make} class="line">
        <label>For <input type="text" maxlength="200" dir="auto" value=${fields.title} placeholder="person or program" onInput=${set("title")} /></label>
        <fieldset class="pills"><legend class="sr">Scopes</legend>
          ${SCOPES.map((scope) => html`
            <label><input type="checkbox" checked=${fields.scopes.includes(scope)} onChange=${() => toggle(scope)} /><span>${scope}</span></label>`)}
        </fieldset>
        <label>Collection <select value=${fields.collection} onChange=${set("collection")}>
          <option value="">all</option>
          ${collections.map((one) => html`<option value=${one.name}>${shorten(one.title || one.name, 40)}</option>`)}
        </select></label>
        <label>Days <input type="number" class="short" min="1" max="3650" value=${fields.days} placeholder="no limit" onInput=${set("days")} /></label>
        <button type="submit" class="primary" disabled=${!fields.scopes.length}>Create</button>
      </form>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </details>`;
}

function Limits() {
  const { value, error, reload } = useLoaded((signal) => request("settings", { signal }), []);
  const limits = Object.entries(value?.limits ?? {}).map(([name, limit]) => withUnit(name, limit));
  const rest = Object.entries(value ?? {}).filter(([name, value]) => name !== "limits" && plain(value));
  return html`
    <section class="setting"><h2>Limits</h2>
      ${error ? html`<${Refused} error=${error} retry=${reload} />` : null}
      ${!value && !error ? html`<${Waiting} />` : null}
      ${limits.length ? html`<${Facts} rows=${limits} />` : null}
    </section>
    ${rest.length ? html`<section class="setting"><h2>Server</h2><${Facts} rows=${rest} /></section>` : null}`;
}

/** Move the unit at the end of a limit's name to its value. @param {string} name @param {any} limit @returns {[string, any]} */
function withUnit(name, limit) {
  if (typeof limit !== "number") return [name, limit];
  if (name.endsWith("_bytes")) return [name.slice(0, -6), size(limit)];
  return name.endsWith("_seconds") ? [name.slice(0, -8), duration(1000 * limit)] : [name, limit];
}
