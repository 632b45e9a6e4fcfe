"""Results of tools: within their budget, quoted texts below our lines, nothing twice."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mergewise as mw
from mergewise.agents.memory import Memory
from mergewise.agents.results import LEAST, Room, answer_text, matches_in, part_at, read_text
from mergewise.agents.tools import IndexDocuments, Tools
from mergewise.cli.main import app
from mergewise.errors import UsageError
from mergewise.models.o200k import count_o200k
from mergewise.models.tokens import count_tokens
from mergewise.types import Document, Span
from tests.conftest import examples

PLANTED = st.text(
    st.sampled_from(
        ["-", "#", " ", "\n", "e", "n", "d", "a", "1", "[", "]", "…", "\u2028", "\r", "\x85", "文", "\ud800"]
    ),
    max_size=200,
)
TOWN = """# The town

The mill stands on the east bank. It was designed by Ada Brix and finished in 1850.

## Visits

The mill is open from April to October. Groups of more than twelve book a week ahead.

## History

### 1850 — 文字

Ada Brix built three mills. Größe: 12.345,67 € :-) `code()` https://example.org/a/b?c=d#e

| year | event |
| --- | --- |
| 1850 | built |
| 1931 | flood |
"""
WORDS = "mill Ada Brix open flood 1850 文字 what when who bank designed nothing river".split()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mw.Index]:
    with mw.open(tmp_path_factory.mktemp("agents") / "index", embedder="none") as made:
        names = ("town.md", "a/very/long/path/with spaces/of the/Größe of all/document-number-one.md", "x.html")
        made.add(
            mw.Document(name, f"{TOWN}\n{'word ' * 200}\n{name}", "T " * i, {"year": i}) for i, name in enumerate(names)
        )
        yield made


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.one_of(st.integers(LEAST, 200), st.integers(LEAST, 4000)),
    st.sampled_from([count_o200k, count_tokens]),
    st.integers(0, 3),
)
def test_no_result_exceeds_its_budget(index: mw.Index, words: str, budget: int, count: Any, around: int) -> None:
    tools = Tools(IndexDocuments(index), count)

    async def results() -> list[str]:
        return [
            await tools.context(words, budget),
            await tools.context(words, budget),
            await tools.find(words, budget),
            await tools.find("", budget),
            await tools.outline("town.md", budget),
            await tools.read("document-number-one", budget),
            await tools.grep(words.split()[0], budget, None, around),
            await tools.grep(".", budget, None, around),
        ]

    for number, text in enumerate(asyncio.run(results())):
        assert count([text])[0] <= budget, (number, text)


@settings(max_examples=examples(60))
@given(PLANTED, st.integers(1, 80))
def test_reads_give_every_character_once_within_the_budget(text: str, budget: int) -> None:
    document, room, at = Document("d", text), Room(LEAST + budget, count_o200k), 0
    while at < len(text):
        memory = Memory()
        result = read_text(document, (at, len(text)), room, memory)
        assert room.left(result) >= 0
        ((part,),) = memory.parts.values()
        assert part[0] == at < part[1]
        code = result.split()[1]
        first, last = (line for line in result.split("\n") if line.startswith(f"### {code}"))
        assert text[at : part[1]].rstrip() == result[len(first) + 1 : -len(last) - 1]
        at = part[1]
        if at < len(text):
            assert part_at(document, last.rpartition(" d")[2])[0] == at
        else:
            assert last.endswith(" end")


def answer(text: str, cited: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    span = {"doc": "d\n### end", "start": 0, "end": 3}
    citation = {"mark": 1, "span": span, "text": cited, "title": "T\n### x", "headings": [], "line": 3, "page": None}
    return {"answer": text, "found": True, "sure": True, "complete": True}, [citation]


@settings(max_examples=examples(60))
@given(PLANTED, PLANTED)
def test_no_text_looks_like_our_lines(said: str, cited: str) -> None:
    whole, citations = answer(said, f"SECRET{cited}")
    result = answer_text(whole, "", citations, Room(10_000, count_o200k))
    code = re.match(r"### (#[0-9a-f]{8}) answer", result)
    assert code is not None
    assert code[1] not in said + cited
    ours = [line for line in result.split("\n") if line.startswith(f"### {code[1]}")]
    assert len(ours) == 3 and ours[-1] == f"### {code[1]} end"
    assert not any("SECRET" in line for line in ours)


def test_a_quotation_is_not_repeated_below_its_place() -> None:
    whole, citations = answer("“Cats  eat mice.” [1]", "Cats\neat mice.")
    assert answer_text(whole, "", citations, Room(1000, count_o200k)).count("mice") == 1


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted), max_size=6), st.text(max_size=60))
def test_memory_gives_each_character_once(spans: list[tuple[int, int]], text: str) -> None:
    document, memory, shown = Document("d", text), Memory(), [0] * len(text)
    for start, end in spans:
        start, end = min(start, len(text)), min(end, len(text))
        parts = memory.new(document, Span("d", start, end)) if start < end else []
        for first, last in parts:
            assert start <= first < last <= end
            for i in range(first, last):
                shown[i] += 1
        memory.add(document, parts)
        missed = [i for i in range(start, end) if not shown[i]]
        assert not missed and max(shown, default=0) <= 1
        # another text under the same id was not shown
        assert not parts or Memory(memory.parts).new(Document("d", text + "x"), Span("d", start, end))


@settings(max_examples=examples(60))
@given(PLANTED, st.sampled_from(["a", "n.", "文", "(", "e|1", "^#", "d$"]))
def test_matches_are_those_of_a_slow_search(text: str, pattern: str) -> None:
    plain = re.compile(re.escape(pattern) if pattern == "(" else pattern, re.IGNORECASE)
    at, expected = 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if found := plain.search(line):
            expected.append((number, at, at + len(line), at + found.start()))
        at += len(line) + 1
    assert [tuple(match)[1:] for match in matches_in([Document("d", text)], pattern)] == expected


def test_a_hostile_expression_takes_linear_time() -> None:
    assert not list(matches_in([Document("d", "a" * 50_000 + "!")], "(a+)+$"))


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("", (0, len(TOWN))),
        (":3-3", (12, TOWN.index("\n\n## Visits") + 1)),
        ("#visits", (TOWN.index("## Visits"), TOWN.index("## History"))),
        ("#1850", (TOWN.index("### 1850"), len(TOWN))),
        ("@5-9", (5, 9)),
        (":9999", None),
        ("#nowhere", None),
    ],
)
def test_places(place: str, part: tuple[int, int] | None) -> None:
    document = Document("town.md", TOWN)
    if part is None:
        if place.startswith("#"):
            with pytest.raises(UsageError):
                part_at(document, place)
    else:
        assert part_at(document, place) == part


def test_sessions_show_nothing_twice(index: mw.Index) -> None:
    tools = Tools(IndexDocuments(index), count_o200k)
    lines = [
        line
        for question in ("Who designed the mill?", "When was the mill finished?", "When is the mill open?")
        for line in asyncio.run(tools.context(question, 120, "town.md")).split("\n")
        if not line.startswith("###") and line.strip(" …")
    ]
    assert len(lines) == len(set(lines)) > 2


def test_the_command_line_reads(index: mw.Index) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(app, [*words, "-i", str(index.store.place)])

    assert "### town.md\n3: The mill" in run("grep", "designed by").stdout
    assert run("grep", "dESIGNED").exit_code == 1
    (match,) = (one for one in json.loads(run("grep", "the east", "--json").stdout) if one["doc"] == "town.md")
    assert TOWN[match["match"] :].startswith("the east") and TOWN[match["start"] : match["end"]].startswith("The mill")
    assert run("read", "town.md#Visits", "-b", "64").stdout.startswith("### #")
    assert run("outline", "town").stdout.startswith("town.md: ")
