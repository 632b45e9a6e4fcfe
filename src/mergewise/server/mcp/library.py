"""The library of a single local index, served over standard input and output."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mergewise import Index
from mergewise.errors import UsageError
from mergewise.extend import STRATEGY, document_json, in_thread
from mergewise.server.answers import AnswerForms
from mergewise.server.collection_query import CollectionQuery, QuestionEvent
from mergewise.server.collections import indexing_notice
from mergewise.server.leaves import BUDGET as LEAF_BUDGET
from mergewise.server.leaves import STRATEGY as STRATEGY_OF_LEAVES
from mergewise.server.records import Json
from mergewise.types import Document


@dataclass(frozen=True, slots=True)
class IndexLibrary:
    """An index for the tools. All methods except `url` raise MergewiseError."""

    index: Index
    strategy: str = STRATEGY

    async def search(self, query: str, most: int) -> Sequence[Json]:
        """Return the best passages, in the form of the native API."""
        parameters = {"k": most, "order": "score"}
        options = {"strategy": STRATEGY_OF_LEAVES, "parameters": parameters, "budget": LEAF_BUDGET}
        passages: Sequence[Json] = (await self.context(CollectionQuery(query, options)))["passages"]
        return passages

    async def context(self, query: CollectionQuery) -> Json:
        """Return the context, in the form of the native API."""
        context = await self.index.acontext(query.question, **{"strategy": self.strategy, **query.options})
        locations = await in_thread(lambda: self.index.locations(context))
        return AnswerForms(locations).context(context)

    async def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        """Yield the events of a question until its answer is complete, as `Questions.events` does."""
        prepared = await self.index.aprepare(query.question, **{"strategy": self.strategy, **query.options})
        forms = AnswerForms(await in_thread(prepared.locations))
        yield QuestionEvent("context", forms.context(prepared.context))
        async with prepared.aanswer_stream() as pieces:
            async for piece in pieces:
                yield QuestionEvent("delta", {"text": piece})
            yield QuestionEvent("done", forms.answer(await pieces.answer()))

    async def documents(self, after: str | None, limit: int) -> Sequence[Json]:
        """Return a page of documents sorted by id, after the id `after`: {id, title, characters, ...}."""
        found = await in_thread(lambda: self.index.documents(after=after, limit=limit))
        return [document_json(document) for document in found]

    async def document(self, doc_id: str) -> Document:
        try:
            return await in_thread(lambda: self.index.document(doc_id))
        except UsageError as error:
            raise UsageError(error.message, "call list_documents for the ids") from None

    async def add(self, document: Document) -> str:
        """Index the document, replacing one with the same id. Return a sentence about the result."""
        report = await in_thread(lambda: self.index.add(document))
        for failure in report.failed:
            raise UsageError(f"text not indexed: {failure.reason}")
        return "The index holds this text already." if report.unchanged else "The text is indexed."

    async def remove(self, doc_id: str) -> str:
        """Remove the document. Return a sentence about the result."""
        if not await in_thread(lambda: self.index.remove([doc_id])):
            raise UsageError(f"unknown document: {doc_id!r}", "call list_documents for the ids")
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


def serve_index(index: Index, directory: Path, strategy: str, *, writes: bool = False) -> None:
    """Serve the index over standard input and output until the input ends. The log goes to standard error."""
    from mergewise.server.mcp.tools import mcp_server

    libraries = {collection_name(directory): IndexLibrary(index, strategy)}
    mcp_server(lambda call: libraries, writes=writes).run("stdio")


def collection_name(directory: Path) -> str:
    """Name the collection after its directory, or after the parent folder if the directory has the default name."""
    directory = directory.resolve()
    stem = directory.stem if directory.stem not in ("mergewise", "index") else directory.parent.name
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63] or "index"
