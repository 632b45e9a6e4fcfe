// Shared: a conversation that somebody shares by a link, to read only.

import { html } from "./vendor/preact.js";
import { request, within } from "./api.js";
import { TurnPart } from "./ask.js";
import { turnOf } from "./conversation.js";
import { Empty, ErrorNote, href, Waiting } from "./parts.js";
import { useLoaded } from "./store.js";
import { shorten } from "./text.js";

/** @param {{collection: string, query: URLSearchParams}} props */
export function SharedView({ collection, query }) {
  const address = within(collection, `/shared/${encodeURIComponent(query.get("id") ?? "")}`);
  const { value, error, reload } = useLoaded(async (signal) => {
    const kept = await request(address, { signal });
    return { title: kept.title, turns: kept.items.map((/** @type {any} */ one) => ({ ...turnOf(one), number: null })) };
  }, [address]);
  if (error?.status === 404) return html`<${Empty} title="Conversation not found"><p>Its owner deleted it or stopped sharing it. <a href=${href(collection, "ask")}>Ask your own questions</a></p></${Empty}>`;
  if (error) return html`<${ErrorNote} error=${error} retry=${reload} />`;
  if (!value) return html`<${Waiting} />`;
  return html`
    <h1 tabindex="-1" dir="auto" class=${value.title === value.turns[0]?.question ? "sr" : ""}>${shorten(value.title, 120)}</h1>
    <p class="where">A shared conversation, to read only. <a href=${href(collection, "ask")}>Ask your own questions</a></p>
    <div class="conversation">${value.turns.map((/** @type {import("./conversation.js").Turn} */ turn) => html`<${TurnPart} key=${turn.id} collection=${collection} turn=${turn} isLast=${false} />`)}</div>`;
}
