// Documents: uploads with their progress, the documents of the collection with errors, and removal.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { isAbort, request, upload, within } from "./api.js";
import { ErrorNote, href, Icon, Meter, Waiting } from "./parts.js";
import { Store, useStore } from "./store.js";
import { counted, moment, number, printable, sentence, shorten, size } from "./text.js";

const AT_ONCE = 2; // parallel uploads
const SEARCH_PAUSE = 250; // ms between the last key and the search
const POLL = 1_200; // ms between two polls of running jobs
const PAGE = 50; // documents per page

/** @typedef {{id: number, collection: string, file: File, name: string, sent: number, state: "waiting" | "sending" | "sent" | "failed", error: any, controller: AbortController, key: string}} Sending */

/** Uploads in progress, which continue while other views are open. */
const sendings = new Store(/** @type {Sending[]} */ ([]));
/** Number of files uploaded since the page was opened. Views of documents reload when it changes. */
const arrived = new Store(0);
let count = 0;

/** @param {number} id @param {Partial<Sending> | null} change null removes it from the list */
function putSending(id, change) {
  sendings.set(sendings.value.flatMap((one) => (one.id !== id ? [one] : change ? [{ ...one, ...change }] : [])));
}

/** @param {string} collection @param {File[]} files */
function sendFiles(collection, files) {
  const fresh = files.map((file) => ({
    id: ++count,
    collection,
    file,
    name: file.webkitRelativePath || file.name,
    sent: 0,
    state: /** @type {"waiting"} */ ("waiting"),
    error: null,
    controller: new AbortController(),
    key: randomKey(),
  }));
  sendings.set([...sendings.value, ...fresh]);
  next();
}

/** Return a random idempotency key. A file keeps its key for all retries, so the server creates a single job. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function next() {
  const free = AT_ONCE - sendings.value.filter((one) => one.state === "sending").length;
  for (const one of sendings.value.filter((each) => each.state === "waiting").slice(0, Math.max(0, free))) send(one);
}

/** @param {Sending} one */
async function send(one) {
  putSending(one.id, { state: "sending", error: null, sent: 0 });
  const body = new FormData();
  body.append("files", one.file, one.name);
  try {
    await upload(within(one.collection, "/documents"), body, {
      headers: { "Idempotency-Key": one.key },
      signal: one.controller.signal,
      onProgress: (sent) => putSending(one.id, { sent: Math.min(sent, one.file.size) }),
    });
    putSending(one.id, { state: "sent", sent: one.file.size });
    arrived.set(arrived.value + 1);
  } catch (error) {
    if (isAbort(error)) putSending(one.id, null);
    else putSending(one.id, { state: "failed", error });
  }
  next();
}

/** @param {Sending} one */
function retry(one) {
  putSending(one.id, { state: "waiting", error: null, controller: new AbortController() });
  next();
}

/** @param {{collection: string, info: any, changed: () => void}} props */
export function DocumentsView({ collection, info, changed }) {
  const [prefix, setPrefix] = useState("");
  const [search, setSearch] = useState("");
  const [status, setStatus] = useState("");
  const [list, setList] = useState(/** @type {{items: any[], next: string | null} | null} */ (null));
  const [jobs, setJobs] = useState(/** @type {Record<string, any>} */ ({}));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [turn, setTurn] = useState(0);
  const shown = useRef(PAGE);
  const own = useStore(sendings).filter((one) => one.collection === collection);
  const landed = useStore(arrived);
  const look = () => setTurn((now) => now + 1);
  useEffect(() => {
    const timer = setTimeout(() => { shown.current = PAGE; setSearch(prefix.trim()); }, SEARCH_PAUSE);
    return () => clearTimeout(timer);
  }, [prefix]);
  useEffect(() => {
    const controller = new AbortController();
    // an uploaded file stays on the list until it appears among the documents
    const sent = sendings.value.filter((one) => one.state === "sent" && one.collection === collection);
    readDocuments(collection, search, status, shown.current, controller.signal).then(
      (found) => { setList(found.list); setJobs(found.jobs); setError(null); sent.forEach((one) => putSending(one.id, null)); },
      (problem) => controller.signal.aborted || setError(problem),
    );
    return () => controller.abort();
  }, [collection, search, status, turn, landed]);
  const isUnderWay = (/** @type {any} */ one) => one.status === "queued" || one.status === "indexing";
  const isMoving = (list?.items ?? []).some(isUnderWay) || Object.values(jobs).some((job) => !ENDED.has(job.state));
  useEffect(() => {
    if (!isMoving) { if (list) changed(); return undefined; }
    const timer = setInterval(() => document.hidden || look(), POLL);
    return () => clearInterval(timer);
  }, [isMoving]);
  useEffect(() => {
    // a file dropped elsewhere must not make the browser leave the page
    const hold = (/** @type {DragEvent} */ event) => event.preventDefault();
    addEventListener("dragover", hold);
    addEventListener("drop", hold);
    return () => { removeEventListener("dragover", hold); removeEventListener("drop", hold); };
  }, []);
  const isFixed = Boolean(info?.read_only);
  const more = () => { shown.current += PAGE; look(); };
  const isFirst = !search && !status && list && !list.items.length && !own.length && !isMoving;
  return html`
    <h1 tabindex="-1">Documents</h1>
    ${isFixed
      ? html`<p class="fixed">${isFirst ? "This collection is empty. " : ""}Read-only here: documents are added and removed where the index is written.</p>`
      : html`<${DropPlace} collection=${collection} isLarge=${Boolean(isFirst)} />`}
    ${own.length ? html`<section class="sendings" aria-label="Uploads"><ul class="rows">${own.map((one) => html`<${SendingRow} key=${one.id} one=${one} />`)}</ul></section>` : null}
    ${error ? html`<${ErrorNote} error=${error} retry=${look} />` : null}
    ${list && !isFirst ? html`
      <div class="filters-row" role="search">
        <label class="search"><span class="sr">Name begins with</span><input type="search" placeholder="Name begins with …" value=${prefix} dir="auto" onInput=${(/** @type {any} */ event) => setPrefix(event.target.value)} /></label>
        <label><span class="sr">Status</span><select value=${status} onChange=${(/** @type {any} */ event) => { shown.current = PAGE; setStatus(event.target.value); }}>
          <option value="">any status</option>${["indexed", "queued", "indexing", "failed"].map((one) => html`<option value=${one}>${one}</option>`)}
        </select></label>
      </div>
      <${Summary} list=${list} jobs=${jobs} look=${look} />
      ${list.items.length
        ? html`<ul class="rows">${list.items.map((one) => html`<${Row} key=${one.key} collection=${collection} one=${one} job=${jobs[idOf(one.job)]} isFixed=${isFixed} look=${look} />`)}</ul>`
        : html`<p class="where none">${search || status ? "No matching documents." : "No documents yet."}</p>`}
      ${list.next ? html`<p class="more"><button type="button" onClick=${more}>More documents</button></p>` : null}
    ` : null}
    ${!list && !error ? html`<${Waiting} />` : null}
  `;
}

const ENDED = new Set(["done", "failed", "cancelled"]);

/** @param {any} job its id, or the job itself */
function idOf(job) {
  return String(job?.id ?? job ?? "");
}

/** Load the documents to show, and the jobs. @param {string} collection @param {string} prefix @param {string} status @param {number} most @param {AbortSignal} signal */
async function readDocuments(collection, prefix, status, most, signal) {
  /** @type {any[]} */
  const items = [];
  let cursor = "";
  do {
    const query = new URLSearchParams({ limit: String(Math.min(200, most - items.length)), ...(prefix ? { prefix } : {}), ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) });
    const page = await request(within(collection, `/documents?${query}`), { signal });
    items.push(...page.items);
    cursor = page.next ?? "";
  } while (cursor && items.length < most);
  const found = await request(`jobs?limit=100&collection=${encodeURIComponent(collection)}`, { signal }).catch((problem) => {
    if (isAbort(problem)) throw problem;
    return { items: [] };
  });
  const jobs = Object.fromEntries(/** @type {any[]} */ (found.items ?? []).filter((job) => job.collection === collection).map((job) => [job.id, job]));
  return { list: { items, next: cursor || null }, jobs };
}

/** @param {{collection: string, isLarge: boolean}} props */
function DropPlace({ collection, isLarge }) {
  const [isOver, setOver] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const take = (/** @type {FileList | null | undefined} */ files) => files?.length && sendFiles(collection, [...files]);
  return html`
    <div class=${`drop${isOver ? " over" : ""}${isLarge ? " large" : ""}`}
      onDragOver=${(/** @type {DragEvent} */ event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)}
      onDrop=${(/** @type {DragEvent} */ event) => { event.preventDefault(); setOver(false); take(event.dataTransfer?.files); }}>
      <p><b>${isLarge ? "This collection is empty." : "Drop files here"}</b> ${isLarge ? "Drop files here, or choose files." : "or choose files."}</p>
      <input type="file" multiple id="files" class="sr" tabindex="-1" aria-hidden="true" ref=${field} onChange=${(/** @type {any} */ event) => { take(event.target.files); event.target.value = ""; }} />
      <button type="button" onClick=${() => field.current?.click()}>Choose files</button>
    </div>
  `;
}

/** @param {{one: Sending}} props */
function SendingRow({ one }) {
  const name = shorten(one.name, 60);
  const isFailed = one.state === "failed";
  const words = { waiting: "waiting", sending: `${size(one.sent)} of ${size(one.file.size)}`, sent: "uploaded", failed: "" }[one.state];
  const act = isFailed ? "Dismiss" : "Cancel";
  const end = () => (one.state === "sending" ? one.controller.abort() : putSending(one.id, null));
  return html`
    <li class="row">
      <div class="what">
        <p class="name" dir="auto">${shorten(one.name, 120)}</p>
        ${isFailed ? html`<p class="reason">${sentence(one.error?.message)} ${sentence(one.error?.hint)}</p>` : html`<p class="where">${words}</p>`}
        ${one.state === "sending" ? html`<${Meter} done=${one.sent} total=${one.file.size} label=${`Upload of ${name}`} />` : null}
      </div>
      <div class="acts">
        ${isFailed ? html`<button type="button" aria-label=${`Retry ${name}`} onClick=${() => retry(one)}>Retry</button>` : null}
        ${one.state === "sent" ? null : html`<button type="button" class="plain" aria-label=${`${act} ${name}`} onClick=${end}>${act}</button>`}
      </div>
    </li>
  `;
}

/** The counts of documents, and the running job. @param {{list: {items: any[], next: string | null}, jobs: Record<string, any>, look: () => void}} props */
function Summary({ list, jobs, look }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const running = Object.values(jobs).filter((job) => !ENDED.has(job.state));
  const [first] = running.filter((job) => job.state !== "queued").concat(running);
  const failed = list.items.filter((one) => one.status === "failed").length;
  const cancel = (/** @type {string} */ id) => request(`jobs/${encodeURIComponent(id)}/cancel`, { method: "POST" }).then(look, setError);
  const facts = [
    counted(list.items.length, "document") + (list.next ? " shown, more exist" : ""),
    failed ? `${number(failed)} failed` : "",
    running.length ? `${counted(running.length, "job")} running` : "",
  ];
  const at = first?.progress?.document;
  return html`
    <div class="summary">
      <p class="where" role="status">${facts.filter(Boolean).join(", ")}.</p>
      ${first ? html`
        <div class="job">
          <p class="where"><b>${WORDS[first.kind] ?? shorten(first.kind, 30)}</b> ${STATES[first.state] ?? shorten(first.state, 30)}${at ? html`: <bdi>${shorten(at, 70)}</bdi>` : ""}</p>
          <${Meter} done=${first.progress?.done ?? 0} total=${first.progress?.total ?? 0} label="Progress of the job" />
          <button type="button" class="plain" disabled=${first.state === "cancelling"} onClick=${() => cancel(first.id)}>Cancel</button>
        </div>` : null}
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </div>
  `;
}

const WORDS = /** @type {Record<string, string>} */ ({ add: "Indexing", replace: "Indexing", remove: "Removing", metadata: "Metadata", sync: "Indexing folders", add_view: "New view", remove_view: "Removing a view", embed: "Embedding", evaluate: "Evaluation", check: "Check", repair: "Repair", optimize: "Optimization", drop: "Removing all" });
const STATES = /** @type {Record<string, string>} */ ({ queued: "queued", waiting_lock: "waiting for another writer", running: "running", cancelling: "being cancelled" });

/** @param {{collection: string, one: any, job: any, isFixed: boolean, look: () => void}} props */
function Row({ collection, one, job, isFixed, look }) {
  const [state, setState] = useState({ isAsking: false, isBusy: false, error: /** @type {any} */ (null) });
  const keep = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => { if (state.isAsking) keep.current?.focus(); }, [state.isAsking]);
  const act = (/** @type {Promise<any>} */ doing) => {
    setState({ isAsking: false, isBusy: true, error: null });
    doing.then(() => { look(); setState({ isAsking: false, isBusy: false, error: null }); }, (error) => setState({ isAsking: false, isBusy: false, error }));
  };
  const asks = (/** @type {boolean} */ isAsking) => setState({ ...state, isAsking });
  const remove = () => act(request(within(collection, `/documents/${encodeURIComponent(one.key)}`), { method: "DELETE" }));
  const again = () => act(request(`jobs/${encodeURIComponent(idOf(one.job))}/retry`, { method: "POST" }));
  const name = shorten(one.title || one.id, 120);
  const isAt = job?.progress?.document === one.id && job.progress.total > 0;
  const facts = [one.title && one.title !== one.id ? shorten(one.id, 80) : "", size(one.bytes), one.characters ? `${number(one.characters)} characters` : "", moment(one.indexed_at)].filter(Boolean);
  return html`
    <li class=${`row ${one.status}`}>
      <div class="what">
        <p class="name" dir="auto">${one.status === "indexed" || one.characters ? html`<a class="quiet" href=${href(collection, `d/${one.key}`)}>${name}</a>` : name}</p>
        <p class="where" dir="auto">${facts.join(" · ")}</p>
        ${one.error ? html`<p class="reason" dir="auto">${sentence(one.error.detail ?? one.error)} ${sentence(one.error.hint)}</p>` : null}
        ${isAt && one.status === "indexing" ? html`<${Meter} done=${job.progress.done} total=${job.progress.total} label=${`Indexing ${name}`} />` : null}
        ${state.error ? html`<${ErrorNote} error=${state.error} />` : null}
      </div>
      ${one.waits_for_vectors && one.status !== "failed" ? html`<span class="state indexing" title="Its vectors are being made">searchable by words</span>` : html`<span class=${`state ${one.status}`}>${printable(one.status)}</span>`}
      ${isFixed ? null : html`<div class="acts">
        ${one.status === "failed" && one.job ? html`<button type="button" disabled=${state.isBusy} aria-label=${`Retry ${name}`} onClick=${again}>Retry</button>` : null}
        ${state.isAsking
          ? html`<span class="confirm">Remove it?
              <button type="button" class="danger" onClick=${remove}>Remove</button>
              <button type="button" ref=${keep} class="plain" onClick=${() => asks(false)}>Keep</button></span>`
          : html`<button type="button" class="round small" disabled=${state.isBusy} aria-label=${`Remove ${name}`} title="Remove" onClick=${() => asks(true)}>
              <${Icon} name="close" /></button>`}
      </div>`}
    </li>
  `;
}
