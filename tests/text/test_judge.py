"""The judge of support: the sources that it reads, several sources together, and negations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.support.judge import Flag, Judge
from mergewise.text.support.sources import Extract, ReadSource

TEXTS = (
    "The mill was built by Ella Stone in 1850. It has two wheels.",
    "Its price was unknown, and the buyers were unable to pay. It was never sold.",
    "Das Haus steht in Bergen, und die Leute von Bergen sind mit der Lage nicht zufrieden.",
)
TITLES = ("Norrby Mill", "Trade", "Häuser")


def judge_of(texts: tuple[str, ...] = TEXTS, read: list[int] | None = None) -> Judge:
    def source(number: int) -> ReadSource:
        if read is not None:
            read.append(number)
        return ReadSource.of([Extract(texts[number], 0, len(texts[number]))], TITLES[number])

    return Judge(source)


def test_a_source_is_read_once_and_only_when_needed() -> None:
    read: list[int] = []
    judge = judge_of(read=read)
    assert judge.judge("Ella Stone built it.", [0]).support and read == [0]
    assert judge.judge("Ella Stone built it, and it was never sold.", [0, 1]).support and read == [0, 1]
    assert judge.judge("Ella Stone built it, and it was never sold.", [1]).support == ()
    assert read == [0, 1]


def test_without_a_source_nothing_is_supported() -> None:
    assert judge_of().judge("Ella Stone built it.", []).support == ()
    assert not judge_of().is_related("Ella Stone built it.", [])


@given(st.permutations(range(len(TEXTS))), st.sampled_from(["The mill was built in 1850.", "It was sold.", "Bergen"]))
def test_the_order_of_the_sources_changes_no_judgement(order: list[int], stated: str) -> None:
    judge = judge_of()
    assert bool(judge.judge(stated, order).support) == bool(judge.judge(stated, range(len(TEXTS))).support)


@given(
    st.sampled_from(["Ella Stone built it in 1850.", "Per built it.", "It has 2 wheels.", "The buyers could not pay."])
)
def test_a_second_source_keeps_the_support(stated: str) -> None:
    judge = judge_of()
    if judge.judge(stated, [0]).support:
        assert judge.judge(stated, [0, 1]).support


@pytest.mark.parametrize(
    ("stated", "held"),
    [
        ("The price was not known.", True),  # unknown
        ("The buyers could not pay.", True),  # unable
        ("The mill was not built by Ella Stone.", False),
        ("The mill was not sold.", True),
        ("The mill was sold.", False),
    ],
)
def test_a_negation_needs_a_negation_or_a_denial(stated: str, held: bool) -> None:
    assert bool(judge_of().judge(stated, [0, 1]).support) is held


@pytest.mark.parametrize(
    "text", ["The university was founded in 1890 by Ann Lee.", "The inventory, including the tools, was sold in 1890."]
)
def test_a_word_that_begins_like_a_denial_is_not_one(text: str) -> None:
    stated = text.replace("was", "was not")
    judged = judge_of((text, "", "")).judge(stated, [0])
    assert judged.support == () and "negation" in [flag.kind for flag in judged.flagged]


def test_quotations_may_be_given_and_may_quote_the_title() -> None:
    judge = judge_of()
    assert judge.judge("Ella Stone built it.", [0], ["built by nobody at all"]).flagged == (
        Flag("quotation", "built by nobody at all"),
    )
    assert judge.judge("“Norrby Mill” was built by Ella Stone.", [0]).support


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_judged_and_support_is_within_it(text: str, stated: str) -> None:
    judged = Judge(lambda number: ReadSource.of([Extract(text, 0, len(text))], "")).judge(stated, [0])
    assert all(0 <= start < end <= len(text) for start, end in judged.support)
    assert not (judged.support and judged.flagged)


LINES = "Birds eat seeds\nin winter. Cats eat fish at night. Dogs eat meat."


@pytest.mark.parametrize(
    ("start", "end", "cut"),
    [
        (0, len(LINES), False),
        (LINES.index("Cats"), len(LINES), False),  # the text before it has ended
        (LINES.index("fish"), len(LINES), True),
        (LINES.index("winter"), LINES.index(" Cats"), True),  # a line ends before it, but not just there
        (LINES.index("in winter"), LINES.index(" Cats"), False),  # a line ends just there
        (0, LINES.index(" at night"), True),
    ],
)
def test_an_edge_of_an_extract_cuts_a_sentence_that_goes_on(start: int, end: int, cut: bool) -> None:
    assert Extract(LINES, start, end).cuts(start, end) is cut
