"""Hops on a small index: the target of a name, its strength, and names that lead nowhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import section_of
from mergewise.designs.weave.evidence import COMMON, Candidates, Link, PoolSignals, QuestionAspects, SentencePool
from mergewise.designs.weave.hops import (
    DEFINITIONS,
    EVEN,
    LEAVES,
    NEAR,
    PRICE,
    Follower,
    by_section,
    leaves_of,
    named_definitions,
    strengths,
    strongest,
)
from mergewise.protocols import IndexReader
from mergewise.text.names import Mention, words_of
from mergewise.types import Definition, Document
from tests.designs.weave.support import FILMS, reader_of
from tests.support import ScriptedReader, memory_store

NONE = PoolSignals()
QUESTION = "Where was the director of Silent Rain born?"
RAIN = "Silent Rain is a 1931 drama directed by Ada Moor."


def candidates_of(
    reader: IndexReader, relevance: dict[str, float], question: str = QUESTION, signals: PoolSignals = NONE
) -> Candidates:
    """Return all sentences. Those with the given beginnings have a relevance, the others have none."""
    pool = SentencePool(QuestionAspects.of(question, None), {})
    pool.add(reader.sentences(range(60)).values())
    values = [
        next((value for start, value in relevance.items() if sentence.text.startswith(start)), 0.0)
        for sentence in pool.sentences
    ]
    return Candidates(pool, signals, np.array(values, np.float32))


def text_of(reader: IndexReader, definition: Definition) -> str:
    return "".join(leaf.text for leaf in reader.sentences(list(definition.leaves)).values())


def link(strength: float, name: str = "x") -> Link:
    return Link(0, name, strength, False)


def test_a_name_leads_to_its_definition() -> None:
    reader = reader_of(FILMS)
    candidates = candidates_of(reader, {"Silent Rain is": 0.8})
    ((definition, links),) = (
        Follower(candidates.pool, reader, [Mention("silent rain", 5, 7)], 1).follow(candidates).items()
    )
    assert text_of(reader, definition).startswith("# Ada Moor\n\nAda Moor (1890")
    (found,) = links
    assert candidates.pool.sentences[found.evidence].text == RAIN
    assert (found.name, found.near) == ("ada moor", True) and found.strength == pytest.approx(0.8)


def test_a_name_is_near_only_next_to_a_word_of_the_question() -> None:
    reader = reader_of(FILMS)
    candidates = candidates_of(reader, {"Silent Rain is": 0.8}, "Where was Silent Rain shot?")
    ((_, links),) = Follower(candidates.pool, reader, [Mention("silent rain", 2, 4)], 1).follow(candidates).items()
    assert [found.near for found in links] == [False]


@pytest.mark.parametrize(
    ("sentence", "near"),
    [
        ("It was directed in the end by Ada Moor.", False),
        ("It was directed at last by Ada Moor.", True),
        ("Ada Moor of Lisbon directed it.", True),
        ("Ada Moor of this town directed it.", False),
    ],
)
def test_near_means_four_words_before_or_three_after(sentence: str, near: bool) -> None:
    film = Document(id="film", title="Film", text=f"# Silent Rain\n\n{sentence}\n")
    reader = reader_of(film, Document(id="p", title="P", text="# Ada Moor\n\nShe was born in Faro.\n"))
    candidates = candidates_of(reader, {sentence: 0.8})
    ((_, links),) = Follower(candidates.pool, reader, [], 1).follow(candidates).items()
    assert [found.near for found in links] == [near]


def test_the_title_of_its_own_document_is_never_near() -> None:
    cats = Document(
        id="c",
        title="Cats",
        text="# Cats\n\n## Food\n\nCats eat fish.\n\n## Sleep\n\nCats sleep sixteen hours a day.\n",
    )
    reader = reader_of(cats)
    candidates = candidates_of(reader, {"Cats sleep": 0.8}, "How long do they sleep?")
    ((_, links),) = Follower(candidates.pool, reader, [], 1).follow(candidates).items()
    assert [(found.name, found.near) for found in links] == [("cats", False)]


def test_only_the_strongest_candidates_lead_on() -> None:
    reader = reader_of(FILMS)
    candidates = candidates_of(reader, {"Silent Rain is": 0.8, "Loud Snow is": 0.7})
    for beam, names in ((1, {"ada moor"}), (2, {"ada moor", "ben cole"})):
        reached = Follower(candidates.pool, reader, [], beam).follow(candidates)
        assert {found.name for links in reached.values() for found in links} == names


def test_names_of_the_question_lead_nowhere_new() -> None:
    reader = reader_of(FILMS)
    candidates = candidates_of(reader, {"Silent Rain is": 0.8})
    assert Follower(candidates.pool, reader, [Mention("ada moor", 0, 2)], 1).follow(candidates) == {}


def test_a_name_leads_to_the_same_document_first() -> None:
    reader = reader_of(FILMS, Document(id="other", title="Others", text="# Ada Moor\n\nAda Moor was a painter.\n"))
    candidates = candidates_of(reader, {"Silent Rain is": 0.8})
    (definition,) = Follower(candidates.pool, reader, [], 1).follow(candidates)
    assert "painter" not in text_of(reader, definition)


def test_a_name_that_leads_back_to_its_own_leaf_leads_nowhere() -> None:
    reader = reader_of(FILMS, Document(id="other", title="Others", text="# Ada Moor\n\nAda Moor was a painter.\n"))
    candidates = candidates_of(reader, {"Ada Moor was a painter": 0.8})
    assert Follower(candidates.pool, reader, [], 1).follow(candidates) == {}


@pytest.mark.parametrize("count", [1, 3, COMMON - 1, COMMON])
def test_many_definitions_weaken_a_name_and_too_many_end_it(count: int) -> None:
    film = Document(id="film", title="Film", text="# Silent Rain\n\nIt was directed by Ada Moor.\n")
    people = [
        Document(id=f"p{i}", title=f"P{i}", text=f"# Ada Moor\n\nShe was born in town {i}.\n") for i in range(count)
    ]
    reader = reader_of(film, *people)
    candidates = candidates_of(reader, {"It was directed": 0.9})
    reached = Follower(candidates.pool, reader, [], 1).follow(candidates)
    assert len(reached) == (count if count < COMMON else 0)
    for links in reached.values():
        assert [found.strength for found in links] == pytest.approx([0.9 / math.sqrt(count)])


def test_names_are_looked_up_once() -> None:
    looked_up: list[str] = []

    class Recording(ScriptedReader):
        def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
            looked_up.extend(names)
            return super().definitions(names)

    reader = Recording(memory_store([FILMS]), {})
    candidates = candidates_of(reader, {"Silent Rain is": 0.8, "Loud Snow is": 0.7})
    follower = Follower(candidates.pool, reader, [], 2)
    first = follower.follow(candidates)
    asked = list(looked_up)
    assert follower.follow(candidates) == first and looked_up == asked
    assert len(set(asked)) == len(asked) and "ada moor" in asked


def test_the_names_in_a_question_and_their_definitions() -> None:
    many = [Document(id=f"r{i}", title=f"R{i}", text="# Rain\n\nIt falls.\n") for i in range(COMMON + 1)]
    reader = reader_of(FILMS, *many)
    names, known = named_definitions(QuestionAspects.of("Did Ada Moor of Silent Rain like Rain?", None), reader)
    assert [name.name for name in names] == ["ada moor", "silent rain"]  # that of many definitions tells nothing
    assert {name: len(known[name]) for name in ("ada moor", "silent rain")} == {"ada moor": 1, "silent rain": 1}


def test_every_section_that_the_question_names_starts_a_chain() -> None:
    named: dict[SectionKey, str] = {
        ("films", ("Silent Rain",)): "",
        ("films", ("Loud Snow",)): "",
        ("films", ("Snow",)): "",
    }
    relevance = {"Silent Rain is": 0.8, "Loud Snow is": 0.1, "The budget": 0.05}
    candidates = candidates_of(reader_of(FILMS), relevance, signals=PoolSignals(named))
    raised = dict(zip((sentence.text for sentence in candidates.pool.sentences), strengths(candidates), strict=True))
    assert raised[RAIN] == pytest.approx(0.8)
    assert raised["Loud Snow is a 1940 comedy directed by Ben Cole."] == pytest.approx(EVEN * 0.8)
    assert raised["The budget was small."] == pytest.approx(EVEN * 0.8 / 2)
    assert raised["Snow falls in winter."] == 0  # what has no relevance at all stays so
    assert candidates.relevance.max() == pytest.approx(0.8)


def test_a_hop_reads_the_largest_gains_and_only_what_pays() -> None:
    def worth(gain: float) -> Link:
        return Link(0, "x", 0.5, False, gain)

    reached = {Definition(0, 2 * i, 1): [worth(0.01), worth(0.5 + i / 100)] for i in range(DEFINITIONS + 5)}
    read = strongest(reached)
    assert [definition.first_leaf for definition in read] == [2 * i for i in range(DEFINITIONS + 4, 4, -1)]
    short, long = Definition(0, 0, 1), Definition(0, 1, LEAVES + 3)
    assert strongest({short: [worth(PRICE)], long: [worth(PRICE)]}) == [short]  # each leaf has its price
    assert set(strongest({short: [worth(PRICE)], long: [worth(LEAVES * PRICE + 0.001)]})) == {short, long}
    assert strongest({Definition(0, 3, 1): [worth(0.5)], Definition(0, 1, 1): [worth(0.5)]})[0].first_leaf == 1


def test_the_gain_is_the_strength_times_what_the_evidence_lacks() -> None:
    reader = reader_of(FILMS)
    candidates = candidates_of(reader, {"Silent Rain is": 0.8})
    ((found,),) = Follower(candidates.pool, reader, [Mention("silent rain", 5, 7)], 1).follow(candidates).values()
    lacking = candidates.pool.share(candidates.pool.asked.terms - candidates.pool.covered_terms[found.evidence])
    assert found.near and found.gain == pytest.approx(0.8 * lacking * NEAR)


def names_reached(
    text: str, name: str, others: Sequence[str] = (), sections: int = 1, language: str = "de"
) -> set[str]:
    """Return the names that lead on from `text`, in an index where some sections are called `name`."""
    documents = [Document(id="e", title="", text=text, metadata={"language": language})]
    documents += [Document(id=f"t{i}", title="", text=f"# {name}\n\n....\n") for i in range(sections)]
    documents += [Document(id=f"o{i}", title="", text=f"{other}\n") for i, other in enumerate(others)]
    reader = reader_of(*documents)
    candidates = candidates_of(reader, {text[:5]: 0.8})
    reached = Follower(candidates.pool, reader, [], 1).follow(candidates)
    return {found.name for links in reached.values() for found in links}


@pytest.mark.parametrize(
    ("language", "text", "name"),
    [
        ("de", "Die Einstellung nutzt Umgebungsvariablen.", "Umgebungsvariablen"),
        ("zh", "应用通过环境变量来配置。", "环境变量"),
        ("ja", "アプリは依存関係を使う。", "依存関係"),
        ("ar", "بني الجسر في القاهرة.", "القاهرة"),
        ("hi", "इसका नाम उज्जैन है।", "उज्जैन"),
        ("tr", "Bu köprü Ankara'nın simgesidir.", "Ankara"),
    ],
)
def test_a_rare_title_leads_on_in_every_script_and_a_common_heading_does_not(
    language: str, text: str, name: str
) -> None:
    folded = {" ".join(words_of(name).folded)} | {"".join(words_of(name).folded)}
    reached = names_reached(text, name, language=language)
    assert len(reached) == 1 and reached <= folded
    assert names_reached(text, name, [f"{i} {name} {i}." for i in range(40)], language=language) == set()


def test_a_word_like_any_other_leads_on_only_to_one_section() -> None:
    assert (
        names_reached(
            "Die Seite nennt Umgebungsvariablen.", "Umgebungsvariablen", ["Das ist auf der Seite und die."], 2
        )
        == set()
    )


def test_links_are_grouped_by_section_without_unread_definitions() -> None:
    pool = candidates_of(reader_of(FILMS), {}).pool
    sections = {section_of(leaf): i for i, leaf in sorted(pool.leaves.items(), reverse=True)}
    first, other = sections["films", ("Silent Rain",)], sections["films", ("Snow",)]
    document, opening, unread = Definition(0, first, 9), Definition(0, first, 1), Definition(0, 999, 1)
    reached = {
        document: [link(0.5, "a")],
        opening: [link(0.2, "b")],
        unread: [link(0.9)],
        Definition(0, other, 1): [link(0.1)],
    }
    assert by_section(pool, reached) == {
        section_of(pool.leaves[first]): [link(0.5, "a"), link(0.2, "b")],
        section_of(pool.leaves[other]): [link(0.1)],
    }


def test_the_first_leaves_of_a_long_definition_are_read_once() -> None:
    read = leaves_of([Definition(0, 10, 99), Definition(0, 12, 2), Definition(0, 3, 1)], {11: None})
    assert read == [10, *range(12, 10 + LEAVES), 3]


def test_a_sentence_with_the_asked_relation_leads_on_strongly() -> None:
    text = "# Silent Rain\n\nSilent Rain is a drama. It was directed by Ada Moor. Ben Cole wept.\n"
    film = Document(id="film", title="Film", text=text)
    people = [Document(id=name, title=name, text=f"# {name}\n\nBorn in a town.\n") for name in ("Ada Moor", "Ben Cole")]
    reader = reader_of(film, *people)
    relevance = {"Silent Rain is": 0.8, "It was directed": 0.1, "Ben Cole wept": 0.1}

    def strength(signals: PoolSignals) -> dict[str, float]:
        candidates = candidates_of(reader, relevance, signals=signals)
        reached = Follower(candidates.pool, reader, [Mention("silent rain", 5, 7)], 3).follow(candidates)
        return {found.name: found.strength for links in reached.values() for found in links}

    assert strength(NONE) == pytest.approx({"ada moor": 0.1, "ben cole": 0.1})  # the question names no section yet
    sentences = candidates_of(reader, relevance).pool.sentences
    section = next(s.section for s in sentences if s.text.startswith("Silent Rain is"))
    assert strength(PoolSignals({section: "silent rain"})) == pytest.approx({"ada moor": EVEN * 0.8, "ben cole": 0.1})


def test_a_year_leads_nowhere() -> None:
    reader = reader_of(FILMS, Document(id="y", title="Years", text="# 1931\n\nIn this year much was filmed.\n"))
    candidates = candidates_of(reader, {"Silent Rain is": 0.8})
    reached = Follower(candidates.pool, reader, [Mention("silent rain", 5, 7)], 1).follow(candidates)
    assert {found.name for links in reached.values() for found in links} == {"ada moor"}
