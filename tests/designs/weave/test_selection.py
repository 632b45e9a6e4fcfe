"""Costs and worth of candidates, computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.budget import Packer
from mergewise.assemble.fragments import Candidate, passages_of
from mergewise.designs.weave.evidence import Candidates, PoolSignals, QuestionAspects, SentencePool
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.selection import HALF, LEFT_OUT, LENGTH_POWER, SURE, Prices, objective_of, select
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.text.blocks import SEPARATOR, render
from mergewise.types import Document, Step
from tests.designs.weave.support import FILMS, reader_of
from tests.support import HashEmbedder


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def candidates_of(
    question: str,
    *documents: Document,
    embedder: HashEmbedder | None = None,
    relevance: float = 0.5,
    signals: PoolSignals | None = None,
) -> Candidates:
    reader = reader_of(*documents, embedder=embedder)
    pool = SentencePool(QuestionAspects.of(question, reader.question_vector(question)), {})
    pool.add(reader.sentences(range(60)).values())
    return Candidates(pool, signals or PoolSignals(), np.full(len(pool), relevance, np.float32))


def at(candidates: Candidates, *starts: str) -> list[int]:
    texts = [sentence.text for sentence in candidates.pool.sentences]
    return [next(i for i, text in enumerate(texts) if text.startswith(start)) for start in starts]


def test_a_heading_is_paid_once_a_section_and_a_title_once_a_document() -> None:
    candidates = candidates_of("q", FILMS)
    chosen = at(candidates, "Silent Rain is", "It was shot", "Loud Snow is")
    prices = Prices([candidates.pool.sentences[i] for i in chosen], Models(characters))
    first, second, third = (len(candidates.pool.sentences[i].text) for i in chosen)
    line, title, rain = len("[9] ›\n"), len(" Films"), len(" Silent Rain")
    # Texts that begin with the name of their section show it.
    assert prices.cost([0], frozenset()) == line + title + first
    assert prices.cost([1], frozenset()) == line + title + rain + second
    assert prices.cost([0, 1], frozenset()) == line + title + first + second + len(SEPARATOR)
    assert prices.cost([1], frozenset([0])) == second + len(SEPARATOR)
    assert prices.cost([2], frozenset([1])) == line + third + len(SEPARATOR)
    assert prices.cost([1, 2], frozenset([0])) == prices.cost([1], frozenset([0])) + prices.cost([2], frozenset([0, 1]))
    # Gains are compared by lines with all their levels.
    assert prices.cost([2], frozenset([1]), shared=False) == prices.cost([2], frozenset([1])) + title
    assert prices.cost([1], frozenset([0]), shared=False) == prices.cost([1], frozenset([0]))
    assert (prices.cheaper([0], frozenset()), prices.cheaper([2], frozenset([0]))) == ({0, 1}, {2})
    # Later ones of a section only join their neighbours, unless a sentence needs others.
    assert prices.cheaper([0], frozenset([1])) == {1}
    apart = Prices([candidates.pool.sentences[i] for i in at(candidates, "Silent Rain is")] * 2, Models(characters))
    assert apart.cheaper([1], frozenset([0])) == set()
    needing = Prices([candidates.pool.sentences[i] for i in chosen], Models(characters), frozenset([1, 2]))
    assert needing.cheaper([1], frozenset([0, 1])) == {0, 1}
    assert prices.tokens.tolist() == [len(candidates.pool.sentences[i].text) for i in chosen]


@given(st.data())
def test_prices_cover_the_rendered_context(data: st.DataObject) -> None:
    sections = "# Rain\n\n## Aims\n\nAims are many. They grow.\n\n### Rain\n\nWet. Cold.\n\n## Ends\n\nAll. Of it.\n"
    sentences = candidates_of("q", FILMS, Document("r", f"Rain falls. It stops.\n\n{sections}", "Rain")).pool.sentences
    order = data.draw(st.lists(st.sampled_from(range(len(sentences))), min_size=1, max_size=9, unique=True))
    fragments = [sentences[i].fragment for i in order]
    text = render(passages_of([Candidate((fragment,), 1.0) for fragment in fragments], "document"))
    # A heading that its section shows already is not refunded when a text that begins with it comes.
    for counter, slack in ((characters, 80), (count_tokens, 12)):
        prices = Prices(sentences, Models(counter))
        cost = sum(prices.cost([at], frozenset(order[:number])) for number, at in enumerate(order))
        packer: Packer[Candidate] = Packer(10_000, counter, "skip", True)
        packer.fill([Candidate((fragment,), 1.0) for fragment in fragments])
        context = packer.context("q", lambda taken: passages_of(taken, "document"))
        assert context.text == text and context.tokens == counter([text])[0]
        assert 0 <= cost - counter([text])[0] <= slack


def test_stored_tokens_are_used_if_they_match_the_counter() -> None:
    asked: list[str] = []

    def counting(texts: Sequence[str]) -> list[int]:
        asked.extend(texts)
        return count_tokens(texts)

    sentences = candidates_of("q", FILMS).pool.sentences
    stored = Prices(sentences, Models(counting, stored_tokens=True)).counts
    assert not {sentence.text for sentence in sentences} & set(asked)
    assert stored == Prices(sentences, Models(count_tokens)).counts


def test_worth_is_relevance_times_a_power_of_the_length() -> None:
    candidates = candidates_of("q", FILMS)
    objective = objective_of(candidates, [0, 1], candidates.relevance[[0, 1]], np.array([16, 1], np.float32), Weave())
    assert objective.worth.tolist() == pytest.approx([0.5 * 16**LENGTH_POWER, 0.5])
    assert objective.similarity.tolist() == np.eye(2).tolist()  # no vectors, so nothing is alike


@pytest.mark.parametrize(("question", "half"), [("Silent directed", HALF), ("List silent directed", HALF / 2)])
def test_aspects_are_the_questions_terms(question: str, half: float) -> None:
    candidates = candidates_of(question, FILMS)
    chosen = at(candidates, "Silent Rain is", "Loud Snow is", "The budget")
    candidates.relevance[chosen[1]] = SURE / 4
    objective = objective_of(
        candidates, chosen, candidates.relevance[chosen], np.ones(3, np.float32), Weave(coverage=0.3)
    )
    rows = dict(zip(sorted(candidates.pool.asked.terms), objective.aspects.tolist(), strict=True))
    assert rows["silent"] == pytest.approx([half, 0, 0])
    assert rows["direct"] == pytest.approx([half, half / 4, 0])
    most = 0.5 + SURE / 4 + 0.5
    shares = [candidates.pool.share([term]) for term in sorted(candidates.pool.asked.terms)]
    assert objective.weights.tolist() == pytest.approx([0.3 * most * share for share in shares])


def test_both_sides_of_a_comparison_are_aspects_of_their_own() -> None:
    named = {("films", ("Silent Rain",)): "silent rain", ("films", ("Loud Snow",)): "loud snow", ("x", ()): "y"}
    candidates = candidates_of("Which came first, Silent Rain or Loud Snow?", FILMS, signals=PoolSignals(named))
    chosen = at(candidates, "Silent Rain is", "It was shot", "Loud Snow is")
    objective = objective_of(
        candidates, chosen, candidates.relevance[chosen], np.ones(3, np.float32), Weave(coverage=0.3)
    )
    terms = len(candidates.pool.asked.terms)
    assert objective.aspects[terms:].tolist() == [[0.5, 0.5, 0], [0, 0, 0.5]]
    assert objective.weights[terms:].tolist() == pytest.approx([0.3 * 1.5 / 2] * 2)


def test_a_near_duplicate_covers_nothing_again() -> None:
    copies = [Document(id=f"d{i}", title="", text="The knurled ring of the valve is turned.") for i in range(2)]
    candidates = candidates_of("knurled ring", *copies, embedder=HashEmbedder())
    tokens: FloatArray = np.ones(2, np.float32)
    objective = objective_of(candidates, [0, 1], candidates.relevance[[0, 1]], tokens, Weave())
    assert objective.similarity.tolist() == pytest.approx(np.ones((2, 2)), abs=1e-3)
    assert objective.aspects[:, 0].tolist() == pytest.approx([HALF, HALF])
    assert objective.aspects[:, 1].tolist() == pytest.approx([0, 0], abs=1e-3)
    apart = objective_of(candidates, [0, 1], candidates.relevance[[0, 1]], tokens, Weave(redundancy=False))
    assert apart.similarity.tolist() == np.eye(2).tolist() and apart.aspects[:, 1].tolist() == [HALF, HALF]


def test_a_sentence_that_needs_the_one_before_comes_with_it_or_not_at_all() -> None:
    text = (
        "The relief valve sits on top of the pump.\nThis one is opened by the frobnicator.\n\nOther words follow here."
    )
    candidates = candidates_of("frobnicator", Document(id="d", title="", text=text), relevance=0.01)
    valve, needing = at(candidates, "The relief", "This one")
    candidates.relevance[needing] = 0.9
    models = Models(count_tokens)
    prices = Prices(candidates.pool.sentences, models)
    alone, both = prices.cost([needing], frozenset()), prices.cost([valve, needing], frozenset())
    assert select(candidates, both, models, Weave(), [])[0] == [valve, needing]
    assert needing not in select(candidates, both - 1, models, Weave(), [])[0]
    assert select(candidates, alone, models, Weave(previous=False), [])[0] == [needing]


def test_the_trace_gives_reasons_and_lists_left_out_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.designs.weave.selection.worthwhile", lambda *given: 1)
    signals = PoolSignals({("films", ("Silent Rain",)): "silent rain"})
    candidates = candidates_of("Where was Silent Rain shot?", FILMS, relevance=0.01, signals=signals)
    (shot,) = at(candidates, "It was shot")
    candidates.relevance[shot] = 0.9
    trace: list[Step] = []
    chosen, _ = select(candidates, 500, Models(count_tokens), Weave(price=1.0), trace)
    assert chosen == [shot]
    taken, stopped, *left = trace
    assert (taken.action, taken.inputs) == ("take", (candidates.pool.sentences[shot].span,))
    assert taken.reason == "the question names “silent rain”; covers: shot"
    assert stopped.action == "stop" and f"{len(candidates.pool) - 1} sentences left out" in stopped.reason
    assert [step.action for step in left] == ["left"] * min(LEFT_OUT, len(candidates.pool) - 1)
    assert not {span for step in left for span in step.inputs} & set(taken.inputs)


def test_a_lone_tag_is_not_selected() -> None:
    text = "<Note>\n\nThe frobnicator opens the valve of the pump.\n\n</Note>\n"
    candidates = candidates_of("frobnicator", Document(id="d", title="", text=text), relevance=0.5)
    (said,) = at(candidates, "The frobnicator")
    assert len(candidates.pool) == 3
    assert select(candidates, 100, Models(count_tokens), Weave(), [])[0] == [said]
    # neither alone nor as what code needs, unless the code is selected
    text = "<Note>\n\n```js\nfrobnicate(the, valve, of, the, pump, at, once);\n```\n"
    candidates = candidates_of("frobnicator", Document(id="d", title="", text=text), relevance=0.5)
    assert [select(candidates, budget, Models(count_tokens), Weave(), [])[0] for budget in (12, 100)] == [[], [0, 1]]
