"""The command `compare`, and its marks around text that only one strategy shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import command

import mergewise
from mergewise.cli.comparison import _marked_pieces
from mergewise.types import GAP, Context, Document, Passage, Span

run = command.run_in

TEXT = "Cats eat fish. Dogs eat meat. Birds eat seeds."
#       0             15             30


def span(start: int, end: int, doc: str = "d") -> Span:
    return Span(doc, start, end)


def context(*spans: Span) -> Context:
    text = GAP.join(TEXT[s.start : s.end] for s in spans)
    return Context("q", "s", 99, text, 9, (Passage(text, 0.5, spans),) if spans else ())


def test_unshared_spans_are_marked() -> None:
    passage = context(span(0, 29), span(30, 46)).passages[0]
    assert [piece for piece in _marked_pieces(passage, [span(15, 29)]) if piece[0]] == [
        ("Cats eat fish. ", False), ("Dogs eat meat.", True), (GAP, False), ("Birds eat seeds.", False),
    ]  # fmt: skip


def test_two_marks_in_one_span() -> None:
    passage = context(span(0, 46)).passages[0]
    assert [piece for piece in _marked_pieces(passage, [span(5, 8), span(15, 29)]) if piece[0]] == [
        ("Cats ", False), ("eat", True), (" fish. ", False), ("Dogs eat meat.", True), (" Birds eat seeds.", False),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    index = mergewise.open(folder / "mergewise.index", embedder="none")
    index.add(Document("cats.md", "# Cats\n\n## Food\n\nCats eat fish.\n\n## Sleep\n\nCats sleep all day. They eat.\n"))
    return folder


def test_the_table_and_the_json_agree(home: Path) -> None:
    words = ("compare", "What do cats eat?", "-s", "weave,auto-merge(mode=always)", "-b", "30")
    rows = json.loads(run(home, *words, "-j").stdout)
    shown = [{(s["start"], s["end"]) for p in row["passages"] for s in p["spans"]} for row in rows]
    assert shown[0] != shown[1]
    assert any(row["only"] for row in rows)
    for i, row in enumerate(rows):
        for only in row["only"]:
            assert any(start <= only["start"] and only["end"] <= end for start, end in shown[i])
            assert not any(start < only["end"] and only["start"] < end for start, end in shown[1 - i])
    table = run(home, *words, "--trace").stdout
    assert table.count("⟦") == sum(len(row["only"]) for row in rows) + 1  # and the legend
    assert "cats.md:5" in table and "only this strategy shows it" in table and "search: " in table


def test_one_strategy_alone_has_no_marks(home: Path) -> None:
    assert "⟦" not in run(home, "compare", "What do cats eat?", "-s", "topk").stdout


def test_nothing_found_exits_with_1(home: Path) -> None:
    assert run(home, "compare", "What do cats eat?", "--where", "id = 'none'").returncode == 1
