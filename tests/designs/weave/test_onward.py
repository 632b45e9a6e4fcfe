"""The second search: its query, its results, and the unchanged scores of the first search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.weave.evidence import Candidates, PoolSignals, QuestionAspects, SentencePool, features_of
from mergewise.designs.weave.hops import Follower, named_definitions, open_question
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import gather
from mergewise.protocols import OrderedBy
from mergewise.types import Document, Step
from tests.designs.weave.support import reader_of
from tests.support import ScriptedReader, memory_store

QUESTION = "What is the most popular hotel in the town where Ada Moor was born?"
ADA = Document(id="ada", title="Ada", text="# Ada Moor\n\nAda Moor was born in Faro. She liked tea.\n")
COAST = Document(id="coast", title="Coast", text="# Travel notes\n\nIn Faro the Eva is a popular hotel.\n")
OTHERS = [
    Document(id=f"o{i}", title=f"Other {i}", text=f"# Town {i}\n\nAda was born where a hotel of town {i} is popular.\n")
    for i in range(4)
]


def open_query(question: str, *texts: str) -> str | None:
    """Return the query of a second search after the sentences of one section, in falling relevance."""
    reader = reader_of(Document(id="d", title="", text=" ".join(texts)))
    pool = SentencePool(QuestionAspects.of(question, np.ones(4, np.float32)), {})
    pool.add(reader.sentences(range(30)).values())
    candidates = Candidates(pool, PoolSignals(), np.linspace(1, 0.5, len(pool), dtype=np.float32))
    names, _ = named_definitions(pool.asked, reader)
    asked = open_question(candidates, Follower(pool, reader, names, 12)) if len(pool) else None
    return None if asked is None else asked[0]


def test_open_words_are_searched_with_the_names_in_the_evidence() -> None:
    open_ = open_query(QUESTION, "Ada Moor was born in Faro.", "She liked tea.")
    assert open_ is not None
    words = open_.split()
    assert {"popular", "hotel", "town", "Faro"} <= set(words)
    assert not {"Ada", "Moor", "born", "She", "tea"} & set(words)


def test_the_query_holds_no_sentences_of_scripts_without_spaces() -> None:
    query = open_query("谁设计了红色磨坊，她在哪里出生？", "红色磨坊由 Ada Brix 在一八五零年设计完成并且交付使用。")
    assert query is not None and {"Ada", "Brix"} <= set(query.split())
    assert "设计完成并且交付使用" not in query


@pytest.mark.parametrize(
    "texts",
    [
        ("The most popular hotel of the town where Ada Moor was born is the Eva.",),  # nothing is open
        ("Ada Moor was born here.",),  # no further name
        (),
    ],
)
def test_no_second_search_without_open_words_or_names(texts: tuple[str, ...]) -> None:
    assert open_query(QUESTION, *texts) is None


def test_no_second_search_where_nothing_confirms_the_evidence() -> None:
    reader = reader_of(ADA, COAST)
    pool = SentencePool(QuestionAspects.of(QUESTION, None), {})
    pool.add(reader.sentences(range(30)).values())
    candidates = Candidates(pool, PoolSignals(), np.full(len(pool), 0.9, np.float32))
    follower = Follower(pool, reader, [], 12)
    assert open_question(candidates, follower) is None
    named = replace(candidates, signals=PoolSignals({pool.sentences[0].section: "ada moor"}))
    assert open_question(named, follower) is not None


class Recording(ScriptedReader):
    """A reader that ranks by script and records its queries."""

    asked: list[str]

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        self.asked = [*getattr(self, "asked", []), question]
        return super().rank(question, k)


def gathered(parameters: Weave, documents: Sequence[Document] = (ADA, COAST, *OTHERS)) -> tuple[Candidates, list[Step]]:
    trace: list[Step] = []
    return gather(QUESTION, reader_of(*documents), parameters, trace), trace


def test_it_finds_sections_that_do_not_define_the_name() -> None:
    alone, _ = gathered(Weave(k=1, onward=0))
    assert not any("Eva" in sentence.text for sentence in alone.pool.sentences)
    candidates, trace = gathered(Weave(k=1, onward=3))
    (leaf,) = {s.leaf.id for s in candidates.pool.sentences if "Eva" in s.text}
    assert leaf in candidates.signals.onward and leaf not in candidates.pool.scores
    assert any(step.action == "search" and "Faro" in step.reason for step in trace)


def test_leaves_of_the_first_search_are_judged_as_before() -> None:
    candidates, _ = gathered(Weave(k=60, onward=20))
    pool, signals = candidates.pool, candidates.signals
    assert not signals.onward.keys() & pool.scores.keys()
    onward = features_of(pool, signals)[:, -1]
    assert all(onward[i] == 0 for i, s in enumerate(pool.sentences) if s.leaf.id in pool.scores)


def test_at_most_one_second_search_and_never_without_hops() -> None:
    for hops, most in ((0, 1), (1, 2), (3, 2)):
        reader = Recording(memory_store([ADA, COAST, *OTHERS]), {})
        gather(QUESTION, reader, Weave(hops=hops), [])
        assert len(getattr(reader, "asked", [])) <= most


@given(st.text(max_size=80), st.lists(st.text(min_size=1, max_size=60), max_size=4))
def test_any_text_gives_a_question_or_none(question: str, texts: list[str]) -> None:
    asked = open_query(question, *texts)
    assert asked is None or asked.strip()
