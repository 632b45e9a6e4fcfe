"""The packer against a literal one over sets of characters, with every option, and fragments against such sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.assemble.budget import Last, Packer, Repeats, pack
from mergewise.assemble.fragments import Candidate, Fragment, fragment_of, uncovered_parts
from mergewise.models.record import Models
from mergewise.text.blocks import SEPARATOR
from mergewise.text.sentences import split_sentences
from mergewise.types import GAP, Cause, Leaf, Passage
from tests.conftest import examples

TEXT = "".join(f"Item {i} says so. " + ("\n\n" if i % 4 == 3 else "") + "   " * (i % 3) for i in range(30))
SECTION = 150  # characters below one heading

Place = tuple[str, int]
Run = tuple[str, int, int]
"""A document, and the bounds of the text taken from it."""


def fragment(doc: str, start: int, end: int) -> Fragment:
    return Fragment(doc, f"Title {doc}", (f"Part {start // SECTION}",), start, end, start, TEXT[start:end])


def words_and_letters(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) + len(text) // 10 for text in texts]


fragments = st.builds(
    lambda doc, start, size: fragment(doc, start, min(len(TEXT), start + size)),
    st.sampled_from("ab"),
    st.integers(0, len(TEXT) - 1),
    st.integers(1, 90),
)
parts = st.lists(fragments, min_size=1, max_size=3).map(tuple)
simple = st.builds(Candidate, parts, st.floats(0, 1))
candidates = st.lists(
    st.builds(Candidate, parts, st.floats(0, 1), st.lists(simple, max_size=2).map(tuple)), max_size=10
)


def runs_of(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Group consecutive numbers as (first, end)."""
    for _, group in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        own = [place for _, place in group]
        yield own[0], own[-1] + 1


@dataclass
class LiteralPacker:
    """The rules carried out one character at a time."""

    left: int
    last: Last
    shares_headings: bool
    repeats: Repeats
    taken: list[list[Run]] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    headed: set[str] = field(default_factory=set)
    edges: list[tuple[str, Run]] = field(default_factory=list)
    skipped: list[Candidate] = field(default_factory=list)
    misses: int = 0

    def fill(self, ranked: Sequence[Candidate]) -> None:
        for candidate in ranked:
            self.consider(candidate)
            if self.misses >= (1 if self.last in ("stop", "end") else 8):
                break
        if self.last in ("cut", "end"):
            for candidate in self.skipped[:8]:
                self.begin(candidate)

    def new_runs(self, candidate: Candidate) -> list[tuple[Run, str]]:
        """Return the characters that are not selected yet, with the heading above each run."""
        held: set[Place] = set()
        if self.repeats != "take":
            held = {(doc, i) for runs in self.taken for doc, start, end in runs for i in range(start, end)}
        new = []
        for one in candidate.fragments:
            fresh = [i for i in range(one.start, one.end) if (one.doc_id, i) not in held]
            # White space alone is not a portion. It may be selected later, with the text next to it.
            runs = [(first, end) for first, end in runs_of(fresh) if TEXT[first:end].strip()]
            held |= {(one.doc_id, i) for first, end in runs for i in range(first, end)}
            new += [((one.doc_id, *run), f" Title {one.doc_id}› {one.headings[0]}") for run in runs]
        return new

    def cost(self, new: Sequence[tuple[Run, str]]) -> int:
        headings = {heading for _, heading in new} - self.headed
        titles = {heading.split("›")[0] for heading in headings} - {heading.split("›")[0] for heading in self.headed}
        levels = [*titles, *(heading.split("›")[1] for heading in headings)]
        texts = [TEXT[start:end].strip() for (_, start, end), _ in new]
        if self.last == "stop":
            return sum(words_and_letters(texts))
        fresh = [(heading, run) for run, heading in new]
        pairs = [(one, other) for one in fresh for other in fresh]
        pairs += [pair for one in fresh for other in self.edges for pair in ((one, other), (other, one))]
        joints = len({(one, run[2]) for (one, run), two in pairs if one == two[0] and run[2] == two[1][1]})
        gap, separator = words_and_letters([GAP, SEPARATOR])
        gaps = gap * (len(texts) - len(headings) - joints)
        breaks = separator * (len(headings) + joints - (not self.taken))
        return sum(words_and_letters([*["[9] ›\n"] * len(headings), *levels, *texts])) + gaps + breaks

    def take(self, new: Sequence[tuple[Run, str]]) -> bool:
        if self.cost(new) > self.left:
            return False
        self.left -= self.cost(new)
        self.taken.append([run for run, _ in new])
        if self.shares_headings:
            self.headed |= {heading for _, heading in new}
            self.edges += [(heading, run) for run, heading in new]
        return True

    def consider(self, candidate: Candidate) -> None:
        new = self.new_runs(candidate)
        if not new:
            if self.repeats == "tell":
                self.misses = 0
                self.causes.append("merge")
        elif self.take(new):
            self.misses = 0
        else:
            self.causes.append("skip")
            self.skipped.append(candidate)
            self.misses += 1
            for smaller in candidate.instead:
                self.consider(smaller)

    def begin(self, candidate: Candidate) -> None:
        new = self.new_runs(candidate)
        if not new:
            return
        (doc, start, end), heading = new[0]
        text = TEXT[start:end]
        first = start + len(text) - len(text.lstrip())
        for _, sentence_end in reversed(split_sentences(text.strip())[:-1]):
            says_something = any(map(str.isalnum, text[: first - start + sentence_end]))
            if says_something and self.take([((doc, start, first + sentence_end), heading)]):
                self.causes.append("cut")
                return


@settings(max_examples=examples(150))
@given(
    candidates,
    st.integers(1, 120),
    st.sampled_from(["cut", "skip", "stop", "end"]),
    st.booleans(),
    st.sampled_from(["leave", "tell", "take"]),
)
def test_the_packer_matches_its_rules(
    ranked: list[Candidate], budget: int, last: Last, shares: bool, repeats: Repeats
) -> None:
    packer: Packer[Candidate] = Packer(budget, words_and_letters, last, shares, repeats)
    packer.fill(ranked)
    literal = LiteralPacker(budget, last, shares, repeats)
    literal.fill(ranked)
    assert [[(s.doc_id, s.start, s.end) for s in one.spans] for one in packer.taken] == literal.taken
    assert [step.cause.value for step in packer.context("q", lambda taken: []).trace] == literal.causes


@given(candidates, st.integers(1, 120))
def test_known_counts_change_nothing_and_are_not_repeated(ranked: list[Candidate], budget: int) -> None:
    asked: list[str] = []

    def counting(texts: Sequence[str]) -> list[int]:
        asked.extend(texts)
        return words_and_letters(texts)

    known = {text: words_and_letters([text])[0] for one in ranked for text in one.texts}
    context = pack("q", ranked, budget, Models(counting), counts=known)
    assert context == pack("q", ranked, budget, Models(words_and_letters))
    assert not known.keys() & (set(asked) - {context.text})


def test_a_whole_that_costs_more_than_its_parts_loses_the_last_portion() -> None:
    """The counter charges for the line that ends a heading and begins a text, which no part has."""

    def dear_breaks(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 25 * text.count("0\nItem") for text in texts]

    one, other = (Candidate((fragment(doc, 0, 16),), score) for doc, score in (("a", 0.9), ("b", 0.4)))
    context = pack("q", [one, other], 40, Models(dear_breaks))
    assert [passage.title for passage in context.passages] == ["Title a"]
    assert [(step.cause, step.score) for step in context.trace] == [(Cause.DROP, 0.4)]
    assert len(pack("q", [one, other], 90, Models(dear_breaks)).passages) == 2


def letters(texts: Sequence[str]) -> list[int]:
    return list(map(len, texts))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_last_stop_takes_a_candidate_that_fits_exactly(count: int) -> None:
    ranked = [Candidate((fragment(doc, 0, 16),), 1 / n).without_headings() for n, doc in enumerate("abcd", 1)]
    whole = pack("q", ranked[:count], 1000, Models(letters), last="stop")
    for budget, taken in ((whole.tokens, count), (whole.tokens - 1, count - 1)):
        assert len(pack("q", ranked, budget, Models(letters), last="stop").passages) == taken


def test_all_tokens_of_a_callers_own_passages_are_counted() -> None:
    packer: Packer[Candidate] = Packer(30, words_and_letters, "skip", True)
    packer.fill([Candidate((fragment("a", 0, 16),), 1.0)])

    def long_winded(taken: Sequence[Candidate]) -> list[Passage]:
        return [Passage("word " * 100, 1.0, one.spans) for one in taken]

    context = packer.context("q", long_winded)
    assert (context.text, context.tokens, packer.taken) == ("", 0, [])


def test_a_heading_goes_before_its_text() -> None:
    """If nothing fits below its heading line, the text is shown without it, and the trace notes it."""
    ranked = [Candidate((fragment("a", 0, 16),), 0.9), Candidate((fragment("b", 16, 32),), 0.4)]
    with_line = pack("q", ranked[:1], 100, Models(words_and_letters))
    bare = pack("q", ranked, with_line.tokens - 1, Models(words_and_letters))
    assert bare.text == "[1]\nItem 0 says so." and bare.tokens < with_line.tokens
    assert [(step.action, step.cause, step.inputs) for step in bare.trace][-1] == (
        "bare",
        Cause.TAKE,
        bare.passages[0].spans,
    )
    assert pack("q", ranked, with_line.tokens, Models(words_and_letters)).text.startswith("[1] Title a")


# -- fragments


@given(fragments, st.lists(fragments, max_size=6))
def test_uncovered_parts_match_a_search_by_character(one: Fragment, taken: list[Fragment]) -> None:
    held = {i for other in taken if other.doc_id == one.doc_id for i in range(other.start, other.end)}
    free = [i for i in range(one.start, one.end) if i not in held]
    expected = [run for run in runs_of(free) if TEXT[run[0] : run[1]].strip()]
    left = uncovered_parts(one, taken)
    assert [(part.start, part.end) for part in left] == expected
    assert all(part.text == TEXT[part.start : part.end] for part in left)
    assert all((part.title, part.headings) == (one.title, one.headings) for part in left)


@given(fragments, st.integers(0, 90), st.integers(0, 90), st.integers(0, 40))
def test_a_cut_keeps_text_and_place_together(one: Fragment, left: int, right: int, heading: int) -> None:
    headed = Fragment(
        one.doc_id, one.title, one.headings, one.start, one.end, min(one.start + heading, one.end), one.text
    )
    start = min(one.start + left, one.end)
    end = max(start, one.end - right)
    cut = headed.cut(start, end)
    assert cut.text == TEXT[start:end]
    assert start <= cut.body <= end
    assert cut.body == headed.body or not start <= headed.body <= end
    first, last, text = cut.visible
    assert text == TEXT[first:last] == text.strip()


def test_visible_leaves_out_headings_and_white_space() -> None:
    text = "# Pumps\n\nPumps press.  Rings turn.\n"
    whole = Fragment("d", "D", ("Pumps",), 0, len(text), text.index("Pumps press"), text)
    assert whole.visible == (9, 34, "Pumps press.  Rings turn.")
    assert whole.cut(0, 9).visible[2] == ""


@given(fragments)
def test_beginnings_are_shorter_and_shorter_and_end_with_sentences(one: Fragment) -> None:
    pieces = list(one.beginnings())
    sizes = [len(piece.text) for piece in pieces]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(pieces) <= max(0, len(split_sentences(one.visible[2])) - 1)
    for piece in pieces:
        assert one.text.startswith(piece.text) and len(piece.text) < len(one.text)
        assert piece.text[-1] == "."


def test_a_beginning_of_bare_markup_is_skipped() -> None:
    text = "***. Cats sleep. Dogs bark."
    (only,) = Fragment("a", "", (), 0, len(text), 0, text).beginnings()
    assert only.text == "***. Cats sleep."


def leaf(number: int, start: int, text: str, headings: tuple[str, ...], body: int = 0) -> Leaf:
    return Leaf(number, "a", "T", (0,), number, start, start + len(text), start + body, headings, text, 1)


def test_leaves_become_one_fragment_under_shared_headings() -> None:
    one, other = leaf(0, 0, "# A\n\nOne. ", ("A",), body=5), leaf(1, 10, "## B\n\nTwo.", ("A", "B"), body=6)
    alone, both = fragment_of([other]), fragment_of([one, other])
    assert (alone.headings, alone.visible[2]) == (("A", "B"), "Two.")
    assert (both.headings, both.text, both.visible[2]) == (("A",), one.text + other.text, "One. ## B\n\nTwo.")
    assert (both.start, both.end) == (0, 20)


def test_leaves_that_share_no_heading_show_the_lines_of_all() -> None:
    one, other = leaf(0, 0, "# A\n\nOne. ", ("A",), body=5), leaf(1, 10, "# B\n\nTwo.", ("B",), body=5)
    both = fragment_of([one, other])
    assert (both.headings, both.visible[2]) == ((), "# A\n\nOne. # B\n\nTwo.")


def test_a_candidate_of_overlapping_fragments_shows_each_character_once() -> None:
    candidate = Candidate((fragment("a", 0, 40), fragment("a", 20, 60), fragment("b", 20, 60)), 0.5)
    new = candidate.beyond([])
    assert new is not None
    assert [(s.doc_id, s.start, s.end) for s in new.spans] == [("a", 0, 40), ("a", 40, 60), ("b", 20, 60)]
    assert candidate.beyond([new]) is None
    assert candidate.documents == {"a", "b"}
    assert set(candidate.headings.values()) == {
        ("a", ("Title a", "Part 0"), False),
        ("b", ("Title b", "Part 0"), False),
    }


@pytest.mark.parametrize("budget", [0, 1])
def test_no_budget_holds_nothing(budget: int) -> None:
    assert pack("q", [Candidate((fragment("a", 0, 40),), 1.0)], budget, Models(words_and_letters)).text == ""
