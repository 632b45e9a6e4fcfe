"""A question in two steps: the context first, the answer later. Both together are `ask`, whatever became of the index between."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.models.scripted import ScriptedChat
from tests.support import HashEmbedder

TEXTS = {
    "cats.md": "# Cats\n\nCats eat fish. Cats sleep sixteen hours a day.\n\n## Kittens\n\nKittens drink milk.\n",
    "dogs.md": "# Dogs\n\nDogs bark at night. Dogs eat meat.\n",
    "birds.md": "# Birds\n\nBirds eat seeds. Owls, which are birds, eat mice.\n",
}
QUESTION = "What do cats eat?"
REPLY = "Cats eat fish [1], and nobody eats [99] dogs [2]."


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    index = mw.open(tmp_path / "index", embedder=HashEmbedder(), chat=ScriptedChat([REPLY] * 20))
    index.add(mw.Document(name, text) for name, text in TEXTS.items())
    return index


@pytest.mark.parametrize("mode", ["extractive", "r&b", "r&l", "closed-book", None])
@pytest.mark.parametrize("strategy", ["weave", "topk"])
def test_both_steps_together_are_one(index: mw.Index, mode: str | None, strategy: str) -> None:
    whole = index.ask(QUESTION, mode=mode, strategy=strategy, budget=60)
    prepared = index.prepare(QUESTION, mode=mode, strategy=strategy, budget=60)
    assert prepared.mode == whole.mode and prepared.context == whole.context
    assert prepared.context.evidence == whole.context.evidence
    assert prepared.answer() == whole == prepared.answer()


@pytest.mark.parametrize("mode", ["extractive", "r&b", "r&l"])
def test_what_is_prepared_needs_no_index_any_more(index: mw.Index, mode: str) -> None:
    whole = index.ask(QUESTION, mode=mode, strategy="topk")
    prepared = index.prepare(QUESTION, mode=mode, strategy="topk")
    index.close()
    shutil.rmtree(index.store.directory)
    answer = prepared.answer()
    assert answer == whole and {citation.headings for citation in answer.citations}
    assert [citation.line for citation in answer.citations] == [citation.line for citation in whole.citations] != []
    located = prepared.locations()
    assert {span for passage in prepared.context.passages for span in passage.spans} == located.keys()
    assert all(location.line is not None for location in located.values())


def test_an_answer_shows_its_pieces_and_says_which_mode_was_preferred(index: mw.Index) -> None:
    prepared = index.prepare(QUESTION, strategy="aed", budget=60)
    assert prepared.answer() == index.ask(QUESTION, strategy="aed", budget=60)
    assert (prepared.answer().mode, prepared.answer().instead_of) == ("aed-best", "aed")
    streamed = index.prepare(QUESTION, mode="r&b")
    assert "".join(streamed.answer_stream()) == streamed.answer().text == "Cats eat fish [1], and nobody eats dogs [2]."


def test_a_follow_up_keeps_the_question_as_it_was_asked(index: mw.Index) -> None:
    first = index.ask(QUESTION, mode="extractive")
    prepared = index.prepare("And when do they sleep?", history=[first], mode="extractive")
    assert prepared.question == "And when do they sleep?" == prepared.answer().question
    assert prepared.answer() == index.ask("And when do they sleep?", history=[first], mode="extractive")


def test_preparing_is_awaited_and_so_is_answering(index: mw.Index) -> None:
    async def ask() -> tuple[mw.Answer, list[str]]:
        prepared = await index.aprepare(QUESTION, mode="r&b")
        stream = prepared.aanswer_stream()
        return await prepared.aanswer(), [piece async for piece in stream]

    answer, pieces = asyncio.run(ask())
    assert answer.text == "".join(pieces) and answer.citations


def test_what_cannot_be_asked_is_refused_before_a_model_is_called(index: mw.Index) -> None:
    assert isinstance(index.chat, ScriptedChat)
    for wrong in ({"mode": "poetry"}, {"budget": 0}, {"max_tokens": 0}, {"strategy": "magic"}, {"where": "year >"}):
        with pytest.raises(mw.UsageError):
            index.prepare(QUESTION, **wrong)
    assert not index.chat.asked


def test_locations_say_page_line_and_address(index: mw.Index) -> None:
    index.add(
        mw.Document(
            "paged", "Lynxes hunt hares.\nLynxes live in woods.", pages=(mw.Page(7, 0, 19), mw.Page(8, 19, 40))
        ),
        mw.Document("web.txt", "one\n\nZebras have stripes.", metadata={"url": "https://example.org/zebra"}),
        mw.Document("bad.txt", "Gnus wander.", metadata={"url": "javascript:alert(1)"}),
    )

    def located(question: str) -> mw.Location:
        context = index.context(question, strategy="topk", budget=20)
        return index.locations(context)[context.passages[0].spans[0]]

    assert located("Where do lynxes live?").page in (7, 8) and located("Where do lynxes live?").line is None
    assert located("What do zebras have?").url == "https://example.org/zebra"
    assert located("Do gnus wander?") == mw.Location(None, 1, None)
