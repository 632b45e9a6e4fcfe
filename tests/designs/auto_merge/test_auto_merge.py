"""Auto-merge against a slow literal transcription, its invariants, and the mistakes of known implementations."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.auto_merge.strategy import AutoMerge, _LeafRange, assemble, join_neighbours, merge
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Document, Leaf, Span
from tests.support import HashEmbedder, ScriptedReader, memory_store

MODELS = Models(count_tokens)
SENTENCES = [f"Sentence number {i} tells of the topic {chr(97 + i % 26)}{i}." for i in range(40)]
PLAIN = AutoMerge(merge_threshold=0.5, min_score=0.0, merged_score="mean")


def leaf_range(leaf: Leaf, score: float) -> _LeafRange:
    return _LeafRange(leaf.id, leaf.id, score, leaf.ancestors, leaf.span)


def guide(sections: int = 4, sentences: int = 4) -> Document:
    """Return a document whose leaves are single sentences under `sections` headings."""
    parts = []
    for s in range(sections):
        parts.append(f"## Part {s}\n\n" + "\n\n".join(SENTENCES[s * sentences : (s + 1) * sentences]))
    return Document(id="guide", title="Guide", text="\n\n".join(parts) + "\n")


def run(reader: ScriptedReader, parameters: AutoMerge = PLAIN, budget: int = 1000) -> Context:
    return assemble("q", reader, budget, MODELS, parameters)


def spans(context: Context) -> list[Span]:
    return [span for passage in context.passages for span in passage.spans]


def actions(context: Context) -> list[str]:
    return [step.action for step in context.trace]


STORE = memory_store([guide(), Document(id="tiny", title="Tiny", text="Only this.")], HashEmbedder())
LEAVES = STORE.document_rows(["guide"])[0]["leaf"]
SECTIONS = {s.id: s for s in STORE.document_rows(["guide"])[0]["section"]}
TINY = STORE.document_rows(["tiny"])[0]["leaf"][0]

scored_leaves = st.dictionaries(
    st.sampled_from([leaf.id for leaf in LEAVES]), st.floats(0.01, 1.0), min_size=1, max_size=len(LEAVES)
)
parameters = st.builds(
    AutoMerge, mode=st.sampled_from(["auto", "always", "never", "semantic"]), merge_threshold=st.floats(0.0, 1.1),
    min_score=st.floats(0.0, 1.0), fill_gaps=st.integers(0, 3), join=st.sampled_from(["strong", "all"]),
    similarity=st.floats(0.0, 1.0), merged_score=st.sampled_from(["mean", "max"]),
    order=st.sampled_from(["document", "score"]),
)  # fmt: skip


def literal_merge(scores: dict[int, float], p: AutoMerge, budget: int) -> set[int]:
    """Return the final nodes by the literal rule: merge any parent that may merge, and repeat until none may.

    Nodes are leaf and section ids.
    """
    standing = dict(scores)
    floor = p.min_score * max(scores.values())
    parent = {leaf.id: leaf.parent for leaf in LEAVES} | {s.id: s.parent for s in SECTIONS.values()}

    def below(node: int, section: int) -> bool:
        while node in parent and parent[node] is not None:
            if parent[node] == section:
                return True
            node = parent[node]
        return False

    while True:
        for section in sorted(SECTIONS.values(), key=lambda s: -s.depth):
            family = [node for node in standing if parent[node] == section.id]
            if not family or (len(family) == 1 and section.children > 1):
                continue
            average = sum(standing[node] for node in family) / len(family)
            inside = [standing[node] for node in standing if below(node, section.id)]
            if len(family) / section.children >= p.merge_threshold and average >= floor and section.tokens <= budget:
                score = sum(inside) / len(inside) if p.merged_score == "mean" else max(inside)
                standing = {node: s for node, s in standing.items() if not below(node, section.id)} | {
                    section.id: score
                }
                break
        else:
            return set(standing)


@given(scored_leaves, parameters, st.integers(10, 400))
def test_merging_equals_the_literal_transcription(scores: dict[int, float], p: AutoMerge, budget: int) -> None:
    leaves = {leaf.id: leaf for leaf in LEAVES}
    items = merge([leaf_range(leaves[i], s) for i, s in scores.items()], SECTIONS, p, budget, [])
    expected = {
        (SECTIONS[n].first_leaf, SECTIONS[n].first_leaf + SECTIONS[n].leaf_count - 1) if n in SECTIONS else (n, n)
        for n in literal_merge(scores, p, budget)
    }
    assert {(item.first, item.last) for item in items} == expected


@given(scored_leaves, parameters, st.integers(1, 400))
def test_invariants(scores: dict[int, float], p: AutoMerge, budget: int) -> None:
    context = run(ScriptedReader(STORE, scores), p, budget)
    assert context.tokens == count_tokens([context.text])[0] if context.text else context.tokens == 0
    assert context.tokens <= budget
    found = sorted(spans(context))
    for left, right in pairwise(found):
        assert not left.overlaps(right), "no text appears twice, so no node next to its ancestor"
    for passage in context.passages:
        for span, text in passage.parts():
            assert guide().text[span.start : span.end] == text
            assert text in context.text


@given(scored_leaves)
def test_never_gives_exactly_the_hits(scores: dict[int, float]) -> None:
    context = run(ScriptedReader(STORE, scores), replace(PLAIN, mode="never"))
    for leaf in LEAVES:
        assert (leaf.text[leaf.body - leaf.start :].strip() in context.text) == (leaf.id in scores)


# -- mistakes of known implementations


def test_gaps_are_filled_by_position_not_by_rank() -> None:
    first, _, third, _ = LEAVES[:4]
    other = LEAVES[9]  # ranked between the two, far away in the document
    scores = {first.id: 0.9, other.id: 0.8, third.id: 0.7}
    context = run(ScriptedReader(STORE, scores), replace(PLAIN, merge_threshold=0.9, fill_gaps=1))
    filled = [step for step in context.trace if step.action == "join"]
    assert [step.inputs for step in filled] == [(first.span, third.span)]
    assert LEAVES[1].text.strip() in context.text
    assert LEAVES[8].text.strip() not in context.text


def literal_adjacency(scores: dict[int, float]) -> list[tuple[int, ...]]:
    """Group leaves as the design of record does: sorted by position within a parent, a difference of at most 1 continues a
    group.
    """
    groups: list[list[int]] = []
    parent = {leaf.id: leaf.parent for leaf in LEAVES}
    for leaf in sorted(scores):
        if groups and leaf - groups[-1][-1] <= 1 and parent[leaf] == parent[groups[-1][-1]]:
            groups[-1].append(leaf)
        else:
            groups.append([leaf])
    return [tuple(group) for group in groups]


@given(scored_leaves)
def test_all_neighbours_join_as_in_the_design_of_record(scores: dict[int, float]) -> None:
    leaves = {leaf.id: leaf for leaf in LEAVES}
    items = [leaf_range(leaves[i], score) for i, score in scores.items()]
    joined = join_neighbours(items, 0.0, AutoMerge(), [])
    assert [tuple(range(item.first, item.last + 1)) for item in joined] == literal_adjacency(scores)


@pytest.mark.parametrize("merged_score", ["mean", "max"])
@pytest.mark.parametrize(("weaker", "joins"), [(0.75, True), (0.74, False)])
def test_strong_neighbours_alone_join_by_default(
    weaker: float, joins: bool, merged_score: Literal["mean", "max"]
) -> None:
    """The floor is three quarters of the best hit's score, 1, wherever that hit is, and both neighbours must reach it."""
    best = LEAVES[8:12]  # one whole section, which merges
    for pair in ((0.9, weaker), (weaker, 0.9)):
        scores = {leaf.id: score for leaf, score in zip(best, (1.0, 0.8, 0.8, 0.8), strict=True)}
        scores |= {LEAVES[i].id: score for i, score in enumerate(pair)}
        for join, expected in (("strong", joins), ("all", True)):
            p = AutoMerge(min_score=0.75, join=join, merged_score=merged_score)  # type: ignore[arg-type]
            context = run(ScriptedReader(STORE, scores), p)
            inputs = [step.inputs for step in context.trace if step.action == "join"]
            assert inputs == ([(LEAVES[0].span, LEAVES[1].span)] if expected else [])
            assert "merge" in actions(context)


def test_a_hit_deeper_inside_a_merged_section_becomes_part_of_it_and_neighbours_join() -> None:
    """Section 0 merges by its own leaves. The hit in its subsection is not its child, and is between it and section 1."""
    text = (
        "## A\n\n"
        + "\n\n".join(SENTENCES[:5])
        + "\n\n### A1\n\n"
        + "\n\n".join(SENTENCES[5:9])
        + "\n\n## B\n\n"
        + "\n\n".join(SENTENCES[9:13])
        + "\n\n## C\n\n"
        + "\n\n".join(SENTENCES[13:33])
        + "\n"
    )
    store = memory_store([Document(id="d", text=text)])
    (rows,) = store.document_rows(["d"])
    leaves, sections = rows["leaf"], {s.headings: s for s in rows["section"]}
    a, b = sections["A",], sections["B",]
    own = [leaf for leaf in leaves if leaf.parent == a.id]
    deeper = [leaf for leaf in leaves if leaf.headings == ("A", "A1")]
    scores = {leaf.id: 0.5 for leaf in (*own, *(leaf for leaf in leaves if leaf.parent == b.id))}
    for best in (0.4, 0.9):
        context = run(
            ScriptedReader(store, scores | {deeper[1].id: best}),
            replace(PLAIN, merge_threshold=0.7, merged_score="max"),
        )
        (join,) = [step for step in context.trace if step.action == "join"]
        assert join.inputs == (a.span, b.span) and join.score == max(0.5, best)
        merged = next(step for step in context.trace if step.action == "merge" and step.output == a.span)
        assert deeper[1].span in merged.inputs


def test_half_of_two_children_is_a_share_that_reaches_one_half() -> None:
    """The ratio test is >=, so that with four children two are enough at 0.5."""
    context = run(ScriptedReader(STORE, {LEAVES[0].id: 0.9, LEAVES[3].id: 0.8}))
    assert "merge" in actions(context)


def test_merged_scores_are_defined_and_propagate_upwards() -> None:
    scores = {leaf.id: 0.2 + 0.01 * leaf.id for leaf in LEAVES}
    context = run(ScriptedReader(STORE, scores))
    merges = [step for step in context.trace if step.action == "merge"]
    assert len(merges) == 5  # four sections, then the document
    by_hand = [sum(scores[leaf.id] for leaf in LEAVES[i : i + 4]) / 4 for i in range(0, 16, 4)]
    assert merges[-1].score == pytest.approx(sum(by_hand) / 4)
    assert merges[-1].output == Span("guide", 0, len(guide().text))


def test_a_document_that_never_split_works() -> None:
    context = run(ScriptedReader(STORE, {TINY.id: 0.5}))
    assert [p.text for p in context.passages] == ["Only this."]


def test_a_missing_parent_is_noted_and_the_question_is_answered() -> None:
    reader = ScriptedReader(STORE, {LEAVES[0].id: 0.9, LEAVES[1].id: 0.8, LEAVES[4].id: 0.7})
    reader.lost = {LEAVES[0].parent}
    context = run(reader)
    missing = [step for step in context.trace if step.action == "missing"]
    assert len(missing) == 1 and "mergewise check --repair" in missing[0].reason
    assert all(LEAVES[i].text.strip().splitlines()[-1] in context.text for i in (0, 1, 4))


def test_all_parents_of_all_hits_are_read_in_one_call() -> None:
    reader = ScriptedReader(STORE, {leaf.id: 0.5 for leaf in LEAVES[::2]})
    run(reader)
    assert reader.calls.count("sections") == 1
    assert reader.calls.count("leaves") == 1


def test_an_item_too_large_is_skipped_and_the_rest_goes_on() -> None:
    scores = {LEAVES[0].id: 0.9, LEAVES[1].id: 0.9, LEAVES[2].id: 0.9, LEAVES[3].id: 0.9, LEAVES[8].id: 0.1}
    small = count_tokens(["[1] Guide › Part 2\n" + LEAVES[8].text[LEAVES[8].body - LEAVES[8].start :].strip()])[0]
    context = run(ScriptedReader(STORE, scores), budget=small + 4)
    assert "skip" in actions(context)
    assert context.passages, "a hit of the merged section fits instead"


def test_text_merged_across_headings_is_under_the_shared_ones() -> None:
    context = run(ScriptedReader(STORE, {leaf.id: 0.9 for leaf in LEAVES}))
    (passage,) = context.passages
    assert passage.headings == ()
    assert passage.text == guide().text.strip()


# -- modes


def test_always_gives_parents_only() -> None:
    context = run(ScriptedReader(STORE, {LEAVES[0].id: 0.9, LEAVES[5].id: 0.8}), replace(PLAIN, mode="always"))
    parents = [SECTIONS[LEAVES[0].parent], SECTIONS[LEAVES[5].parent]]
    for parent in parents:
        for leaf in LEAVES[parent.first_leaf - LEAVES[0].id :][: parent.leaf_count]:
            assert leaf.text[leaf.body - leaf.start :].strip() in context.text
    assert [step.action for step in context.trace if step.action == "merge"] == ["merge"] * 2


def test_semantic_clusters_similar_leaves() -> None:
    texts = [
        "cats purr and cats sleep for all of the long afternoon",
        "stocks rose in trading today on the exchange of the city",
        "cats purr and cats eat for all of the long afternoon",
        "stocks fell in trading now on the exchange of the city",
    ]
    store = memory_store([Document(id="d", text="\n\n".join(f"{t}." for t in texts))], HashEmbedder())
    leaves = store.document_rows(["d"])[0]["leaf"]
    assert len(leaves) == 4
    context = run(
        ScriptedReader(store, {leaf.id: 1 - 0.1 * i for i, leaf in enumerate(leaves)}), replace(PLAIN, mode="semantic")
    )
    clusters = [step.inputs for step in context.trace if step.action == "cluster"]
    assert clusters == [(leaves[0].span, leaves[2].span), (leaves[1].span, leaves[3].span)]


@pytest.mark.parametrize(("how", "wanted"), [("mean", [0.7, 0.8]), ("max", [1.0, 0.8])])
def test_a_cluster_has_the_chosen_score_and_the_place_of_its_best(how: str, wanted: list[float]) -> None:
    texts = [
        "cats purr and sleep a lot",
        "stocks rose in trading",
        "cats purr and eat a lot",
        "cats purr and run a lot",
    ]
    store = memory_store([Document(id=f"d{i}", text=f"{t}.") for i, t in enumerate(texts)], HashEmbedder())
    leaves = [rows["leaf"][0].id for i in range(4) for rows in store.document_rows([f"d{i}"])]
    given_scores = dict(zip(leaves, (1.0, 0.8, 0.6, 0.5), strict=True))
    p = AutoMerge(mode="semantic", merged_score=how, order="score")  # type: ignore[arg-type]
    context = run(ScriptedReader(store, given_scores), p)
    clusters = [step for step in context.trace if step.action == "cluster"]
    assert [step.score for step in clusters] == [pytest.approx(wanted[0])]
    assert sorted({passage.score for passage in context.passages}) == pytest.approx(sorted(wanted))


def test_semantic_without_vectors_says_what_to_do() -> None:
    store = memory_store([guide()])
    with pytest.raises(UsageError, match="needs vectors"):
        run(ScriptedReader(store, {0: 0.5}), replace(PLAIN, mode="semantic"))


def test_nothing_found_is_an_empty_context() -> None:
    for mode in ("auto", "always", "never", "semantic"):
        context = run(ScriptedReader(STORE, {}), replace(PLAIN, mode=mode))
        assert (context.text, context.tokens, context.passages) == ("", 0, ())
