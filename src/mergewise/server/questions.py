"""One question to a collection: admitted, assembled, answered, as events that every surface sends in its own form.

A question is a `QuestionRequest` and a token. `Questions.events` gives what happens:

- `started` {id, snapshot}, once it is admitted
- `context` {Context}, before a model writes
- `delta` {text}, any number of them: joined, they are the `answer`
- `citations` {citations: [...]}
- `done` {Answer without context}

`Questions.answer` and `Questions.context` give the whole at once. Errors are raised: those of `mergewise.errors`, and
`HTTPProblem` where the server itself refuses.

Only the assembly of a context takes a slot. While a model writes, a question waits in a thread of its own, outside of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mergewise.server.admission import Admission
from mergewise.server.collections import Collections
from mergewise.server.records import Token
from mergewise.types import Message

Include: TypeAlias = Literal["trace", "evidence", "streams", "surroundings"]
EventName: TypeAlias = Literal["started", "context", "delta", "citations", "done"]


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """What is asked of a collection, and how. None stands for the collection's default, else that of the library.

    `filter` is a condition in the form of OpenAI. `chat` is a name of the configuration; "extractive" is none.
    """

    collection: str
    text: str
    strategy: str | None = None
    parameters: Mapping[str, Any] | None = None
    then: str | None = None
    budget: int | Literal["auto"] | None = None
    rounds: int = 1
    filter: Mapping[str, Any] | None = None
    history: tuple[Message, ...] = ()
    mode: str | None = None
    chat: str | None = None
    max_tokens: int | None = None
    include: frozenset[Include] = frozenset()


@dataclass(frozen=True, slots=True)
class QuestionEvent:
    """Something that happened to a question. `data` is what the native API sends as JSON."""

    name: EventName
    data: Mapping[str, Any]


class Questions:
    """The questions of one worker."""

    def __init__(self, collections: Collections, admission: Admission) -> None: ...

    def events(self, question: QuestionRequest, token: Token) -> AsyncGenerator[QuestionEvent, None]:
        """The events of a question. The first one comes once it is admitted; what refuses it is raised before.

        Closing the generator, or cancelling its task, calls the work off.
        """

    async def answer(self, question: QuestionRequest, token: Token) -> dict[str, Any]:
        """The whole Answer, with its context."""

    async def context(self, question: QuestionRequest, token: Token) -> dict[str, Any]:
        """{id, context, snapshot, timings, cached}."""

    async def contexts(self, questions: Sequence[QuestionRequest], token: Token) -> list[dict[str, Any]]:
        """Contexts of several strategies, each with the spans that it alone has (`only`) and its `ms`."""
