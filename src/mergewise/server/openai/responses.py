"""The routes of the Responses API: POST, GET and DELETE /v1/responses.

A response has an item for the search, and a message with citations. Responses are kept for a while, for the token that made
them, so that a later request can continue by `previous_response_id`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.concurrency import in_thread
from mergewise.server.collections import key_of
from mergewise.server.native.questions import event_bytes
from mergewise.server.openai.chat import Ask, profile_named
from mergewise.server.openai.completions import Completion, Json, MarkedSource, url_citations, usage
from mergewise.server.openai.conversations import MOST_HISTORY, chat_question, refused, text_of
from mergewise.server.openai.requests import ChatMessage, ResponseForm
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.questions import QuestionEvent
from mergewise.server.routing import READ, InService, ScopedRoute, request_id_of
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import EventStream

router = APIRouter(route_class=ScopedRoute)

RESULTS = "file_search_call.results"
# characters of the messages that a response keeps for the next one
_LONGEST_HISTORY = 100_000


@router.post("/responses", openapi_extra=READ)
async def create_response(form: ResponseForm, request: Request, service: InService) -> Response:
    """Answer from the documents, with the search as an item and the sources as annotations."""
    profile = await in_thread(partial(profile_named, service, form.model))
    _check(form, profile.config.collection)
    before = await in_thread(partial(_messages_before, service, form.previous_response_id))
    given, skipped = _messages_of(form)
    own = [ChatMessage(role="system", content=form.instructions)] if form.instructions else []
    conversation = chat_question([*own, *before, *given])
    ignored = [*form.ignored(), *skipped, *conversation.ignored]
    ignored += ["tools"] if any(tool.type != "file_search" for tool in form.tools or ()) else []
    limit = None if form.max_output_tokens is None else "max_output_tokens"
    style = profile.style(form, is_text=True)
    frame = Completion("resp_" + secrets.token_hex(12), form.model, style, service.config.url, ignored, limit)
    ask = Ask(service, profile, conversation, form)
    stores = profile.config.store and form.store is not False
    response = ResponseWriter(frame, form, stores)

    async def keep(whole: Json) -> None:
        if stores:
            messages = [*before, *given, ChatMessage(role="assistant", content=_text_of(whole))]
            await in_thread(partial(_keep, service, whole, messages))

    async def events() -> AsyncGenerator[bytes, None]:
        async with aclosing(response.events(await ask.events(request))) as coming:
            async for event in coming:
                if event["type"] in ("response.completed", "response.incomplete"):
                    await keep(event["response"])
                yield event_bytes(event["type"], event)

    if form.stream:
        failure = partial(response.failure, request_id_of(request))
        return await EventStream.begun(request, events(), failure, service.ending)
    whole = response.whole(await ask.answer(request))
    await keep(whole)
    return JSONResponse(whole)


@router.get("/responses/{id}", openapi_extra=READ)
async def get_response(id: str, service: InService) -> dict[str, Any]:
    """Return a response as it was sent."""
    kept = await in_thread(partial(service.response, id))
    if kept is None:
        raise unknown("response")
    found: dict[str, Any] = kept["response"]
    return found


@router.delete("/responses/{id}", openapi_extra=READ)
async def delete_response(id: str, service: InService) -> dict[str, Any]:
    if not await in_thread(partial(service.drop_response, id)):
        raise unknown("response")
    return {"id": id, "object": "response", "deleted": True}


def _check(form: ResponseForm, collection: str) -> None:
    """Check for unsupported parameters that would change the answer. Raises HTTPProblem 400."""
    if form.background or form.conversation:
        raise refused("unsupported parameter: background or conversation", "background")
    choice = form.tool_choice if isinstance(form.tool_choice, str) else (form.tool_choice or {}).get("type", "auto")
    if choice not in ("auto", "none", "file_search", "required" if form.search else "auto"):
        raise refused("unsupported tool_choice (expected auto, none or file_search)", "tool_choice")
    if form.search and collection not in (form.search.vector_store_ids or [collection]):
        raise refused(f"unknown vector store (the model {form.model!r} searches {collection!r})", "tools")


def _messages_of(form: ResponseForm) -> tuple[list[ChatMessage], list[str]]:
    """Return the input as messages, and the kinds of items that were left out."""
    if isinstance(form.input, str):
        return [ChatMessage(role="user", content=form.input)], []
    messages = [ChatMessage(role=one.role, content=one.content) for one in form.input if one.role is not None]
    others = {f"input items of the type {one.type}" for one in form.input if one.role is None}
    return messages, sorted(others - {"input items of the type file_search_call"})


def _messages_before(service: ScopedService, id: str | None) -> list[ChatMessage]:
    """Return the messages of an earlier response. Raises HTTPProblem 400 if it does not exist, or if another token made it."""
    if id is None:
        return []
    kept = service.response(id)
    if kept is None:
        detail = "previous response not found"
        fields = [{"pointer": "/previous_response_id", "detail": detail}]
        raise HTTPProblem(400, "previous_response_not_found", detail, "send the whole input", fields=fields)
    return [ChatMessage(role=role, content=text) for role, text in kept["messages"]]


def _keep(service: ScopedService, whole: Json, messages: Sequence[ChatMessage]) -> None:
    """Keep a response with the newest messages for the next one."""
    texts = [(one.role, text_of(one.content)) for one in messages[-MOST_HISTORY:]]
    while sum(len(text) for _, text in texts) > _LONGEST_HISTORY and len(texts) > 1:
        texts.pop(0)
    response = {name: value for name, value in whole.items() if name != "mergewise"}
    service.keep_response(whole["id"], {"response": response, "messages": texts})


def _text_of(whole: Json) -> str:
    """Return the text of the message, which is the last item of a response."""
    part = whole["output"][-1]["content"][0]
    return str(part.get("text") or part.get("refusal") or "")


class ResponseWriter:
    """Conversion of an answer to a response, complete or in events. `frame` holds its id, its model and its style."""

    def __init__(self, frame: Completion, form: ResponseForm, stores: bool) -> None:
        self._frame, self._form, self._stores = frame, form, stores
        self._search, self._message = (f"{kind}_{secrets.token_hex(12)}" for kind in ("fs", "msg"))
        self._events = 0

    def whole(self, answer: Json) -> dict[str, Any]:
        """Return the complete response of an answer with its context."""
        sources = self._frame.sources(answer, answer["context"]["passages"])
        text = self._frame.shown(answer["answer"]) + self._frame.style.end_of(answer, sources)
        searched = [self._searched(answer["context"])] if answer["context"]["question"] else []
        return self._ended(answer, searched, self._part(answer, text, sources))

    async def events(self, coming: AsyncGenerator[QuestionEvent, None]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a stream, from the events of a question."""
        style = self._frame.style
        escaper, context, text, searched = self._frame.style.markup.escaper(), None, "", []
        async with aclosing(coming):
            async for event in coming:
                match event.name:
                    case "started":
                        for kind in ("created", "in_progress"):
                            yield self._event(kind, response=self._response("in_progress", []))
                    case "context":
                        context = event.data
                        searched = [self._searched(context)]
                        for shown in self._search_events(searched[0]):
                            yield shown
                    case "delta" if not style.is_json or (context and context["passages"]):
                        for shown in self._written(text, escaper.feed(event.data["text"]), len(searched)):
                            text += shown.get("delta", "")
                            yield shown
                    case "done":
                        answer = event.data
                        sources = self._frame.sources(answer, context["passages"] if context else [])
                        is_held = style.is_json and not text
                        end = answer["answer"] if is_held else escaper.rest() + style.end_of(answer, sources)
                        refuses = self._frame.refuses(answer)
                        for shown in self._written(text, end, len(searched), is_refusal=refuses):
                            text += shown.get("delta", "")
                            yield shown
                        part = self._part(answer, text, sources)
                        for shown in self._end_events(answer, part, len(searched)):
                            yield shown
                        ended = self._ended(answer, searched, part)
                        yield self._event(ended["status"], response=ended)

    def failure(self, request_id: str, problem: HTTPProblem) -> bytes:
        """Encode a problem as the last event."""
        code = {429: "rate_limit_exceeded"}.get(problem.status, "server_error")
        code = "invalid_prompt" if problem.status in (400, 422) else code
        message = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
        error = {"code": code, "message": message, "request_id": request_id}
        event = self._event("failed", response=self._response("failed", [], error=error))
        return event_bytes(event["type"], event)

    def _search_events(self, item: Json) -> Iterator[dict[str, Any]]:
        begun = {**item, "status": "in_progress", "queries": [], "results": None}
        yield self._event("output_item.added", output_index=0, item=begun)
        for state in ("in_progress", "searching", "completed"):
            yield self._event(f"file_search_call.{state}", output_index=0, item_id=self._search)
        yield self._event("output_item.done", output_index=0, item=item)

    def _written(self, before: str, piece: str, at: int, *, is_refusal: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the event of a piece of text, after those that begin the message."""
        place = {"output_index": at, "content_index": 0, "item_id": self._message}
        if piece and not before:
            yield self._event("output_item.added", output_index=at, item=self._message_item("in_progress", []))
            empty = {"type": "refusal", "refusal": ""} if is_refusal else _output_text("", [])
            yield self._event("content_part.added", **place, part=empty)
        if piece:
            more: dict[str, Any] = {} if is_refusal else {"logprobs": []}
            yield self._event(f"{'refusal' if is_refusal else 'output_text'}.delta", **place, delta=piece, **more)

    def _end_events(self, answer: Json, part: Json, at: int) -> Iterator[dict[str, Any]]:
        place = {"output_index": at, "content_index": 0, "item_id": self._message}
        if part["type"] == "refusal":
            yield self._event("refusal.done", **place, refusal=part["refusal"])
        else:
            for number, one in enumerate(part["annotations"]):
                yield self._event("output_text.annotation.added", **place, annotation_index=number, annotation=one)
            yield self._event("output_text.done", **place, text=part["text"], logprobs=[])
        yield self._event("content_part.done", **place, part=part)
        yield self._event("output_item.done", output_index=at, item=self._message_item(_status(answer), [part]))

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._events += 1
        return {"type": f"response.{kind}", "sequence_number": self._events - 1, **fields}

    def _searched(self, context: Json) -> dict[str, Any]:
        """Return the item of the search, with the passages if the client asked for them."""
        shown = (
            context["passages"]
            if self._form.search is None
            else context["passages"][: self._form.search.max_num_results]
        )
        results = [
            {
                "file_id": key_of(passage["doc"] or ""),
                "filename": passage["title"] or passage["doc"] or "",
                "score": passage["score"],
                "text": passage["text"],
                "attributes": {},
            }
            for passage in shown
        ]
        asked = RESULTS in (self._form.include or ())
        return {
            "id": self._search,
            "type": "file_search_call",
            "status": "completed",
            "queries": [context["question"]],
            "results": results if asked else None,
        }

    def _part(self, answer: Json, text: str, sources: Sequence[MarkedSource]) -> dict[str, Any]:
        if self._frame.refuses(answer):
            return {"type": "refusal", "refusal": text}
        return _output_text(
            text, [one for source in sources if source.answer_span != (0, 0) for one in _citations(source)]
        )

    def _message_item(self, status: str, content: Sequence[Json]) -> dict[str, Any]:
        return {"id": self._message, "type": "message", "status": status, "role": "assistant", "content": list(content)}

    def _ended(self, answer: Json, searched: Sequence[Json], part: Json) -> dict[str, Any]:
        status, spent = _status(answer), usage(answer)
        return self._response(
            status,
            [*searched, self._message_item(status, [part])],
            completed_at=time.time(),
            incomplete_details=None if answer["complete"] else {"reason": "max_output_tokens"},
            usage={
                "input_tokens": spent["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": spent["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": spent["total_tokens"],
            },
            mergewise=self._frame.body(answer),
        )

    def _response(self, status: str, output: Sequence[Json], **more: Any) -> dict[str, Any]:
        form = self._form
        return {
            "id": self._frame.id,
            "object": "response",
            "created_at": self._frame.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": form.instructions,
            "max_output_tokens": form.max_output_tokens,
            "metadata": form.metadata or {},
            "model": form.model,
            "output": list(output),
            "parallel_tool_calls": True,
            "previous_response_id": form.previous_response_id,
            "store": self._stores,
            "temperature": form.temperature,
            "text": {"format": form.format.model_dump(exclude_none=True) if form.format else {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": form.top_p,
            "truncation": "disabled",
            "usage": None,
            **more,
        }


def _status(answer: Json) -> str:
    return "completed" if answer["complete"] else "incomplete"


def _output_text(text: str, annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _citations(source: MarkedSource) -> Iterator[dict[str, Any]]:
    """Yield the annotations of a source: its file, and its address if it has one on the web."""
    start = source.answer_span[0]
    yield {"type": "file_citation", "file_id": key_of(source.doc), "filename": source.title, "index": start}
    if source.url.startswith("http"):
        (cited,) = url_citations([source])
        yield {"type": "url_citation", **cited["url_citation"]}
