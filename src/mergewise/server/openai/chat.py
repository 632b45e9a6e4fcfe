"""The routes GET /v1/models and POST /v1/chat/completions.

A model is a profile of the configuration. Without profiles, a model is a collection, or a collection with a strategy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mergewise.errors import InputRefused
from mergewise.extend import in_thread, run
from mergewise.server.collection_query import CollectionQuery, QuestionEvent
from mergewise.server.configuration import ProfileConfig
from mergewise.server.native.questions import STREAMED, event_bytes, given_options
from mergewise.server.openai.completions import Completion, CompletionStyle, task_answer, task_events
from mergewise.server.openai.conversations import ChatQuestion, chat_question, task_by_rules, unknown_model
from mergewise.server.openai.requests import ChatForm, ChatMessage, ModelForm
from mergewise.server.openai.scoring import embedder_forms
from mergewise.server.problems import openai_error, refusal
from mergewise.server.routing import READ, InService, ScopedRoute, request_id_of
from mergewise.server.scoped import Scoped, ScopedService
from mergewise.server.streams import EventStream, until_disconnect
from mergewise.types import Json, JsonDict, Message, ReplyOptions, Usage, frozen

router = APIRouter(route_class=ScopedRoute)

_LONGEST_SCHEMA = 50_000
_UNSUPPORTED = frozenset({"n", "background", "conversation", "prompt"})


class Profile(NamedTuple):
    """A model of this server: a collection with the options of its questions."""

    id: str
    config: ProfileConfig
    created: float

    def as_dict(self) -> JsonDict:
        named = {"name": self.config.title} if self.config.title else {}
        return {"id": self.id, "object": "model", "created": int(self.created), "owned_by": "mergewise", **named}


def profiles(service: ScopedService, id: str | None = None) -> list[Profile]:
    """List the models whose collection the token may read, or only the model with this id.

    They are the profiles of the configuration, or without profiles each collection and its strategies.
    """
    visible = {collection.name: collection for collection in service.collections()}
    configs = dict(service.config.profiles)
    if not configs:
        for name, collection in visible.items():
            if id is None or name == id.partition(":")[0]:
                title = collection.record.title
                configs[name] = ProfileConfig(name, title=title)
                for strategy in collection.strategies():
                    own = f"{title}: {strategy}" if title else ""
                    configs[f"{name}:{strategy}"] = ProfileConfig(name, title=own, defaults={"strategy": strategy})
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


@router.get("/models", **READ)
def list_models(service: InService) -> JsonDict:
    """List the models of this server: profiles, or collections with their strategies, and embedders."""
    return {"object": "list", "data": [*map(Profile.as_dict, profiles(service)), *embedder_forms(service)]}


@router.get("/models/{model:path}", **READ)
def get_model(model: str, service: InService) -> JsonDict:
    named = (one for one in embedder_forms(service) if one["id"] == model)
    return next(named, None) or profile_named(service, model).as_dict()


@router.post("/chat/completions", **READ, responses=STREAMED)
async def complete_chat(form: ChatForm, request: Request, service: InService) -> Response:
    """Answer from the documents, with the sources as annotations."""
    if form.tool_choice not in (None, "auto", "none"):
        raise refusal("unsupported tool_choice (expected auto or none)", "tool_choice")
    ask = await Ask.of(service, form, form.messages)
    frame = ask.frame("chatcmpl-", ["tools"] if form.tools else [])
    if not form.stream:
        return JSONResponse(frame.whole(await ask.answer(request)))

    chunks = frame.chunks(await ask.events(request))

    async def lines() -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield event_bytes(None, chunk)
        yield b"data: [DONE]\n\n"

    id = request_id_of(request)
    return await EventStream(lines(), lambda one: event_bytes(None, openai_error(one, id)), service.ending).begun(
        request
    )


def response_format(form: ModelForm) -> JsonDict | None:
    """Return the option of a chat model for a JSON answer, or None for text. Raises HTTPProblem 400 without a schema."""
    format = form.format
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return {"response_format": {"type": "json_object"}}
    given = format.json_schema or format.model_extra or {}
    if not isinstance(given.get("schema"), dict) or len(json.dumps(given)) > _LONGEST_SCHEMA:
        raise refusal(f"invalid schema (expected an object of up to {_LONGEST_SCHEMA:,} characters)", "response_format")
    known = {name: given[name] for name in ("name", "description", "schema", "strict") if given.get(name) is not None}
    return _without_surrogates({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", **known}}})


def _without_surrogates(options: Json) -> JsonDict:
    """Replace lone surrogates, which JSON can hold but which cannot be sent."""
    clean: JsonDict = json.loads(json.dumps(options, ensure_ascii=False).encode("utf-8", "replace"))
    return clean


@frozen
class Ask:
    """A request for an answer: its service, form and profile, and the conversation."""

    service: ScopedService
    form: ModelForm
    profile: Profile
    conversation: ChatQuestion

    @classmethod
    async def of(cls, service: ScopedService, form: ModelForm, messages: Sequence[ChatMessage]) -> Ask:
        """Check the request. Raises HTTPProblem 404 for an unknown model, 400 for parameters that would change the answer."""
        profile = await in_thread(profile_named, service, form.model)
        for name, value in {**(form.model_extra or {}), **form.given_values("n")}.items():
            if name in _UNSUPPORTED and (value is True or value not in (None, False, "", 1)):
                raise refusal(f"unsupported {name}: {str(value)[:100]}", name)
        return cls(service, form, profile, chat_question(messages))

    def frame(self, prefix: str, ignored: Sequence[str]) -> Completion:
        """Return the frame of the answer, with its style.

        With "auto", answers have a footer except for Open WebUI, which shows the sources itself. Only chat completions have its
        events.
        """
        form, config = self.form, self.profile.config
        extras, is_json = form.mergewise, response_format(form) is not None
        open_webui = config.open_webui and isinstance(form, ChatForm)
        wanted = config.footer == "always" or (config.footer == "auto" and not open_webui)
        footer = (wanted if extras.footer is None else extras.footer) and not is_json
        is_markdown = (extras.markup or config.markup) == "markdown" and not is_json
        style, base = CompletionStyle(footer, open_webui, config.remark, is_markdown), self.service.config.url
        unknown = sorted(name for name, value in (form.model_extra or {}).items() if value is not None)
        ignored = [*unknown, *ignored, *self.conversation.ignored]
        includes_usage = form.stream_options is not None and form.stream_options.include_usage
        id, limits = f"{prefix}{secrets.token_hex(12)}", tuple(form.limit)
        return Completion(id, form.model, style, base, ignored, limits, includes_usage)

    @property
    def question(self) -> tuple[CollectionQuery, Scoped]:
        """The question and its collection, as `Questions` takes them.

        The client's options override the profile's defaults. Documents must meet both conditions.
        """
        form, config, conversation = self.form, self.profile.config, self.conversation
        extras, search = form.mergewise, form.search
        options = {**config.defaults, **given_options(extras)}
        for limit in list(form.limit.values())[:1]:
            options["max_tokens"] = min(limit, self.service.questions.limits.max_tokens)
        if config.filter is not None or search:
            options["where"] = [config.filter, search and search.filters, options.get("where")]
        chat = options.pop("chat", config.chat)
        sampling = _without_surrogates(form.given_values("temperature", "top_p", "seed", "stop"))
        reply = ReplyOptions(
            conversation.instructions, conversation.message, {**sampling, **(response_format(form) or {})}
        )
        query = CollectionQuery(
            conversation.question, options, conversation.history, chat, frozenset(extras.include), reply
        )
        return query, self.service.collection(config.collection)

    async def answer(self, request: Request) -> Json:
        """Return the whole answer with its context. Raises HTTPProblem 400 if the chat model refuses the format."""
        if self.conversation.is_task:
            answer = await until_disconnect(request, self._answer_to_task())
            return {**answer, "context": {"question": "", "passages": []}}
        try:
            return await until_disconnect(request, self.service.questions.answer(*self.question))
        except InputRefused as error:
            if response_format(self.form) is None:
                raise
            raise refusal(f"the chat model refused the request with this format: {error}", "response_format") from error

    async def events(self, request: Request) -> AsyncGenerator[QuestionEvent, None]:
        """Return the events of the answer."""
        if self.conversation.is_task:
            return task_events(await self.answer(request))
        return self.service.questions.events(*self.question)

    async def _answer_to_task(self) -> JsonDict:
        """Answer a program's task by rules, or with the chat model if the profile allows it for a task of this length."""
        config, task, admission = self.profile.config, self.conversation.question, self.service.admission
        collection, chat = self.service.collection(config.collection), None
        if config.tasks and len(task) <= 40_000 and collection.is_made:
            chat = (await in_thread(collection.with_chat, config.chat)).chat
        if chat is None:
            return task_answer(task_by_rules(task), Usage())
        with admission.place():
            reply = await admission.wait(lambda: run(chat.complete([Message("user", task)], max_tokens=300)))
        return task_answer(reply.text, reply.usage)
