"""The library of the tools that is a single index on this machine, and serving it by standard input and output."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mergewise.concurrency import in_thread
from mergewise.defaults import STRATEGY
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.jsonable import document_json
from mergewise.server.answers import AnswerForms
from mergewise.server.leaves import BUDGET as LEAF_BUDGET
from mergewise.server.leaves import STRATEGY as STRATEGY_OF_LEAVES
from mergewise.server.leaves import leaf_parameters
from mergewise.server.questions import CollectionQuery, QuestionEvent
from mergewise.types import Document

Json: TypeAlias = Mapping[str, Any]
_SEPARATORS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class IndexLibrary:
    """The library that is one index: one collection. All but `collections` and `url` raise MergewiseError."""

    index: Index
    name: str = "index"
    strategy: str = STRATEGY

    async def collections(self) -> Sequence[str]:
        """Their names."""
        return [self.name]

    async def search(self, collection: str, query: str, most: int) -> Sequence[Json]:
        """The best passages, as the native API sends them."""
        options = {"strategy": STRATEGY_OF_LEAVES, "parameters": leaf_parameters(most), "budget": LEAF_BUDGET}
        passages: Sequence[Json] = (await self.context(CollectionQuery(collection, query, options)))["passages"]
        return passages

    async def context(self, query: CollectionQuery) -> Json:
        """The context, as the native API sends it."""
        context = await self.index.acontext(query.question, **self._options(query))
        locations = await in_thread(lambda: self.index.locations(context))
        return AnswerForms(locations).context(context)

    async def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        """What happens to a question until its answer is there, as in `Questions.events`."""
        prepared = await self.index.aprepare(query.question, **self._options(query))
        forms = AnswerForms(await in_thread(prepared.locations))
        yield QuestionEvent("context", forms.context(prepared.context))
        async with prepared.aanswer_stream() as pieces:
            async for piece in pieces:
                yield QuestionEvent("delta", {"text": piece})
            yield QuestionEvent("done", forms.answer(await pieces.answer()))

    def _options(self, query: CollectionQuery) -> dict[str, Any]:
        return {"strategy": self.strategy, **query.options}

    async def documents(self, collection: str, after: str | None, limit: int) -> Sequence[Json]:
        """A page of them by id, those after the id `after`: {id, title, characters, ...}."""
        found = await in_thread(lambda: self.index.documents(after=after, limit=limit))
        return [document_json(document) for document in found]

    async def document(self, collection: str, doc_id: str) -> Document:
        try:
            return await in_thread(lambda: self.index.document(doc_id))
        except UsageError as error:
            raise UsageError(error.message, "list_documents lists them") from None

    async def add(self, collection: str, document: Document) -> str:
        """Index the document, in place of one of the same id; what became of it, in a sentence."""
        report = await in_thread(lambda: self.index.add(document))
        for failure in report.failed:
            raise UsageError(f"the text was not indexed: {failure.reason}")
        return "The index holds this text already." if report.unchanged else "The text is indexed."

    async def remove(self, collection: str, doc_id: str) -> str:
        """Remove the document; what became of it, in a sentence."""
        if not await in_thread(lambda: self.index.remove([doc_id])):
            raise UsageError(f"no document has the id {doc_id!r}", "list_documents lists them")
        return "The document is removed."

    def url(self, collection: str, doc_id: str, start: int, end: int) -> str | None:
        """Where a person can read this place, if there is a page for it."""
        return None


def serve_index(index: Index, directory: Path, strategy: str, *, writes: bool = False) -> None:
    """Answer by standard input and output, until the input ends. The log goes to standard error."""
    from mergewise.server.mcp.tools import mcp_server

    library = IndexLibrary(index, collection_name(directory), strategy)
    mcp_server(lambda call: library, writes=writes).run("stdio")


def collection_name(directory: Path) -> str:
    """What the index is called: its directory's name, or that of the folder around a directory of the usual name."""
    directory = directory.resolve()
    stem = directory.stem if directory.stem not in ("mergewise", "index") else directory.parent.name
    return _SEPARATORS.sub("-", stem.lower()).strip("-")[:63] or "index"
