"""MacRAG's tables: the definition of "whole", and the tokens of each mode with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import macrag
from benchmarks.cells import Cells
from benchmarks.macrag import EVERYTHING, MODES_READ, Asked, given_whole, read_tokens, script

import mergewise
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.evaluate.question_sets import Question
from mergewise.generate import prompts
from mergewise.generate.sources import Source
from mergewise.types import Context, Document, Message, PromptTemplate, Span

FACT = "The Quonset lamp was invented by Ada Brix."


def story(name: str, fact: str) -> Document:
    before = " ".join(f"In chapter {i} of {name} the weather was number {i}." for i in range(30))
    after = " ".join(f"Later in {name} a lamp and a train of {i} wagons passed." for i in range(30))
    return Document(name, f"# Before\n\n{before}\n\n# Facts\n\n{fact}\n\n# After\n\n{after}\n")


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    documents = [
        story("lamps", FACT),
        story("people", "Ada Brix was born in Delft."),
        story("noise", "The lamp was sold."),
    ]
    start = documents[0].text.index(FACT)
    question = Question(
        "q", "Who invented the Quonset lamp?", ("Ada Brix",), ((Span("lamps", start, start + len(FACT)), FACT),)
    )
    settings = {"slice": SliceSettings(chunk=100, overlap=25)}
    with mergewise.open(tmp_path / "index", embedder="none", views=("leaf", "slice"), settings=settings) as index:
        index.add(documents)
        yield Asked("stories", index, (question,))


def context(asked: Asked, spec: str, budget: int) -> Context:
    return asked.index.context(asked.questions[0].text, strategy=spec, budget=budget)


def test_whole_context_matches_an_unlimited_budget(asked: Asked) -> None:
    size = context(asked, "macrag", EVERYTHING).tokens
    for budget, whole in ((size // 2, 0.0), (size - 1, 0.0), (2 * size, 1.0)):
        found = context(asked, "macrag", budget)
        assert given_whole(asked.index, "macrag", asked.questions[0], found) == {"whole": whole}
        assert (found.tokens == size) == bool(whole)


def said(question: Question, messages: list[Message]) -> str:
    return script(question)(messages)


def test_script_notes_gold_and_accepts_passages_with_gold(asked: Asked) -> None:
    question = asked.questions[0]
    right, wrong = (Source(1, "", (), text, (), 0.0) for text in (f"Once. {FACT} Later.", "The lamp was sold."))

    def about(step: PromptTemplate, *sources: Source) -> str:
        return said(question, prompts.about_sources(step, question.text, sources, "code", thoughts="thoughts"))

    assert about(prompts.EXTRACT, wrong, right) == f"- {FACT}"
    assert about(prompts.EXTRACT, wrong) == prompts.NOTHING
    assert about(prompts.JUDGE, right) == '{"relevant": true}'
    assert about(prompts.JUDGE, wrong) == '{"relevant": false}'
    assert said(question, prompts.answer(question.text, [right], "", "code")) == prompts.NOT_FOUND


def test_tokens_read_by_each_mode(asked: Asked) -> None:
    found = context(asked, "longrag(unit=chunk, k2=3)", EVERYTHING)
    # the filter judges each of the three chunks
    chunks, read = 3, {m: read_tokens(asked, lambda q: found, m) for m in MODES_READ}
    assert {mode: cell["calls"] for mode, cell in read.items()} == {
        "r&b": 1, "r&l": 1, "full-ext": 2, "r&b-ext": 2,
        "fil": chunks + 2, "full-e&f": chunks + 3, "r&b-e&f": chunks + 3,
    }  # fmt: skip
    tokens = {mode: cell["tokens"] for mode, cell in read.items()}
    assert tokens["r&b"] < tokens["r&b-ext"] < tokens["full-ext"] and tokens["r&b"] < tokens["r&l"] < tokens["full-ext"]
    assert tokens["r&b-e&f"] < tokens["full-e&f"] and tokens["fil"] < tokens["r&b-e&f"]


def test_tables_resume_from_the_cache(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    tables = [table(asked, cells) for table in (macrag.budgets, macrag.alpha, macrag.lengths)]
    assert [len(table.splitlines()) - 2 for table in tables] == [len(macrag.BUDGETED), 12, 2]
    assert "1.00 whole" in tables[0]

    def fail(*given: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(macrag, "mean_scores", fail)
    monkeypatch.setattr(macrag, "read_tokens", fail)
    known = Cells(tmp_path / "cells.jsonl")
    assert [table(asked, known) for table in (macrag.budgets, macrag.alpha, macrag.lengths)] == tables
