"""Lines of output for people, and the configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mergewise.cli.main import configuration
from mergewise.cli.output import citation_lines, console, say, usage_line
from mergewise.cli.places import DocumentNames, Locations
from mergewise.cli.questions import say_context
from mergewise.cli.trace import say_trace
from mergewise.designs.mergerag.notes import MergeNode, MergeNote, TreeNote
from mergewise.errors import UsageError
from mergewise.types import Answer, Citation, Context, Document, Page, Passage, Span, Step, Usage

CONTEXT = Context("q", "topk", 9, "text", 3, ())
ANSWER = Answer("q", "yes", (), CONTEXT, Usage(1, 1000, 20), mode="r&b")


def test_the_usage_line_has_only_applicable_parts() -> None:
    assert usage_line(ANSWER, 0, 0) == "r&b: 1 call; 1000 input tokens, 20 output tokens"
    changed = replace(ANSWER, usage=Usage(2, 1000, 20), removed_marks=3, unsupported_extract=0.25, complete=False)
    assert usage_line(changed, 500.0, 1000.0) == (
        "r&b: 2 calls; 1000 input tokens, 20 output tokens; cost 0.520000; 3 marks without a source removed; "
        "25% of the extract unsupported; truncated at the token limit"
    )


def test_the_usage_line_quotes_unsupported_sentences() -> None:
    assert usage_line(replace(ANSWER, unsupported=0.0), 0, 0) == usage_line(ANSWER, 0, 0)
    changed = replace(ANSWER, unsupported=0.5, unverified=("Per built\nit.", "Napoleon sold it."))
    assert usage_line(changed, 0, 0).endswith("; 50% of the answer unsupported: “Per built it.” “Napoleon sold it.”")


def test_a_citation_line_has_the_line_or_the_page() -> None:
    citation = Citation(2, "Cats.", Span("a.pdf", 5, 10), "Animals", ("Cats",))
    assert citation_lines([citation], DocumentNames())[0] == "[2] Animals › Cats  (a.pdf)"
    assert citation_lines([replace(citation, page=3)], DocumentNames())[0] == "[2] Animals › Cats  (a.pdf p. 3)"
    assert citation_lines([replace(citation, line=7)], DocumentNames())[0] == "[2] Animals › Cats  (a.pdf:7)"


def test_citations_are_listed_by_number_and_each_place_once() -> None:
    seven = Citation(2, "Cats.", Span("a.md", 5, 10), "Animals", ("Cats",), line=7)
    one = Citation(1, "Dogs.", Span("b.md", 0, 5), "Dogs", line=1)
    cited = [seven, one, replace(seven, line=12), seven, replace(seven, headings=("Food",), line=20)]
    assert citation_lines(cited, DocumentNames()) == [
        "[1] Dogs  (b.md:1)",
        "[2] Animals › Cats  (a.md:7, 12)",
        "[2] Animals › Food  (a.md:20)",
    ]


def test_a_trace_names_the_first_skips_and_counts_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    spans = tuple(Span("d", i, i + 1) for i in range(6))
    skips = [Step("skip", f"too long {i}", (Span("d", i, i + 9),)) for i in range(5)]
    say_trace(
        [Step("search", "6 leaves", spans, score=0.5), *skips],
        Locations(lambda doc_id: Document(doc_id, "abcdefghijklmnop")),
    )
    shown = capsys.readouterr().out
    assert "search: 6 leaves  score 0.500" in shown and "    d:1  “d”\n    and 2 more\n" in shown
    assert "too long 2" in shown and "too long 3" not in shown and "2 more did not fit" in shown


def test_a_trace_quotes_sentences_with_their_places_and_the_best_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Cats eat fish.\nDogs eat meat.\n" + "Birds eat seeds. " * 20
    sentences = [Span("d.md", 0, 14), Span("d.md", 15, 29), Span("d.md", 30, len(text))]
    left = [Step("left", f"weaker {i}", (sentences[1],), score=i / 10) for i in range(7)]
    steps = (*left, Step("take", "it says it", (sentences[0],)), Step("join", "near", (sentences[0],), sentences[2]))
    say_trace(steps, Locations(lambda doc_id: Document(doc_id, text)))
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[:2] == ["take: it says it", "    d.md:1  “Cats eat fish.”"]
    assert lines[4].startswith("    → d.md:3  “Birds eat seeds.") and lines[4].endswith(" …”") and len(lines[4]) < 240
    assert lines[5:7] == ["left: weaker 6  score 0.600", "    d.md:2  “Dogs eat meat.”"]
    assert "weaker 2" in lines[13] and lines[-1] == "left: 2 more were left out"


def test_places_of_several_spans() -> None:
    text = "One.\nTwo.\nThree.\n"
    documents = {
        "a.md": Document("a.md", text),
        "b.pdf": Document("b.pdf", text, pages=(Page(1, 0, 5), Page(2, 5, len(text)))),
        "c.docx": Document("c.docx", text),
    }
    places = Locations(documents.get)
    spans = [Span(doc, start, start + 4) for doc in documents for start in (0, 5, 10)]
    assert places.of(spans) == "a.md:1, 2, 3; b.pdf p. 1, p. 2; c.docx"
    assert places.of([Span("gone", 0, 4)]) == "gone" and places.quote(Span("gone", 0, 4)) == ""


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say("[bold]:heart: [1]", style="red")
    assert capsys.readouterr().out == "[bold]:heart: [1]\n"


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "240")
    console.cache_clear()
    yield
    console.cache_clear()


@pytest.mark.usefixtures("wide")
def test_merges_are_shown_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    left, right, both = (MergeNode(i, 0.5, 10 * i, (Span("d", i, i + 1),)) for i in (1, 2, 3))
    note = MergeNote(1, left, right, both, "extractive", nll=2.5, unsupported=1)
    steps = [Step("merge", "one", note=note), Step("merged", "2 chunks to 1", note=TreeNote((note,)))]
    say_trace(steps, Locations(lambda doc_id: Document(doc_id, "\n" * 4)))
    lines = [line.strip("│├└─ ") for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines == [
        "merged: 2 chunks to 1",
        "d:4  score 0.500, 30 tokens: round 1, extractive, 10 + 20 → 30 tokens, NLL 2.50, 1 unsupported dropped",
        "d:3  score 0.500, 20 tokens",
        "d:2  score 0.500, 10 tokens",
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(folder: Path, text: str) -> dict[str, dict[str, object]]:
    (folder / "mergewise.toml").write_text(text)
    return configuration()


def test_a_table_overrides_options_for_all_commands(folder: Path) -> None:
    assert configuration() == {}
    chosen = configured(folder, 'budget = 100\nindex = "i"\n[ask]\nbudget = 200\nmax-tokens = 5\n')
    assert chosen["ask"] == {"budget": 200, "index_dir": "i", "max_tokens": 5}
    assert chosen["context"]["budget"] == 100 and "budget" not in chosen["info"]


@pytest.mark.parametrize("text", ["bugdet = 1", "[asks]\nbudget = 1", "budget ="])
def test_unknown_options_are_refused(folder: Path, text: str) -> None:
    with pytest.raises(UsageError):
        configured(folder, text)


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_heading_ends_without_an_arrow_on_a_terminal(
    on_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[1] People ›\nAda Brix ›\n\n[2] › ›\nFish\n\n[3] › Food\nMill"
    shown = Context("q", "topk", 9, text, 3, (Passage("People", 0.5, (Span("d", 0, 4),)),))
    monkeypatch.setattr("mergewise.cli.questions.is_plain", lambda: not on_terminal)
    say_context(shown, Locations(lambda doc_id: None), trace=False)
    out = capsys.readouterr().out
    assert out.startswith("[1] People\nAda Brix ›\n\n[2]\nFish\n\n[3] › Food\nMill" if on_terminal else text)
