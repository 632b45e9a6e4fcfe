"""The loop over rounds: its searches, its end, and its usage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.rounds import in_rounds
from mergewise.types import Context, Document, Passage, Span, Usage

TEXTS = {
    "Who made it?": ("lamp", "The lamp was made by Ada Brix."),
    "Where was Ada Brix born?": ("brix", "Ada Brix was born in Delft."),
    "Where is Delft?": ("delft", "Delft is a town near the sea."),
}


def searching(searched: list[str]) -> Callable[[str], Context]:
    def assemble(question: str) -> Context:
        searched.append(question)
        doc_id, text = TEXTS[question]
        passage = Passage(text, 1.0, (Span(doc_id, 0, len(text)),))
        return Context(question, "topk", 100, text, 8, (passage,), usage=Usage(0, 1, 0))

    return assemble


def document(doc_id: str) -> Document | None:
    return next((Document(name, text) for name, text in TEXTS.values() if name == doc_id), None)


@pytest.mark.parametrize(("rounds", "searched"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_each_round_asks_for_the_missing_fact(rounds: int, searched: int) -> None:
    chat = ScriptedChat([*list(TEXTS)[1:], "NONE"])
    questions: list[str] = []
    context = in_rounds("Who made it?", rounds, searching(questions), Models(count_tokens, chat=chat), document)
    assert questions == list(TEXTS)[:searched]
    assert {span.doc_id for p in context.passages for span in p.spans} == {
        doc for doc, _ in list(TEXTS.values())[:searched]
    }
    assert (context.question, [s.reason for s in context.trace if s.action == "round"]) == (
        "Who made it?",
        questions[1:],
    )
    assert len(chat.asked) == context.usage.calls == (3 if rounds == 9 else searched - 1)
