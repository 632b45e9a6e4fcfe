"""From the messages of a chat program to a question with its history, and the tasks that some programs send as questions.

The last message of the user is the question; what he and the assistant said before is the history. What programs ask for
themselves (a title, tags, further questions) comes as one message, which begins with `### Task:` or holds `<chat_history>`.
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
# a task carries the conversation in it
LONGEST_TASK = 100_000
_TASK = "### Task:"
_HISTORY = "<chat_history>"
_FIRST_LINE = re.compile(r"<chat_history>\s*(?:user\s*:)?\s*(.*?)\s*(?:\n|</chat_history>|\Z)", re.IGNORECASE)
_LONGEST_TITLE = 60


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A question, and what was said before it. `ignored` tells whether instructions of the client were left out."""

    question: str
    history: tuple[Message, ...]
    ignored: tuple[str, ...] = ()

    @property
    def is_task(self) -> bool:
        return self.question.lstrip().startswith(_TASK) or _HISTORY in self.question


def chat_question(messages: Sequence[Any]) -> ChatQuestion:
    """The conversation in messages of OpenAI's form, which have a `role` and a `content`.

    Raises HTTPProblem 400 where the last message is not the user's, and for what is no text.
    """
    said: list[Message] = []
    ignored: list[str] = []
    for at, message in enumerate(messages):
        if message.role not in ("user", "assistant"):
            ignored.append(f"messages of the role {message.role}")
            continue
        text = _text_of(message.content, at)
        if text.strip():
            said.append(Message(message.role, text))
    if not said or said[-1].role != "user":
        raise refused("the last message is not a question of the user", "messages")
    question, before = said[-1].text, said[:-1][-MOST_HISTORY:]
    found = ChatQuestion(question, tuple(before), tuple(dict.fromkeys(ignored)))
    longest = LONGEST_TASK if found.is_task else LONGEST_QUESTION
    if len(question) > longest:
        raise refused(f"the question has {len(question):,} characters, at most {longest:,} are read", "messages")
    return found


def _text_of(content: Any, at: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.type != "text" or part.text is None:
            raise refused(f"a part of the message {at} is of the type {part.type!r}: only texts are read", "messages")
        texts.append(part.text)
    return "\n".join(texts)


def refused(detail: str, parameter: str) -> HTTPProblem:
    """400, as clients of OpenAI expect it: `param` names the parameter."""
    return HTTPProblem(400, "invalid-request", detail, fields=[{"pointer": f"/{parameter}", "detail": detail}])


def unknown_model(name: str, hint: str) -> HTTPProblem:
    """404, by OpenAI's own name for it."""
    detail = f"there is no model {name[:100]!r} for this"
    return HTTPProblem(404, "model_not_found", detail, hint, fields=[{"pointer": "/model", "detail": detail}])


def task_by_rules(task: str) -> str:
    """What a program asked for itself, without a model: the title is the first line of the conversation, all else is empty."""
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
