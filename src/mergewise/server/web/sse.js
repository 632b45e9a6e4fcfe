// Server-sent events over fetch, because EventSource cannot POST or send headers.

/** @typedef {{event: string, data: string, id: string}} ServerEvent */

/** A parser of event streams by the HTML standard. It accepts text in pieces of any size. */
export class EventParser {
  #rest = "";
  #event = "";
  /** @type {string[]} */
  #data = [];
  #id = "";
  #begun = false;

  /** Add a piece, and return the events that it completes. @param {string} piece @returns {ServerEvent[]} */
  push(piece) {
    let text = this.#rest + piece;
    if (!this.#begun && text) {
      this.#begun = true;
      if (text.startsWith("\ufeff")) text = text.slice(1);
    }
    const events = [];
    let from = 0;
    for (;;) {
      const end = text.slice(from).search(/[\r\n]/);
      if (end < 0) break;
      const at = from + end;
      // a carriage return at the end may be the first half of \r\n
      if (text[at] === "\r" && at + 1 === text.length) break;
      const event = this.#line(text.slice(from, at));
      if (event) events.push(event);
      from = at + (text[at] === "\r" && text[at + 1] === "\n" ? 2 : 1);
    }
    this.#rest = text.slice(from);
    return events;
  }

  /** @param {string} line @returns {ServerEvent | null} */
  #line(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #dispatch() {
    const event = { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
    const isEmpty = this.#data.length === 0;
    this.#event = "";
    this.#data = [];
    return isEmpty ? null : event;
  }
}

/**
 * Yield the events of a response until it ends. Leaving the loop cancels the response.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerEvent, void, void>}
 */
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
