"""Grounding of values by a model in their paragraphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mergewise.designs.mrag.markers.grounding import GroundedValue, Grounder, Ungrounded, ValueSentence, _ValuePart
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import Judge, Judgement
from tests.designs.mrag.marking import ground
from tests.text.support_cases import HELD_OUT, TUNED, Case

MILL = TUNED[0]
TRUE = [(case, sentence) for case in TUNED for sentence in case.true]
LIES = [(case, sentence) for case in TUNED for sentence in case.lies]
# sentences that words alone cannot judge
PASSES = {"Retries are on by default in httpkit, and are turned off with retries=0."}
FLAGGED = {"Inger Lund, a painter from Denmark, lived for 11 years in Aldermoor."}


def share(made: GroundedValue) -> float:
    """Return the share of sentences without support."""
    return sum(not sentence.supported for sentence in made.sentences) / max(1, len(made.sentences))


def grounded(value: str, case: Case = MILL, ungrounded: Ungrounded = "keep") -> GroundedValue:
    return ground(value, [(0, len(case.passage))], case.passage, ungrounded, case.title)


@pytest.mark.parametrize(("case", "sentence"), TRUE, ids=[sentence[:40] for _, sentence in TRUE])
def test_paraphrases_are_supported(case: Case, sentence: str) -> None:
    assert share(grounded(sentence, case)) == (1.0 if sentence in FLAGGED else 0.0)


@pytest.mark.parametrize(("case", "sentence"), LIES, ids=[sentence[:40] for _, sentence in LIES])
def test_lies_are_not_supported(case: Case, sentence: str) -> None:
    assert share(grounded(sentence, case)) == (0.0 if sentence in PASSES else 1.0)


def test_most_held_out_sentences_are_judged_correctly() -> None:
    true = [share(grounded(s, case)) == 0 for case in HELD_OUT for s in case.true]
    lies = [share(grounded(s, case)) == 1 for case in HELD_OUT for s in case.lies]
    assert sum(true) >= 0.95 * len(true) and sum(lies) >= 0.9 * len(lies)


@pytest.mark.parametrize(
    ("sentence", "flag"),
    [
        ("The mill has 2 wheels and 7 stones.", "number 7"),
        ("Per died on 15 March 1871.", "date 15 March 1871"),
        ("Napoleon built the mill.", "name Napoleon"),
        ("The mill was built by Ella Bergman, a mason.", "name Bergman"),
        ("The mill was built by “a mason from the north”.", "quotation a mason from the north"),
        ("The mill was not built by Ella Stone.", "negation The mill was not built by Ella Stone."),
        ("The mill was sold by Per.", "negation The mill was sold by Per."),
    ],
)
def test_flags_name_the_problem(sentence: str, flag: str) -> None:
    (judged,) = grounded(sentence).sentences
    assert flag in judged.flags and not judged.supported


def test_mixed_names_of_two_people_are_flagged() -> None:
    text = "Josiah Brand dug the canal. Mary Holt paid for the canal."
    value = "Mary Brand paid for the canal."
    (judged,) = ground(value, [(0, len(text))], text, "keep").sentences
    assert judged.flags == ("name Mary Brand",)


def test_opposites_are_flagged() -> None:
    (judged,) = grounded("The drug increased the length of fever by 1.5 days on average.", TUNED[1]).sentences
    assert "opposite increas" in judged.flags


def test_support_has_the_spans_of_sentences() -> None:
    (judged,) = grounded("Per kept the books until March 1871.").sentences
    assert next(MILL.passage[a:b] for a, b in judged.support).startswith("Her brother Per")


def test_nearest_sentence_replaces_a_sentence_without_support() -> None:
    made = grounded("The mill has 2 wheels and 7 stones. Norrby Mill was never sold.", ungrounded="replace")
    assert made.value == (
        "It has two wheels and five stones, and could grind about 1,200 kilograms of rye a day. Norrby Mill was never sold."
    )
    assert [sentence.replaced for sentence in made.sentences] == [True, False]
    assert (made.judged, made.unsupported, share(made)) == (2, 1, 0.0)
    assert made.sentences[0].flags == ("number 7",)


def test_sentences_without_support_are_dropped_or_kept() -> None:
    value = "Norrby Mill was never sold. Napoleon visited it in 1815.\n\nElla Stone built it."
    assert grounded(value, ungrounded="drop").value == "Norrby Mill was never sold.\n\nElla Stone built it."
    kept = grounded(value, ungrounded="keep")
    assert kept.value == value and (kept.judged, kept.unsupported) == (3, 1) and share(kept) == pytest.approx(1 / 3)


def test_no_sentence_is_inserted_twice() -> None:
    made = grounded("The mill has 9 wheels and 7 stones. It has 8 wheels and 6 stones.", ungrounded="replace")
    assert made.value.count("two wheels and five stones") == 1 and len(made.sentences) == 1
    stands = "It was never sold. The mill was sold."
    assert grounded(stands, ungrounded="replace").value == "It was never sold."


def test_value_without_a_near_sentence_is_empty() -> None:
    made = grounded("Zebras gallop over wide plains.", ungrounded="replace")
    assert (made.value, made.sentences, made.judged, made.unsupported) == ("", (), 1, 1)


def test_partial_sentence_at_an_edge_is_not_a_replacement() -> None:
    text = "The old mill by the river has two wheels. It has five stones that grind rye."
    end = text.index("stones") + len("stones")
    assert ground("It has nine stones.", [(0, end)], text).value == ""
    assert ground("It has nine stones.", [(0, len(text))], text).value == "It has five stones that grind rye."


def test_values_with_and_without_markup_are_supported() -> None:
    text = "Set the **timeout** with [Client](https://example.org/client), in seconds."
    for value in (text, "Set the timeout with Client, in seconds."):
        assert share(ground(value, [(0, len(text))], text, "keep")) == 0


def test_german_names_have_two_capitalised_words() -> None:
    case = TUNED[4]
    assert share(grounded("Die Anlage auf dem Schuldach liefert im Jahr rund 98.000 Kilowattstunden.", case)) == 0
    assert share(grounded("Die Anlage auf dem Dach der Schule plante Martin Bauer.", case)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "สะพานสีฟ้าสร้างขึ้นเมื่อปี 2479 โดยช่างทานากะ",
        "Синий мост построила артель Танаки в 1936 году.",
        "الجسر الأزرق بني في عام 1936.",
    ],
)
def test_other_scripts_are_judged_by_their_numbers(text: str) -> None:
    assert share(grounded(text, Case("", text, (), ()))) == 0
    assert share(grounded(text.replace("2479", "2480").replace("1936", "1937"), Case("", text, (), ()))) == 1


# -- properties

SENTENCES = [
    "The mill was built by Ella Stone in 1850.", "It has two wheels.", "Per kept the books, and Ella paid.",
    "In 2019 it was sold to Norrby.", "橋は1936年に建てられた。", "Die Anlage liefert 98.000 Kilowattstunden.",
    "# Heading", "- an item of a list", "`code(1)` runs it", "He did not go.", "Dr. Who e.g. went (in May).", "| a | 3 |",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=8).flatmap(
    lambda chosen: st.lists(st.sampled_from([" ", "\n\n", "\n"]), min_size=len(chosen), max_size=len(chosen)).map(
        lambda gaps: "".join(a + b for a, b in zip(chosen, gaps, strict=True))
    )
)
WRITTEN = st.lists(
    st.sampled_from(
        [
            *SENTENCES,
            "Napoleon built it in 1815.",
            "The mill was not built.",
            "Zebras gallop.",
            "It has 7 wheels",
            "“so so so”",
            "—",
        ]
    ),
    max_size=8,
).map(" ".join)
PARTS = st.lists(st.tuples(st.integers(-5, 300), st.integers(-5, 300)), max_size=4)


@given(TEXTS, WRITTEN, PARTS, st.sampled_from(["replace", "drop", "keep"]))
def test_spans_lie_in_the_paragraphs_and_sentences_in_the_value(
    text: str, value: str, parts: list[tuple[int, int]], how: Ungrounded
) -> None:
    made = ground(value, parts, text, how)
    assert all(0 <= s.start < s.end <= len(made.value) for s in made.sentences)
    assert [(s.start, s.end) for s in made.sentences] == split_sentences(made.value)
    for sentence in made.sentences:
        for start, end in sentence.support:
            assert 0 <= start < end <= len(text)
            held = sorted((max(0, a), b) for a, b in parts if a < b)
            assert all(any(a <= place < b for a, b in held) for place in range(start, end))
    if how != "keep":
        assert all(s.supported for s in made.sentences)
        assert share(ground(made.value, parts, text, "keep")) == 0


@given(TEXTS, st.data())
def test_verbatim_copies_are_grounded(text: str, data: st.DataObject) -> None:
    spans = split_sentences(text)
    first = data.draw(st.integers(0, len(spans) - 1))
    last = data.draw(st.integers(first, len(spans) - 1))
    value = text[spans[first][0] : spans[last][1]]
    made = ground(value, [(0, len(text))], text)
    assert (made.value, made.unsupported) == (value, 0)


@given(TEXTS, st.integers(10**4, 10**6))
def test_invented_numbers_are_flagged(text: str, number: int) -> None:
    assume(str(number) not in text)
    value = f"The mill was built with {number} stones."
    (judged,) = ground(value, [(0, len(text))], text, "keep").sentences
    assert f"number {number}" in judged.flags


@given(TEXTS, st.from_regex(r"[A-Z][bcdfgklmnprst][aeiou][bdgklmnprst][aeiou]x", fullmatch=True), st.booleans())
def test_invented_names_are_flagged(text: str, name: str, opens: bool) -> None:
    value = f"{name} built the mill." if opens else f"The mill was built by {name}."
    (judged,) = ground(value, [(0, len(text))], text, "keep").sentences
    assert f"name {name}" in judged.flags


@pytest.mark.parametrize(
    "piece",
    ["A", "(", "“", "a. ", "1. ", "No. ", "Ab Cd ", "not ", "一", "\n", "1,", "[x](", "**", "A. ", ", and ", "- a\n"],
)
def test_hostile_values_take_bounded_time(piece: str) -> None:
    value = piece * (10_000 // len(piece))
    for how in ("replace", "drop", "keep"):
        ground(value, [(0, len(MILL.passage))], MILL.passage, how)
    ground("Ella built it. Per died in 1872.", [(0, len(value))], value)


def test_text_without_words_is_supported_only_by_its_own_place() -> None:
    text = "The mill was built.\n\n***\n\nIt has two wheels."
    kept = ground("The mill was built.\n\n***", [(0, len(text))], text)
    assert [text[a:b] for s in kept.sentences for a, b in s.support] == ["The mill was built.", "***"]
    dots = ground("...", [(0, len(text))], text)
    assert (dots.value, dots.judged, dots.unsupported) == ("", 1, 1)


class Suspicious(Judge):
    """A judge that supports every sentence without a given word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def judge(self, stated: str, keys: Sequence[Hashable], quotations: Sequence[str] | None = None) -> Judgement:
        return Judgement(() if self.word in stated else ((0, 1),))


def test_gaps_are_kept_for_the_first_two_rounds() -> None:
    words = ("Zero sat.", "One fell.", "and two rose", "Three stood.")
    parts = [_ValuePart(text, " ", ValueSentence(0, len(text), ((0, 1),))) for text in words]
    value, sentences = Grounder(Suspicious("two"), [0], "")._settle(parts)
    assert value == "Zero sat. One fell."
    assert [value[one.start : one.end] for one in sentences] == ["Zero sat.", "One fell."]
