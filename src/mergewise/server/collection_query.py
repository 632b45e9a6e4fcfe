"""A question to a collection, and the events of its answer."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, NamedTuple

from mergewise import AnswerQuery
from mergewise.types import Json, Message, ReplyOptions, frozen

Include = Literal["trace", "evidence", "streams", "html", "kinds"]


@frozen
class CollectionQuery:
    """A question to a collection.

    `options` holds the options of `AnswerQuery` that the client gave; the rest come from the collection's defaults. `chat` is the
    name of a chat model in the configuration, or "extractive" for none. `reply` holds the options of a text that a model writes.
    The index must have the `snapshot` or a later one.
    """

    question: str
    options: Json = field(default_factory=dict)
    history: tuple[Message, ...] = ()
    chat: str | None = None
    include: frozenset[Include] = frozenset()
    reply: ReplyOptions = field(default_factory=ReplyOptions)
    snapshot: str | None = None

    def query(self, forced: Json | None, deadline: float) -> AnswerQuery:
        """Return the question for `Index.prepare`. Documents must match `forced` too, the filter of the token.

        Scores count only these documents. Raises UsageError for an invalid option.
        """
        options = dict(self.options)
        where = options.pop("where", None)
        parts = [part for part in (forced, *(where if isinstance(where, list) else [where])) if part is not None]
        conditions: dict[str, Any] = {"where": parts or None, "counted": forced}
        return AnswerQuery(self.question, **options, **conditions, history=self.history, deadline=deadline)


class QuestionEvent(NamedTuple):
    """An event of a question. `data` is the JSON that the native API sends."""

    name: Literal["started", "context", "delta", "citations", "done"]
    data: Json
