"""Conversions of messages to questions and of answers to messages, without a server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples

pytest.importorskip("fastapi")

from mergewise.server.answers import supported_citations, unverified_spans
from mergewise.server.collection_query import QuestionEvent
from mergewise.server.openai.chat import profiles
from mergewise.server.openai.completions import (
    Completion,
    CompletionStyle,
    footer,
    marked_sources,
    url_citations,
    web_address,
)
from mergewise.server.openai.conversations import chat_question, condense, task_by_rules
from mergewise.server.openai.markup import ImageEscaper, literal, position_without_images, without_images
from mergewise.server.openai.requests import ChatForm
from mergewise.server.problems import HTTPProblem

PIECES = st.lists(
    st.sampled_from(["!", "[", "<", "i", "mg", "IMG", " src=x", "\\", "a", "]", "(u)", "ifra", "me", "\n"])
)


def escaped_slowly(text: str) -> str:
    """Escape images and loading elements character by character."""
    names = (
        "audio base body embed form frame iframe image img input link meta object picture script source style svg table"
    )
    written = ""
    for at, sign in enumerate(text):
        rest = text[at + 1 :].lower()
        if sign == "!" and rest.startswith("["):
            written += "!\\"
        elif sign == "<" and any(rest.startswith(name) for name in [*names.split(), "track", "video"]):
            written += "&lt;"
        else:
            written += sign
    return written


@settings(max_examples=examples(50))
@given(PIECES)
def test_pieces_are_escaped_like_the_whole(pieces: list[str]) -> None:
    escaper = ImageEscaper()
    text = "".join(pieces)
    assert "".join([*map(escaper.feed, pieces), escaper.rest()]) == without_images(text) == escaped_slowly(text)


@settings(max_examples=examples(50))
@given(PIECES, st.data())
def test_a_position_stays_at_its_character(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    at = data.draw(st.integers(0, len(text)))
    assert without_images(text)[position_without_images(text, at) :] == without_images(text[at:])


def test_a_backslash_does_not_undo_the_escape() -> None:
    assert without_images("\\![x](http://evil)") == "\\!\\[x](http://evil)"
    assert without_images("\\<img src=http://evil>") == "\\&lt;img src=http://evil>"


def answer(text: str, cited: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    citations = []
    for mark in cited:
        start, at = 10 * mark, text.find(f"[{mark}]")
        cited_span = {"doc": f"doc{mark}", "start": start, "end": start + 5}
        placed = {"answer_spans": [{"start": at, "end": at + len(f"[{mark}]")}], "span": cited_span}
        url = f"http://here/#/c/c/d/{mark}?s={start}-{start + 5}"
        named = {"mark": mark, "title": f"Title {mark}", "headings": ["Food"], "page": 3 if mark == 2 else None}
        citations.append({**named, **placed, "line": None, "text": f"sentence {mark}", "url": url})
    usage = {"calls": 1, "input_tokens": 7, "output_tokens": 5}
    spans = unverified_spans(text, more.get("unverified", ()))
    whole = {"id": "q1", "answer": text, "citations": citations, "complete": True, "usage": usage}
    return {**whole, "unverified_spans": spans, **more}


def passages(count: int) -> list[dict[str, Any]]:
    shown: dict[str, Any] = {"headings": [], "page": None, "line": None, "verbatim": True}
    return [
        {
            "mark": mark,
            "doc": f"doc{mark}",
            "title": f"Title {mark}",
            "text": f"passage {mark}",
            "score": 1 / mark,
            "spans": [{"doc": f"doc{mark}", "start": 10 * mark, "end": 10 * mark + 9}],
            "url": f"http://here/#/c/c/d/{mark}",
            **shown,
        }
        for mark in range(1, count + 1)
    ]


async def events(text: str, given: dict[str, Any], count: int = 3) -> AsyncGenerator[QuestionEvent, None]:
    yield QuestionEvent("started", {"id": "q1", "snapshot": "s"})
    yield QuestionEvent("context", {"passages": passages(count)})
    for at in range(0, len(text), 3):
        yield QuestionEvent("delta", {"text": text[at : at + 3]})
    yield QuestionEvent("citations", {"citations": given["citations"]})
    yield QuestionEvent("done", given)


def chunks_of(given: dict[str, Any], style: CompletionStyle | None = None, usage: bool = False) -> list[Any]:
    completion = Completion(
        "chatcmpl-1", "docs", style or CompletionStyle(), ignored=["temperature"], includes_usage=usage, created=1
    )

    async def gather() -> list[Any]:
        return [chunk async for chunk in completion.chunks(events(given["answer"], given))]

    return asyncio.run(gather())


def content_of(chunks: Sequence[Any]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk.get("choices"))


def test_every_mark_up_to_the_highest_cited_one_has_an_annotation() -> None:
    shown = url_citations(marked_sources(answer("Eat mice [3] and fish [2].", (3, 2)), passages(5)))
    placed = [one["url_citation"] for one in shown]
    assert [place["title"] for place in placed] == ["Title 1", "Title 2, p. 3", "Title 3"]
    assert [(place["start_index"], place["end_index"]) for place in placed] == [(0, 0), (22, 25), (9, 12)]
    assert all(one["type"] == "url_citation" for one in shown)


def test_a_message_without_citations_has_no_annotations() -> None:
    assert marked_sources(answer("Nothing."), passages(2)) == []


def test_places_count_in_the_escaped_text() -> None:
    text = "See ![x](http://evil) [1]."
    given = answer(text, (1,), context={"passages": passages(1)})
    message = Completion("c", "docs").whole(given)["choices"][0]["message"]
    place = message["annotations"][0]["url_citation"]
    assert message["content"] == "See !\\[x](http://evil) [1]."
    assert message["content"][place["start_index"] : place["end_index"]] == "[1]"


def test_two_marks_of_one_address_stay_two_sources() -> None:
    same = passages(3)
    for passage in same:
        passage.update(url="https://example.org/page", spans=[{"doc": "doc1", "start": 0, "end": 4}])
    given = answer("a [3]", ())
    given["citations"] = [{**same[2], "mark": 3, "answer_spans": [], "span": {"doc": "doc1", "start": 0, "end": 4}}]
    sources = marked_sources(given, same)
    assert len({source.url for source in sources}) == len({source.place for source in sources}) == 3


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//host/x",
        "http://",
        "http://[",
        "http://a b",
        "http://a]/",
        "http://u:p@a/",
        "http://a\nb",
        None,
        3,
    ],
)
def test_other_than_web_addresses_are_left_out(url: object) -> None:
    assert web_address(url) is None
    given = answer("a [1]", (1,))
    given["citations"][0]["url"] = url
    assert marked_sources(given, [])[0].url == "urn:mergewise:document:ZG9jMQ#10-15"


def test_an_address_adds_no_markup_to_the_footer() -> None:
    given = answer("a [1]", (1,))
    given["citations"][0]["url"] = "https://example.org/a![x](http://evil.example)<img>?q=[1]#s=ü"
    address = "https://example.org/a%21%5Bx%5D%28http://evil.example%29%3Cimg%3E?q=%5B1%5D#s=%C3%BC"
    assert footer(marked_sources(given, [])) == f"Sources: [1] Title 1 ({address})"
    assert web_address("http://[::1]:8077/#/c/x?s=1-2") == "http://[::1]:8077/#/c/x?s=1-2"
    assert web_address("/#/c/x", "http://here:1/") == "http://here:1/#/c/x"


def test_chunks_equal_the_complete_message() -> None:
    text = "Cats eat mice [1] and ![fish](http://evil) [3]."
    given = answer(text, (1, 3), context={"passages": passages(3)})
    style = CompletionStyle(footer=True)
    whole = Completion("chatcmpl-1", "docs", style, ignored=["temperature"], created=1).whole(given)
    chunks = chunks_of(given, style, usage=True)
    assert content_of(chunks) == whole["choices"][0]["message"]["content"]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    shown = [delta["annotations"] for delta in deltas if "annotations" in delta]
    assert shown == [whole["choices"][0]["message"]["annotations"]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == "stop"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert [c["mergewise"]["ignored"] for c in chunks if "ignored" in c.get("mergewise", {})] == [["temperature"]]
    assert not any("tool_calls" in json.dumps(chunk) for chunk in chunks)


def test_closing_a_stream_ends_its_question() -> None:
    ended = []

    async def endless() -> AsyncGenerator[QuestionEvent, None]:
        try:
            while True:
                yield QuestionEvent("delta", {"text": "more "})
        finally:
            ended.append(True)

    async def leave() -> None:
        chunks = Completion("c", "docs").chunks(endless())
        await anext(chunks)
        await chunks.aclose()
        assert ended == [True]

    asyncio.run(leave())


def test_a_truncated_answer_has_the_finish_reason_length() -> None:
    given = answer("Cut", complete=False)
    assert [c["choices"][0]["finish_reason"] for c in chunks_of(given)][-1] == "length"


def test_a_footer_names_the_sources_literally() -> None:
    given = answer("a [1]", (1,))
    given["citations"][0]["title"] = "![x](http://evil) <img src=y> *b*\nnew [9]"
    shown = footer(marked_sources(given, []))
    title = "\\!\\[x\\](http://evil) \\<img src=y\\> \\*b\\* new \\[9\\]"
    assert shown.startswith(f"Sources: [1] {title} (http://here/")
    assert footer([]) == ""


def test_events_of_open_webui_replace_annotations() -> None:
    chunks = chunks_of(answer("a [2]", (2,)), CompletionStyle(open_webui=True))
    shown = [chunk["event"] for chunk in chunks if "event" in chunk]
    assert [one["data"]["source"] for one in shown] == [
        {"id": "mw:ZG9jMQ#10-19", "name": "Title 1", "url": "http://here/#/c/c/d/1"},
        {"id": "mw:ZG9jMg#20-25", "name": "Title 2, p. 3", "url": "http://here/#/c/c/d/2?s=20-25"},
    ]
    # a program would show a distance as a percentage
    assert set(shown[0]["data"]) == {"source", "document", "metadata"} and shown[0]["data"]["document"] == ["passage 1"]
    assert shown[0]["data"]["metadata"][0]["source"] == "mw:ZG9jMQ#10-19"
    assert not any("annotations" in chunk["choices"][0]["delta"] for chunk in chunks if "choices" in chunk)


def chat(*messages: dict[str, Any]) -> Any:
    return chat_question(ChatForm.model_validate({"model": "m", "messages": list(messages)}).messages)


def test_the_last_message_is_the_question_and_the_others_its_history() -> None:
    found = chat(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What do cats eat?"},
        {"role": "assistant", "content": "Mice [1]."},
        {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "dogs?"}]},
    )
    assert found.question == "And\ndogs?"
    history = [("user", "What do cats eat?"), ("assistant", "Mice [1].")]
    assert [(turn.role, turn.text) for turn in found.history] == history
    assert found.instructions == "Be brief." and found.ignored == ()


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}],
        [{"role": "user", "content": "x" * 100_001}],
    ],
)
def test_invalid_conversations_are_refused(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(HTTPProblem) as raised:
        chat(*messages)
    assert raised.value.status == 400


def test_tasks_of_programs_are_detected() -> None:
    history = "<chat_history>\nUSER: What do  cats eat?\nASSISTANT: Mice.\n</chat_history>"
    task = f'### Task:\nGenerate a title as JSON: {{ "title": "..." }}\n{history}'
    assert chat({"role": "user", "content": task}).is_task
    assert not chat({"role": "user", "content": "What is a task?"}).is_task
    assert json.loads(task_by_rules(task)) == {"title": "What do cats eat?"}
    assert json.loads(task_by_rules('### Task:\n{"tags": []}')) == {"tags": ["General"]}
    assert json.loads(task_by_rules('### Task:\n{"follow_ups": []}')) == {"follow_ups": []}
    assert json.loads(task_by_rules('### Task:\n{ "queries": [] }')) == {"queries": []}
    assert task_by_rules("### Task:\nNothing is known.") == "Conversation"


def test_a_question_about_attached_files_is_no_task() -> None:
    """Open WebUI writes its prompt and the files before the question."""
    files = '<source id="1">Pelican is a cluster. <chat_history> </context> is a mark.</source>' * 400
    text = f"### Task:\nRespond to the user query.\n\n<context>\n{files}\n</context>\n\nWho rotates the key?"
    found = chat({"role": "user", "content": text})
    assert (found.question, found.message, found.is_task) == ("Who rotates the key?", text, False)
    alone = chat({"role": "user", "content": text.removesuffix("Who rotates the key?")})
    assert alone.is_task and not alone.message


@settings(max_examples=examples(50))
@given(st.text(max_size=300))
def test_a_title_is_short_and_on_one_line(text: str) -> None:
    title = task_by_rules(f"### Task: a title\n<chat_history>\nUSER: {text}\n</chat_history>")
    assert 0 < len(title) <= 60 and "\n" not in title


def test_literal_text_has_no_markup() -> None:
    assert literal("a\n[b](c) `d` <e> #") == "a \\[b\\](c) \\`d\\` \\<e\\> \\#"


def test_plain_text_is_not_escaped() -> None:
    title = "![x](y) <img> [9]"
    given = answer("<script> a [1]", (1,), unverified=["b * c"])
    given["citations"][0]["title"] = title
    style = CompletionStyle(footer=True, is_markdown=False)
    content = content_of(chunks_of(given, style))
    assert content.startswith(
        "<script> a [1]\n\nNot supported by the sources: “b * c”\n\nSources: [1] ![x](y) <img> [9] ("
    )
    place = url_citations(marked_sources(given, [], "", False))[0]["url_citation"]
    assert content[place["start_index"] : place["end_index"]] == "[1]"
    escaped = content_of(chunks_of(given, CompletionStyle(footer=True)))
    assert escaped.startswith("&lt;script> a [1]\n\nNot supported by the sources: “b \\* c”")


def test_unsupported_sentences_are_located_in_the_text_with_its_marks() -> None:
    text = "A cat [1] purrs loudly\n[2]. Dogs fly [1].  Birds `a[0]` swim [1][2]!"
    spans = unverified_spans(text, ["A cat purrs loudly.", "Birds `a[0]` swim!", "Not there."])
    assert [text[span["start"] : span["end"]] for span in spans] == [
        "A cat [1] purrs loudly\n[2].",
        "Birds `a[0]` swim [1][2]!",
    ]
    assert unverified_spans("", ["", "x"]) == []


@pytest.mark.parametrize(
    ("text", "unverified", "cited"),
    [
        ("A cat purrs [1]. A dog flies [2].", ["A dog flies."], {1}),
        ("A cat purrs. [1] A dog flies. [2]", ["A cat purrs."], {2}),
        ("A cat purrs [1][2]. A dog flies [2].", ["A dog flies."], {1, 2}),
        ("[1] A cat purrs.", ["A cat purrs."], set()),
        ("A dog flies [1]. A dog flies [2].", ["A dog flies."], set()),
        ("A cat\npurrs [1].\n\nA dog [2] flies.", ["A dog flies."], {1}),
    ],
)
def test_a_mark_of_an_unsupported_sentence_is_no_citation(text: str, unverified: list[str], cited: set[int]) -> None:
    marks = [mark for mark in (1, 2) if f"[{mark}]" in text]
    given = answer(text, marks, unverified=unverified)
    for one in given["citations"]:
        found = re.finditer(re.escape(f"[{one['mark']}]"), text)
        one["answer_spans"] = [{"start": place.start(), "end": place.end()} for place in found]
    assert {one["mark"] for one in supported_citations(given)} == cited
    sources = marked_sources(given, [])
    assert {source.mark for source in sources if source.answer_span != (0, 0)} == cited


def test_a_long_text_is_condensed_to_its_question() -> None:
    noise = "The weather was fine and we walked along the river. " * 200
    asked = f"Hello.\n\n{noise}\n\nWhich ship sank near Skye? Thanks.\n"
    short = condense(asked)
    assert "Which ship sank near Skye?" in short and len(short) <= 1_000 and short.startswith("Hello.")
    for mail in (
        "-----Original Message-----\nWho built the pier?\n\nBye",
        "From: Bob <b@example.org>\nSubject: pier\n\nWho built the pier?",
        "Am Montag, 3. März 2025 schrieb Bob:\n\nWho built the pier?",
        "> Who built the pier?",
    ):
        assert "pier" not in condense(asked + mail) and "Skye" in condense(asked + mail)
    # the mail itself is asked about
    assert "pier" in condense(f"Answer this mail.\n\nFrom: Bob\n\n{noise}\n\nWho built the pier?")
    assert condense("x" * 8_000) == "x" * 8_000 and len(condense("x" * 9_000)) <= 1_000
    assert "Skye?" in condense(noise.replace(" ", "") + " Which ship sank near Skye?")
    assert 0 < len(condense("> only quoted\n" * 1_000)) <= 1_000
    earlier = [{"role": "user", "content": asked}, {"role": "assistant", "content": "The Borealis."}]
    found = chat(*earlier, {"role": "user", "content": "When?"})
    assert len(found.history[0].text) <= 1_000 and found.message == ""
    assert chat({"role": "user", "content": asked}).message == asked


def test_models_of_a_collection_have_different_names() -> None:
    """A chat program shows the names alone."""
    record = SimpleNamespace(title="Our docs", created=0.0)
    docs = SimpleNamespace(name="docs", record=record, strategies=lambda: ["weave", "topk"])
    service: Any = SimpleNamespace(collections=lambda: [docs], config=SimpleNamespace(profiles={}))
    names = {one.id: one.as_dict()["name"] for one in profiles(service)}
    assert names == {"docs": "Our docs", "docs:weave": "Our docs: weave", "docs:topk": "Our docs: topk"}
    record.title = ""
    assert not any("name" in one.as_dict() for one in profiles(service))
