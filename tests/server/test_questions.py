"""Running questions: disconnects, overload, slow and failing models, shared and cached contexts, and shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from starlette.types import Message

from mergewise.models.scripted import Turn
from mergewise.server.streams import EventStream
from tests.server.conftest import ANSWER, LiveServer, busy
from tests.server.test_native import events_of
from tests.support import until

LONG = bool(os.environ.get("MERGEWISE_ATTACK"))
DISCONNECTS = 100 if LONG else 10
STREAMS = 60 if LONG else 20
ASK = "/api/v1/collections/ships/ask"
CONTEXT = "/api/v1/collections/ships/context"
SLOW = [Turn(ANSWER, pause_per_token=0.5)]
LASTING = [Turn(ANSWER + " It sailed on." * 150, pause_per_token=0.05)]
GONE = [Turn(ANSWER, pause_per_token=0.2)]


def send(server: LiveServer, path: str, body: dict[str, Any]) -> socket.socket:
    """Send a question and return the connection."""
    connection = socket.create_connection(server.address, timeout=30)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.tokens['read']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection.sendall(head.encode() + content)
    return connection


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    read = b""
    while wanted not in read:
        piece = connection.recv(65536)
        assert piece, read[-500:]
        read += piece
    return read


def has_asked_model(server: LiveServer, questions: int) -> bool:
    return len(server.chat.asked) >= questions


def is_idle(server: LiveServer) -> bool:
    admission = server.service.admission
    return busy(admission) == (0, 0) and admission._free == 1 and not server.questions._assemblies._under_way


@pytest.mark.parametrize("stream", [True, False])
def test_a_disconnect_frees_slot_and_model(start_server: Callable[..., LiveServer], stream: bool) -> None:
    server = start_server(script=GONE)
    for number in range(DISCONNECTS):
        connection = send(server, ASK, {"question": f"When was ship {number} built?", "stream": stream})
        if stream:
            read_until(connection, b"event: delta")
        else:
            assert until(lambda: busy(server.service.admission)[1] == 1)
            assert until(partial(has_asked_model, server, number + 1))
        connection.close()
        assert until(lambda: is_idle(server))
    # the model's endpoint noticed the disconnects
    assert until(lambda: server.chat.transcript._under_way <= 1 or server.chat.lost > 0)
    assert len(server.chat.asked) == DISCONNECTS


def test_only_questions_over_the_limit_are_refused(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(limits={"queue_least": 2, "queue_most": 2}, with_chat=False)
    clients = [server.client() for _ in range(10)]

    def ask(number: int) -> tuple[int, Any]:
        answer = clients[number % 10].post(CONTEXT, json={"question": f"Which ship sank in {number}?"})
        return answer.status_code, answer.headers.get("retry-after-ms")

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(ask, range(100)))
    assert {status for status, _ in answers} == {200, 429}
    assert all((status == 429) == (wait is not None) for status, wait in answers)
    assert until(lambda: is_idle(server))
    assert ask(1000)[0] == 200


def test_contexts_are_assembled_while_streams_wait(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(script=LASTING, limits={"streams": STREAMS})
    with ExitStack() as stack:
        waiting = []
        for number in range(STREAMS):
            body = {"question": f"When was ship {number} built?", "stream": True}
            waiting.append(stack.enter_context(send(server, ASK, body)))
            read_until(waiting[-1], b"event: delta")
        assert busy(server.service.admission) == (0, STREAMS)
        client = server.client()
        assert client.post(CONTEXT, json={"question": "Which ship sank near Skye?"}).status_code == 200
        # an extractive question needs no place and is answered; a question that waits for a model is refused
        quoted = {"question": "Which ship sank near Skye?", "chat": "extractive"}
        assert client.post(ASK, json=quoted).json()["mode"] == "extractive"
        refused = client.post(ASK, json={"question": "Which ship sank near Skye?"})
        assert refused.status_code == 429 and refused.headers["Retry-After"] == "1"
        assert "queue" not in refused.text
    assert until(lambda: is_idle(server))


def test_the_same_question_at_the_same_time_is_assembled_once(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(with_chat=False)
    index = server.service.collections.all()[1].index
    assembled, may_go = [], threading.Event()
    context = index.context

    def slow(query: Any) -> Any:
        assembled.append(getattr(query, "question", query))
        may_go.wait(60)
        return context(query)

    index.context = slow
    with ThreadPoolExecutor(5) as pool:
        body = {"question": "Which ship sank near Skye?"}
        clients = [server.client() for _ in range(5)]
        answers = [pool.submit(client.post, CONTEXT, json=body) for client in clients]
        shared = server.questions._assemblies
        assert until(lambda: sum(one._waiting for one in shared._under_way.values()) == 5)
        may_go.set()
        texts = {answer.result().json()["context"]["text"] for answer in answers}
    assert len(texts) == 1 and assembled.count("Which ship sank near Skye?") == 1
    again = server.client().post(CONTEXT, json=body).json()
    assert again["context"]["text"] in texts and assembled.count(body["question"]) == 1
    # the time of an answer must not tell what another token asked
    assert server.client("write").post(CONTEXT, json=body).json()["context"]["text"] in texts
    assert assembled.count(body["question"]) == 2 and "cached" not in again


def test_a_change_of_the_index_is_seen_by_the_next_question(start_server: Callable[..., LiveServer]) -> None:
    import mergewise as mw

    server = start_server(with_chat=False)
    body = {"question": "Where does the Cassiopeia lie?"}
    before = server.client().post(CONTEXT, json=body).json()
    with mw.open(server.service.collections.all()[1].record.path) as writing:
        writing.add(mw.Document("new", "The Cassiopeia lies in Genoa."))
    after = server.client().post(CONTEXT, json=body).json()
    assert before["context"]["snapshot"] != after["context"]["snapshot"]
    assert "Genoa" in after["context"]["text"] and "Genoa" not in before["context"]["text"]


@pytest.mark.parametrize("turn", [Turn(status=400), Turn(fault="nonsense"), Turn("")])
def test_a_failing_model_is_a_problem(start_server: Callable[..., LiveServer], turn: Turn) -> None:
    server = start_server(script=[turn])
    body = {"question": "When was the Aurora built?"}
    answer = server.client().post(ASK, json=body)
    assert (answer.status_code, answer.json()["code"]) == (502, "model-failed")
    events = list(events_of(server.client().post(ASK, json={**body, "stream": True})))
    assert [name for name, _ in events] == ["started", "context", "error"]
    assert events[-1][1]["status"] == 502 and events[-1][1]["type"] == "urn:mergewise:problem:model-failed"
    assert "sk-scripted" not in answer.text and "Traceback" not in answer.text
    assert until(lambda: is_idle(server))


def test_a_silent_model_times_out(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(script=[Turn(ANSWER, pause=30)], limits={"first_token_seconds": 0.3})
    body = {"question": "When was the Aurora built?", "stream": True}
    events = list(events_of(server.client().post(ASK, json=body)))
    assert events[-1][0] == "error" and events[-1][1]["status"] == 504
    assert until(lambda: is_idle(server))


def test_streams_end_with_an_event_at_shutdown(
    start_server: Callable[..., LiveServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.server.app.STREAMS_SECONDS", 0.3)
    server = start_server(script=SLOW)
    with send(server, ASK, {"question": "When was the Aurora built?", "stream": True}) as connection:
        read_until(connection, b"event: delta")
        server.state.draining.set()
        received = read_until(connection, b"event: error")
        assert b"draining" in received or b"draining" in connection.recv(65536)
    assert until(lambda: is_idle(server))


def test_what_was_shown_is_the_answer(start_server: Callable[..., LiveServer]) -> None:
    """The model may also refuse in its own words, or cite missing sources."""
    refusal = "I am sorry. Nothing relevant was found in the indexed documents."
    answers = [refusal, "nothing relevant was found in the indexed documents", f"  {ANSWER}\n\n", "It was 1871 [9][1]."]
    server = start_server(script=answers)
    for number, written in enumerate(answers):
        body = {"question": f"When was the Aurora built, in {number} words?", "stream": True}
        events = list(events_of(server.client().post(ASK, json=body)))
        shown = "".join(data["text"] for name, data in events if name == "delta")
        assert shown == events[-1][1]["answer"] and shown == shown.strip()
        assert events[-1][1]["found"] == ("1871" in written)
        assert "[9]" not in shown


def test_a_stalled_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.server.streams.STALLED_SECONDS", 0.02)
    closed, sent = [], []

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: x\n\n"
        finally:
            closed.append(True)

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if len(sent) == 4:
            # a full send buffer
            await asyncio.sleep(60)

    async def stream() -> None:
        async def nothing() -> Message:
            await asyncio.Event().wait()
            return {}

        response = EventStream(events(), lambda problem: b"", asyncio.Event())
        async with asyncio.timeout(15):
            await response({"type": "http"}, nothing, send)

    asyncio.run(stream())
    assert closed == [True] and sent == ["http.response.start", *["http.response.body"] * 3]
