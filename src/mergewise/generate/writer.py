"""The calls of a chat model for one answer: their prompts, the room in its window, their usage, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import add

from mergewise.errors import ModelError
from mergewise.generate import prompts
from mergewise.generate.citations import Cited, cite, texts_of
from mergewise.generate.marks import MarkFilter
from mergewise.generate.mode import Request, Show
from mergewise.generate.notes import Notes
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import code_for
from mergewise.prompting.replies import json_value
from mergewise.protocols import ChatModel, Schema, with_options
from mergewise.text.alignment import words
from mergewise.types import Answer, Message, PromptTemplate, Reply, Step, Usage

# share of the window that stays free, because the token counter is seldom the model's own tokenizer
_MARGIN = 0.05


async def complete(chat: ChatModel, messages: Sequence[Message], limit: int, show: Show | None) -> Reply:
    """Return the reply of a chat model. With `show`, it is streamed."""
    if show is None:
        return await chat.complete(messages, max_tokens=limit)
    reply = Reply("", Usage())
    async for piece in chat.stream(messages, max_tokens=limit):
        if isinstance(piece, Reply):
            reply = piece
        else:
            show(piece)
    return reply


class ShownUnlessRefused:
    """Display of a streamed answer that holds back a text that begins like a refusal.

    A refusal is then shown in its standard words, whatever the model wrote. A refusal after other words stays as written, because
    shown text cannot be taken back.
    """

    def __init__(self, refusals: Sequence[str], show: Show) -> None:
        self._refusals = [" ".join(words(refusal)) for refusal in refusals]
        self._show = show
        self._held: list[str] = []
        self._refuses = False
        self.has_begun = False

    def add(self, piece: str) -> None:
        if self.has_begun:
            self._show(piece)
            return
        self._held.append(piece)
        if self._refuses:
            return
        written = " ".join(words("".join(self._held)))
        self._refuses = any(written.startswith(refusal) for refusal in self._refusals)
        if not self._refuses and not any(refusal.startswith(written) for refusal in self._refusals):
            self.has_begun = True
            self._show("".join(self._held))

    def settle(self, text: str) -> None:
        """Show the final text of the answer, if nothing was shown yet."""
        if not self.has_begun:
            self.has_begun = True
            self._show(text)


class AnswerWriter:
    """The calls of a chat model for one answer.

    `code` marks the lines around quotations. `document` reads each document once.
    """

    def __init__(self, request: Request, chat: ChatModel) -> None:
        self.chat = chat
        self.context = request.context
        self.question = request.context.question
        self.document = cache(request.document)
        self.count = request.models.count_tokens
        self.prompts = request.models.prompts
        self.code = code_for([self.question, self.context.text])
        self.window = int(self.chat.window * (1 - _MARGIN))
        # the reply may take at most a quarter of a small window
        self.limit = max(1, min(request.max_tokens, self.window // 4))
        refusals = (self.prompts.fill(prompts.REFUSAL), prompts.NOT_FOUND)
        # The beginning of the message, up to a quarter of the window.
        message, most = request.reply.message, self.window // 4
        while message and (tokens := self.count([message])[0]) > most:
            message = message[: len(message) * most // tokens]
        self.reply = replace(request.reply, message=message)
        self._shown = None if request.show is None else ShownUnlessRefused(refusals, request.show)
        self._usages = [self.context.usage]

    def about(self, step: PromptTemplate, sources: Sequence[Source], thoughts: str | None = None) -> list[Message]:
        """Return the prompt of a step before the answer."""
        return prompts.about_sources(step, self.question, sources, self.code, self.prompts, thoughts)

    def from_sources(self, sources: Sequence[Source], notes: str) -> list[Message]:
        """Return the prompt of the answer."""
        return prompts.answer(self.question, sources, notes, self.code, self.prompts, self.reply)

    async def ask(self, messages: Sequence[Message], schema: Schema | None = None) -> str:
        reply = await self.chat.complete(messages, max_tokens=self.limit, schema=schema)
        self._usages.append(reply.usage)
        return reply.text

    def count_unread(self) -> None:
        """Count an unreadable reply."""
        self._usages.append(Usage(unread=1))

    async def finish(
        self,
        messages: Sequence[Message],
        sources: Sequence[Source],
        notes: Notes | None = None,
        steps: Sequence[Step] = (),
    ) -> Answer:
        """Make the last call, and return the answer. Its marks become citations of the `sources` and `notes`."""
        notes = notes or Notes()
        citable = [*sources, *notes.sources]
        reply = await self._last(messages, citable)
        is_json = self.reply.is_json
        # a reply in JSON has no marks, and its support is unknown
        cited = Cited(reply.text, (), 0) if is_json else cite(reply.text.strip(), citable, self.document, self.context)
        text, refusal = cited.text.strip(), self.prompts.fill(prompts.REFUSAL)
        if is_json and reply.complete and json_value(text) is None:
            raise ModelError(f"invalid JSON from {self.chat.spec}", "use a model that supports response_format")
        if not is_json and not text:
            hint = "raise max_tokens: a reasoning model needs more tokens"
            raise ModelError(f"empty answer from {self.chat.spec}", hint)
        answered = is_json or (not cited.refuses and words(text) != words(refusal))
        if not answered and not (self._shown and self._shown.has_begun):
            text = refusal
        if self._shown is not None:
            self._shown.settle(text)
        # The step that lists the user's own prompts.
        own = [f"{name} {digest}" for name, digest in self.prompts.digests().items() if name in prompts.TEMPLATES]
        return Answer(
            question=self.question,
            text=text,
            citations=cited.citations if answered else (),
            context=self.context,
            usage=reduce(add, self._usages),
            found=answered,
            complete=reply.complete,
            removed_marks=cited.removed,
            sure=not is_json,
            unsupported=cited.unsupported if answered else None,
            unverified=cited.unverified if answered else (),
            unsupported_extract=notes.unsupported,
            trace=(*steps, *([Step("prompts", f"your own: {', '.join(own)}")] if own else [])),
        )

    async def _last(self, messages: Sequence[Message], sources: Sequence[Source]) -> Reply:
        """Make the last call and show the pieces of its reply, if streaming. A mark is shown once its source is known."""
        chat = with_options(self.chat, self.reply.sampling)
        if self._shown is None:
            reply = await complete(chat, messages, self.limit, None)
        else:
            shown = MarkFilter([source.number for source in sources], self._shown.add, texts_of(sources))
            reply = await complete(chat, messages, self.limit, self._shown.add if self.reply.is_json else shown.add)
            shown.end()
        self._usages.append(reply.usage)
        return reply

    def room(self, messages: Sequence[Message]) -> int:
        """Return the tokens left after these messages and the reply to them."""
        return self.window - self.limit - sum(self.count([message.text for message in messages]))

    def measure(self, sources: Sequence[Source]) -> list[int]:
        """Count the tokens of each source as a prompt shows it."""
        return self.count([prompts.quoted_source(source, self.code) + "\n\n" for source in sources]) if sources else []
