"""The library of a single local index, served over standard input and output."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import field
from pathlib import Path

from mergewise import Index
from mergewise.agents.memory import Memory
from mergewise.agents.tools import IndexDocuments
from mergewise.errors import UsageError
from mergewise.extend import STRATEGY, in_thread
from mergewise.protocols import TokenCounter
from mergewise.server.answers import AnswerForms
from mergewise.server.collection_query import CollectionQuery, QuestionEvent
from mergewise.server.collections import indexing_notice
from mergewise.server.mcp.tools import Caller, mcp_server
from mergewise.server.targets import collection_name, descriptive_name
from mergewise.types import Document, frozen


@frozen
class IndexLibrary(IndexDocuments):
    """An index for the tools. All methods except `url` raise MergewiseError."""

    async def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        """Yield the events of a question until its answer is complete, as `Questions.events` does."""
        prepared = await self.index.aprepare(query.question, **{"strategy": self.strategy, **query.options})
        forms = AnswerForms(await in_thread(prepared.locations))
        yield QuestionEvent("context", forms.context(prepared.context))
        async with prepared.aanswer_stream() as pieces:
            async for piece in pieces:
                yield QuestionEvent("delta", {"text": piece})
            yield QuestionEvent("done", forms.answer(await pieces.answer()))

    async def add(self, document: Document) -> str:
        """Index the document, replacing one with the same id. Return a sentence about the result."""
        report = await in_thread(self.index.add, document)
        for failure in report.failed:
            raise UsageError(f"text not indexed: {failure.reason}")
        return "The index holds this text already." if report.unchanged else "The text is indexed."

    async def remove(self, doc_id: str) -> str:
        """Remove the document. Return a sentence about the result."""
        if not await in_thread(self.index.remove, [doc_id]):
            raise UsageError(f"unknown document: {doc_id!r}", "look for it with find")
        return "The document is removed."

    def notice(self) -> str:
        """Return a remark on an empty or unfinished index, or an empty string."""
        vectors = self.index.vectors()
        if not vectors.leaves:
            return "The index has no documents: add some with `mergewise index PATH...`."
        return indexing_notice(vectors.embedded, vectors.leaves) + "." if vectors.waiting else ""

    def url(self, doc_id: str, start: int, end: int) -> str | None:
        """Return the address of a page that shows this place to a person, if any."""
        return None


@frozen
class LocalCallers:
    """The only caller of an index, with one session. The first call opens the index, so that the command starts at once."""

    open: Callable[[], Index]
    directory: Path
    strategy: str = STRATEGY
    memory: Memory = field(default_factory=Memory)
    opened: list[Index] = field(default_factory=list)

    def __call__(self, call: object) -> Caller:
        if not self.opened:
            self.opened.append(self.open())
        libraries = {collection_name(descriptive_name(self.directory)): IndexLibrary(self.opened[0], self.strategy)}
        return Caller(libraries, lambda session: self.memory, lambda session, memory: None)


def serve_index(callers: LocalCallers, count: TokenCounter, *, writes: bool) -> None:
    """Serve the index over standard input and output until the input ends. The log goes to standard error."""
    try:
        mcp_server(callers, count, writes=writes, hidden=("collection", "session")).run("stdio")
    finally:
        for index in callers.opened:
            index.close()
