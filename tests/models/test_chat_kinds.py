"""Chat models and embedders as they are, over real HTTP: thoughts, roles, ends of streams, refused options and batches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.models.http_endpoint import HTTPEndpoint
from tests.models.http_endpoint import Reply as HTTPReply

from mergewise import redaction
from mergewise.concurrency import run
from mergewise.errors import InputRefused, ModelError
from mergewise.types import Message, Reply

openai_chat = pytest.importorskip("mergewise.models.openai_chat", exc_type=ImportError)
pytest.importorskip("openai")

Script = Callable[[dict[str, Any]], HTTPReply]
QUESTION = [Message("system", "Be brief."), Message("user", "What do cats eat?")]
ANSWER = "Cats eat fish, and cream on Sundays [1]."
EVENTS = {"Content-Type": "text/event-stream"}


def saying(content: Any, finish: str | None = "stop", done: bool = True, field: str = "content") -> Script:
    """Return a script that answers with a content, whole or in pieces of three characters."""

    def script(request: dict[str, Any]) -> HTTPReply:
        if not request.get("stream"):
            message = {"role": "assistant", field: content}
            return 200, {"choices": [{"message": message, "finish_reason": finish}]}, {}
        pieces = re.findall("(?s).{1,3}", content) if isinstance(content, str) else [content]
        deltas: list[Any] = [({field: piece}, None) for piece in pieces] + ([({}, finish)] if finish else [])
        events = [json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}) for delta, reason in deltas]
        stream = "".join(f"data: {event}\n\n" for event in [*events, *(["[DONE]"] if done else [])])
        return 200, stream.encode(), EVENTS

    return script


def refusing(matches: Callable[[dict[str, Any]], bool], status: int, body: object) -> Script:
    """Return a script that refuses the requests that match, and answers the others."""
    return lambda request: (status, body, {}) if matches(request) else saying(ANSWER)(request)


def chat_at(server: HTTPEndpoint) -> Any:
    return openai_chat.OpenAIChat("m", base_url=server.url, api_key="none", retries=0)


def both(script: Script) -> list[Reply]:
    """Return the reply to a whole request and to a streamed one, by a new model each. The pieces are the text of the reply."""
    with HTTPEndpoint(script) as server:
        whole = run(chat_at(server).complete(QUESTION))
        pieces, reply = streamed(chat_at(server))
    assert "".join(pieces) == reply.text
    return [whole, reply]


def streamed(chat: Any) -> tuple[list[str], Reply]:
    async def collect() -> list[Any]:
        return [piece async for piece in chat.stream(QUESTION)]

    *pieces, reply = run(collect())
    return pieces, reply


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    # a piece is held back if it may be the start of a key that another test has sent
    monkeypatch.setattr(redaction, "_keys", redaction._Keys())


@pytest.mark.parametrize(
    "text",
    [
        "The user asks about [2]. Maybe fish.\n</think>\n\n" + ANSWER,
        "Okay, so what do cats eat? Source 2 says fish.</think>" + ANSWER,
        "好的，用户问的是猫吃什么，我来看看资料里怎么说的。[2]</think>" + ANSWER,
        "<thinking>Fish or cream? [2]</thinking>\n" + ANSWER,
        "<thought>\nFish? [2]</thought>" + ANSWER,
        "[THINK]Fish? [2][/THINK]" + ANSWER,
        "◁think▷Fish?◁/think▷" + ANSWER,
        "<|START_THINKING|>Fish?<|END_THINKING|>" + ANSWER,
        "<|channel|>analysis<|message|>We need fish [2].<|end|><|start|>assistant<|channel|>final<|message|>" + ANSWER,
        "<|start|>assistant<|channel|>final<|message|>" + ANSWER,
        "analysisWe need to say what cats eat [2].assistantfinal" + ANSWER,
    ],
)
def test_thoughts_of_every_form_are_removed(text: str) -> None:
    assert [reply.text for reply in both(saying(text))] == [ANSWER, ANSWER]


@pytest.mark.parametrize(
    "text",
    [
        "We may quote `</think>`, which ends the thoughts of a model.",
        "So the tags are:\n\n```xml\n<answer>\n</think>\n```\n",
        "I see <think>so</think> in the text of the source.",
        "So cats eat fish.",
        "The question is what cats eat: they eat fish, as the sources say.",
    ],
)
def test_an_answer_that_begins_like_thoughts_is_whole(text: str) -> None:
    assert [reply.text for reply in both(saying(text))] == [text, text]


def test_thoughts_that_were_shown_are_not_part_of_the_reply_and_are_held_back_from_then_on() -> None:
    with HTTPEndpoint(saying("Cats are animals that hunt, as everyone knows.\n</think>\n\n" + ANSWER)) as server:
        chat = chat_at(server)
        assert streamed(chat)[1].text == ANSWER
        pieces, reply = streamed(chat)
    assert "".join(pieces) == reply.text == ANSWER


def test_an_answer_is_shown_from_its_first_words_and_later_ones_at_once() -> None:
    with HTTPEndpoint(saying(ANSWER)) as server:
        chat = chat_at(server)
        assert [streamed(chat)[0][0] for _ in range(2)] == ["Cats e", "Cat"]
        chat = chat_at(server)
        run(chat.complete(QUESTION, schema={"type": "object"}))
        assert streamed(chat)[0][0] == "Cats e"


def test_a_cut_answer_does_not_show_that_a_model_thinks_not() -> None:
    scripts = iter([saying("Okay, what do cats eat? They", finish="length"), saying(f"Okay, fish.</think>{ANSWER}")])
    with HTTPEndpoint(lambda request: next(scripts)(request)) as server:
        chat = chat_at(server)
        run(chat.complete(QUESTION))
        pieces, reply = streamed(chat)
    assert "".join(pieces) == reply.text == ANSWER


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_in_a_field_of_their_own_are_not_shown(field: str) -> None:
    def script(request: dict[str, Any]) -> HTTPReply:
        message = {"content": ANSWER, field: "Fish? [2]"}
        return 200, {"choices": [{"message": message, "finish_reason": "stop"}]}, {}

    with HTTPEndpoint(script) as server:
        assert run(chat_at(server).complete(QUESTION)).text == ANSWER


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "text", "text": ANSWER}],
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Fish? [2]"}]}, {"type": "text", "text": ANSWER}],
        [ANSWER[:9], {"type": "output_text", "text": ANSWER[9:]}],
    ],
)
def test_a_content_of_parts(parts: list[Any]) -> None:
    assert [reply.text for reply in both(saying(parts))] == [ANSWER, ANSWER]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "System role not supported", "code": 400}}),
        (400, {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}),
        (
            400,
            {"error": {"message": "Unsupported value: 'messages[0].role' does not support 'system' with this model."}},
        ),
        (400, {"error": {"message": "Developer instruction is not enabled for models/gemma-3-27b-it"}}),
        (
            422,
            {"error": "Template error: invalid operation: System role not supported", "error_type": "template_error"},
        ),
        (422, {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user' or 'assistant'"}]}),
        (500, {"error": {"message": "Jinja Exception: System role not supported"}}),
    ],
)
def test_a_model_without_a_system_role_gets_the_instructions_from_the_user(status: int, body: object) -> None:
    script = refusing(lambda request: request["messages"][0]["role"] == "system", status, body)
    assert [reply.text for reply in both(script)] == [ANSWER, ANSWER]
    with HTTPEndpoint(script) as server:
        chat = chat_at(server)
        for _ in range(2):
            run(chat.complete(QUESTION, schema={"type": "object"}))
    assert len(server.requests) == 3  # a refused role is not sent again
    (message,) = server.requests[-1]["messages"]
    assert message == {"role": "user", "content": "Be brief.\n\nWhat do cats eat?"}


@pytest.mark.parametrize("option", ["temperature", "max_tokens", "stream_options"])
def test_an_option_that_only_the_location_names_is_left_out(option: str) -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", option], "msg": "Extra inputs are not permitted"}]
    script = refusing(lambda request: option in request, 422, {"detail": detail})
    assert [reply.text for reply in both(script)] == [ANSWER, ANSWER]


def test_an_option_that_the_user_chose_is_named() -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]
    script = refusing(lambda request: True, 422, {"detail": detail})
    with HTTPEndpoint(script) as server, pytest.raises(InputRefused, match="top_k") as caught:
        run(chat_at(server).with_options({"top_k": 3}).complete(QUESTION))
    assert "option" in caught.value.hint and "shorten" not in caught.value.hint


def test_a_stream_without_a_reason_is_complete_at_its_mark() -> None:
    assert [reply.complete for reply in both(saying(ANSWER, finish=None))] == [True, True]
    with HTTPEndpoint(saying(ANSWER, finish=None, done=False)) as server, pytest.raises(ModelError, match="unfinished"):
        streamed(chat_at(server))
    assert both(saying(ANSWER, done=False))[1].text == ANSWER


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY"])
def test_a_content_filter_is_named(reason: str) -> None:
    with HTTPEndpoint(saying("", finish=reason)) as server:
        for ask in (lambda: run(chat_at(server).complete(QUESTION)), lambda: streamed(chat_at(server))):
            with pytest.raises(ModelError, match="content filter") as caught:
                ask()
            assert "shorten" not in caught.value.hint
    assert [reply.complete for reply in both(saying(ANSWER, finish=reason))] == [False, False]


def test_a_refused_question_is_not_called_too_long() -> None:
    body = {"error": {"message": "The response was filtered due to the prompt.", "code": "content_filter"}}
    script = refusing(lambda request: True, 400, body)
    with HTTPEndpoint(script) as server, pytest.raises(InputRefused, match="filtered") as caught:
        run(chat_at(server).complete(QUESTION))
    assert "content filter" in caught.value.hint


# -- batches


def embedding(most: int, status: int = 422) -> Script:
    def script(request: dict[str, Any]) -> HTTPReply:
        texts = request["input"]
        if len(texts) > most or "bad" in texts:
            message = f"batch size {len(texts)} > maximum allowed batch size {most}"
            return status, {"error": {"message": message}}, {}
        rows = [{"index": at, "embedding": [1.0, float(len(text))]} for at, text in enumerate(texts)]
        return 200, {"data": rows}, {}

    return script


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[HTTPEndpoint, Any]]]:
    from mergewise.models.openai import OpenAIEmbedder

    servers = []

    def start(script: Script, **options: Any) -> tuple[HTTPEndpoint, Any]:
        server = HTTPEndpoint(script)
        servers.append(server.__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return server, OpenAIEmbedder("m", retries=0, **options)

    yield start
    for server in servers:
        server.__exit__()


@pytest.mark.parametrize(("most", "status"), [(32, 422), (10, 400), (1, 413)])
def test_a_refused_batch_is_halved_and_the_size_is_remembered(embedder: Any, most: int, status: int) -> None:
    server, model = embedder(embedding(most, status))
    texts = ["x" * (i % 7 + 1) for i in range(150)]
    rows = model.embed_documents(texts)
    assert [round(float(row[1] / row[0])) for row in rows] == [len(text) for text in texts]
    asked = len(server.requests)
    assert (model.embed_documents(texts) == rows).all()
    kept = max(size for size in (128 >> i for i in range(8)) if size <= most)
    assert len(server.requests[asked]["input"]) == kept
    assert len(server.requests) - asked == -(-150 // kept)


def test_a_refused_text_does_not_make_the_batches_small(embedder: Any) -> None:
    server, model = embedder(embedding(64))
    with pytest.raises(InputRefused):
        model.embed_documents(["good", "bad"])
    model.embed_documents(["good"] * 64)
    assert len(server.requests[-1]["input"]) == 64


def test_the_size_of_batches_is_a_setting(embedder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, model = embedder(embedding(64), batch_texts=7)
    model.embed_documents(["good"] * 8)
    assert [len(request["input"]) for request in server.requests] == [7, 1]
    monkeypatch.setenv("MERGEWISE_BATCH_TEXTS", "5")
    server, model = embedder(embedding(64))
    model.embed_documents(["good"] * 8)
    assert [len(request["input"]) for request in server.requests] == [5, 3]


def test_a_reranker_halves_its_batches() -> None:
    pytest.importorskip("openai")
    from mergewise.models.rerank_http import HTTPReranker

    def script(request: dict[str, Any]) -> HTTPReply:
        texts = request.get("documents") or request["texts"]
        if len(texts) > 10:
            return 422, {"error": "batch size 64 > maximum allowed batch size 10"}, {}
        return 200, {"results": [{"index": i, "relevance_score": len(text) / 100} for i, text in enumerate(texts)]}, {}

    with HTTPEndpoint(script) as server:
        reranker = HTTPReranker(server.url, retries=0, scale="shares")
        texts = ["x" * (i % 9) for i in range(30)]
        assert list(reranker.score("q", texts)) == pytest.approx([len(text) / 100 for text in texts])
        run(reranker.aclose())
