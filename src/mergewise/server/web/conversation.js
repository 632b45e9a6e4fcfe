// Conversations: the questions and answers of each collection. They are browserSettings until the page is closed.

import { isAbort, Problem, stream, within } from "./api.js";
import { Store } from "./store.js";
import { wayFields } from "./parts.js";

/**
 * @typedef {"asking" | "reading" | "writing" | "done" | "stopped" | "failed"} TurnState
 * @typedef {{id: number, question: string, state: TurnState, context: any, text: string,
 *   answer: any, error: any, controller: AbortController | null}} Turn
 */

/** @type {Map<string, Store<Turn[]>>} */
const conversations = new Map();
let turns = 0;

/** @param {string} collection @returns {Store<Turn[]>} */
export function conversationOf(collection) {
  const known = conversations.get(collection) ?? new Store(/** @type {Turn[]} */ ([]));
  conversations.set(collection, known);
  return known;
}

/** Return the last turn with a context. @param {string} collection @returns {Turn | undefined} */
export function lastTurn(collection) {
  return conversationOf(collection).value.findLast((turn) => turn.context);
}

/** Delete all conversations, for example after signing out. */
export function forgetConversations() {
  for (const conversation of conversations.values()) {
    for (const turn of conversation.value) turn.controller?.abort();
    conversation.set([]);
  }
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
 */
export async function ask(collection, question, ways) {
  const conversation = conversationOf(collection);
  const controller = new AbortController();
  const earlier = conversation.value;
  /** @type {Turn} */
  let turn = { id: ++turns, question, state: "asking", context: null, text: "", answer: null, error: null, controller };
  let pending = "";
  let frame = 0;
  const put = (/** @type {Partial<Turn>} */ change) => {
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
    history: historyOf(earlier),
    include: ["code"],
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
        put({ answer: data, text: data.answer ?? turn.text, state: "done", controller: null });
      }
    }
    flush();
    if (turn.state !== "done") throw new Problem({ detail: "Incomplete answer.", hint: "Ask again." });
  } catch (error) {
    flush();
    put(isAbort(error) ? { state: "stopped", controller: null } : { state: "failed", error, controller: null });
  }
}
