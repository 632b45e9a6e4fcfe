"""The judge of contexts: lost texts, the stage of their loss, and the texts found instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import mergewise
from mergewise.evaluate.judged import CHARACTERS, ContextJudge, LostStage, found_texts, lost_texts, unheld_questions
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.question_sets import Question
from mergewise.types import Cause, Context, Document, Page, Passage, Span, Step

TEXT = "Cats sleep.\nDogs bark at night.\nFish swim.\n"
CATS, DOGS, FISH = Span("d.txt", 0, 11), Span("d.txt", 12, 31), Span("d.txt", 32, 42)
DOCUMENT = Document("d.txt", TEXT)


def context(*spans: Span, trace: Sequence[Step] = ()) -> Context:
    passages = tuple(Passage(TEXT[s.start : s.end], 1.0 / n, (s,)) for n, s in enumerate(spans, 1))
    return Context("?", "s", 9, "\n".join(passage.text for passage in passages), 5, passages, tuple(trace))


def lookup(doc_id: str) -> Document | None:
    return DOCUMENT if doc_id == "d.txt" else None


def question(gold: Span | None, *answers: str) -> Question:
    return Question("1", "?", answers or ("bark",), None if gold is None else ((gold, "Dogs bark at night."),))


SEARCH = Step("search", "", (CATS, DOGS, FISH))


@pytest.mark.parametrize("gold", [DOGS, Span("", 0, 19), Span("gone.txt", 12, 31), Span("d.txt", 3, 22), None])
@pytest.mark.parametrize(
    ("trace", "stage"),
    [
        ([], LostStage.UNFOUND),
        ([Step("search", "", (CATS, FISH))], LostStage.UNFOUND),
        ([SEARCH], LostStage.OUTRANKED),
        ([SEARCH, Step("skip", "", (DOGS,))], LostStage.SKIP),
        ([SEARCH, Step("left", "", (DOGS,)), Step("skip", "", (FISH,))], LostStage.LEFT),
        ([SEARCH, Step("skip", "", (DOGS,)), Step("give up", "", (DOGS,), cause=Cause.STOP)], LostStage.STOP),
        ([SEARCH, Step("take", "", (DOGS,)), Step("drop", "", (DOGS,))], LostStage.DROP),
    ],
)
def test_the_stage_is_the_last_one_in_the_trace(gold: Span | None, trace: list[Step], stage: LostStage) -> None:
    """The place of the gold text may be known, wrong, or missing."""
    (lost,) = lost_texts(question(gold), context(CATS, trace=trace), lookup)
    assert lost.stage is stage
    assert lost.text == ("bark" if gold is None else "Dogs bark at night.")


def test_a_gold_text_may_be_held_in_part() -> None:
    (lost,) = lost_texts(question(DOGS), context(Span("d.txt", 12, 21), trace=[SEARCH]), lookup)
    assert lost.stage is LostStage.PART


def test_held_texts_are_not_lost() -> None:
    assert lost_texts(question(DOGS), context(DOGS), lookup) == ()
    assert lost_texts(question(None, "purr", "bark"), context(DOGS), lookup) == ()
    assert lost_texts(question(None, "..."), context(CATS), lookup) == ()


@pytest.mark.parametrize(
    ("trace", "stage"),
    [([], LostStage.UNFOUND), ([SEARCH], LostStage.OUTRANKED), ([SEARCH, Step("skip", "", (DOGS,))], LostStage.SKIP)],
)
def test_lost_gold_documents(trace: list[Step], stage: LostStage) -> None:
    asked = Question("1", "?", ("bark",), None, gold_docs=("gone.txt", "d.txt"), grades=(1, 2))
    other = Context("?", "s", 9, "Dogs bark.", 5, (Passage("Dogs bark.", 1.0, (Span("e", 0, 9),)),), tuple(trace))
    lost = lost_texts(asked, other, lookup)
    assert [(one.text, one.stage) for one in lost] == [("d.txt", stage), ("gone.txt", LostStage.NOWHERE)]
    (lost_one,) = lost_texts(asked, context(CATS), lookup)
    assert lost_one.text == "gone.txt"


def test_with_gold_documents_only_other_scores_are_none(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add([DOCUMENT])
    asked = Question("1", "?", (), None, gold_docs=("d.txt",))
    judged = ContextJudge(index, [asked]).judge(asked, context(DOGS))
    assert [judged.scores[name] for name in (*CONTEXT_SCORES, "recall@1")] == [None] * 4 + [1.0]
    assert judged.lost == ()


def test_answers_in_no_document(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add([DOCUMENT, Document("e.txt", "A cow moos.")])
    asked = [
        Question("held", "?", ("barks", "bark"), None),
        Question("nowhere", "?", ("purr", "arks"), None),
        Question("marked", "?", ("purr",), ((DOGS, "Dogs bark at night."),)),
        Question("none", "?", (), None),
    ]
    assert unheld_questions(asked, index) == {"nowhere"}
    judge = ContextJudge(index, asked)
    (lost,) = judge.judge(asked[1], context(CATS, trace=[SEARCH])).lost
    assert lost.stage is LostStage.NOWHERE


def test_large_indexes_are_not_scanned_for_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(DOCUMENT)
    monkeypatch.setattr("mergewise.evaluate.judged.SCANNED", len(TEXT) - 1)
    assert unheld_questions([question(None, "purr")], index) == frozenset()


def test_found_texts_have_their_place() -> None:
    paged = Document("p.pdf", "One.\nTwo.", pages=(Page(1, 0, 5), Page(2, 5, 9)))
    long = Document("long.txt", "word " * 200)
    passages = [
        Passage("Fish swim.", 0.1, (FISH,)),
        Passage("Two.", 0.9, (Span("p.pdf", 5, 9),)),
        Passage(long.text, 0.5, (Span("long.txt", 0, 1000),)),
        Passage("Cats sleep.", 0.05, (CATS,)),
        Passage("by a model", 2.0, (), verbatim=False),
    ]
    many = Context("?", "s", 9, "", 5, tuple(passages))
    found = found_texts(many, {"d.txt": DOCUMENT, "p.pdf": paged, "long.txt": long}.get)
    assert [one.place for one in found] == ["p.pdf p. 2", "long.txt:1", "d.txt:3"]
    assert found[0].text == "Two." and len(found[1].text) <= CHARACTERS and found[1].text.endswith("…")


def test_a_question_without_an_answer_has_no_scores(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(DOCUMENT)
    asked = Question("1", "?", (), None)
    judged = ContextJudge(index, [asked]).judge(asked, context(CATS))
    assert set(judged.scores.values()) == {None} and judged.lost == ()
    marked = Question("2", "?", (), ((DOGS, "Dogs bark at night."),))
    held = ContextJudge(index, [marked]).judge(marked, context(DOGS))
    assert [held.scores[name] for name in ("answer", "evidence", "all")] == [None, 1.0, 1.0] and held.lost == ()
    assert [one.place for one in judged.found] == ["d.txt:1"]
