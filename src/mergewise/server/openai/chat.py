"""GET /v1/models, POST /v1/chat/completions."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.concurrency import in_thread, run
from mergewise.server.openai.completions import Completion, Json, task_answer, task_events
from mergewise.server.openai.conversations import ChatQuestion, chat_question, refused, task_by_rules
from mergewise.server.openai.profiles import Profile, profile_named, profiles
from mergewise.server.openai.requests import ChatForm
from mergewise.server.problems import openai_error
from mergewise.server.questions import QuestionEvent
from mergewise.server.records import Token
from mergewise.server.routing import READ, Caller, ScopedRoute, Server, Service, request_id_of
from mergewise.server.streams import EventStream, until_disconnect
from mergewise.types import Message, Usage

router = APIRouter(route_class=ScopedRoute)

_TASK_TOKENS = 300


@router.get("/models", openapi_extra=READ)
def list_models(service: Server, token: Caller) -> dict[str, Any]:
    """The models of this server: profiles, or collections with their strategies."""
    return {"object": "list", "data": [profile.as_dict() for profile in profiles(service, token)]}


@router.get("/models/{model:path}", openapi_extra=READ)
def get_model(model: str, service: Server, token: Caller) -> dict[str, Any]:
    return profile_named(service, token, model).as_dict()


@router.post("/chat/completions", openapi_extra=READ)
async def complete_chat(form: ChatForm, request: Request, service: Server, token: Caller) -> Response:
    """An answer from the documents, with its sources as annotations."""
    profile = await in_thread(partial(profile_named, service, token, form.model))
    _check(form)
    conversation = chat_question(form.messages)
    extras = [*form.ignored(), *(["tools"] if form.tools else []), *conversation.ignored]
    completion = Completion(
        "chatcmpl-" + secrets.token_hex(12), form.model, profile.style(form.mergewise), service.config.url, extras
    )
    if conversation.is_task:
        answer = await until_disconnect(request, _answer_to_task(service, token, profile, conversation))
        if not form.stream:
            return JSONResponse(completion.whole({**answer, "context": {"passages": []}}))
        events: AsyncGenerator[QuestionEvent, None] = task_events(answer)
    else:
        question = profile.question(conversation, form, service.config.limits.max_tokens)
        if not form.stream:
            asked = service.questions.answer(question, token)
            return JSONResponse(completion.whole(await until_disconnect(request, asked)))
        events = service.questions.events(question, token)
    request_id = request_id_of(request)
    return await EventStream.begun(
        request,
        _lines(completion.chunks(events, form.includes_usage)),
        lambda problem: data_line(openai_error(problem, request_id)),
        service.ending,
    )


def _check(form: ChatForm) -> None:
    """Raises HTTPProblem 400 for what changes the answer and cannot be done."""
    if form.n is not None and form.n != 1:
        raise refused(f"n is {form.n}: one answer is given", "n")
    if form.tool_choice not in (None, "auto", "none"):
        raise refused("tool_choice demands a call of a tool, and no tools are called", "tool_choice")


async def _answer_to_task(
    service: Service, token: Token, profile: Profile, conversation: ChatQuestion
) -> dict[str, Any]:
    """What the program asked for itself: by the chat model, or without one by rules."""
    collection = service.collections.get(profile.config.collection, token)
    chat = (await in_thread(partial(collection.asked_by, profile.config.chat))).chat if collection.is_made else None
    if chat is None:
        return task_answer(task_by_rules(conversation.question), Usage())
    messages = [*conversation.history, Message("user", conversation.question)]
    with service.admission.place():
        reply = await service.admission.wait(lambda: run(chat.complete(messages, max_tokens=_TASK_TOKENS)))
    return task_answer(reply.text, reply.usage)


async def _lines(chunks: AsyncGenerator[Json, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield data_line(chunk)
    yield b"data: [DONE]\n\n"


def data_line(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
