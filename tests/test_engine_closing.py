"""An index as a context manager: released resources, and errors of a closed index."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.models import release
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.scripted import ChatServer, ScriptedChat
from mergewise.types import Message

CATS = mw.Document("cats", "Cats eat fish.")


def test_closed_index_raises(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(CATS)
        assert index.ask("What do cats eat?").found
    for use in (
        lambda: index.ask("cats"),
        lambda: index.context("cats"),
        lambda: index.ask_many(["cats"]),
        lambda: index.ask_stream("cats").answer(),
        lambda: asyncio.run(index.aask("cats")),
        lambda: index.add(CATS),
        lambda: index.remove(["cats"]),
        lambda: index.check(),
        lambda: index.documents(),
        lambda: index.document("cats"),
        lambda: len(index),
        lambda: index.manifest,
        lambda: index.embedder,
    ):
        with pytest.raises(mw.UsageError, match=r"index is closed \(open it again"):
            use()
    index.close()
    assert repr(index) == f"Index({str(tmp_path / 'index')!r}, closed)"
    with mw.open(tmp_path / "index") as again:
        assert len(again) == 1


def test_index_is_closed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), mw.open(tmp_path, embedder="none") as index:
        raise ZeroDivisionError
    with pytest.raises(mw.UsageError, match="closed"):
        len(index)


def test_closing_releases_loaded_models_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[object] = []
    monkeypatch.setattr("mergewise.engine.release", released.append)
    monkeypatch.setattr("mergewise.opening.load_reranker", lambda spec: spec)
    chat = ScriptedChat(["Fish [1]."])
    index = mw.open(tmp_path / "a", embedder="none", chat=chat, reranker="named")
    index.close()
    index.close()
    assert released == ["named", None]  # the scorer `lm` is None
    assert index.chat is None and index.reranker is None


def test_connections_are_closed() -> None:
    from mergewise.concurrency import run

    with ChatServer(["Fish."]) as server:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="k")
        assert run(chat.complete([Message("user", "q")])).text == "Fish."
        assert len(chat._endpoint._clients) == 1
        release(chat)
        assert len(chat._endpoint._clients) == 0
        release(chat)
        release(object())


def test_running_question_finishes_after_closing(tmp_path: Path) -> None:
    def close_and_answer(messages: Sequence[Message]) -> str:
        index.close()
        return "Fish [1]."

    index = mw.open(tmp_path, embedder="none", chat=ScriptedChat(close_and_answer))
    index.add(CATS)
    assert index.ask("What do cats eat?").text == "Fish [1]."
    with pytest.raises(mw.UsageError, match="closed"):
        index.ask("What do cats eat?")
