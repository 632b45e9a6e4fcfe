"""Answers that clients can trust: unsupported sentences, responses, formats and options, by OpenAI's client."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openai")

import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

import mergewise as mw
from mergewise.models.scripted import Turn
from mergewise.server.configuration import ProfileConfig
from mergewise.types import Message
from tests.server.conftest import ANSWER, LiveServer, live_server

QUESTION = "Where was the Aurora built?"
WRONG = "Twelve robots painted the Aurora purple [2]."
MIXED = f"{ANSWER} {WRONG}"
SENTENCE = "Twelve robots painted the Aurora purple."
REMARK = f"Not supported by the sources: “{SENTENCE}”"
SCRIPT = f"Write <script> in ![x](y). {ANSWER}"
BUILT = '{"town": "Lyme", "numbers": [7], "note": "see [9] <script>"}'
PROFILES = {
    "docs": ProfileConfig("ships"),
    "quiet": ProfileConfig("ships", remark=False),
    "plain": ProfileConfig("ships", markup="text", footer="always"),
    "quotes": ProfileConfig("ships", chat="extractive"),
    "forgets": ProfileConfig("ships", store=False),
    "filtered": ProfileConfig("ships", defaults={"mode": "fil"}),
}
INCLUDE = ["file_search_call.results"]


class Built(BaseModel):
    town: str
    numbers: list[int]
    note: str


def script(messages: Sequence[Message]) -> str | Turn:
    asked = messages[-1].text
    if "fail" in asked:
        return Turn("no", status=500)
    if "in JSON as prose" in asked:
        return "It is in Lyme."
    if "Answer with one JSON value" in messages[0].text:
        return BUILT
    if "last question of a conversation" in messages[0].text:
        return "When did the Aurora sail to Iceland?"
    for word, answer in (("only robots", WRONG), ("robots", MIXED), ("script", SCRIPT)):
        if word in asked.rpartition("Question:")[2]:
            return answer
    return ANSWER


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("answers"), script, profiles=PROFILES) as live:
        yield live


@pytest.fixture
def client(live: LiveServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{live.base}/v1", api_key=live.tokens["read"], max_retries=0) as client:
        yield client


def chat(client: Any, question: str, model: str = "docs", **more: Any) -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}], **more)


def streamed(client: Any, question: str, model: str = "docs", **more: Any) -> Any:
    asked = {"model": model, "messages": [{"role": "user", "content": question}]}
    with client.chat.completions.stream(**asked, **more) as stream:
        return stream.get_final_completion()


# -- unsupported sentences


def test_an_unsupported_sentence_has_a_remark_and_no_annotation(client: Any) -> None:
    whole = chat(client, "Where was it built, robots?")
    message = whole.choices[0].message
    assert message.content == f"{MIXED}\n\n{REMARK}"
    (annotation,) = message.annotations
    assert message.content[: annotation.url_citation.end_index] == "The Aurora was built in Lyme in 1871 [1]"
    assert whole.mergewise["sure"] is False and whole.mergewise["unsupported"] == 0.5
    final = streamed(client, "Where was it built, robots?").choices[0].message
    assert (final.content, final.annotations) == (message.content, message.annotations)


def test_an_answer_without_support_has_no_annotations(client: Any) -> None:
    message = chat(client, "Who painted it, only robots?").choices[0].message
    assert message.content == f"{WRONG}\n\n{REMARK}" and message.annotations == []
    assert not streamed(client, "Who painted it, only robots?").choices[0].message.annotations
    response = client.responses.create(model="docs", input="Who painted it, only robots?")
    assert response.output_text == message.content and response.output[-1].content[0].annotations == []
    assert response.mergewise["sure"] is False


def test_a_profile_turns_the_remark_off(client: Any) -> None:
    message = chat(client, "Where was it built, robots?", "quiet").choices[0].message
    assert message.content == MIXED and len(message.annotations) == 1
    assert chat(client, QUESTION).mergewise["sure"] is True


# -- plain text


@pytest.mark.parametrize("stream", [False, True])
def test_clients_of_plain_text_get_no_escapes(client: Any, stream: bool) -> None:
    ask = streamed if stream else chat
    message = ask(client, "Show a script", "plain").choices[0].message
    assert message.content.startswith(f"{SCRIPT}\n\n") and "Sources: [1] ships/fleet.md" in message.content
    place = message.annotations[0].url_citation
    assert message.content[place.start_index : place.end_index] == "[1]"
    assert ask(client, "Show a script").choices[0].message.content.startswith("Write &lt;script> in !\\[x](y). The")
    own = ask(client, "Show a script", extra_body={"mergewise": {"markup": "text"}})
    assert own.choices[0].message.content.startswith(SCRIPT)


# -- options of the model


def test_options_are_passed_to_the_chat_model(live: LiveServer, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    options = {"temperature": 1.5, "top_p": 0.5, "stop": ["END"], "seed": 7}
    messages = [{"role": "system", "content": "Answer like a pirate."}, {"role": "user", "content": QUESTION}]
    whole = client.chat.completions.create(model="docs", messages=messages, max_tokens=50, **options)
    sent = live.chat.asked[-1]
    assert {name: sent.options.get(name) for name in options} == options and sent.max_tokens == 50
    assert "Answer like a pirate." in sent.messages[0].text and sent.messages[0].role == "system"
    # the rules on sources come first
    assert sent.messages[0].text.index("numbered sources") < sent.messages[0].text.index("pirate")
    assert whole.mergewise["ignored"] == []
    caplog.set_level(logging.INFO, "mergewise.server")
    quoted = client.chat.completions.create(
        model="quotes", messages=messages, max_completion_tokens=50, user="me", **options
    )
    ignored = sorted([*options, "instructions", "max_completion_tokens", "user"])
    assert quoted.mergewise["ignored"] == ignored
    # programs without these fields: the server's log has them
    assert f"parameters without effect on quotes: {', '.join(ignored)}" in caplog.text
    assert chat(client, QUESTION).choices[0].message.content == ANSWER
    assert live.chat.asked[-1].options["temperature"] == 0.0


def test_steps_before_the_answer_keep_their_own_options(live: LiveServer, client: Any) -> None:
    before = len(live.chat.asked)
    chat(client, QUESTION, "filtered", temperature=1.5, response_format={"type": "json_object"})
    *steps, last = live.chat.asked[before:]
    assert steps and all(one.options["temperature"] == 0.0 for one in steps)
    assert last.options["temperature"] == 1.5 and last.options["response_format"] == {"type": "json_object"}


def test_a_long_system_message_is_refused(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="system message too long"):
        client.chat.completions.create(
            model="docs", messages=[{"role": "system", "content": "x" * 20_001}, {"role": "user", "content": "x"}]
        )


# -- formats


@pytest.mark.parametrize("stream", [False, True])
def test_a_format_is_passed_to_the_model_and_the_text_is_json(live: LiveServer, client: Any, stream: bool) -> None:
    if stream:
        final = streamed(client, QUESTION, "plain", response_format=Built)
    else:
        asked = {"model": "plain", "messages": [{"role": "user", "content": QUESTION}]}
        final = client.chat.completions.parse(**asked, response_format=Built)
    message = final.choices[0].message
    assert message.content == BUILT and message.parsed == Built(town="Lyme", numbers=[7], note="see [9] <script>")
    sent = live.chat.asked[-1]
    assert sent.schema is not None and sent.options["response_format"]["json_schema"]["name"] == "Built"
    assert not message.annotations and final.choices[0].finish_reason == "stop"


def test_a_format_without_a_model_is_refused(client: Any) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    for model, format in (("quotes", schema), ("quotes", {"type": "json_object"}), ("docs", {"type": "json_schema"})):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as raised:
                chat(client, QUESTION, model, response_format=format, stream=stream)
            assert raised.value.param == "response_format"
    # a mode that answers without the options of the reply
    with pytest.raises(openai.BadRequestError):
        chat(client, QUESTION, response_format=schema, extra_body={"mergewise": {"mode": "aed-best"}})
    assert chat(client, QUESTION, "quotes", response_format={"type": "text"}).choices[0].message.content


def test_prose_instead_of_json_is_an_error(client: Any) -> None:
    with pytest.raises(openai.InternalServerError, match="invalid JSON"):
        chat(client, "Where, in JSON as prose?", response_format={"type": "json_object"})


def test_a_model_that_refuses_the_format_is_a_bad_request(live: LiveServer, client: Any) -> None:
    live.chat.refuses = ("json_object",)
    try:
        with pytest.raises(openai.BadRequestError) as raised:
            chat(client, QUESTION, response_format={"type": "json_object"})
    finally:
        live.chat.refuses = ()
    assert raised.value.param == "response_format"


def test_a_question_without_passages_has_no_json(client: Any) -> None:
    none = {"mergewise": {"where": {"type": "eq", "key": "id", "value": "none"}}}
    format: Any = {"type": "json_object"}
    for stream in (False, True):
        with pytest.raises(openai.APIError) as raised:
            list(chat(client, QUESTION, response_format=format, extra_body=none, stream=stream))
        assert raised.value.code == "nothing-found"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="docs", input=QUESTION, text={"format": format}, extra_body=none)


# -- long messages

MAIL = f"""Hello,

we met at the fair. {"We talked about timber and salt for a long while. " * 60}

{QUESTION} Please answer soon.

Best regards
Ann

On Mon, 3 Mar 2025 at 10:00, Bob <bob@example.org> wrote:
> When does the owl hunt?
{"> The tern flies far." * 400}
What about the price of coal? {"Coal is dear. " * 300}
"""


def test_a_pasted_mail_is_condensed_for_the_search_and_read_whole_by_the_model(live: LiveServer, client: Any) -> None:
    assert len(MAIL) > 8_000
    whole = chat(client, MAIL)
    searched = whole.mergewise["context"]["question"]
    assert QUESTION in searched and len(searched) <= 1_000
    assert "owl" not in searched and "tern" not in searched and "coal" not in searched.lower()
    sent = live.chat.asked[-1].messages[-1].text
    assert "When does the owl hunt?" in sent and whole.choices[0].message.content == ANSWER
    assert "built in Lyme" in chat(client, MAIL, "quotes").choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="question too long"):
        chat(client, "x" * 100_001)


# -- responses


def final_of(events: Sequence[Any]) -> Any:
    return events[-1].response


def test_a_response_has_the_search_and_the_citations(live: LiveServer, client: Any) -> None:
    made = client.responses.create(
        model="docs", input=QUESTION, include=INCLUDE, instructions="Be brief.", metadata={"a": "b"}, temperature=0.3
    )
    assert Response.model_validate(made.model_dump(warnings=False), strict=False).status == "completed"
    search, message = made.output
    assert (search.type, search.status, search.queries) == ("file_search_call", "completed", [QUESTION])
    assert "built in Lyme" in search.results[0].text and search.results[0].filename == "ships/fleet.md"
    assert made.output_text == ANSWER and made.metadata == {"a": "b"}
    cited, link = message.content[0].annotations
    assert (cited.type, cited.filename, made.output_text[cited.index :]) == ("file_citation", "ships/fleet.md", "[1].")
    found = client.vector_stores.search("ships", query=QUESTION).data[0]
    assert cited.file_id == search.results[0].file_id == found.file_id
    assert link.type == "url_citation" and link.url.startswith(live.base)
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 10
    assert live.chat.asked[-1].options["temperature"] == 0.3 and "Be brief." in live.chat.asked[-1].messages[0].text
    assert client.responses.create(model="docs", input=QUESTION).output[0].results is None


def test_the_events_of_a_response_have_the_order_and_the_forms_of_the_api(live: LiveServer, client: Any) -> None:
    asked = {"model": "docs", "input": "Where was it built, robots?", "include": INCLUDE}
    events = list(client.responses.create(**asked, stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    search = ["output_item.added", *(f"file_search_call.{one}" for one in ("in_progress", "searching", "completed"))]
    assert kinds == [
        "created", "in_progress", *search, "output_item.done", "output_item.added", "content_part.added",
        *["output_text.delta"] * deltas, *["output_text.annotation.added"] * 2, "output_text.done", "content_part.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events))) and deltas >= 2
    for event in events:
        TypeAdapter(ResponseStreamEvent).validate_python(event.model_dump(warnings=False))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    whole = client.responses.create(**asked)
    final = final_of(events)
    assert text == final.output_text == whole.output_text == f"{MIXED}\n\n{REMARK}"
    assert [one.model_dump(exclude={"id"}) for one in final.output] == [
        one.model_dump(exclude={"id"}) for one in whole.output
    ]
    assert final.usage == whole.usage
    with client.responses.stream(model="docs", input=QUESTION) as stream:
        assert [event.type for event in stream][-1] == "response.completed"
        assert stream.get_final_response().output_text == ANSWER


def test_a_response_continues_an_earlier_one(live: LiveServer, client: Any) -> None:
    first = client.responses.create(model="docs", input=QUESTION, instructions="Be a pirate.")
    asked = "And when did it sail to Iceland?"
    second = client.responses.create(model="docs", input=asked, previous_response_id=first.id)
    assert second.mergewise["context"]["question"] == "When did the Aurora sail to Iceland?"
    # the instructions of the earlier response are not carried over
    assert "pirate" not in live.chat.asked[-1].text and second.previous_response_id == first.id
    stateless = client.responses.create(
        model="docs", input=[{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": asked}]
    )
    assert stateless.mergewise["context"]["question"] == second.mergewise["context"]["question"]
    assert stateless.mergewise["ignored"] == []
    with client.responses.stream(model="docs", input=asked, previous_response_id=second.id) as stream:
        third = stream.get_final_response()
    assert client.responses.retrieve(third.id).output_text == ANSWER


def test_a_response_from_a_removed_document_is_withheld(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(script=[ANSWER, "How long do terns live?", "Who asked?", "Nobody."])
    client, asked = server.client(), {"model": "ships", "include": INCLUDE}
    first = client.post("/v1/responses", json={"input": QUESTION, **asked}).json()
    second = client.post(
        "/v1/responses", json={"input": "And the terns?", "model": "birds", "previous_response_id": first["id"]}
    ).json()
    for one in (first, second):
        assert client.get(f"/v1/responses/{one['id']}").json()["output"] == one["output"]
    with mw.open(server.config.data / "collections" / "ships" / "index", create=False) as index:
        index.remove(["ships/fleet.md"])
    server.service.collections.close()
    # the second one had the answer of the first in its history
    for one in (first, second):
        answer = client.get(f"/v1/responses/{one['id']}")
        assert answer.status_code == 200 and answer.json()["output"] == [] and "Lyme" not in answer.text
        assert Response.model_validate(answer.json()).output_text == ""
    before = len(server.chat.asked)
    third = {"input": "Where?", "model": "birds", "previous_response_id": second["id"]}
    assert client.post("/v1/responses", json=third).status_code == 200
    sent = str(server.chat.asked[before:])
    assert QUESTION in sent and "Lyme" not in sent


def test_responses_are_kept_for_their_token(live: LiveServer, client: Any) -> None:
    made = client.responses.create(model="docs", input=QUESTION, include=INCLUDE)
    kept = client.responses.retrieve(made.id, include=INCLUDE)
    assert kept.output_text == ANSWER and kept.output[0].results == made.output[0].results
    with openai.OpenAI(base_url=f"{live.base}/v1", api_key=live.tokens["write"], max_retries=0) as other:
        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            other.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError) as raised:
            other.responses.create(model="docs", input="x", previous_response_id=made.id)
        assert (raised.value.code, raised.value.param) == ("previous_response_not_found", "previous_response_id")
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    for unkept in (
        client.responses.create(model="docs", input=QUESTION, store=False),
        client.responses.create(model="forgets", input=QUESTION),
    ):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(unkept.id)


def test_a_response_in_a_format(client: Any) -> None:
    made = client.responses.parse(model="plain", input=QUESTION, text_format=Built)
    assert made.output_text == BUILT and made.output_parsed == Built(town="Lyme", numbers=[7], note="see [9] <script>")
    with client.responses.stream(model="docs", input=QUESTION, text_format=Built) as stream:
        assert stream.get_final_response().output_parsed == made.output_parsed
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="quotes", input=QUESTION, text={"format": {"type": "json_object"}})


def test_a_truncated_response_is_incomplete_and_a_failed_one_failed(client: Any) -> None:
    cut = client.responses.create(model="docs", input=QUESTION, max_output_tokens=4)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    events = list(client.responses.create(model="docs", input=QUESTION, max_output_tokens=4, stream=True))
    assert events[-1].type == "response.incomplete" and final_of(events).output_text == cut.output_text
    failed = list(client.responses.create(model="docs", input="Will it fail?", stream=True))[-1]
    assert failed.type == "response.failed" and failed.response.error.code == "server_error"
    assert failed.sequence_number > 2 and failed.response.status == "failed"


def test_a_file_search_may_have_filters(client: Any) -> None:
    tool = {"type": "file_search", "vector_store_ids": ["ships"], "max_num_results": 1}
    made = client.responses.create(model="docs", input=QUESTION, tools=[tool], include=INCLUDE, tool_choice="required")
    assert len(made.output[0].results) == 1 and made.mergewise["ignored"] == []
    none = {**tool, "filters": {"type": "eq", "key": "kind", "value": "none"}}
    assert client.responses.create(model="docs", input=QUESTION, tools=[none], include=INCLUDE).output[0].results == []
    function = {"type": "function", "name": "x", "parameters": {}, "strict": False}
    assert client.responses.create(model="docs", input=QUESTION, tools=[function]).mergewise["ignored"] == ["tools"]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["birds"]}]}, "tools"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}]}, "messages"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "messages"),
    ],
)
def test_unsupported_requests_for_responses_are_refused(client: Any, wrong: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(**{"model": "docs", "input": QUESTION, **wrong})
    assert raised.value.param == param


def test_a_task_of_a_program_is_a_response_without_a_search(client: Any) -> None:
    task = '### Task:\nA title as {"title": ""}\n<chat_history>\nUSER: Where was it built?\n</chat_history>'
    made = client.responses.create(model="docs", input=task)
    assert [one.type for one in made.output] == ["message"] and json.loads(made.output_text)[
        "title"
    ] == "Where was it built?"
    with client.responses.stream(model="docs", input=task) as stream:
        assert stream.get_final_response().output_text == made.output_text


LONE = "\ud800"
RESPONSE: dict[str, Any] = {"model": "docs", "input": QUESTION}
CHAT: dict[str, Any] = {"model": "docs", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("responses", {**RESPONSE, "instructions": LONE, "metadata": {"a": LONE}}),
        ("responses", {**RESPONSE, "tool_choice": {"type": []}}),
        ("responses", {**RESPONSE, "previous_response_id": LONE}),
        ("responses", {**RESPONSE, "text": {"format": {"type": "json_schema", "name": LONE, "schema": {"a": LONE}}}}),
        ("responses", {**RESPONSE, "tools": [{"type": "file_search", "filters": {"type": "zz"}}]}),
        ("responses", {"model": "docs", "input": "   "}),
        ("chat/completions", {**CHAT, "stop": [LONE], "seed": 10**30}),
        ("chat/completions", {**CHAT, "temperature": float("nan")}),
        ("chat/completions", {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": 3}}}),
    ],
)
def test_odd_requests_are_no_failures_of_the_server(live: LiveServer, path: str, body: dict[str, Any]) -> None:
    sent = live.client("read").post(
        f"/v1/{path}", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert sent.status_code < 500, sent.text
