// Conversations: questions and answers of each collection. The server keeps them, and each tab shows one per collection.

import { isAbort, Problem, request, stream, within } from "./api.js";
import { Store, tabSettings } from "./store.js";
import { wayFields } from "./parts.js";

/**
 * @typedef {"asking" | "reading" | "writing" | "done" | "stopped" | "failed" | "withheld"} TurnState
 * @typedef {{good: boolean, note: string}} Rating
 * @typedef {{id: number, question: string, state: TurnState, context: any, text: string, answer: any, error: any,
 *   controller: AbortController | null, number: number | null, feedback: Rating | null}} Turn `number` is the server's
 */

/** @type {Map<string, {turns: Store<Turn[]>, key: Store<string>}>} */
const conversations = new Map();
let turns = 0;

/** @param {string} collection */
function known(collection) {
  const found = conversations.get(collection) ?? { turns: new Store(/** @type {Turn[]} */ ([])), key: new Store(tabSettings.read(`conversation-${collection}`) ?? "") };
  conversations.set(collection, found);
  return found;
}

/** @param {string} collection @returns {Store<Turn[]>} */
export function conversationOf(collection) {
  return known(collection).turns;
}

/** Return the server's id of the conversation that is shown, or "". @param {string} collection @returns {Store<string>} */
export function keyOfConversation(collection) {
  return known(collection).key;
}

/** @param {string} collection @param {string} key */
function setKey(collection, key) {
  known(collection).key.set(key);
  tabSettings.write(`conversation-${collection}`, key);
}

/** Return the last turn with a context. @param {string} collection @returns {Turn | undefined} */
export function lastTurn(collection) {
  return conversationOf(collection).value.findLast((turn) => turn.context);
}

/** Show an empty conversation. A running answer stops. @param {string} collection */
export function beginConversation(collection) {
  showTurns(collection, "", []);
}

/** @param {string} collection @param {string} key @param {Turn[]} shown */
function showTurns(collection, key, shown) {
  const running = conversationOf(collection).value;
  conversationOf(collection).set(shown);
  for (const turn of running) turn.controller?.abort();
  setKey(collection, key);
}

/** Show a kept conversation. @param {string} collection @param {string} key @param {AbortSignal} [signal] */
export async function openConversation(collection, key, signal) {
  const kept = await request(within(collection, `/conversations/${encodeURIComponent(key)}`), { signal });
  showTurns(collection, key, kept.items.map(turnOf));
}

/** Show the conversation of this tab again after a reload. @param {string} collection @param {AbortSignal} signal */
export async function restoreConversation(collection, signal) {
  const { turns: shown, key } = known(collection);
  if (!key.value || shown.value.length) return;
  await openConversation(collection, key.value, signal).catch((problem) => {
    if (problem.status !== 404) throw problem;
    beginConversation(collection);
  });
}

/** Convert a turn of the server. @param {any} kept @returns {Turn} */
export function turnOf(kept) {
  const { question, context, answer, number, feedback } = kept;
  return { id: ++turns, question, state: kept.withheld ? "withheld" : "done", context, text: answer?.answer ?? "", answer, error: null, controller: null, number, feedback };
}

/** Delete all conversations from the page, for example after signing out. */
export function forgetConversations() {
  for (const collection of conversations.keys()) beginConversation(collection);
}

/** Rate an answer, or withdraw the rating with null. @param {string} collection @param {Turn} turn @param {Rating | null} rating */
export async function rate(collection, turn, rating) {
  await request(within(collection, `/turns/${turn.number}/feedback`), { method: "PUT", body: rating ?? { good: null } });
  const conversation = conversationOf(collection);
  conversation.set(conversation.value.map((other) => (other.id === turn.id ? { ...other, feedback: rating } : other)));
}

const HISTORY = 50; // the server's limit of messages
const LONGEST_TURN = 20_000; // characters of an answer in the history of a follow-up question

/** @param {Turn[]} earlier */
function historyOf(earlier) {
  return earlier
    .filter((turn) => turn.text && (turn.state === "done" || turn.state === "stopped"))
    .flatMap((turn) => [
      { role: "user", content: turn.question },
      { role: "assistant", content: turn.text.slice(0, LONGEST_TURN) },
    ])
    .slice(-HISTORY);
}

/**
 * Ask a question, and update the conversation with its events.
 * @param {string} collection @param {string} question @param {import("./parts.js").Ways} ways
 * @param {boolean} [isWhole] the question needs no earlier ones
 */
export async function ask(collection, question, ways, isWhole = false) {
  const conversation = conversationOf(collection);
  const controller = new AbortController();
  const earlier = conversation.value;
  /** @type {Turn} */
  let turn = { id: ++turns, question, state: "asking", context: null, text: "", answer: null, error: null, controller, number: null, feedback: null };
  const first = turn;
  let pending = "";
  let frame = 0;
  const put = (/** @type {Partial<Turn>} */ change) => {
    // another conversation may be shown by now
    if (turn !== first && !conversation.value.includes(turn)) return;
    turn = { ...turn, ...change };
    conversation.set([...conversation.value.filter((other) => other.id !== turn.id), turn].sort((a, b) => a.id - b.id));
  };
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    if (pending) put({ text: turn.text + pending });
    pending = "";
  };
  put({});
  const body = {
    question,
    ...wayFields(ways),
    ...(ways.mode ? { mode: ways.mode } : {}),
    history: isWhole ? [] : historyOf(earlier),
    conversation: keyOfConversation(collection).value || "new",
    include: ["kinds"],
    stream: true,
  };
  try {
    for await (const { event, data } of stream(within(collection, "/ask"), { body, signal: controller.signal })) {
      if (event === "context") put({ context: data, state: "reading" });
      else if (event === "delta") {
        pending += data.text;
        if (turn.state !== "writing") put({ state: "writing" });
        frame ||= requestAnimationFrame(flush);
      } else if (event === "done") {
        flush();
        put({ answer: data, text: data.answer ?? turn.text, state: "done", controller: null, number: data.turn ?? null });
        if (data.conversation && conversation.value.includes(turn)) setKey(collection, data.conversation);
      }
    }
    flush();
    if (turn.state !== "done") throw new Problem({ detail: "Incomplete answer.", hint: "Ask again." });
  } catch (error) {
    flush();
    put(isAbort(error) ? { state: "stopped", controller: null } : { state: "failed", error, controller: null });
  }
}
