// Feedback on an answer, and suggested questions for a first one.

import { html, useState } from "./vendor/preact.js";
import { request, within } from "./api.js";
import { rate } from "./conversation.js";
import { ErrorNote } from "./parts.js";
import { useLoaded } from "./store.js";
import { shorten } from "./text.js";

const THUMB = "M7 11v9H4v-9zM7 11l4-8c1.7 0 2.6 1.2 2.3 2.8L12.7 9H18a2 2 0 0 1 2 2.4l-1.3 7A2 2 0 0 1 16.7 20H7";

/** Thumbs with a note under an answer that the server keeps. @param {{collection: string, turn: import("./conversation.js").Turn}} props */
export function Feedback({ collection, turn }) {
  const [note, setNote] = useState(turn.feedback?.note ?? "");
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  if (turn.number == null) return null;
  const rating = turn.feedback;
  const send = (/** @type {import("./conversation.js").Rating | null} */ next, /** @type {boolean} */ isOpen) => {
    setError(null);
    rate(collection, turn, next).then(() => setAsking(isOpen), setError);
  };
  const thumb = (/** @type {boolean} */ good, /** @type {string} */ label) => {
    const isGiven = rating?.good === good;
    return html`<button type="button" class=${`round small thumb${good ? "" : " down"}`} aria-label=${label} title=${label} aria-pressed=${isGiven}
      onClick=${() => send(isGiven ? null : { good, note }, !isGiven)}><svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${THUMB} /></svg></button>`;
  };
  return html`
    <div class="feedback">
      <p class="thumbs" role="group" aria-label="Rate this answer">${thumb(true, "Good answer")}${thumb(false, "Bad answer")}
        <span class="where" role="status">${rating ? (isAsking ? "Rated. The people who look after these documents can read this question, its answer and your note." : "Rated.") : ""}</span></p>
      ${rating && isAsking ? html`<form class="line" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send({ good: rating.good, note: note.trim() }, false); }}>
        <input type="text" maxlength="2000" dir="auto" aria-label="Note" placeholder=${rating.good ? "What helped? (optional)" : "What is wrong or missing? (optional)"} value=${note} onInput=${(/** @type {any} */ event) => setNote(event.target.value)} />
        <button type="submit">Send note</button></form>` : null}
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </div>`;
}

/** Questions from headings of the documents, for an empty conversation. @param {{collection: string, info: any, ask: (question: string) => void}} props */
export function Suggestions({ collection, info, ask }) {
  const { value } = useLoaded((signal) => (info?.documents ? request(within(collection, "/suggestions"), { signal }) : Promise.resolve(undefined)), [collection, info?.snapshot]);
  const items = /** @type {any[]} */ (value?.items ?? []);
  if (!items.length) return null;
  return html`
    <section class="suggestions" aria-labelledby="suggestions"><h2 class="label" id="suggestions">In these documents</h2>
      <ul>${items.map((one) => html`<li><button type="button" onClick=${() => ask(one.question)}><span dir="auto">${shorten(one.text, 80)}</span>
        ${one.title === one.text ? null : html`<span class="where" dir="auto">${shorten(one.title, 60)}</span>`}</button></li>`)}</ul></section>`;
}
