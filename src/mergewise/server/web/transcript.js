// Transcripts: answers and conversations as text, with the list of their sources.

import { headingPath, number, printable } from "./text.js";

/** @typedef {{question: string, text: string, answer: any}} Asked */

/** Return a line for each cited source of an answer. @param {any} answer @param {string} base the page's address */
export function sourceLines(answer, base) {
  const seen = new Set();
  return /** @type {any[]} */ (answer?.citations ?? []).flatMap((one) => {
    if (seen.has(one.mark)) return [];
    seen.add(one.mark);
    const place = one.page ? `page ${number(one.page)}` : one.line ? `line ${number(one.line)}` : "";
    const facts = [headingPath(one.title, one.headings) || one.span?.doc, place, one.url ? String(new URL(one.url, base)) : ""];
    return [`[${one.mark}] ${printable(facts.filter(Boolean).join(", "))}`];
  });
}

/** Return an answer with its sources, for the clipboard. @param {Asked} turn @param {string} base */
export function answerText(turn, base) {
  const sources = sourceLines(turn.answer, base);
  return sources.length ? `${turn.text}\n\nSources:\n${sources.join("\n")}\n` : turn.text;
}

/** Return a conversation as Markdown. @param {string} title @param {Asked[]} turns @param {string} base */
export function markdownOf(title, turns, base) {
  const parts = turns.map(({ question, text, answer }) => {
    const sources = sourceLines(answer, base).map((line) => `- ${line}`);
    const asked = question.trim().split("\n").map((line) => `> ${line}`).join("\n");
    return [asked, text || "*The documents of this answer are not visible any more.*", sources.join("\n")].filter(Boolean).join("\n\n");
  });
  return `${[`# ${title}`, ...parts].join("\n\n")}\n`;
}
