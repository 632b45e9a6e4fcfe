"""The tools of an agent over a library of documents. Each returns a text of at most `budget` tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from time import monotonic
from typing import Protocol

from mergewise import Index
from mergewise.agents.memory import Memory
from mergewise.agents.results import (
    BUDGET,
    Match,
    Room,
    context_text,
    documents_text,
    matches_in,
    matches_text,
    name_in,
    outline_text,
    part_at,
    read_text,
)
from mergewise.extend import STRATEGY, context_json, in_thread
from mergewise.protocols import TokenCounter
from mergewise.types import Document, DocumentInfo, Json, frozen

_SECTIONS = 12
_AT_ONCE = 100
MOST_MATCHES, MOST_SECONDS = 10_000, 10.0
"""Matches and seconds after which `grep` stops and says so."""
_CONDITION = re.compile(r"[=<>]|\b(?:in|like|is)\b", re.IGNORECASE)


class Library(Protocol):
    """Documents as one caller sees them. `where` is a condition on id, title and metadata."""

    async def documents(self, where: str | None) -> Sequence[DocumentInfo]: ...

    async def texts(self, doc_ids: Sequence[str]) -> Mapping[str, Document]: ...

    async def passages(self, question: str, options: Json) -> Sequence[Json]:
        """Return the passages of a context with these options of a `Query`, as `context_json` has them."""

    async def search(self, query: str, most: int, where: str | None) -> Sequence[Json]:
        """Return the best passages one by one, best first."""


@frozen
class IndexDocuments:
    """The documents of an index as a `Library`. Raises the errors of `Index.context`."""

    index: Index
    strategy: str = STRATEGY

    async def documents(self, where: str | None) -> Sequence[DocumentInfo]:
        def found() -> list[DocumentInfo]:
            reader = self.index.store.reader()
            ids = None if where is None else {*reader.ids(where)}
            return [one for one in reader.documents() if ids is None or one.id in ids]

        return await in_thread(found)

    async def texts(self, doc_ids: Sequence[str]) -> Mapping[str, Document]:
        return await in_thread(lambda: self.index.store.reader().texts([*dict.fromkeys(doc_ids)]))

    async def passages(self, question: str, options: Json) -> Sequence[Json]:
        context = await self.index.acontext(question, **{"strategy": self.strategy, **options})
        passages: Sequence[Json] = context_json(context, await in_thread(self.index.locations, context))["passages"]
        return passages

    async def search(self, query: str, most: int, where: str | None) -> Sequence[Json]:
        parameters = {"k": most, "order": "score"}
        return await self.passages(
            query, {"strategy": "topk", "parameters": parameters, "budget": LARGE, "where": where}
        )


LARGE = 32_768
"""A budget so large that no passage of a search is cut."""


@frozen
class Tools:
    """The tools. `where` is a condition, or a part of the documents' names. Errors are UsageErrors, and those of the library.

    Models read the docstrings: changing one changes a prompt.
    """

    library: Library
    count: TokenCounter
    memory: Memory = field(default_factory=Memory)

    async def context(self, question: str, budget: int = BUDGET, where: str | None = None, again: bool = False) -> str:
        """Get the passages that answer a question, each below its path:line. Leaves out what was shown before."""
        condition = condition_of(where)

        async def passages(room: int) -> Sequence[Json]:
            return await self.library.passages(question, {"budget": min(room, LARGE), "where": condition})

        memory = Memory() if again else self.memory
        return await context_text(passages, self.library.texts, Room(budget, self.count), memory)

    async def find(self, words: str, budget: int = BUDGET, where: str | None = None) -> str:
        """Find documents and sections by words of their names, metadata and text. No words: list all documents."""
        documents = await self.library.documents(condition_of(where))
        sections = await self.library.search(words, _SECTIONS, condition_of(where)) if words.strip() else []
        return documents_text(words, documents, sections, Room(budget, self.count))

    async def outline(self, document: str, budget: int = BUDGET) -> str:
        """List the headings of a document with their lines and tokens."""
        return outline_text((await self._meant(document))[0], Room(budget, self.count))

    async def read(self, place: str, budget: int = BUDGET) -> str:
        """Read a document, lines of it or a section. Says where to read on."""
        document, rest = await self._meant(place)
        return read_text(document, part_at(document, rest), Room(budget, self.count), self.memory)

    async def _meant(self, place: str) -> tuple[Document, str]:
        name, rest = name_in(place, [one.id for one in await self.library.documents(None)])
        return (await self.library.texts([name]))[name], rest

    async def grep(self, pattern: str, budget: int = BUDGET, where: str | None = None, around: int = 0) -> str:
        """List all lines that match a regular expression (RE2). Small letters match capitals too."""
        return self.matches_text(*await self.matches(pattern, where), around, budget)

    def matches_text(self, found: Sequence[Match], note: str, around: int, budget: int) -> str:
        """Write the result of `matches`."""
        return matches_text(found, around, Room(budget, self.count), self.memory, note)

    async def matches(self, pattern: str, where: str | None = None) -> tuple[list[Match], str]:
        """Return the lines that match, and a note if not all documents were searched."""
        ids = [one.id for one in await self.library.documents(condition_of(where))]
        found: list[Match] = []
        last = monotonic() + MOST_SECONDS
        for first in range(0, len(ids), _AT_ONCE):
            if len(found) > MOST_MATCHES or monotonic() > last:
                return found, f"; searched {first} of {len(ids)} documents"
            texts = (await self.library.texts(ids[first : first + _AT_ONCE])).values()
            found += await in_thread(lambda texts: [*matches_in(texts, pattern)], texts)
        return found, ""


def condition_of(where: str | None) -> str | None:
    """Return the condition on documents that `where` is, or that says that ids hold it."""
    if not where or _CONDITION.search(where):
        return where or None
    return "id like '%{}%'".format(where.replace("'", "''"))
