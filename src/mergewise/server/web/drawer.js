// Drawer: the kept conversations of a collection, to open, search, rename, share, export and delete.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { all, connection, request, saveBlob, within } from "./api.js";
import { beginConversation, keyOfConversation, openConversation, turnOf } from "./conversation.js";
import { ErrorNote, href, Icon, Waiting } from "./parts.js";
import { useLoaded, useStore } from "./store.js";
import { counted, moment, shorten } from "./text.js";
import { markdownOf } from "./transcript.js";

/** @param {string} collection @param {string} words @param {AbortSignal} signal @returns {Promise<any[]>} */
async function listed(collection, words, signal) {
  if (!words.trim()) return all(within(collection, "/conversations"), signal);
  return (await request(within(collection, "/conversations/search"), { body: { words: words.trim(), limit: 200 }, signal })).items;
}

/** The button of the drawer, and the drawer. @param {{collection: string}} props */
export function Drawer({ collection }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <button type="button" class="plain" aria-haspopup="dialog" aria-expanded=${isOpen} onClick=${() => setOpen(true)}>Conversations</button>
    ${isOpen ? html`<${OpenDrawer} collection=${collection} close=${() => setOpen(false)} />` : null}`;
}

/** @param {{collection: string, close: () => void}} props */
function OpenDrawer({ collection, close }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const shown = useStore(keyOfConversation(collection));
  const isAway = useStore(connection) === "away";
  const [words, setWords] = useState("");
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  const { value, error, isLoading, reload } = useLoaded((signal) => listed(collection, words, signal), [collection, words, isAway]);
  useEffect(() => {
    box.current?.showModal();
    box.current?.querySelector("h2")?.focus();
  }, []);
  const open = (/** @type {string} */ key) => openConversation(collection, key).then(close, setFailed);
  const begin = () => { beginConversation(collection); close(); };
  const list = () => {
    if (isAway) return html`<p class="note" role="status">The server does not answer. Your conversations are kept there, and come back with it.</p>`;
    if (error?.code === "keeps-none") return html`<p class="where">This server keeps no conversations. They end when the page is closed.</p>`;
    if (error) return html`<${ErrorNote} error=${error} retry=${reload} />`;
    if (!value) return isLoading ? html`<${Waiting} />` : null;
    if (!value.length) return html`<p class="where">${words.trim() ? "No conversation contains these words." : "No conversations yet. Each question that you ask is kept here."}</p>`;
    return html`<ul class="talks">${value.map((one) => html`<${Entry} key=${one.id} collection=${collection} one=${one} isShown=${one.id === shown}
      open=${() => open(one.id)} changed=${reload} removed=${() => { if (one.id === shown) beginConversation(collection); reload(); }} />`)}</ul>`;
  };
  return html`
    <dialog class="drawer" ref=${box} aria-labelledby="drawer-title" onClose=${close} onKeyDown=${(/** @type {Event} */ event) => event.stopPropagation()}
      onClick=${(/** @type {Event} */ event) => event.target === box.current && close()}>
      <div class="inside">
        <header><h2 id="drawer-title" tabindex="-1">Conversations</h2>
          <button type="button" class="round small" aria-label="Close" title="Close" onClick=${close}><${Icon} name="close" /></button></header>
        <p class="line"><input type="search" aria-label="Search conversations" placeholder="Search" maxlength="200" dir="auto" value=${words} disabled=${isAway}
          onInput=${(/** @type {any} */ event) => setWords(event.target.value)} />
          <button type="button" onClick=${begin}>New</button></p>
        ${failed ? html`<${ErrorNote} error=${failed} />` : null}
        <div aria-busy=${isLoading}>${list()}</div>
      </div>
    </dialog>`;
}

/** @param {{collection: string, one: any, isShown: boolean, open: () => void, changed: () => void, removed: () => void}} props */
function Entry({ collection, one, isShown, open, changed, removed }) {
  const [part, setPart] = useState(/** @type {"" | "actions" | "name" | "link" | "copied" | "delete"} */ (""));
  const [title, setTitle] = useState(String(one.title));
  const [error, setError] = useState(/** @type {any} */ (null));
  const address = within(collection, `/conversations/${encodeURIComponent(one.id)}`);
  const name = shorten(one.title, 80);
  const act = (/** @type {Promise<any>} */ done, /** @type {(kept: any) => void} */ after) => { setError(null); done.then(after, setError); };
  const change = (/** @type {any} */ body) => act(request(address, { method: "PATCH", body }), () => { setPart(body.is_shared ? "link" : ""); changed(); });
  const rename = (/** @type {Event} */ event) => { event.preventDefault(); change({ title: title.trim() || one.title }); };
  const remove = () => act(request(address, { method: "DELETE" }), removed);
  const save = (/** @type {boolean} */ isMarkdown) => act(request(address), (kept) => {
    const text = isMarkdown ? markdownOf(kept.title, kept.items.map(turnOf), document.baseURI) : `${JSON.stringify(kept, null, 2)}\n`;
    saveBlob(new Blob([text], { type: isMarkdown ? "text/markdown" : "application/json" }), `${name.replace(/[\\/:*?"<>|]/g, " ")}.${isMarkdown ? "md" : "json"}`);
  });
  const link = one.share ? location.origin + location.pathname + href(collection, "shared", { id: one.share }) : "";
  const button = (/** @type {string} */ label, /** @type {() => void} */ onClick, /** @type {string} */ kind = "plain") => html`<button type="button" class=${kind} onClick=${onClick}>${label}</button>`;
  return html`
    <li class=${isShown ? "shown" : ""}>
      <button type="button" class="quiet name" aria-current=${isShown ? "true" : undefined} dir="auto" onClick=${open}>${name}</button>
      <p class="where">${[moment(one.changed), counted(one.turns, "question"), one.share ? "shared" : ""].filter(Boolean).join(" · ")}</p>
      <button type="button" class="round small more-acts" aria-label=${`Actions for ${name}`} title="Actions" aria-expanded=${part !== ""} onClick=${() => setPart(part ? "" : "actions")}>⋯</button>
      ${part === "actions" ? html`<p class="actions">${button("Rename", () => setPart("name"))}${button(one.share ? "Link" : "Share", () => (one.share ? setPart("link") : change({ is_shared: true })))}
        ${button("Markdown", () => save(true))}${button("JSON", () => save(false))}${button("Delete", () => setPart("delete"))}</p>` : null}
      ${part === "name" ? html`<form class="line" onSubmit=${rename}><input type="text" aria-label="Name" maxlength="200" dir="auto" value=${title} onInput=${(/** @type {any} */ event) => setTitle(event.target.value)} />
        <button type="submit">Rename</button></form>` : null}
      ${part === "link" || part === "copied" ? html`<p class="where">Everybody with access to this collection can read the conversation so far by this link, as far as they may see its documents.</p>
        <p class="line"><input type="text" readonly aria-label="Link" value=${link} onFocus=${(/** @type {any} */ event) => event.target.select()} />
        ${button(part === "copied" ? "Copied" : "Copy", () => navigator.clipboard?.writeText(link).then(() => setPart("copied"), () => {}), "")}${one.turns > one.shared_turns ? button("Share later questions too", () => change({ is_shared: true })) : null}${button("Stop sharing", () => change({ is_shared: false }))}</p>` : null}
      ${part === "delete" ? html`<p class="confirm">Delete it with its ratings? ${button("Delete", remove, "danger")}${button("Keep", () => setPart(""))}</p>` : null}
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </li>`;
}
