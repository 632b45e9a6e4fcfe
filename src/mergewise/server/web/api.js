// Client of the server's native API: requests with retries, errors as `Problem`, uploads with progress.

import { events } from "./sse.js";
import { Store, browserSettings } from "./store.js";

const ROOT = "api/v1";
const MOST_RETRIES = 6; // of a request that the busy server refuses
const LONGEST_WAIT = 120; // seconds

/** An error of the server as problem details (RFC 9457). */
export class Problem extends Error {
  /** @param {Record<string, any>} fields */
  constructor(fields) {
    super(String(fields.detail || fields.title || "Unknown server error."));
    this.name = "Problem";
    this.status = Number(fields.status) || 0;
    this.code = String(fields.code ?? "");
    this.hint = String(fields.hint ?? "");
    /** @type {{pointer: string, detail: string}[]} */
    this.errors = Array.isArray(fields.errors) ? fields.errors : [];
    this.retryAfter = Number(fields.retry_after) || 0;
    this.instance = String(fields.instance ?? "");
  }
}

/** The state of the connection. "away": the server does not answer, and the page polls it. */
export const connection = new Store(/** @type {"here" | "away"} */ ("here"));
/** The address where users sign in at an issuer, or "". */
export const issuer = new Store("");
/** True if the user is signed in. null: not known yet. */
export const session = new Store(/** @type {boolean | null} */ (null));
/** The time until which requests wait because the server is busy, in ms since 1970. 0: no request waits. */
export const waiting = new Store({ until: 0, why: "" });

/** @typedef {{body?: unknown, signal?: AbortSignal, headers?: Record<string, string>, method?: string, raw?: boolean}} Options */

/**
 * Send a request.
 * @param {string} path relative to the API's root, with escaped parts
 * @param {Options} [options] a `body` is sent as JSON, unless it is `raw`
 * @returns {Promise<any>} the JSON, the picture, or null for an empty response
 */
export async function request(path, options = {}) {
  const response = await ask(path, { ...options, headers: { Accept: "application/json", ...options.headers } });
  if (response.status === 204) return null;
  const type = response.headers.get("Content-Type") ?? "";
  if (type === "image/png") return createImageBitmap(await response.blob());
  return type.includes("json") ? response.json() : response.text();
}

/**
 * Yield the events of a question, a comparison or a job.
 * @param {string} path
 * @param {Options} options
 * @returns {AsyncGenerator<{event: string, data: any}, void, void>}
 */
export async function* stream(path, options) {
  const response = await ask(path, { ...options, headers: { Accept: "text/event-stream", ...options.headers } });
  if (!response.body) throw new Problem({ detail: "Empty response from the server." });
  try {
    for await (const { event, data } of events(response.body)) {
      const value = JSON.parse(data);
      if (event === "error") throw new Problem(value);
      yield { event, data: value };
    }
  } catch (error) {
    if (error instanceof Problem || isAbort(error)) throw error;
    watchForReturn();
    throw new Problem({ status: 0, code: "connection_lost", detail: "Connection lost.", hint: "Ask again once the server is back." });
  }
}

/** @param {unknown} error */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** @param {string} path @param {Options} options @returns {Promise<Response>} a successful response */
async function ask(path, options) {
  const { body, signal, raw } = options;
  const method = options.method ?? (body === undefined ? "GET" : "POST");
  const isRead = method === "GET";
  const headers = {
    ...(body !== undefined && !raw ? { "Content-Type": "application/json" } : {}),
    ...secretHeader(),
    ...options.headers,
  };
  const sent = /** @type {BodyInit | undefined} */ (raw || body === undefined ? body : JSON.stringify(body));
  for (let turn = 0; ; turn++) {
    let response;
    try {
      response = await fetch(`${ROOT}/${path}`, { method, headers, signal, body: sent, credentials: "same-origin", cache: "no-store" });
    } catch (error) {
      if (isAbort(error)) throw error;
      watchForReturn();
      if (!isRead) throw new Problem({ status: 0, code: "unreachable", detail: "The server does not answer.", hint: "Try again once the server is back." });
      await waitForServer(signal);
      continue;
    }
    connection.set("here");
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status === 401) {
      issuer.set(/sign_in="([^"]*)"/.exec(response.headers.get("WWW-Authenticate") ?? "")?.[1] ?? "");
      session.set(false);
    }
    if (!isRetryable(problem) || turn >= MOST_RETRIES) throw problem;
    await pause(problem.retryAfter * 1000, problem, signal);
  }
}

/** Check if a retry makes sense: the server is busy or shuts down, and gives a time to retry. @param {Problem} problem */
function isRetryable(problem) {
  return (problem.status === 429 || problem.status === 503) && problem.retryAfter > 0 && problem.retryAfter <= LONGEST_WAIT;
}

/** @param {Response} response */
async function problemOf(response) {
  const type = response.headers.get("Content-Type") ?? "";
  const fields = type.includes("json") ? await response.json().catch(() => ({})) : {};
  const after = Number(response.headers.get("retry-after-ms")) / 1000 || Number(response.headers.get("Retry-After"));
  return new Problem({
    title: response.statusText || `The server answered ${response.status}.`,
    ...(fields && typeof fields === "object" ? fields : {}),
    status: response.status,
    retry_after: after || fields?.retry_after,
  });
}

/** @param {number} ms @param {Problem} problem @param {AbortSignal} [signal] */
async function pause(ms, problem, signal) {
  const until = Date.now() + ms;
  const why = problem.status === 429 ? "Many questions at once" : "The server is busy";
  if (until > waiting.value.until) waiting.set({ until, why });
  try {
    await sleep(ms, signal);
  } finally {
    if (waiting.value.until <= Math.max(Date.now(), until)) waiting.set({ until: 0, why: "" });
  }
}

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException("", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

let isWatching = false;

/** Poll the server until it answers again. */
async function watchForReturn() {
  connection.set("away");
  if (isWatching) return;
  isWatching = true;
  for (let wait = 500; connection.value === "away"; wait = Math.min(wait * 1.6, 8000)) {
    await sleep(wait);
    const answer = await fetch("livez", { cache: "no-store" }).catch(() => null);
    if (answer?.ok) connection.set("here");
  }
  isWatching = false;
}

/** Wait until the server answers again. @param {AbortSignal} [signal] @returns {Promise<void>} */
async function waitForServer(signal) {
  while (connection.value === "away") await sleep(200, signal);
}

/**
 * Upload a body and report its progress in bytes, which fetch cannot do.
 * @param {string} path
 * @param {XMLHttpRequestBodyInit} body
 * @param {{headers?: Record<string, string>, method?: string, signal: AbortSignal, onProgress: (sent: number) => void}} options
 * @returns {Promise<any>}
 */
export async function upload(path, body, { headers = {}, method = "POST", signal, onProgress }) {
  for (let turn = 0; ; turn++) {
    const answer = await send(`${ROOT}/${path}`, method, body, { ...headers, ...secretHeader(), Accept: "application/json" }, signal, onProgress);
    if (answer.status >= 200 && answer.status < 300) return answer.json;
    const problem = new Problem({ title: `The server answered ${answer.status}.`, ...answer.json, status: answer.status, retry_after: answer.retryAfter || answer.json?.retry_after });
    if (answer.status === 401) session.set(false);
    if (!isRetryable(problem) || turn >= MOST_RETRIES) throw problem;
    onProgress(0);
    await pause(problem.retryAfter * 1000, problem, signal);
  }
}

/**
 * @param {string} address @param {string} method @param {XMLHttpRequestBodyInit} body
 * @param {Record<string, string>} headers @param {AbortSignal} signal @param {(sent: number) => void} onProgress
 * @returns {Promise<{status: number, json: any, retryAfter: number}>}
 */
function send(address, method, body, headers, signal, onProgress) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    const stop = () => sending.abort();
    sending.open(method, address);
    for (const [name, value] of Object.entries(headers)) sending.setRequestHeader(name, value);
    sending.upload.onprogress = (event) => onProgress(event.loaded);
    sending.onload = () => {
      let json = null;
      try {
        json = JSON.parse(sending.responseText);
      } catch {
        /* the status is enough */
      }
      resolve({ status: sending.status, json, retryAfter: Number(sending.getResponseHeader("Retry-After")) || 0 });
    };
    sending.onerror = () => {
      watchForReturn();
      reject(new Problem({ status: 0, code: "unreachable", detail: "Connection lost.", hint: "Upload the file again." }));
    };
    sending.onabort = () => reject(new DOMException("", "AbortError"));
    sending.onloadend = () => signal.removeEventListener("abort", stop);
    if (signal.aborted) return reject(new DOMException("", "AbortError"));
    signal.addEventListener("abort", stop);
    sending.send(body);
  });
}

let held = ""; // the secret, if the browser has no storage

/** Return the header with the session's secret. The session's cookie is valid only with it. @returns {Record<string, string>} */
function secretHeader() {
  const secret = browserSettings.read("session") ?? held;
  return secret ? { "X-Mergewise": secret } : {};
}

/** Keep the secret of a session. @param {string} secret */
export function keepSecret(secret) {
  browserSettings.write("session", (held = secret));
  session.set(!!secret);
}

/** Exchange a token for a session. @param {string} token */
export async function signIn(token) {
  keepSecret((await request("session", { body: { token } })).secret);
}

export async function signOut() {
  await request("session", { method: "DELETE" }).catch(() => {});
  keepSecret("");
}

/** Download a file of the API under the name that the server gives: a link cannot send the secret. @param {string} path */
export async function save(path) {
  const response = await ask(path, {});
  const [, encoded, plain] = /filename\*=utf-8''([^;]+)|filename="([^"]+)"/i.exec(response.headers.get("Content-Disposition") ?? "") ?? [];
  const blob = await response.blob().catch(() => {
    throw new Problem({ code: "connection_lost", detail: "Connection lost.", hint: "Download the file again." });
  });
  saveBlob(blob, encoded ? decodeURIComponent(encoded) : (plain ?? ""));
}

/** @param {Blob} blob @param {string} name */
export function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Return the API path of a collection. @param {string} collection @param {string} rest */
export function within(collection, rest = "") {
  return `collections/${encodeURIComponent(collection)}${rest}`;
}

/** Load up to `most` items of a paginated list. @param {string} path @param {AbortSignal} [signal] @param {number} [most] */
export async function all(path, signal, most = 1000) {
  const items = [];
  let cursor = "";
  do {
    const mark = path.includes("?") ? "&" : "?";
    const page = await request(`${path}${mark}limit=200${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, { signal });
    items.push(...(page.items ?? []));
    cursor = page.next ?? "";
  } while (cursor && items.length < most);
  return items;
}
