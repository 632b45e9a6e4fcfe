"""Conversion of the messages of a chat program to a question with its history, and detection of programs' tasks.

The user's last message is the question; earlier messages of the user and the assistant are the history. A program's own task (a
title, tags, further questions) is a single message that begins with `### Task:` or contains `<chat_history>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mergewise.server.problems import HTTPProblem
from mergewise.types import Message

MOST_HISTORY = 50
LONGEST_QUESTION = 8_000
# a task contains the conversation
LONGEST_TASK = 100_000
_TASK = "### Task:"
_HISTORY = "<chat_history>"
_FIRST_LINE = re.compile(r"<chat_history>\s*(?:user\s*:)?\s*(.*?)\s*(?:\n|</chat_history>|\Z)", re.IGNORECASE)
_LONGEST_TITLE = 60


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A question and its history. `ignored` lists the kinds of messages that were left out."""

    question: str
    history: tuple[Message, ...]
    ignored: tuple[str, ...] = ()

    @property
    def is_task(self) -> bool:
        return self.question.lstrip().startswith(_TASK) or _HISTORY in self.question


def chat_question(messages: Sequence[Any]) -> ChatQuestion:
    """Convert messages of OpenAI's form, which have a `role` and a `content`.

    Raises HTTPProblem 400 if the last message is not the user's, or if a message is not text.
    """
    turns: list[Message] = []
    ignored: list[str] = []
    for at, message in enumerate(messages):
        if message.role not in ("user", "assistant"):
            ignored.append(f"messages of the role {message.role}")
            continue
        text = _text_of(message.content, at)
        if text.strip():
            turns.append(Message(message.role, text))
    if not turns or turns[-1].role != "user":
        raise refused("the last message must have the role user", "messages")
    question, before = turns[-1].text, turns[:-1][-MOST_HISTORY:]
    found = ChatQuestion(question, tuple(before), tuple(dict.fromkeys(ignored)))
    longest = LONGEST_TASK if found.is_task else LONGEST_QUESTION
    if len(question) > longest:
        raise refused(f"question too long: {len(question):,} characters (at most {longest:,})", "messages")
    return found


def _text_of(content: Any, at: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.type != "text" or part.text is None:
            raise refused(f"unsupported type of content in message {at}: {part.type!r} (expected text)", "messages")
        texts.append(part.text)
    return "\n".join(texts)


def refused(detail: str, parameter: str, hint: str = "") -> HTTPProblem:
    """Make a problem 400 in OpenAI's form, where `param` names the parameter."""
    return HTTPProblem(400, "invalid-request", detail, hint, fields=[{"pointer": f"/{parameter}", "detail": detail}])


def unknown_model(name: str, hint: str) -> HTTPProblem:
    """Make a problem 404 with OpenAI's code."""
    detail = f"unknown model: {name[:100]!r}"
    return HTTPProblem(404, "model_not_found", detail, hint, fields=[{"pointer": "/model", "detail": detail}])


def task_by_rules(task: str) -> str:
    """Answer a program's task without a model: a title is the conversation's first line, and other answers are empty."""
    if '"follow_ups"' in task:
        return json.dumps({"follow_ups": []})
    if '"tags"' in task:
        return json.dumps({"tags": ["General"]})
    if '"queries"' in task:
        return json.dumps({"queries": []})
    title = _title_in(task)
    return json.dumps({"title": title}, ensure_ascii=False) if '"title"' in task else title


def _title_in(task: str) -> str:
    found = _FIRST_LINE.search(task)
    line = " ".join((found[1] if found else "").split())
    if len(line) > _LONGEST_TITLE:
        line = line[: _LONGEST_TITLE - 1].rsplit(" ", 1)[0] + "…"
    return line or "Conversation"
