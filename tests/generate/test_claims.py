"""Support of an answer's statements by the sources that they cite."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mergewise.generate.citations import Claims, cite
from mergewise.generate.sources import Source
from mergewise.text.support.names import quotations_in
from mergewise.types import Span

MILL = (
    "The **mill** was built by Ella Stone, a mason, in 1850. It has two wheels and five stones. It was never sold. "
    "Her brother Per kept the books."
)
RIVER = "The river Nid is 31 km long. Salmon come up it in June."


def source(number: int, title: str, text: str) -> Source:
    doc = title.lower()
    return Source(number, title, (), text, ((Span(doc, 0, len(text)), text),), 1.0)


SOURCES = [source(1, "Norrby Mill", MILL), source(2, "Rivers", RIVER)]


def unverified(answer: str, sources: Collection[Source] = tuple(SOURCES)) -> tuple[str, ...]:
    return cite(answer, list(sources), lambda doc_id: None).unverified


@pytest.mark.parametrize(
    "answer",
    [
        "Ella Stone built the mill in 1850 [1].", "The mill of Norrby was built in 1850 by a mason [1].",
        "She built it [1].", "1850 [1].", "The mason Ella Stone [1].", "It has 2 wheels [1].",
        "- **Wheels:** Two [1]", "Answer: Built by Ella Stone [1].", "Summary: Use the wheels, which are 2 [1].",
        "Ella Stone, whose brother Per kept the books, built it [1].",
        "Ella Stone built the mill [1], and the Nid is 31 km long [2].",
        "The mill, built in 1850 by Ella Stone, was not sold [1].", "The mill wasn't sold [1].",
        'The manual says "the mill was built by Ella Stone" [1].', "“The mill was built by Ella Stone … in 1850” [1]",
        "„Salmon come up it in June“ [2].", "Salmon come up the river in June.",
        "According to the books, Per kept them [1].", "The so-called “mill” was built by Ella [1].",
    ],
)  # fmt: skip
def test_statements_of_the_cited_sources_are_supported(answer: str) -> None:
    cited = cite(answer, SOURCES, lambda doc_id: None)
    assert (cited.unverified, cited.unsupported) == ((), 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        '"The mill was built by Napoleon in 1815" [1].',
        '"The mill was sold by Ella Stone" [1].',  # all of its words, but in another order
        "“Two wheels were built by Ella Stone”, it says [1].",
        "«It was never sold in June» [1][2].",
        "The mill was built by Ella Stone in 1815 [1].",
        "The mill was built by Napoleon [1].",
        "Napoleon built the mill [1].",
        "Ella Stone built the mill [2].",  # the mark leads to another source
        "The Nid is 31 km long [1].",
        "The mill was not built by Ella Stone [1].",
        "The mill wasn't built by Ella Stone, a mason [1].",
        "Zebras gallop over wide plains.",
        "Grinding flour pays well nowadays [1].",
        "The mason kept fine white flour there [1].",  # two of five words
        "It has 7 wheels [1].",
        "It has seven wheels and five stones and was built by a mason [1].",
        "Builder of the mill: Napoleon [1].",
        "The mill was built by E. Napoleon, a mason [1].",
    ],
)
def test_other_statements_are_unsupported(answer: str) -> None:
    cited = cite(answer, SOURCES, lambda doc_id: None)
    assert (len(cited.unverified), cited.unsupported) == (1, 1.0)


def test_unsupported_sentences_are_named_without_their_marks_and_counted() -> None:
    answer = "Ella Stone built the mill [1]. Napoleon visited it in 1815 [1]. The Nid is 31 km long. [2] [1] [7]"
    cited = cite(answer, SOURCES, lambda doc_id: None)
    assert cited.unverified == ("Napoleon visited it in 1815.",)
    assert cited.unsupported == pytest.approx(1 / 3) and cited.removed == 1


def test_a_quotation_of_several_sentences_must_match_completely() -> None:
    assert unverified('"It has two wheels and five stones. It was never sold." [1]') == ()
    invented = '"It has two wheels. It was sold to Per Stone in May."'
    assert unverified(f"{invented} [1]") == (invented,)


def test_a_quotation_counts_only_in_its_own_sentence() -> None:
    assert unverified('They say "all was built by Per" [1]. It has two wheels [1].') == (
        'They say "all was built by Per".',
    )


def test_a_quotation_may_omit_mark_up() -> None:
    linked = source(1, "Guide", "See the [retry guide](https://example.org/retries) for **more** on it.")
    assert unverified("“See the retry guide for more on it” [1].", [linked]) == ()
    assert unverified("“See the [retry guide](https://example.org/retries) for **more**” [1].", [linked]) == ()


def test_statements_without_content_or_sources_are_not_judged() -> None:
    assert cite("[1]", SOURCES, lambda doc_id: None).unsupported is None
    assert cite("— … [1]", SOURCES, lambda doc_id: None).unsupported is None
    assert cite("Napoleon built it in 1815.", [], lambda doc_id: None).unsupported is None


def test_sources_are_read_when_they_are_needed() -> None:
    read: list[int] = []

    class Parts(tuple[tuple[Span, str], ...]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            read.append(1)
            return super().__iter__()

    unread = Source(2, "Unread", (), "x", Parts(SOURCES[1].parts), 1.0)
    assert Claims([SOURCES[0], unread]).is_supported("Ella built the mill.", [1]) and not read


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('He said "one two" and “three”.', ["one two", "three"]), ('A 5" pipe and a 6" pipe.', []), ("It's Per's.", []),
        ('An open "quotation\nof lines"', []), ("„eins“ «deux» 「三」", ["eins", "deux", "三"]), ("“" * 9, []),
    ],
)  # fmt: skip
def test_quotations(text: str, quoted: list[str]) -> None:
    assert [quotation for _, _, quotation in quotations_in(text)] == quoted


REFUSAL = "Nothing relevant was found in the indexed documents"


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (f"{REFUSAL}.", True),
        (REFUSAL.lower(), True),
        (f"**{REFUSAL}.**", True),
        (REFUSAL.upper(), True),
        ("Nothing relevant was found.", True),
        (f"{REFUSAL}. Sorry [1].", True),
        (f"{REFUSAL} about Ella Stone.", True),
        (f"I am sorry. {REFUSAL}.", True),
        (f"{REFUSAL} about the year, but Ella Stone built it [1].", False),
        (f"{REFUSAL} about the owner of the bridge, its price and its age, but Ella Stone built it [1].", False),
        (f"{REFUSAL}. However, the mill was built by Ella Stone.", False),
        (f"Ella Stone built the mill [1]. {REFUSAL} about the year.", False),
        (f"The mill was built by Ella Stone. {REFUSAL} about her age.", False),
        ("Ella Stone built it [1].", False),
        ("Nothing relevant was found about zebras.", False),
        ("Yes.", False),
    ],
)
def test_refusals_depend_on_the_whole_answer(answer: str, refused: bool) -> None:
    assert cite(answer, SOURCES, lambda doc_id: None).refuses == refused
