"""An OpenAI-compatible chat endpoint: `openai:MODEL`. OpenAI itself, vLLM, llama.cpp, Ollama, TGI ...

Compatible endpoints differ in the options that they take. An option that an endpoint refuses by name is not sent again.
`max_completion_tokens` is then sent for `max_tokens`. A JSON schema is replaced by "some JSON", and that by a request in words.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from mergewise.errors import ModelError, UsageError
from mergewise.models.clients import ANSWER_MB, PerLoop, each_in_time, in_time
from mergewise.models.endpoint import RETRIES, TIMEOUT, UNREADABLE, Endpoint
from mergewise.ranges import AT_ONCE, RETRYING, SECONDS, Range, number, whole
from mergewise.types import Message, Reply, Usage

log = logging.getLogger("mergewise")

Options: TypeAlias = dict[str, Any]
Schema: TypeAlias = Mapping[str, object]

WINDOW = 32_768
CONCURRENCY = 8
_TOKENS, _TEMPERATURE, _SEED = Range(1, 10**9), Range(0, 10), Range(-(2**63), 2**63 - 1)
# seconds before a broken stream is begun again, doubled each time
_PAUSE = 0.5

# The options that are left out when an endpoint refuses them, and what is sent instead of one of them.
_OPTIONAL = ("stream_options", "temperature", "seed", "max_tokens")
_INSTEAD = {"max_tokens": "max_completion_tokens"}
_JSON_FORMS = ("json_schema", "json_object", "words")


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What is known of the options that an endpoint takes."""

    refused: frozenset[str] = frozenset()
    json_form: str = _JSON_FORMS[0]

    def without(self, message: str, options: Options) -> _Accepted | None:
        """Leave out the option that the error names, else the JSON format; None where neither can be."""
        for name in _OPTIONAL:
            if name in options and name in message:
                return replace(self, refused=self.refused | {name})
        if "response_format" in options:
            return replace(self, json_form=_JSON_FORMS[_JSON_FORMS.index(self.json_form) + 1])
        return None


class OpenAIChat:
    """A `ChatModel`. At most `concurrency` requests are under way at once; `timeout` is in seconds.

    `window` is what the model takes, in tokens (default: MERGEWISE_WINDOW, else 32,768). `base_url` and `api_key`
    come before the environment. Temperature 0 asks for the same answer to the same question; with None, none is sent.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        window: int | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        concurrency: int = CONCURRENCY,
        temperature: float | None = 0.0,
        seed: int | None = None,
    ) -> None:
        self.spec = f"openai:{model}"
        self.window = whole("the window is", _window() if window is None else window, _TOKENS)
        self._model = model
        self._retries = whole("the number of retries is", retries, RETRYING)
        seconds = number("the time to wait is", timeout, float, SECONDS)
        self._endpoint = Endpoint(
            self.spec, "chat completions", self._retries,
            base_url=base_url, api_key=api_key, timeout=seconds, megabytes=ANSWER_MB,
        )  # fmt: skip
        self.base_url, self.aclose = self._endpoint.base_url, self._endpoint.aclose
        at_once = whole("the number of requests at once is", concurrency, AT_ONCE)
        self._slots = PerLoop(lambda: asyncio.Semaphore(at_once))
        self._sampling = {
            name: number(f"the {name} is", value, kind, limits)
            for name, value, kind, limits in (
                ("temperature", temperature, float, _TEMPERATURE),
                ("seed", seed, int, _SEED),
            )
            if value is not None
        }
        self._accepted = _Accepted()

    @property
    def identity(self) -> str:
        return json.dumps([self.spec, self.base_url, self._sampling], sort_keys=True)

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        async with self._slots.here():
            answer = await in_time(self.spec, self._create(messages, max_tokens, schema, stream=False))
        try:
            choice = answer.choices[0]
            text = visible(_clean(choice.message.content or ""))
            return Reply(text, _usage(answer.usage), complete=choice.finish_reason != "length")
        except UNREADABLE as error:
            raise self._endpoint.nonsense(f"no chat completion ({error})") from error

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """A connection that is lost before the first piece is tried again; afterwards it is an error."""
        async with self._slots.here():
            for attempt in range(self._retries + 1):
                answer = _Streamed()
                chunks = await in_time(self.spec, self._create(messages, max_tokens, None, stream=True))
                try:
                    async for chunk in each_in_time(self.spec, chunks):
                        if piece := answer.add(chunk):
                            yield piece
                except UNREADABLE as error:
                    raise self._endpoint.nonsense(f"no stream of a chat completion ({type(error).__name__})") from error
                except ModelError:
                    raise
                except Exception as error:
                    if not self._is_lost(error) or answer.begun or attempt == self._retries:
                        raise self._endpoint.failure(error) from error
                    log.info("%s: the stream broke (%s); asking again", self.spec, type(error).__name__)
                    await asyncio.sleep(_PAUSE * 2**attempt)
                else:
                    if answer.reason is None:
                        raise self._endpoint.nonsense("a stream that ends in the middle")
                    yield answer.reply()
                    return
                finally:
                    await chunks.close()

    async def _create(
        self, messages: Sequence[Message], max_tokens: int, schema: Schema | None, *, stream: bool
    ) -> Any:
        """Ask, and ask again without the options that the endpoint refuses. Which ones it took is remembered."""
        client, accepted, sdk = self._endpoint.client(), self._accepted, self._endpoint.sdk
        while True:
            wire: Any = [{"role": m.role, "content": m.text} for m in _with_schema(messages, schema, accepted)]
            options = self._options(accepted, max_tokens, schema, stream=stream)
            try:
                answer = await client.chat.completions.create(model=self._model, messages=wire, **options)
            except sdk.OpenAIError as error:
                refused = isinstance(error, sdk.BadRequestError | sdk.UnprocessableEntityError)
                # some servers fall over what they do not know: llama-cpp-python does
                refused |= isinstance(error, sdk.InternalServerError) and "response_format" in str(error)
                less = accepted.without(str(error), options) if refused else None
                if less is None:
                    raise self._endpoint.failure(error) from error
                accepted = less
            except UNREADABLE as error:
                raise self._endpoint.nonsense(f"what is no JSON ({type(error).__name__})") from error
            else:
                self._accepted = accepted
                return answer

    def _options(self, accepted: _Accepted, max_tokens: int, schema: Schema | None, *, stream: bool) -> Options:
        options: Options = {**self._sampling, "max_tokens": max_tokens}
        if stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if schema is not None:
            options |= _response_format(schema, accepted.json_form)
        for name in accepted.refused & options.keys():
            value = options.pop(name)
            if name in _INSTEAD:
                # older versions of the SDK do not know it
                options["extra_body"] = {_INSTEAD[name]: value}
        return options

    def _is_lost(self, error: Exception) -> bool:
        """Whether a connection broke. While it streams, older versions of the SDK raise the errors of their HTTP library."""
        return isinstance(error, self._endpoint.sdk.APIConnectionError) or type(error).__module__.startswith("http")


class _Streamed:
    """A streamed answer as it grows. Every character is looked at a bounded number of times."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.begun = False  # whether a piece was shown
        self._pieces: list[str] = []
        self._thoughts = _Thoughts()
        self._usage = Usage(calls=1)

    def add(self, chunk: Any) -> str:
        """The text that the chunk brings."""
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        piece = ""
        for choice in chunk.choices[:1]:
            self.reason = choice.finish_reason or self.reason
            piece = self._thoughts.without(_clean(choice.delta.content or ""), last=self.reason is not None)
        self._pieces.append(piece)
        self.begun = self.begun or bool(piece)
        return piece

    def reply(self) -> Reply:
        return Reply("".join(self._pieces), self._usage, complete=self.reason != "length")


THOUGHTS = ("<think>", "</think>")


class _Thoughts:
    """Takes the thoughts before an answer out of a text that arrives in pieces, as `visible` does of a whole one."""

    def __init__(self) -> None:
        self._state: Literal["undecided", "thinking", "thought", "answering"] = "undecided"
        self._held = ""

    def without(self, piece: str, *, last: bool) -> str:
        """What of the piece is shown, with what was held back before it."""
        begins, ends = THOUGHTS
        if self._state == "answering":
            return piece
        piece = self._held + piece
        self._held = ""
        if self._state == "undecided":
            if not last and begins.startswith(piece.strip()):
                # this may be the beginning of thoughts
                self._held = piece
                return ""
            if not piece.lstrip().startswith(begins):
                self._state = "answering"
                return piece
            self._state = "thinking"
        if self._state == "thinking":
            _, ended, rest = piece.partition(ends)
            if not ended:
                self._held = piece[-len(ends) :]
                return ""
            self._state, piece = "thought", rest
        shown = piece.lstrip()
        self._state = "answering" if shown else "thought"
        return shown


def visible(text: str) -> str:
    """The answer without the thoughts before it, which some endpoints leave in the text of a reasoning model."""
    return text.partition(THOUGHTS[1])[2].lstrip() if text.lstrip().startswith(THOUGHTS[0]) else text


def _clean(text: str) -> str:
    """The text with halves of surrogate pairs replaced: JSON can hold them, but they can be neither stored nor printed."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _usage(billed: Any) -> Usage:
    """The tokens that the endpoint bills for the call; 0 where it does not say."""
    if billed is None:
        return Usage(calls=1)
    return Usage(1, int(billed.prompt_tokens or 0), int(billed.completion_tokens or 0))


def _response_format(schema: Schema, form: str) -> Options:
    if form == "json_schema":
        described = {"name": "answer", "schema": dict(schema), "strict": True}
        return {"response_format": {"type": form, "json_schema": described}}
    return {"response_format": {"type": form}} if form == "json_object" else {}


def _with_schema(messages: Sequence[Message], schema: Schema | None, accepted: _Accepted) -> list[Message]:
    """The messages. Where the endpoint does not enforce the schema, a message before them describes it in words."""
    if schema is None or accepted.json_form == "json_schema":
        return list(messages)
    wanted = f"Answer with one JSON value of this schema and nothing else:\n{json.dumps(schema)}"
    return [Message("system", wanted), *messages]


def _window() -> int:
    given = os.environ.get("MERGEWISE_WINDOW") or str(WINDOW)
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(f"MERGEWISE_WINDOW is {given!r}", "give a number of tokens")
    return int(given)
