"""Conversion of the messages of a chat program to a question with its history, and detection of programs' tasks.

The user's last message is the question; earlier messages of the user and the assistant are the history. Messages of the system
are instructions for the model. A program's own task (a title, tags, further questions) is a single message that begins with
`### Task:` or contains `<chat_history>`. Open WebUI begins a question about attached files in the same way, and ends it with the
question behind `</context>`.

A long message, such as a pasted mail, is condensed to a question for the search. A model also reads the whole message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from mergewise.extend import split_sentences
from mergewise.server.problems import HTTPProblem, invalid, refusal
from mergewise.types import Message

MOST_HISTORY = 50
LONGEST_QUESTION = 8_000
_TEXTS = frozenset({"text", "input_text", "output_text"})
_TASK = "### Task:"
_ATTACHED = re.compile(r"(?>\s*### Task:.*</context>)\s*(?=\S)", re.DOTALL)
_HISTORY = "<chat_history>"
_FIRST_LINE = re.compile(r"<chat_history>\s*(?:user\s*:)?\s*(.*?)\s*(?:\n|</chat_history>|\Z)", re.IGNORECASE)
_LONGEST_TITLE = 60
# characters of a condensed question and of a sentence in it
_CONDENSED, _LONGEST_SENTENCE = 1_000, 300
_QUOTED_LINE = re.compile(r"^[ \t]*>.*\n?", re.MULTILINE)
_QUOTED_MAIL = re.compile(
    r"^[ \t]*(?:-{2,} ?(?:original|forwarded|ursprüngliche|weitergeleitete|message d.origine)\b.*|_{10,}[ \t]*$|"
    r"on .{5,200} wrote:[ \t]*$|am .{5,200} schrieb.{0,100}:[ \t]*$|le .{5,200} a écrit[ \t]?:[ \t]*$|"
    r"(?:from|von|de):[ \t]\S.*$)",
    re.IGNORECASE | re.MULTILINE,
)


class ChatQuestion(NamedTuple):
    """A question and its history.

    Attributes:
        question: The question to search for.
        history: Earlier messages of the user and the assistant.
        ignored: Kinds of messages that were left out.
        instructions: Messages of the system.
        message: The user's whole message, if the question is only a part of it.
    """

    question: str
    history: tuple[Message, ...]
    ignored: tuple[str, ...] = ()
    instructions: str = ""
    message: str = ""

    @property
    def is_task(self) -> bool:
        return is_task(self.question)


def is_task(text: str) -> bool:
    return not _ATTACHED.match(text) and (text.lstrip().startswith(_TASK) or _HISTORY in text)


def chat_question(messages: Sequence[Any]) -> ChatQuestion:
    """Convert messages of OpenAI's form, which have a `role` and a `content`.

    Raises HTTPProblem 400 if the last message is not the user's, or if a message is not text or too long.
    """
    turns: list[Message] = []
    ignored: list[str] = []
    instructions: list[str] = []
    for at, message in enumerate(messages):
        if message.role in ("system", "developer"):
            instructions.append(text_of(message.content, at).strip())
        elif message.role not in ("user", "assistant"):
            ignored.append(f"messages of the role {message.role}")
        elif (text := text_of(message.content, at)).strip():
            turns.append(Message(message.role, text))
    if not turns or turns[-1].role != "user":
        raise refusal("the last message must have the role user", "messages")
    whole, before = turns[-1].text, turns[:-1][-MOST_HISTORY:]
    instruction = "\n\n".join(filter(None, instructions))
    limited = ("question", whole, 100_000), ("system message", instruction, 20_000)
    for what, text, longest in limited:
        if len(text) > longest:
            raise refusal(f"{what} too long: {len(text):,} characters (at most {longest:,})", "messages")
    question = condense(whole)
    history = [turn if turn.role == "assistant" else Message("user", condense(turn.text)) for turn in before]
    kinds = tuple(dict.fromkeys(ignored))
    return ChatQuestion(question, tuple(history), kinds, instruction, "" if question == whole else whole)


def condense(text: str) -> str:
    """Return the question of a long text: its sentences with question marks, its last and its first ones, in their order.

    Attached files and quoted lines are left out, and a quoted mail if a question precedes it.
    A text of up to `LONGEST_QUESTION` characters and a program's task stay as they are.
    """
    text = _ATTACHED.sub("", text, 1)
    if len(text) <= LONGEST_QUESTION or is_task(text):
        return text
    own = _QUOTED_LINE.sub("", text)
    before = next((own[: found.start()] for found in _QUOTED_MAIL.finditer(own)), "")
    # without a question before it, the mail itself is what the user asks about
    own = before if _has_question(before) else own
    sentences = [" ".join(own[start:stop].split())[-_LONGEST_SENTENCE:] for start, stop in split_sentences(own)]
    last = len(sentences) - 1
    ranked = sorted(range(len(sentences)), key=lambda at: (not _has_question(sentences[at]), at != last))
    sizes = accumulate(len(sentences[at]) + 1 for at in ranked)
    kept = sorted(at for at, size in zip(ranked, sizes, strict=True) if size <= _CONDENSED)
    return " ".join(sentences[at] for at in kept).strip() or text[:_CONDENSED]


def _has_question(text: str) -> bool:
    return any(mark in text for mark in ("?", "\uff1f", "\u061f"))


def text_of(content: Any, at: int = 0) -> str:
    """Return the text of a message's content. Raises HTTPProblem 400 for other content."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.type not in _TEXTS or part.text is None:
            raise refusal(f"unsupported type of content in message {at}: {part.type!r} (expected text)", "messages")
        texts.append(part.text)
    return "\n".join(texts)


def unknown_model(name: str, hint: str) -> HTTPProblem:
    """Make a problem 404 with OpenAI's code."""
    return invalid("/model", f"unknown model: {name[:100]!r}", hint, status=404, code="model_not_found")


def task_by_rules(task: str) -> str:
    """Answer a program's task without a model: a title is the conversation's first line, and other answers are empty."""
    for name, answer in (("follow_ups", []), ("tags", ["General"]), ("queries", [])):
        if f'"{name}"' in task:
            return json.dumps({name: answer})
    found = _FIRST_LINE.search(task)
    title = " ".join((found[1] if found else "").split()) or "Conversation"
    if len(title) > _LONGEST_TITLE:
        title = title[: _LONGEST_TITLE - 1].rsplit(" ", 1)[0] + "…"
    return json.dumps({"title": title}, ensure_ascii=False) if '"title"' in task else title
