"""Routes for contexts, answers and comparisons."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from mergewise import AnswerQuery
from mergewise.extend import options_of
from mergewise.server.collection_query import CollectionQuery
from mergewise.server.native.conversations import keep_turn
from mergewise.server.native.requests import AskForm, CompareForm, ContextForm
from mergewise.server.native.responses import ANSWER, COMPARISON, CONTEXT_ANSWER
from mergewise.server.problems import HTTPProblem, problem_json
from mergewise.server.routing import READ, InCollection, ScopedRoute, request_id_of
from mergewise.server.streams import EventStream, until_disconnect
from mergewise.types import Json, JsonDict, Message

router = APIRouter(prefix="/api/v1/collections/{c}", tags=["questions"], route_class=ScopedRoute)

STREAMED: dict[int | str, JsonDict] = {
    200: {"description": "The complete result, or its events", "content": {"text/event-stream": {}}}
}


@router.post("/context", response_model=CONTEXT_ANSWER, response_model_exclude_unset=True, **READ)
async def context(form: ContextForm, request: Request, collection: InCollection) -> JsonDict:
    """Assemble the context of a question."""
    return await until_disconnect(request, collection.questions.context(question_of(form), collection))


@router.post("/ask", **READ, response_model=ANSWER, response_model_exclude_unset=True, responses=STREAMED)
async def ask(form: AskForm, request: Request, collection: InCollection) -> Any:
    """Answer a question: at once, or as the events `started`, `context`, `delta`, `citations`, and `done` or `error`."""
    question = question_of(form)
    if not form.stream and "text/event-stream" not in request.headers.get("accept", ""):
        answer = await until_disconnect(request, collection.questions.answer(question, collection))
        return {**answer, **await keep_turn(collection, form, answer["context"], answer)}

    async def events() -> AsyncGenerator[bytes, None]:
        context: Json = {}
        async with aclosing(collection.questions.events(question, collection)) as coming:
            async for event in coming:
                context = event.data if event.name == "context" else context
                kept = await keep_turn(collection, form, context, event.data) if event.name == "done" else {}
                yield event_bytes(event.name, {**event.data, **kept})

    return await EventStream(events(), failure_event(request), collection.service.ending).begun(request)


@router.post("/compare", response_model=COMPARISON, response_model_exclude_unset=True, **READ)
async def compare(form: CompareForm, request: Request, collection: InCollection) -> JsonDict:
    """Compare the contexts of two to four strategies, each with its unshared spans."""
    shared = form.model_dump(exclude={"runs"}, exclude_unset=True)
    asked = [
        question_of(ContextForm.model_validate({**shared, **run.model_dump(exclude_unset=True)})) for run in form.runs
    ]
    return await until_disconnect(request, collection.questions.compare(asked, collection))


def question_of(form: ContextForm) -> CollectionQuery:
    """Convert a form to a question."""
    return CollectionQuery(
        form.question,
        given_options(form),
        history=tuple(Message(turn.role, turn.content) for turn in form.history),
        chat=form.chat,
        include=frozenset(form.include),
        snapshot=form.snapshot,
    )


def given_options(form: BaseModel) -> JsonDict:
    """Return the options of a question that a body sets."""
    return form.model_dump(include={option.name for option in options_of(AnswerQuery)}, exclude_none=True)


def event_bytes(name: str | None, data: Json, id: int | None = None) -> bytes:
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=body, event=name, id=None if id is None else str(id))


def failure_event(request: Request) -> Callable[[HTTPProblem], bytes]:
    """Return a function that encodes a problem as the event `error`."""
    return lambda problem: event_bytes("error", problem_json(problem, request_id_of(request)))
