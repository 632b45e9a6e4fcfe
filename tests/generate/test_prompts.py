"""The prompt of the answering model. Its replies are tested with the modes."""

from __future__ import annotations

import pytest

from mergewise.generate import prompts
from mergewise.generate.sources import Source
from mergewise.types import Span

TEXT = "Ella built it. Earlier it was of wood."
SOURCE = Source(1, "Towers", ("Brook",), TEXT, ((Span("d", 0, len(TEXT)), TEXT),), 0.5)


def instructions() -> str:
    return " ".join(prompts.answer("Who built it?", [SOURCE], "", "#1")[0].text.split())


@pytest.mark.parametrize(
    "rule",
    [
        "Answer first and briefly",
        "give the chief thing, unless the question is about the others",
        "choose by the details of the question the one that fits all of them",
        "Where the question wants several things, name just these",
        "Where it wants yes or no, say that word alone, with its numbers",
    ],
)
def test_the_answer_prompt_has_the_rules_of_appendix_b(rule: str) -> None:
    assert rule in instructions()


def test_the_answer_prompt_requires_citations_and_the_refusal() -> None:
    assert "End each statement with the numbers of the sources" in instructions()
    assert prompts.NOT_FOUND in instructions()
