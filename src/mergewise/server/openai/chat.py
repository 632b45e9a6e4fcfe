"""The routes GET /v1/models, POST /v1/chat/completions and POST /v1/completions.

A model is a profile of the configuration. Without profiles, a model is a collection, or a collection with a strategy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.concurrency import in_thread, run
from mergewise.errors import InputRefused
from mergewise.protocols import ChatModel
from mergewise.server.configuration import ProfileConfig
from mergewise.server.native.questions import given_options
from mergewise.server.openai.completions import (
    Completion,
    CompletionStyle,
    Json,
    TextCompletion,
    task_answer,
    task_events,
)
from mergewise.server.openai.conversations import (
    ChatQuestion,
    chat_question,
    prompt_messages,
    refused,
    task_by_rules,
    unknown_model,
)
from mergewise.server.openai.markup import Markup
from mergewise.server.openai.requests import ChatForm, ChoiceForm, ResponseForm, TextForm
from mergewise.server.problems import openai_error
from mergewise.server.questions import CollectionQuery, QuestionEvent
from mergewise.server.routing import READ, InService, ScopedRoute, request_id_of
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import EventStream, until_disconnect
from mergewise.types import Message, ReplyOptions, Usage

router = APIRouter(route_class=ScopedRoute)

_TASK_TOKENS = 300
# characters of a task that a chat model answers, and of a schema
LONGEST_TASK, _LONGEST_SCHEMA = 40_000, 50_000
AnyForm: TypeAlias = ChatForm | TextForm | ResponseForm


@dataclass(frozen=True, slots=True)
class Profile:
    """A model of this server: a collection with the options of its questions."""

    id: str
    config: ProfileConfig
    created: float

    def as_dict(self) -> dict[str, Any]:
        named = {"name": self.config.title} if self.config.title else {}
        return {"id": self.id, "object": "model", "created": int(self.created), "owned_by": "mergewise", **named}

    def style(self, form: AnyForm, *, is_text: bool = False) -> CompletionStyle:
        """Choose the style. With "auto", answers have a footer except for Open WebUI, which shows the sources itself.

        `is_text` is True for APIs without events of Open WebUI.
        """
        config, extras = self.config, form.mergewise
        open_webui, is_json = config.open_webui and not is_text, response_format(form) is not None
        wanted = config.footer == "always" or (config.footer == "auto" and not open_webui)
        return CompletionStyle(
            wanted if extras.footer is None else extras.footer,
            open_webui,
            config.remark,
            Markup((extras.markup or config.markup) == "markdown" and not is_json),
            is_json,
        )

    def question(self, conversation: ChatQuestion, form: AnyForm, most_tokens: int) -> CollectionQuery:
        """Make the question. The client's options override the profile's defaults. Documents must meet both conditions."""
        config, extras = self.config, form.mergewise
        options = {**config.defaults, **given_options(extras)}
        if form.most_tokens is not None:
            options["max_tokens"] = min(form.most_tokens, most_tokens)
        if config.filter or form.filters:
            options["where"] = [config.filter, form.filters, options.get("where")]
        chat = options.pop("chat", config.chat)
        format = response_format(form)
        sampling = {**form.sampling(), **({} if format is None else {"response_format": format})}
        reply = ReplyOptions(conversation.instructions, conversation.message, sampling)
        include = frozenset(extras.include)
        return CollectionQuery(
            config.collection, conversation.question, options, conversation.history, chat, include, reply
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
    if form.tool_choice not in (None, "auto", "none"):
        raise refused("unsupported tool_choice (expected auto or none)", "tool_choice")
    conversation = chat_question(form.messages)
    extras = [*form.ignored(), *(["tools"] if form.tools else []), *conversation.ignored]
    id, limit = "chatcmpl-" + secrets.token_hex(12), "max_completion_tokens" if form.max_completion_tokens else None
    limit = limit or ("max_tokens" if form.max_tokens else None)
    completion = Completion(id, form.model, profile.style(form), service.config.url, extras, limit)
    return await _completed(completion, Ask(service, profile, conversation, form), request)


@router.post("/completions", openapi_extra=READ)
async def complete_text(form: TextForm, request: Request, service: InService) -> Response:
    """Answer from the documents in the older form of the API."""
    profile = await in_thread(partial(profile_named, service, form.model))
    _check(form)
    if form.echo or form.suffix or form.best_of not in (None, 1):
        raise refused("unsupported parameter: echo, suffix or best_of", "prompt")
    conversation = chat_question(prompt_messages(form.prompt if isinstance(form.prompt, str) else form.prompt[0]))
    id, style = "cmpl-" + secrets.token_hex(12), profile.style(form, is_text=True)
    limit = "max_tokens" if form.max_tokens else None
    completion = TextCompletion(id, form.model, style, service.config.url, form.ignored(), limit)
    return await _completed(completion, Ask(service, profile, conversation, form), request)


def _check(form: ChoiceForm) -> None:
    """Check for more than one choice. Raises HTTPProblem 400."""
    if form.n is not None and form.n != 1:
        raise refused(f"unsupported n: {form.n} (expected 1)", "n")


def response_format(form: AnyForm) -> dict[str, Any] | None:
    """Return the format of a JSON answer as chat models take it, or None for text. Raises HTTPProblem 400 without a schema."""
    format = form.format
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return {"type": "json_object"}
    given = format.json_schema or format.model_extra or {}
    if not isinstance(given.get("schema"), dict) or len(json.dumps(given)) > _LONGEST_SCHEMA:
        raise refused(f"invalid schema (expected an object of up to {_LONGEST_SCHEMA:,} characters)", "response_format")
    known = {name: given[name] for name in ("name", "description", "schema", "strict") if given.get(name) is not None}
    return {"type": "json_schema", "json_schema": {"name": "answer", **known}}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for an answer: its service and profile, the conversation and the form."""

    service: ScopedService
    profile: Profile
    conversation: ChatQuestion
    form: AnyForm

    @property
    def question(self) -> CollectionQuery:
        return self.profile.question(self.conversation, self.form, self.service.config.limits.max_tokens)

    async def answer(self, request: Request) -> Json:
        """Return the whole answer with its context. Raises HTTPProblem 400 if the chat model refuses the format."""
        if self.conversation.is_task:
            answer = await until_disconnect(request, self._answer_to_task())
            return {**answer, "context": {"question": "", "passages": []}}
        try:
            return await until_disconnect(request, self.service.answer(self.question))
        except InputRefused as error:
            if response_format(self.form) is None:
                raise
            raise refused(f"the chat model refused the request with this format: {error}", "response_format") from error

    async def events(self, request: Request) -> AsyncGenerator[QuestionEvent, None]:
        """Return the events of the answer."""
        if self.conversation.is_task:
            return task_events(await self.answer(request))
        return self.service.events(self.question)

    async def _answer_to_task(self) -> dict[str, Any]:
        """Answer a program's task by rules, or with the chat model if the profile allows it for a task of this length."""
        service, config, task = self.service, self.profile.config, self.conversation.question
        chat = None
        if config.tasks and len(task) <= LONGEST_TASK:
            collection = service.collection(config.collection)
            if collection.is_made:
                chat = (await in_thread(partial(collection.with_chat, config.chat))).chat
        if chat is None:
            return task_answer(task_by_rules(task), Usage())
        return await _written_task(service, chat, task)


async def _completed(completion: Completion, ask: Ask, request: Request) -> Response:
    """Return the completion at once, or as a stream of chunks."""
    if not ask.form.stream:
        return JSONResponse(completion.whole(await ask.answer(request)))
    events, request_id = await ask.events(request), request_id_of(request)
    return await EventStream.begun(
        request,
        _lines(completion.chunks(events, ask.form.includes_usage)),
        lambda problem: data_line(openai_error(problem, request_id)),
        ask.service.ending,
    )


async def _written_task(service: ScopedService, chat: ChatModel, task: str) -> dict[str, Any]:
    """Send a program's task to the chat model. Only its own text is sent, and the answer is short."""
    messages = [Message("user", task)]
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
