"""The routes of the Responses API: POST, GET and DELETE /v1/responses.

A response has an item for the search, and a message with citations. Responses are kept for a while, for the token that made
them, so that a later request can continue by `previous_response_id`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.extend import in_thread
from mergewise.server.collection_query import QuestionEvent
from mergewise.server.collections import key_of
from mergewise.server.native.questions import STREAMED, event_bytes
from mergewise.server.openai.chat import Ask, response_format
from mergewise.server.openai.completions import Completion, MarkedSource, file_of
from mergewise.server.openai.conversations import LONGEST_QUESTION, MOST_HISTORY
from mergewise.server.openai.markup import ImageEscaper
from mergewise.server.openai.requests import ChatMessage, InputItem, ResponseForm
from mergewise.server.problems import HTTPProblem, existing, refusal, unknown
from mergewise.server.routing import READ, InService, ScopedRoute
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import EventStream
from mergewise.types import Json, JsonDict, Message

router = APIRouter(route_class=ScopedRoute)

RESULTS = "file_search_call.results"
_TOKEN_DETAILS = {
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


@router.post("/responses", **READ, responses=STREAMED)
async def create_response(form: ResponseForm, request: Request, service: InService) -> Response:
    """Answer from the documents, with the search as an item and the sources as annotations."""
    before, sources = await in_thread(_messages_before, service, form.previous_response_id)
    items = [InputItem(role="user", content=form.input)] if isinstance(form.input, str) else form.input
    given = [("system", form.instructions), *((one.role, one.content) for one in items if one.role)]
    messages = [ChatMessage.model_construct(role=role, content=content) for role, content in given]
    others = {one.type for one in items if one.role is None} - {"file_search_call"}
    ignored = [f"input items of the type {kind}" for kind in sorted(others)]
    ask = await Ask.of(service, form, [*before, *messages])
    config, search = ask.profile.config, form.search
    choice = form.tool_choice if isinstance(form.tool_choice, str) else (form.tool_choice or {}).get("type", "auto")
    if choice not in ("auto", "none", "file_search") and (choice != "required" or search is None):
        raise refusal("unsupported tool_choice (expected auto, none or file_search)", "tool_choice")
    if search and config.collection not in (search.vector_store_ids or [config.collection]):
        raise refusal(f"unknown vector store (the model {form.model!r} searches {config.collection!r})", "tools")
    ignored += ["tools"] if any(tool.type != "file_search" for tool in form.tools or ()) else []
    stores = config.store and form.store is not False
    writer = ResponseWriter(ask.frame("resp_", ignored), form, stores)

    async def keep(whole: Json) -> None:
        if stores:
            body = {name: value for name, value in whole.items() if name != "mergewise"}
            said = Message("assistant", body["output"][-1]["content"][0]["text"])
            turns = [*ask.conversation.history, Message("user", ask.conversation.question), said][-MOST_HISTORY:]
            messages = [(turn.role, turn.text[:LONGEST_QUESTION]) for turn in turns]
            own = {span["doc"] for passage in writer.context["passages"] for span in passage["spans"]}
            own |= {*sources.get(config.collection, ())}
            kept = {"messages": messages, "sources": {**sources, config.collection: sorted(own)}}
            await in_thread(service.responses.keep, body["id"], {"response": body, **kept})

    async def events() -> AsyncGenerator[bytes, None]:
        async with aclosing(await ask.events(request)) as coming:
            async for event in coming:
                for shown in writer.events(event):
                    if event.name == "done" and "response" in shown:
                        await keep(shown["response"])
                    yield event_bytes(shown["type"], shown)

    if form.stream:
        return await EventStream(events(), writer.failure, service.ending).begun(request)
    whole = writer.whole(await ask.answer(request))
    await keep(whole)
    return JSONResponse(whole)


@router.get("/responses/{id}", **READ)
def get_response(id: str, service: InService) -> JsonDict:
    """Return a response as it was sent, or without its texts if a document behind them was removed since."""
    kept = existing(service.response(id), "response")
    withheld = {"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {**kept["response"], **(withheld if kept["withheld"] else {})}


@router.delete("/responses/{id}", **READ)
def delete_response(id: str, service: InService) -> JsonDict:
    if not service.responses.drop(id):
        raise unknown("response")
    return {"id": id, "object": "response", "deleted": True}


def _messages_before(service: ScopedService, id: str | None) -> tuple[list[ChatMessage], dict[str, list[str]]]:
    """Return the messages of an earlier response, and the documents behind them by collection. Withheld answers are left out.

    Raises HTTPProblem 400 if it does not exist, or if another token made it.
    """
    if id is None:
        return [], {}
    if (kept := service.response(id)) is None:
        detail, code = "previous response not found", "previous_response_not_found"
        raise refusal(detail, "previous_response_id", "send the whole input", code)
    shown = [(role, text) for role, text in kept["messages"] if role == "user" or not kept["withheld"]]
    return [ChatMessage(role=role, content=text) for role, text in shown], {} if kept["withheld"] else kept["sources"]


class ResponseWriter:
    """Conversion of an answer to a response, complete or in events. `frame` holds its id, its model and its style."""

    def __init__(self, frame: Completion, form: ResponseForm, stores: bool) -> None:
        self._frame, self._form, self._stores = frame, form, stores
        self._search, self._message = (f"{kind}_{secrets.token_hex(12)}" for kind in ("fs", "msg"))
        self._escaper, self._text, self._number = ImageEscaper(frame.style.is_markdown), "", 0
        self.context: Json = {"question": "", "passages": []}

    def whole(self, answer: Json) -> JsonDict:
        """Return the complete response of an answer with its context."""
        self.context = answer["context"]
        sources = self._frame.sources(answer, self.context["passages"])
        return self._final_response(answer, self._frame.text(answer, sources), sources)

    def events(self, event: QuestionEvent) -> Iterator[JsonDict]:
        """Yield the events of a stream for an event of the question."""
        match event.name:
            case "started":
                for kind in ("created", "in_progress"):
                    yield self._event(kind, response=self._response("in_progress", []))
            case "context":
                self.context = event.data
                (item,) = self._searches()
                begun = {**item, "status": "in_progress", "queries": [], "results": None}
                yield self._event("output_item.added", output_index=0, item=begun)
                for state in ("in_progress", "searching", "completed"):
                    yield self._event(f"file_search_call.{state}", output_index=0, item_id=self._search)
                yield self._event("output_item.done", output_index=0, item=item)
            case "delta":
                yield from self._text_events(self._escaper.feed(event.data["text"]))
            case "done":
                sources, place = self._frame.sources(event.data, self.context["passages"]), self._place
                yield from self._text_events(self._escaper.rest() + self._frame.style.end_of(event.data, sources))
                ended = self._final_response(event.data, self._text, sources)
                (part,) = ended["output"][-1]["content"]
                for number, one in enumerate(part["annotations"]):
                    yield self._event("output_text.annotation.added", **place, annotation_index=number, annotation=one)
                yield self._event("output_text.done", **place, text=self._text, logprobs=[])
                yield self._event("content_part.done", **place, part=part)
                yield self._event("output_item.done", output_index=place["output_index"], item=ended["output"][-1])
                yield self._event(ended["status"], response=ended)

    def failure(self, problem: HTTPProblem) -> bytes:
        """Encode a problem as the last event."""
        codes = {429: "rate_limit_exceeded", 400: "invalid_prompt", 422: "invalid_prompt"}
        error = {"code": codes.get(problem.status, "server_error"), "message": str(problem)}
        event = self._event("failed", response=self._response("failed", [], error=error))
        return event_bytes(event["type"], event)

    @property
    def _place(self) -> JsonDict:
        """The place of the text: in the message, which follows the search."""
        return {"output_index": len(self._searches()), "content_index": 0, "item_id": self._message}

    def _text_events(self, piece: str) -> Iterator[JsonDict]:
        """Yield the event of a piece of text, after those that begin the message."""
        if piece and not self._text:
            item = self._message_item("in_progress", [])
            yield self._event("output_item.added", output_index=self._place["output_index"], item=item)
            yield self._event("content_part.added", **self._place, part=_output_text("", []))
        if piece:
            self._text += piece
            yield self._event("output_text.delta", **self._place, delta=piece, logprobs=[])

    def _event(self, kind: str, **fields: Any) -> JsonDict:
        self._number += 1
        return {"type": f"response.{kind}", "sequence_number": self._number - 1, **fields}

    def _searches(self) -> list[JsonDict]:
        """Return the item of the search, with the passages if the client asked for them. A program's task has none."""
        if not self.context["question"]:
            return []
        most, wants = (self._form.search and self._form.search.max_num_results, RESULTS in (self._form.include or ()))
        passages = self.context["passages"][:most] if wants else []
        results = [{**file_of(passage), "attributes": {}, "text": passage["text"]} for passage in passages]
        item = {"id": self._search, "type": "file_search_call", "status": "completed"}
        return [{**item, "queries": [self.context["question"]], "results": results if wants else None}]

    def _message_item(self, status: str, content: Sequence[Json]) -> JsonDict:
        return {"id": self._message, "type": "message", "status": status, "role": "assistant", "content": content}

    def _final_response(self, answer: Json, text: str, sources: Sequence[MarkedSource]) -> JsonDict:
        status = "completed" if answer["complete"] else "incomplete"
        spent = {name: answer["usage"][name] for name in ("input_tokens", "output_tokens")}
        cited = [one for source in sources if source.answer_span != (0, 0) for one in _citations(source)]
        return self._response(
            status,
            [*self._searches(), self._message_item(status, [_output_text(text, cited)])],
            completed_at=time.time(),
            incomplete_details=None if answer["complete"] else {"reason": "max_output_tokens"},
            usage={**spent, "total_tokens": sum(spent.values()), **_TOKEN_DETAILS},
            mergewise=self._frame.body(answer),
        )

    def _response(self, status: str, output: Sequence[Json], **more: Any) -> JsonDict:
        names = ("instructions", "max_output_tokens", "model", "previous_response_id", "temperature", "top_p")
        format = (response_format(self._form) or {}).get("response_format", {"type": "text"})
        return {
            "id": self._frame.id,
            "object": "response",
            "created_at": self._frame.created,
            "status": status,
            "output": output,
            **dict.fromkeys(("error", "incomplete_details", "usage")),
            **{name: getattr(self._form, name) for name in names},
            "metadata": self._form.metadata or {},
            "text": {"format": {"type": format["type"], **format.get("json_schema", {})}},
            "store": self._stores,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **more,
        }


def _output_text(text: str, annotations: Sequence[Json]) -> JsonDict:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _citations(source: MarkedSource) -> Iterator[JsonDict]:
    """Yield the annotations of a source: its file, and its address if it has one on the web."""
    start = source.answer_span[0]
    yield {"type": "file_citation", "file_id": key_of(source.doc), "filename": source.title, "index": start}
    if source.web_url:
        yield {"type": "url_citation", **source.citation}
