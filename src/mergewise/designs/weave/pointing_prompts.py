"""The prompt for pointing at the sentences that a question needs, and the parsing of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.assemble.pointing import ReplyForm, number_tokens, numbers_of, value_in
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import object_schema
from mergewise.types import Message

LONGEST_SEARCH = 300  # characters of the next search; a longer text is cut off
_SEARCH_TOKENS = 96  # maximum tokens of the search in an answer
_NOTHING = {"", "none", "nothing", "null", "no", "n/a", "na", "-"}

_NUMBERS = {"type": "string", "description": "numbers of sentences, the most needed first, such as 12 3 40"}
_SEARCH = {"type": "string", "description": "what to search for next; empty where nothing is missing"}
_TASK = (
    "You choose evidence. A question is to be answered from sentences of documents. They are numbered, and the first of each "
    "section has its title and headings in brackets. Say which of them a reader needs to answer the question, the most needed "
    "first: those that state the answer, and those that give a step on the way to it, such as who or what the question "
    "means without naming it. Leave out what merely speaks of the same things, and what another one says already. "
    "Mostly two to six are enough."
)
_FIRST = (
    'Answer with JSON alone: {"needed":"12 3 40","missing":""} for sentences 12, 3 and 40, "needed":"" if none helps. If a '
    'fact that the answer needs stands in none of the sentences, "missing" is one short search for it, by the names that the '
    "sentences give; else it stays empty. Do not answer the question."
)
_LAST = (
    'Answer with JSON alone: {"needed":"12 3 40"} for sentences 12, 3 and 40, "needed":"" if none helps. '
    "Do not answer the question."
)


@dataclass(frozen=True, slots=True)
class NeededSentences:
    """The numbers of the needed sentences, the most needed first, and the next search, or ""."""

    needed: tuple[int, ...]
    missing: str = ""


def messages(question: str, lines: Sequence[str], *, last: bool) -> list[Message]:
    """Return the messages with the question and the numbered sentences. The `last` round asks for no further search."""
    shown = "\n".join(lines)
    code = code_for([question, shown])
    task = f"{_TASK} {_LAST if last else _FIRST}\n\n{warning(code, 'sentences')}"
    return turn(task, [f"Question: {question}", quotation("sentences", shown, code)])


def form(count: int, *, last: bool) -> ReplyForm[NeededSentences]:
    """Return the form of the answer for a choice among `count` sentences."""
    properties = {"needed": _NUMBERS} if last else {"needed": _NUMBERS, "missing": _SEARCH}
    written = ",".join(f'"{name}":"..."' for name in properties)
    shape = f'{{{written}}}, "needed" with numbers from 1 to {count}'
    tokens = number_tokens(count) + (0 if last else _SEARCH_TOKENS)
    return ReplyForm(object_schema(properties), shape, tokens, lambda answer: choice_in(answer, count))


def choice_in(answer: str, count: int) -> NeededSentences | str:
    """Return the choice in an answer, or a text that describes the problem. Bare numbers are a choice with nothing missing."""
    value = value_in(answer)
    if isinstance(value, dict):
        if not {"needed"} <= set(value) <= {"needed", "missing"}:
            return 'it is no object with the keys "needed" and "missing"'
        numbers, missing = value["needed"], value.get("missing") or ""
    else:
        numbers, missing = value, ""
    if not isinstance(missing, str):
        return '"missing" is no text'
    found = numbers_of(numbers, count)
    return found if isinstance(found, str) else NeededSentences(tuple(found), searchable(missing))


def searchable(missing: str) -> str:
    """Return the missing fact as a search of one line, or "" if the text says that nothing is missing."""
    line = " ".join(missing.encode("utf-8", "replace").decode().replace("\0", " ").split())[:LONGEST_SEARCH]
    plain = line.strip(" .`_*\"'").casefold()
    return line if plain not in _NOTHING and any(map(str.isalnum, plain)) else ""
