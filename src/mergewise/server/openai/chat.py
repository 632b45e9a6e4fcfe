"""The routes GET /v1/models and POST /v1/chat/completions.

A model is a profile of the configuration. Without profiles, a model is a collection, or a collection with a strategy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.concurrency import in_thread, run
from mergewise.server.configuration import ProfileConfig
from mergewise.server.native.questions import given_options
from mergewise.server.openai.completions import Completion, CompletionStyle, Json, task_answer, task_events
from mergewise.server.openai.conversations import ChatQuestion, chat_question, refused, task_by_rules, unknown_model
from mergewise.server.openai.requests import ChatExtras, ChatForm
from mergewise.server.problems import openai_error
from mergewise.server.questions import CollectionQuery, QuestionEvent
from mergewise.server.routing import READ, InService, ScopedRoute, request_id_of
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import EventStream, until_disconnect
from mergewise.types import Message, Usage

router = APIRouter(route_class=ScopedRoute)

_TASK_TOKENS = 300


@dataclass(frozen=True, slots=True)
class Profile:
    """A model of this server: a collection with the options of its questions."""

    id: str
    config: ProfileConfig
    created: float

    def as_dict(self) -> dict[str, Any]:
        named = {"name": self.config.title} if self.config.title else {}
        return {"id": self.id, "object": "model", "created": int(self.created), "owned_by": "mergewise", **named}

    def style(self, extras: ChatExtras) -> CompletionStyle:
        """Choose the style. With "auto", answers have a footer except for Open WebUI, which shows the sources itself."""
        wanted = self.config.footer == "always" or (self.config.footer == "auto" and not self.config.open_webui)
        return CompletionStyle(wanted if extras.footer is None else extras.footer, self.config.open_webui)

    def question(self, conversation: ChatQuestion, form: ChatForm, most_tokens: int) -> CollectionQuery:
        """Make the question. The client's options override the profile's defaults. Documents must meet both conditions."""
        config, extras = self.config, form.mergewise
        options = {**config.defaults, **given_options(extras)}
        if form.most_tokens is not None:
            options["max_tokens"] = min(form.most_tokens, most_tokens)
        if config.filter:
            options["where"] = [config.filter, options.get("where")]
        chat = options.pop("chat", config.chat)
        return CollectionQuery(
            config.collection, conversation.question, options, conversation.history, chat, frozenset(extras.include)
        )


def profiles(service: ScopedService, id: str | None = None) -> list[Profile]:
    """List the models whose collection the token may read, or only the model with this id.

    They are the profiles of the configuration, or without profiles each collection and its strategies.
    """
    visible = {collection.name: collection for collection in service.collections()}
    configs = dict(service.config.profiles)
    if not configs:
        for name, collection in visible.items():
            if id is None or name == id.partition(":")[0]:
                config = ProfileConfig(name, title=collection.record.title)
                configs[name] = config
                for strategy in collection.strategies():
                    configs[f"{name}:{strategy}"] = replace(config, defaults={"strategy": strategy})
    return [
        Profile(name, config, visible[config.collection].record.created)
        for name, config in configs.items()
        if config.collection in visible and id in (None, name)
    ]


def profile_named(service: ScopedService, id: str) -> Profile:
    """Return the profile with this id. Raises HTTPProblem 404, in OpenAI's form, if the token may not see it."""
    found = profiles(service, id)
    if not found:
        raise unknown_model(id, "request GET /v1/models for a list")
    return found[0]


@router.get("/models", openapi_extra=READ)
def list_models(service: InService) -> dict[str, Any]:
    """List the models of this server: profiles, or collections with their strategies."""
    return {"object": "list", "data": [profile.as_dict() for profile in profiles(service)]}


@router.get("/models/{model:path}", openapi_extra=READ)
def get_model(model: str, service: InService) -> dict[str, Any]:
    return profile_named(service, model).as_dict()


@router.post("/chat/completions", openapi_extra=READ)
async def complete_chat(form: ChatForm, request: Request, service: InService) -> Response:
    """Answer from the documents, with the sources as annotations."""
    profile = await in_thread(partial(profile_named, service, form.model))
    _check(form)
    conversation = chat_question(form.messages)
    extras = [*form.ignored(), *(["tools"] if form.tools else []), *conversation.ignored]
    completion = Completion(
        "chatcmpl-" + secrets.token_hex(12), form.model, profile.style(form.mergewise), service.config.url, extras
    )
    if conversation.is_task:
        answer = await until_disconnect(request, _answer_to_task(service, profile, conversation))
        if not form.stream:
            return JSONResponse(completion.whole({**answer, "context": {"passages": []}}))
        events: AsyncGenerator[QuestionEvent, None] = task_events(answer)
    else:
        question = profile.question(conversation, form, service.config.limits.max_tokens)
        if not form.stream:
            asked = service.answer(question)
            return JSONResponse(completion.whole(await until_disconnect(request, asked)))
        events = service.events(question)
    request_id = request_id_of(request)
    return await EventStream.begun(
        request,
        _lines(completion.chunks(events, form.includes_usage)),
        lambda problem: data_line(openai_error(problem, request_id)),
        service.ending,
    )


def _check(form: ChatForm) -> None:
    """Check for unsupported parameters that would change the answer. Raises HTTPProblem 400."""
    if form.n is not None and form.n != 1:
        raise refused(f"unsupported n: {form.n} (expected 1)", "n")
    if form.tool_choice not in (None, "auto", "none"):
        raise refused("unsupported tool_choice (expected auto or none)", "tool_choice")


async def _answer_to_task(service: ScopedService, profile: Profile, conversation: ChatQuestion) -> dict[str, Any]:
    """Answer a program's task with the chat model, or by rules without one."""
    collection = service.collection(profile.config.collection)
    chat = (await in_thread(partial(collection.with_chat, profile.config.chat))).chat if collection.is_made else None
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
