"""The features of evidence against literal loops, one sentence at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import VIEWS
from mergewise.designs.weave.evidence import (
    FEATURES,
    TEXT_WEIGHTS,
    WEIGHTS,
    Link,
    PoolSignals,
    QuestionAspects,
    SentencePool,
    features_of,
    judge,
)
from mergewise.index.tree import TreeSettings
from mergewise.retrieve.hybrid import HybridReader
from mergewise.text.names import Mention
from mergewise.text.terms import content_terms
from mergewise.types import Document
from tests.designs.weave.support import FILMS, MANUAL, reader_of
from tests.support import HashEmbedder, memory_store, new_store, rows_of
from tests.support import reader_of as stored

QUESTION = "When was the director of Silent Rain born?"
NONE = PoolSignals()
WORDS = st.sampled_from(
    "Ada Moor rain. silent Snow It was the director born 1931 This of, été 東京 - x\n\n# A\n\n# Rain\n\n".split(" ")
)
TEXTS = st.lists(WORDS, min_size=1, max_size=40).map(" ".join).filter(str.strip)


def literal(pool: SentencePool, row: int, signals: PoolSignals = NONE) -> dict[str, float]:
    """Compute the features of one sentence from the texts, the scores of leaves, the named sections and the links alone."""
    asked, question = pool.asked, content_terms(pool.asked.text)
    everything = pool.sentences
    weights = literal_weights(pool)
    vector = asked.vector

    def terms(i: int) -> frozenset[str]:
        return question & content_terms(everything[i].text)

    def covered(i: int) -> frozenset[str]:
        leaf = everything[i].leaf
        return terms(i) | question & content_terms(" ".join((leaf.title, *leaf.headings)))

    def share(some: frozenset[str]) -> float:
        return sum(weights[term] for term in some)

    def cosine(i: int) -> float:
        sentence = everything[i]
        if vector is None or sentence.leaf.vectors is None:
            return 0.0
        return float(sentence.leaf.vectors[sentence.number] @ vector)

    def score(i: int) -> float:
        return pool.scores.get(everything[i].leaf.id, 0.0)

    def rank() -> float:
        own = pool.scores.get(everything[row].leaf.id)
        if own is None or signals.named:
            return 0.0
        leaves = list(pool.scores)
        before = leaves[: leaves.index(everything[row].leaf.id)]
        better = [leaf for leaf, other in pool.scores.items() if other > own or (other == own and leaf in before)]
        return 1 / (1 + len(better))

    def document(i: int, without_section: bool) -> float:
        doc, section = everything[i].leaf.doc_id, everything[i].section
        return sum(
            score(j)
            for j, other in enumerate(everything)
            if other.leaf.doc_id == doc and not (without_section and other.section == section)
        )

    count = range(len(everything))
    own = everything[row]
    leaf = own.leaf
    in_section = [i for i in count if everything[i].section == own.section]
    best = max(in_section, key=lambda i: round(share(terms(i)) + cosine(i), 5))
    links = signals.links.get(own.section, [])
    return {
        "cosine": cosine(row) - max(map(cosine, count)),
        "leaf": score(row),
        "rank": rank(),
        "exact": 0.0,
        "onward": signals.onward.get(leaf.id, 0.0),
        "terms": share(terms(row)) / max(1e-6, *(share(terms(i)) for i in count)),
        "path_terms": share(covered(row)),
        "document": document(row, False) / max(1e-6, *(document(i, False) for i in count)),
        "elsewhere": document(row, True) / max(1e-6, *(document(i, True) for i in count)),
        "first": float(own.number == 0 and (leaf.body > leaf.start or leaf.start == 0)),
        "named": float(own.section in signals.named and row == best),
        "length": min(own.tokens, 100) / 50,
        "offers": float(re.search(r"\b(?:1[0-9]|20)\d\d\b", own.text) is not None),
        "link": max((link.strength for link in links), default=0.0),
        "near": max((link.strength for link in links if link.near), default=0.0),
        "rest": max(
            (link.strength * share(terms(row) & (question - covered(link.evidence))) for link in links), default=0.0
        ),
    }


def literal_weights(pool: SentencePool) -> dict[str, float]:
    """Compute BM25's idf over the leaves, scaled to sum to 1."""
    leaves = {sentence.leaf.id: sentence.leaf for sentence in pool.sentences}
    held = []
    for leaf in leaves.values():
        shown = [leaf.text[s.start - leaf.start : s.end - leaf.start] for s in leaf.sentences]
        held.append(content_terms(" ".join((leaf.title, *leaf.headings))) | content_terms("\n".join(shown)))
    asked = content_terms(pool.asked.text)
    counts = {term: sum(term in terms for terms in held) for term in asked}
    raw = {term: math.log(1 + (len(held) - n + 0.5) / (n + 0.5)) for term, n in counts.items()}
    return {term: value / sum(raw.values()) for term, value in raw.items()}


def candidates_of(
    documents: list[Document], embedder: HashEmbedder | None, k: int = 40, weights: Mapping[str, float] | None = None
) -> SentencePool:
    reader = reader_of(*documents, embedder=embedder)
    scores = dict(reader.rank(QUESTION, k))
    pool = SentencePool(QuestionAspects.of(QUESTION, reader.question_vector(QUESTION)), scores, weights)
    pool.add(reader.sentences(range(12)).values())
    return pool


@given(st.lists(TEXTS, min_size=1, max_size=3), st.booleans(), st.data())
def test_features_match_their_definition(texts: list[str], embedded: bool, data: st.DataObject) -> None:
    documents = [Document(id=f"d{i}", title="Été", text=text) for i, text in enumerate(texts)]
    pool = candidates_of(documents, HashEmbedder() if embedded else None)
    if not pool.sentences:
        assert features_of(pool, NONE).shape == (0, len(FEATURES))
        return
    numbers = st.integers(0, len(pool) - 1)
    link = st.builds(Link, numbers, st.just("x"), st.sampled_from([0.25, 0.5, 1.0]), st.booleans())
    with_sentences = sorted(section for section, members in pool.members.items() if members)
    links = data.draw(st.dictionaries(st.sampled_from(with_sentences), st.lists(link, min_size=1, max_size=3)))
    named = data.draw(st.dictionaries(st.sampled_from(sorted(pool.members)), st.just("x")))
    leaves = sorted({sentence.leaf.id for sentence in pool.sentences})
    onward = data.draw(st.dictionaries(st.sampled_from(leaves), st.sampled_from([0.25, 1.0])))
    signals = PoolSignals(named, links, onward)
    marked = set()
    for row, features in enumerate(features_of(pool, signals)):
        found = dict(zip(FEATURES, features.tolist(), strict=True))
        wanted = literal(pool, row, signals)
        if found.pop("named"):
            marked.add(pool.sentences[row].section)
            assert wanted["named"] or embedded  # of equal ones either, and sums of floats differ in their last digit
        del wanted["named"]
        assert found == pytest.approx(wanted, abs=1e-4)
    assert marked == {section for section in signals.named if pool.members[section]}


@pytest.mark.parametrize("weights", [WEIGHTS, {**dict.fromkeys(WEIGHTS, 0.0), "bias": -1.0, "leaf": 2.0}])
def test_relevance_is_the_logistic_of_the_weighted_sum(weights: dict[str, float]) -> None:
    pool = candidates_of([FILMS, MANUAL], HashEmbedder(), weights=weights)
    for row, relevance in enumerate(judge(pool, NONE).relevance.tolist()):
        z = sum(weights[name] * value for name, value in literal(pool, row).items()) + weights["bias"]
        assert relevance == pytest.approx(1 / (1 + math.exp(-z)), rel=1e-3)


def test_rank_is_that_of_the_search_if_the_question_names_no_section() -> None:
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {2: 0.5, 0: 0.9, 3: 0.5})
    pool.add(reader_of(FILMS).sentences([0, 1, 2, 3]).values())

    def ranks(signals: PoolSignals) -> dict[int, float]:
        column = features_of(pool, signals)[:, FEATURES.index("rank")].tolist()
        return {sentence.leaf.id: rank for sentence, rank in zip(pool.sentences, column, strict=True)}

    assert ranks(NONE) == pytest.approx({0: 1.0, 1: 0.0, 2: 1 / 2, 3: 1 / 3})
    assert set(ranks(PoolSignals({pool.sentences[0].section: "silent rain"})).values()) == {0.0}


class EnglishOnly(HashEmbedder):
    """An embedder that knows no language but English."""

    languages = frozenset({"en"})


GERMAN = Document(
    id="pumpe",
    title="Pumpe",
    text="Die Pumpe steht im Keller und wird jeden Tag von einem Techniker geprüft. Das Ventil ist rot und klemmt oft.",
)


def test_text_weights_are_used_without_vectors() -> None:
    def weights(reader: HybridReader, question: str, given: Mapping[str, float] | None = None) -> Mapping[str, float]:
        pool = SentencePool(QuestionAspects.read(question, reader), dict(reader.rank(question, 40)), given)
        pool.add(reader.sentences(range(12)).values())
        assert len(pool)
        return pool.weights

    both, embedder = [FILMS, GERMAN], EnglishOnly()
    reader, german = reader_of(*both, embedder=embedder), "Was ist mit dem Ventil der Pumpe im Keller?"
    assert weights(reader, QUESTION) == WEIGHTS
    assert weights(reader, german) == TEXT_WEIGHTS != WEIGHTS
    assert weights(reader_of(*both), QUESTION) == TEXT_WEIGHTS
    # the question has a vector, but no leaf has one yet
    bare = HybridReader(memory_store(both, None), embedder, VIEWS)
    assert bare.question_vector(QUESTION) is not None
    assert weights(bare, QUESTION) == TEXT_WEIGHTS
    # given weights replace single ones of either
    assert weights(reader, QUESTION, {"leaf": 9.0}) == {**WEIGHTS, "leaf": 9.0}
    assert weights(reader, german, {"leaf": 9.0}) == {**TEXT_WEIGHTS, "leaf": 9.0}


def test_both_tables_have_the_same_features() -> None:
    assert list(TEXT_WEIGHTS) == list(WEIGHTS) == ["bias", *FEATURES]
    assert TEXT_WEIGHTS["cosine"] == 0


def test_weights_are_those_of_the_first_leaves_and_add_up_to_one() -> None:
    reader = reader_of(FILMS)
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add(reader.sentences([0, 1]).values())
    before = literal_weights(pool)
    assert sum(before.values()) == pytest.approx(1)
    pool.add(reader.sentences([1, 2, 3, 4, 5]).values())
    assert len(pool) == len({sentence.span for sentence in pool.sentences}) > 4
    assert {term: pool.share([term]) for term in before} == pytest.approx(before)


@pytest.mark.parametrize(("words", "length"), [(20, None), (95, None), (400, 2.0)])
def test_length_is_in_fifty_tokens_and_at_most_two(words: int, length: float | None) -> None:
    text = " ".join(["pump"] * (words - 1)) + "."
    store = new_store("memory", Path())
    store.write(
        rows_of([Document(id="d", title="", text=text)], settings=TreeSettings(leaf_tokens=500, max_leaf_tokens=999))
    )
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add(stored(store).sentences([0]).values())
    (found,) = features_of(pool, NONE)[:, FEATURES.index("length")].tolist()
    assert found == pytest.approx(length or pool.sentences[0].tokens / 50)


def test_shares_do_not_depend_on_the_order_of_the_terms() -> None:
    pool = candidates_of([FILMS, MANUAL], None)
    pool._term_weights = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 1e-17}
    assert len({pool.share(terms) for terms in permutations("abcd")}) == 1


def test_the_candidate_before_another() -> None:
    text = "# Pumps\n\nPumps press. This one hums.\n\n# Rings\n\nThat ring turns. It clicks.\n"
    reader = reader_of(Document(id="d", title="D", text=text))
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add(reader.sentences([0, 1]).values())
    assert [sentence.text for sentence in pool.sentences] == [
        "Pumps press.",
        "This one hums.",
        "That ring turns.",
        "It clicks.",
    ]
    assert [pool.beside(i, -1) for i in range(4)] == [None, 0, None, 2]
    assert pool.fixed[:4, 4].tolist() == [1, 0, 1, 0]
    assert [pool.needs_previous(i) for i in range(4)] == [False, True, False, False]  # a heading names what "it" is


def test_a_section_goes_on_in_its_next_leaf() -> None:
    line = "The pressure relief valve of pump number {} is opened by the knurled ring. "
    reader = reader_of(Document(id="d", title="D", text="".join(line.format(i) for i in range(6))))
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    leaves = reader.sentences(range(6))
    pool.add([leaves[2], leaves[1]])
    firsts = [i for i, sentence in enumerate(pool.sentences) if sentence.number == 0]
    assert [pool.beside(i, -1) for i in firsts] == [None, firsts[1] - 1]
    lasts = [i - 1 for i in firsts[1:]] + [len(pool) - 1]
    assert [pool.beside(i, 1) for i in lasts] == [firsts[1], None]


def test_an_announcement_comes_with_what_it_announces() -> None:
    text = f"The knurled rings {'of the pumps of this shop ' * 12}are these:\n\nA ring of brass.\n\nNo others.\n"
    reader = reader_of(Document(id="d", title="D", text=text))
    leaves = reader.sentences(range(9))
    told = next(leaf for leaf in leaves.values() if leaf.text.rstrip().endswith(":"))
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add([told])
    last = len(pool) - 1
    assert pool.bundle(last) == (last,) and pool.missing([last]) == [told.id + 1]
    pool.add([replace(leaves[told.id + 1], leads=())])
    assert pool.bundle(last) == (last, last + 1) and pool.missing([last, last + 1]) == []
    assert pool.bundle(last + 1) == (last + 1,)


def test_nothing_follows_the_last_leaf_of_a_document() -> None:
    """Its sections have the next ids, so what is announced at its end cannot be read from another document."""
    told = "The knurled rings of the shop fit these pumps:"
    reader = reader_of(Document(id="a", title="A", text=told), Document(id="b", title="B", text="A ring of brass."))
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add(reader.sentences([0]).values())
    assert pool.bundle(0) == (0,) and not reader.sentences(pool.missing([0]))


def test_a_leaf_without_sentences_has_no_candidates() -> None:
    line = "The pressure relief valve of pump number {} is opened by the knurled ring. "
    reader = reader_of(Document(id="d", title="D", text="".join(line.format(i) for i in range(6))))
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    leaves = reader.sentences(range(3))
    pool.add([replace(leaves[0], sentences=(), leads=()), leaves[1], replace(leaves[2], sentences=(), leads=())])
    assert [pool.at(leaf, number) for leaf in (0, 2) for number in (0, -1)] == [None] * 4
    assert pool.beside(0, -1) is None and pool.at(1, -1) == len(pool) - 1


def test_relations_are_question_words_outside_names() -> None:
    asked = QuestionAspects.of("Where was the director of Silent Rain born?", None)
    assert asked.relations([]) == {"direc", "silen", "rain", "born"}
    assert asked.relations([Mention("silent rain", 5, 7)]) == {"direc", "born"}


def test_related_words_join_the_relations() -> None:
    asked = QuestionAspects.of("Who was the father of Ada Moor?", None)
    assert {"fathe", "daugh", "child"} <= asked.relations([Mention("ada moor", 5, 7)])
    assert "daugh" not in QuestionAspects.of("Where was Ada Moor born?", None).relations([])
