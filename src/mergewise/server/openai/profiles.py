"""What clients name as their model: a profile of the configuration, or, without any, a collection and its strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mergewise.server.configuration import ProfileConfig
from mergewise.server.native.questions import given_options
from mergewise.server.openai.completions import CompletionStyle
from mergewise.server.openai.conversations import ChatQuestion, unknown_model
from mergewise.server.openai.requests import ChatExtras, ChatForm
from mergewise.server.questions import CollectionQuery
from mergewise.server.records import Token
from mergewise.server.routing import Service


@dataclass(frozen=True, slots=True)
class Profile:
    """A model of this server: a collection, and how it is asked."""

    id: str
    config: ProfileConfig
    created: float

    def as_dict(self) -> dict[str, Any]:
        named = {"name": self.config.title} if self.config.title else {}
        return {"id": self.id, "object": "model", "created": int(self.created), "owned_by": "mergewise", **named}

    def style(self, extras: ChatExtras) -> CompletionStyle:
        """With "auto" the footer stands below answers to all programs but Open WebUI, which shows the sources itself."""
        wanted = self.config.footer == "always" or (self.config.footer == "auto" and not self.config.open_webui)
        return CompletionStyle(wanted if extras.footer is None else extras.footer, self.config.open_webui)

    def question(self, conversation: ChatQuestion, form: ChatForm, most_tokens: int) -> CollectionQuery:
        """The question: the client's options go before the profile's defaults. Documents must meet both conditions."""
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


def profiles(service: Service, token: Token) -> list[Profile]:
    """Those whose collection the token may read."""
    visible = {collection.name: collection for collection in service.collections.visible(token)}
    if service.config.profiles:
        return [
            Profile(id, config, visible[config.collection].record.created)
            for id, config in service.config.profiles.items()
            if config.collection in visible
        ]
    return [
        Profile(
            id,
            ProfileConfig(name, defaults=_defaults_of(strategy), title=collection.record.title),
            collection.record.created,
        )
        for name, collection in visible.items()
        for id, strategy in [(name, None), *((f"{name}:{one}", one) for one in collection.strategies())]
    ]


def profile_named(service: Service, token: Token, id: str) -> Profile:
    """The profile of this id. Raises HTTPProblem 404, as clients of OpenAI expect it, also where the token may not see it."""
    known = service.config.profiles
    name, colon, strategy = id.partition(":")
    config = known.get(id) if known else ProfileConfig(name, defaults=_defaults_of(strategy))
    visible = {collection.name: collection for collection in service.collections.visible(token)}
    collection = None if config is None else visible.get(config.collection)
    if config is None or collection is None or (not known and colon and strategy not in collection.strategies()):
        raise unknown_model(id, "GET /v1/models lists them")
    return Profile(id, config, collection.record.created)


def _defaults_of(strategy: str | None) -> dict[str, str]:
    return {"strategy": strategy} if strategy else {}
