"""Chat model `openai:MODEL`: an OpenAI-compatible chat endpoint, such as OpenAI, vLLM, llama.cpp, Ollama or TGI.

Compatible endpoints differ in the options that they accept. An option that an endpoint rejects by name is not sent again:
`max_tokens` is replaced by `max_completion_tokens`, a JSON schema by JSON mode, and JSON mode by a request in words.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from mergewise.errors import ModelError
from mergewise.log import log
from mergewise.models.clients import ANSWER_MB, REFUSED, PerLoop, each_in_time, in_time, quoted_message, setting
from mergewise.models.endpoint import UNREADABLE, Endpoint, message_of
from mergewise.models.tokens import count_tokens
from mergewise.protocols import Schema
from mergewise.ranges import AT_ONCE, Range, number, whole
from mergewise.redaction import MaskedPieces
from mergewise.tracing import Attributes, span, traced_texts
from mergewise.types import JsonDict, Message, Reply, Usage, frozen

WINDOW = 32_768
CONCURRENCY = 8
_TOKENS, _TEMPERATURE, _SEED = Range(1, 10**9), Range(0, 10), Range(-(2**63), 2**63 - 1)
# seconds before the first retry of a broken stream, doubled for each further one
_PAUSE = 0.5

# options that are left out if an endpoint rejects them by name, and the role of the system, with their replacements
_OPTIONAL = {name: name for name in ("stream_options", "temperature", "seed", "max_tokens")}
_OPTIONAL["system"] = r"system|\brole|alternate|developer instruction"
_INSTEAD = {"max_tokens": "max_completion_tokens"}
_JSON_FORMS = ("json_schema", "json_object", "words")
# options and roles that some servers, such as llama-cpp-python, reject with an internal error
_INTERNAL = re.compile(r"response_format|jinja|role", re.IGNORECASE)


@frozen
class _Accepted:
    """The options that an endpoint accepts, as far as known.

    `refused` has the name "system" if instructions must be part of the user's message. With `thinks_first`, answers begin with
    thoughts that only a closing tag ends. It is None until the first answer shows it.
    """

    refused: frozenset[str] = frozenset()
    json_form: str = _JSON_FORMS[0]
    thinks_first: bool | None = None

    def without(self, message: str, sent: Collection[str], schema: Schema | None) -> _Accepted | None:
        """Leave out what was sent and the error names, else fall back to the next JSON form. Return None if nothing is left."""
        for name, words in _OPTIONAL.items():
            if name in sent and re.search(words, message, re.IGNORECASE):
                return replace(self, refused=self.refused | {name})
        if schema is not None and self.json_form != _JSON_FORMS[-1]:
            return replace(self, json_form=_JSON_FORMS[_JSON_FORMS.index(self.json_form) + 1])
        return None


class OpenAIChat:
    """A `ChatModel` by an OpenAI-compatible endpoint.

    Args:
        model: name of the model at the endpoint.
        base_url: address of the endpoint. Default: OPENAI_BASE_URL, else OpenAI's.
        api_key: the key to send. Default: OPENAI_API_KEY.
        window: window of the model in tokens. Default: MERGEWISE_WINDOW, else 32,768.
        timeout: seconds without a byte before a request fails. Default: MERGEWISE_TIMEOUT, else 120.
        retries: number of retries of a failed request. Default: MERGEWISE_RETRIES, else 4.
        concurrency: maximum of concurrent requests.
        temperature: temperature to send, or None to send none.
        seed: seed to send, or None to send none.

    Raises:
        UsageError: if a number is invalid, or the key for OpenAI is missing.
        MissingExtra: if the extra `openai` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        window: int | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        concurrency: int = CONCURRENCY,
        temperature: float | None = 0.0,
        seed: int | None = None,
    ) -> None:
        self.spec = f"openai:{model}"
        self.window = setting("window", window, WINDOW, _TOKENS)
        self._model = model
        self._endpoint = Endpoint(
            self.spec, "chat completions", retries,
            base_url=base_url, api_key=api_key, timeout=timeout, megabytes=ANSWER_MB,
        )  # fmt: skip
        self.base_url, self.aclose = self._endpoint.base_url, self._endpoint.aclose
        at_once = whole("concurrency", concurrency, AT_ONCE)
        self._slots = PerLoop(lambda: asyncio.Semaphore(at_once))
        self._sampling: JsonDict = {}
        if temperature is not None:
            self._sampling["temperature"] = number("temperature", temperature, float, _TEMPERATURE)
        if seed is not None:
            self._sampling["seed"] = number("seed", seed, int, _SEED)
        self._accepted, self._has_warned = _Accepted(), False

    def drawing(self, temperature: float | None, seed: int) -> OpenAIChat:
        """Return the same model with a seed and another temperature. Both share connections.

        Args:
            temperature: the temperature, or None to keep the present one.
            seed: the seed to send.
        """
        return self.with_options({"seed": seed, **({} if temperature is None else {"temperature": temperature})})

    def with_options(self, options: Mapping[str, object]) -> OpenAIChat:
        """Return the same model with further options in each request. Both share connections.

        Args:
            options: the options, by their names in OpenAI's API.
        """
        changed = copy(self)
        changed._sampling = {**self._sampling, **options}
        return changed

    @property
    def identity(self) -> str:
        """The model, endpoint and sampling options, as part of the keys of caches."""
        return json.dumps([self.spec, self.base_url, self._sampling], sort_keys=True)

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        """Answer messages.

        Args:
            messages: the conversation.
            max_tokens: maximum of tokens of the answer.
            schema: JSON schema of the answer. The answer is not validated.

        Returns:
            The reply, without thoughts and with keys masked.

        Raises:
            ModelError: if the request fails, or the answer is invalid.
        """
        with self._span(messages, max_tokens) as note:
            async with self._slots.here():
                response = await in_time(self.spec, self._create(messages, max_tokens, schema, stream=False))
            answer = _ChatAnswer(self._accepted.thinks_first)
            try:
                choice = response["choices"][0]
                answer.add_bill(response.get("usage"))
                answer.add(choice["message"], choice.get("finish_reason"))
            except UNREADABLE as error:
                message = response.get("error") if isinstance(response, dict) else None
                what = f"an error: {quoted_message(str(message))}" if message else "no chat completion"
                raise self._endpoint.invalid_answer(f"{what} ({type(error).__name__})") from error
            answer.end()
            reply = self._reply(answer, messages, schema)
            note(_traced_reply(reply))
            return reply

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Answer messages piece by piece.

        A lost connection is retried before the first piece. After it, it is an error.

        Args:
            messages: the conversation.
            max_tokens: maximum of tokens of the answer.

        Yields:
            The pieces of the answer, then the whole reply.

        Raises:
            ModelError: if the request fails, or the answer is invalid.
        """
        with self._span(messages, max_tokens, is_current=False) as note:
            async with self._slots.here():
                for attempt in range(self._endpoint.retries + 1):
                    answer = _ChatAnswer(self._accepted.thinks_first)
                    chunks = await in_time(self.spec, self._create(messages, max_tokens, None, stream=True))
                    try:
                        async for chunk in each_in_time(self.spec, chunks):
                            if piece := answer.add_chunk(chunk):
                                yield piece
                    except UNREADABLE as error:
                        reason = f"no stream of a chat completion ({type(error).__name__})"
                        raise self._endpoint.invalid_answer(reason) from error
                    except ModelError:
                        raise
                    except Exception as error:
                        # During a stream, older versions of the SDK raise errors of their HTTP library.
                        is_lost = isinstance(error, self._endpoint.sdk.APIConnectionError)
                        is_lost |= type(error).__module__.startswith("http")
                        if not is_lost or answer.text or attempt == self._endpoint.retries:
                            raise self._endpoint.failure(error) from error
                        log.info("stream of %s broke (%s), retrying", self.spec, type(error).__name__)
                        await asyncio.sleep(_PAUSE * 2**attempt)
                    else:
                        # some endpoints name no reason, but mark the end
                        if not answer.reasons and b"[DONE]" not in chunks.response.stream.end:
                            raise self._endpoint.invalid_answer("an unfinished stream")
                        if piece := answer.end():
                            yield piece
                        reply = self._reply(answer, messages, None)
                        note(_traced_reply(reply))
                        yield reply
                        return
                    finally:
                        await chunks.close()

    def _span(
        self, messages: Sequence[Message], max_tokens: int, *, is_current: bool = True
    ) -> AbstractContextManager[Callable[[Attributes], object]]:
        """Return the span of a call, by the conventions of OpenTelemetry for generative models."""
        asked: dict[str, str | int] = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
        asked |= {"gen_ai.request.model": self._model, "gen_ai.request.max_tokens": max_tokens}
        texts = traced_texts(gen_ai_input="\n\n".join(f"{one.role}: {one.text}" for one in messages))
        return span(f"chat {self._model}", {**asked, **texts}, is_client=True, is_current=is_current)

    async def _create(
        self, messages: Sequence[Message], max_tokens: int, schema: Schema | None, *, stream: bool
    ) -> Any:
        """Send a request, and send it again without options that the endpoint rejects. Remember the accepted options."""
        accepted, sdk = self._accepted, self._endpoint.sdk
        while True:
            sent = list(messages)
            if schema is not None and accepted.json_form != "json_schema":
                # The endpoint does not enforce the schema.
                wanted = f"Answer with one JSON value of this schema and nothing else:\n{json.dumps(schema)}"
                sent.insert(0, Message("system", wanted))
            # a message of a refused role is the user's
            sent = [replace(one, role="user") if one.role in accepted.refused else one for one in sent]
            groups = groupby(sent, attrgetter("role"))
            wire = [{"role": role, "content": "\n\n".join(one.text for one in group)} for role, group in groups]
            options = self._options(accepted, max_tokens, schema, stream=stream)
            try:
                body = {"model": self._model, "messages": wire, **options}
                answer = await self._endpoint.post("/chat/completions", body, stream=stream)
            except sdk.OpenAIError as error:
                said = message_of(error)
                refused = getattr(error, "status_code", None) in REFUSED
                refused |= isinstance(error, sdk.InternalServerError) and bool(_INTERNAL.search(said))
                less = accepted.without(said, [*options, wire[0]["role"]], schema) if refused else None
                if less is None:
                    raise self._endpoint.failure(error) from error
                accepted = less
            except UNREADABLE as error:
                raise self._endpoint.invalid_answer(f"invalid JSON ({type(error).__name__})") from error
            else:
                self._accepted = accepted
                return answer

    def _options(self, accepted: _Accepted, max_tokens: int, schema: Schema | None, *, stream: bool) -> JsonDict:
        options: JsonDict = {**self._sampling, "max_tokens": max_tokens}
        if stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if schema is not None and accepted.json_form != "words":
            kind: JsonDict = {"type": accepted.json_form}
            if accepted.json_form == "json_schema":
                kind["json_schema"] = {"name": "answer", "schema": dict(schema), "strict": True}
            options["response_format"] = kind
        for name in accepted.refused & options.keys():
            value = options.pop(name)
            if name in _INSTEAD:
                options[_INSTEAD[name]] = value
        return options

    def _reply(self, answer: _ChatAnswer, messages: Sequence[Message], schema: Schema | None) -> Reply:
        """Return the reply of a finished answer. Warn once of invalid token counts."""
        # thoughts that were shown before they ended are no part of it
        text = answer.thoughts.answer_in(answer.text)
        if answer.calls_tool and not text:
            raise self._endpoint.invalid_answer("a tool call, although no tools were offered")
        if not text and answer.reasons & _FILTERED:
            raise ModelError(f"no answer from {self.spec}: stopped by its content filter", "ask in other words")
        thinks_first = answer.thoughts.thinks_first
        # a schema may leave no room for thoughts, and a cut answer may lack their end
        if thinks_first is None and schema is None and not answer.reasons & _CUT:
            thinks_first = False
        self._accepted = replace(self._accepted, thinks_first=thinks_first)
        if answer.is_billed_wrongly and not self._has_warned:
            self._has_warned = True
            log.warning("invalid token counts from %s, using estimates", self.spec)
        return Reply(text, answer.usage(messages), complete=not answer.reasons & _CUT)


# finish reasons of an answer that a filter stopped, and of all incomplete ones
_FILTERED = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content"})
_CUT = _FILTERED | {"length", "max_tokens", "model_length"}
MOST_TOKENS = 1_000_000_000
"""Maximum of tokens that an endpoint may bill for a call. Larger counts are invalid."""


class _ChatAnswer:
    """An answer in progress, from the pieces of a stream or from one message. Its cost is linear in the length of the answer."""

    def __init__(self, thinks_first: bool | None) -> None:
        self.reasons: set[str] = set()
        self.calls_tool = False
        self.is_billed_wrongly = False
        # the visible text, and all written text including thoughts
        self._shown: list[str] = []
        self._written: list[str] = []
        # tokens read and written, None if the endpoint sends no valid count
        self._billed: list[int | None] = [None, None]
        self.thoughts, self._masked = _Thoughts(thinks_first), MaskedPieces()

    @property
    def text(self) -> str:
        """The visible text, without thoughts and keys."""
        return "".join(self._shown)

    def add_chunk(self, chunk: Any) -> str:
        """Add a chunk of a stream and return the text to show."""
        self.add_bill(chunk.get("usage"))
        for choice in (chunk.get("choices") or ())[:1]:
            return self.add(choice.get("delta") or {}, choice.get("finish_reason"))
        return ""

    def add_bill(self, bill: Any) -> None:
        """Record the token counts. They may come in any chunk, and several times: the last ones count."""
        for place, name in enumerate(("prompt_tokens", "completion_tokens")):
            billed = bill.get(name) if isinstance(bill, dict) else None
            count = None  # for an invalid one: negative, fractional, not a number, or too large
            if isinstance(billed, int | float) and not isinstance(billed, bool) and 0 <= billed <= MOST_TOKENS:
                count = int(billed) if billed == int(billed) else None
            self.is_billed_wrongly |= billed is not None and count is None
            self._billed[place] = self._billed[place] if count is None else count

    def add(self, message: Any, reason: Any) -> str:
        """Add a message or a piece of one, with its text or refusal, separate thoughts, and tool calls."""
        content = message.get("content") or message.get("refusal") or ""
        # some endpoints send a list of parts: thoughts and texts
        parts = content if isinstance(content, list) else [content]
        text = _clean("".join(part if isinstance(part, str) else part.get("text") or "" for part in parts))
        thoughts = message.get("reasoning_content") or message.get("reasoning")
        self._written += [_clean(thoughts) if isinstance(thoughts, str) else "", text]
        self.calls_tool |= bool(message.get("tool_calls"))
        self.reasons |= {str(reason).lower()} if reason else set()
        return self._show(self._masked.add(self.thoughts.without(text)))

    def end(self) -> str:
        """Return the text that was held back."""
        return self._show(self._masked.add(self.thoughts.without("", last=True), last=True))

    def usage(self, messages: Sequence[Message]) -> Usage:
        """Return the usage. Missing counts are estimated by the vocabulary that ships with the package."""
        read, written = self._billed
        if read is not None and written is not None:
            return Usage(1, read, written)
        *asked, answered = count_tokens([*(message.text for message in messages), "".join(self._written)])
        tokens = sum(asked) if read is None else read, answered if written is None else written
        return Usage(1, *tokens, estimated=True)

    def _show(self, piece: str) -> str:
        self._shown.append(piece)
        return piece


# tags around thoughts, with those of Magistral, Kimi, Command and gpt-oss, whose channels may also lose their marks
_TAG = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning)"
_OPENING = re.compile(rf"<{_TAG}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|(?:start|channel)\|>")
_CLOSING = re.compile(
    rf"(?<![`'\"“])(?:</{_TAG}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"
    r"|<\|channel\|>final[^<]*<\|message\|>|assistantfinal)(?![`'\"”])"
)
# words of thoughts without a tag, which speak of the user, of the question or of themselves
_ALOUD = re.compile(
    r"analysis[A-Z]|用户|问题|好的|嗯|首先|我|\b(?:okay|ok|alright|hm+|wait|first|so|maybe|let'?s?|i|we|user|question|sources?"
    r"|nutzer|benutzer|ich|wir|utilisateur|je|nous|usuario|yo)\b",
    re.IGNORECASE,
)
# characters that decide how a text begins, and the longest closing tag
_BEGINNING, _LONGEST_TAG = 24, 64
# a part of an opening tag, or words that thoughts may go on from with one of those: "The user", "Looking at the sources"
_UNDECIDED = re.compile(
    r"[<\[◁][^>\]▷\n]*|(?P<words>[^\W\d_]{0,11}|(?:the|an?|this|der|die|das|le|la|les|el|los)\s+[^\W\d_]{0,11}"
    r"|(?:looking|given|based|according|from|to|in|as|since|now|here|for|well)\b.*)",
    re.IGNORECASE,
)


class _Thoughts:
    """A filter that removes thoughts before an answer from a stream, because some endpoints leave them in the text.

    Thoughts without an opening tag show by the closing one, which may come late. So the first text of a model is held back until
    that tag or the end if it begins like thoughts. Later texts are if the model was seen to think so (`thinks_first`).
    """

    def __init__(self, thinks_first: bool | None) -> None:
        self.thinks_first = thinks_first
        self._state: Literal["undecided", "thinking", "ended", "answering"] = "undecided"
        # text that may be shown, and its end, which may have a part of a tag
        self._held: list[str] = []
        self._end = ""

    def without(self, piece: str, *, last: bool = False) -> str:
        """Return the visible part of a piece, with the text held back before."""
        if self._state == "answering":
            return piece
        self._held.append(piece)
        self._end = self._end[-_LONGEST_TAG:] + piece
        if self._state == "undecided":
            begun = "".join(self._held).lstrip()
            is_new, undecided = self.thinks_first is None, _UNDECIDED.fullmatch(begun)
            if undecided and not last and len(begun) < _BEGINNING and (is_new or undecided["words"] in (None, "")):
                return ""
            thinks = self.thinks_first or _OPENING.match(begun) or (is_new and _ALOUD.search(begun, 0, _BEGINNING))
            self._state = "thinking" if thinks else "answering"
        if self._state == "thinking" and not last and not _CLOSING.search(self._end):
            return ""
        text, self._held = "".join(self._held), []
        shown = text.lstrip() if self._state == "ended" else self.answer_in(text)
        self._state = "answering" if shown else "ended"
        return shown

    def answer_in(self, text: str) -> str:
        """Return the text without thoughts before it. Other texts are returned whole, such as code with a closing tag."""
        begun = text.lstrip()
        closing = _CLOSING.search(begun)
        thoughts, answer = (begun[: closing.start()], begun[closing.end() :].lstrip()) if closing else (begun, "")
        if _OPENING.match(begun):
            return answer
        if not closing or _OPENING.search(thoughts) or "```" in thoughts:
            return text
        self.thinks_first = True
        return answer


def _traced_reply(reply: Reply) -> Attributes:
    usage = reply.usage
    counts = {"gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens}
    return {**counts, **traced_texts(gen_ai_output=reply.text)}


def _clean(text: str) -> str:
    """Replace lone surrogates, which JSON can hold but which cannot be stored or printed."""
    return text.encode("utf-8", "replace").decode("utf-8")
