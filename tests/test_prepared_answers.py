"""A question in two steps: first the context, later the answer. Both together equal `ask`, even if the index has changed."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.concurrency import THREADS
from mergewise.jsonable import context_json
from mergewise.models.scripted import ScriptedChat, Turn
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
def test_both_steps_equal_ask(index: mw.Index, mode: str | None, strategy: str) -> None:
    whole = index.ask(QUESTION, mode=mode, strategy=strategy, budget=60)
    prepared = index.prepare(QUESTION, mode=mode, strategy=strategy, budget=60)
    assert prepared.mode == whole.mode and prepared.context == whole.context
    assert prepared.context.evidence == whole.context.evidence
    assert prepared.answer() == whole == prepared.answer()


@pytest.mark.parametrize("mode", ["extractive", "r&b", "r&l"])
def test_prepared_answer_needs_no_index(index: mw.Index, mode: str) -> None:
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


def test_answer_shows_its_pieces_and_the_preferred_mode(index: mw.Index) -> None:
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


def test_preparing_and_answering_can_be_awaited(index: mw.Index) -> None:
    async def ask() -> tuple[mw.Answer, list[str]]:
        prepared = await index.aprepare(QUESTION, mode="r&b")
        stream = prepared.aanswer_stream()
        return await prepared.aanswer(), [piece async for piece in stream]

    answer, pieces = asyncio.run(ask())
    assert answer.text == "".join(pieces) and answer.citations


def test_slow_models_do_not_block_contexts(tmp_path: Path) -> None:
    many = THREADS + 8
    # no answer ends before all have begun
    chat = ScriptedChat([Turn("Cats eat fish [1].", together=many)])
    index = mw.open(tmp_path / "index", embedder="none", chat=chat)
    index.add(mw.Document("cats", "Cats eat fish."))

    async def ask() -> int:
        prepared = await index.aprepare(QUESTION)
        answers = [asyncio.create_task(prepared.aanswer()) for _ in range(many - 1)]
        while chat.transcript.most_at_once < many - 1:
            await asyncio.sleep(0.005)
        assert (await index.acontext(QUESTION)).passages and not any(answer.done() for answer in answers)
        async for _ in prepared.aanswer_stream():
            pass
        await asyncio.gather(*answers)
        return chat.transcript.most_at_once

    assert asyncio.run(ask()) == many


def test_invalid_question_is_refused_before_a_model_call(index: mw.Index) -> None:
    assert isinstance(index.chat, ScriptedChat)
    for wrong in ({"mode": "poetry"}, {"budget": 0}, {"max_tokens": 0}, {"strategy": "magic"}, {"where": "year >"}):
        with pytest.raises(mw.UsageError):
            index.prepare(QUESTION, **wrong)
    assert not index.chat.asked


def test_json_offsets_are_code_points(index: mw.Index) -> None:
    text = "# \U0001f600 Yaks\n\nYaks \U0001f600 give milk.\n"
    index.add(mw.Document("yaks.md", text, "Yaks"))
    prepared = index.prepare("What do yaks give?", strategy="topk", budget=20)
    written = context_json(prepared.context, prepared.locations())
    first = written["passages"][0]
    (span,) = first["spans"]
    assert text[span["start"] : span["end"]] == first["text"] and first["mark"] == 1 and first["doc"] == "yaks.md"
    assert first["line"] == 3 and first["title"] == "Yaks" and written["snapshot"] == index.snapshot
    assert (
        json.loads(json.dumps(written)) == written == context_json(prepared.context, index.locations(prepared.context))
    )


def test_locations_have_page_line_and_address(index: mw.Index) -> None:
    pages = mw.types.Page(7, 0, 19), mw.types.Page(8, 19, 40)
    index.add(
        mw.Document("paged", "Lynxes hunt hares.\nLynxes live in woods.", pages=pages),
        mw.Document("web.txt", "one\n\nZebras have stripes.", metadata={"url": "https://example.org/zebra"}),
        mw.Document("bad.txt", "Gnus wander.", metadata={"url": "javascript:alert(1)"}),
    )

    def located(question: str) -> mw.types.Location:
        context = index.context(question, strategy="topk", budget=20)
        return index.locations(context)[context.passages[0].spans[0]]

    assert located("Where do lynxes live?").page in (7, 8) and located("Where do lynxes live?").line is None
    assert located("What do zebras have?").url == "https://example.org/zebra"
    assert located("Do gnus wander?") == mw.types.Location(None, 1, None)
