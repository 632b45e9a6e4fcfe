"""Passages of similar size around leaves found by a search."""

from __future__ import annotations

import pytest

from mergewise.assemble.passages import SEARCHED, search_passages
from mergewise.types import Document, Leaf, Section, Step
from tests.support import ScriptedReader, memory_store

TEXT = "\n\n".join(
    [
        "# Animals",
        "## Cats",
        *(f"Cats have habit number {i}, which is told here at length for all to read." for i in range(4)),
        "## Dogs",
        *(f"Dogs have habit number {i}, which is told here at length for all to read." for i in range(4)),
    ]
)
STORE = memory_store([Document("a", TEXT, "Animals"), Document("b", "A bee. " * 3, "Bees")])
LEAVES: dict[int, Leaf] = {
    leaf.id: leaf for info in STORE.documents() for rows in STORE.document_rows([info.id]) for leaf in rows["leaf"]
}
SECTIONS: dict[int, Section] = {
    section.id: section
    for info in STORE.documents()
    for rows in STORE.document_rows([info.id])
    for section in rows["section"]
}


def outermost(leaf: Leaf, longest: int) -> range:
    """Apply the rule literally: return the first ancestor, from the document down, that is short enough."""
    for ancestor in leaf.ancestors:
        section = SECTIONS[ancestor]
        if section.tokens <= longest:
            return range(section.first_leaf, section.first_leaf + section.leaf_count)
    return range(leaf.id, leaf.id + 1)


def test_the_documents_have_leaves_and_sections_to_choose_from() -> None:
    assert len(LEAVES) >= 6
    assert len({section.tokens for section in SECTIONS.values()}) >= 3


@pytest.mark.parametrize("longest", sorted({0, 20, 10_000, *(section.tokens for section in SECTIONS.values())}))
def test_each_hit_brings_its_outermost_section_that_is_short_enough_once(longest: int) -> None:
    order = sorted(LEAVES, reverse=True)
    reader = ScriptedReader(STORE, [(leaf, 1 - place / 100) for place, leaf in enumerate(order)])
    expected: dict[range, float] = {}
    for hit in (hit for hit in reader.search("", len(order)) if hit.row.sentences):
        expected.setdefault(outermost(hit.row, longest), hit.score)
    runs = search_passages("", reader, 100, longest, None)
    assert {run.leaves: run.candidate.score for run in runs} == expected
    assert [run.leaves for run in runs] == list(expected)
    for run in runs:
        own = "".join(LEAVES[leaf].text for leaf in run.leaves)
        assert run.candidate.fragments[-1].text == own


def test_only_the_first_passages_are_read() -> None:
    order = sorted(LEAVES)
    reader = ScriptedReader(STORE, [(leaf, 1 - place / 100) for place, leaf in enumerate(order)])
    runs = search_passages("", reader, 2, 0, None)
    assert [list(run.leaves) for run in runs] == [[order[0]], [order[1]]]


def test_without_hits_there_are_no_passages() -> None:
    assert search_passages("", ScriptedReader(STORE, []), 5, 100, None) == []


def test_a_section_that_the_index_lost_leaves_the_leaf_alone() -> None:
    reader = ScriptedReader(STORE, {0: 1.0})
    reader.lost = set(SECTIONS)
    (run,) = search_passages("", reader, 1, 10_000, None)
    assert list(run.leaves) == [0]


def test_a_search_reads_several_leaves_a_passage_and_traces_it() -> None:
    trace: list[Step] = []
    reader = ScriptedReader(STORE, [(leaf, 1 - place / 100) for place, leaf in enumerate(sorted(LEAVES))])
    runs = search_passages("habits", reader, 1, 0, trace)
    assert len(runs) == 1
    (step,) = trace
    searched = [leaf for leaf in sorted(LEAVES)[:SEARCHED] if LEAVES[leaf].sentences]
    assert step.inputs == tuple(LEAVES[leaf].span for leaf in searched)
    assert step.reason == f"{len(searched)} leaves"
    assert search_passages("habits", reader, 1, 0, None) == runs
