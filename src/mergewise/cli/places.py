"""Places of spans for people: `path:line`, the page of a paginated document, or the document alone.

A document of a file is named by a path that opens from the working directory: relative if the file is below it, else absolute.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from mergewise.types import Citation, Span

if TYPE_CHECKING:
    from mergewise import Index
    from mergewise.extend import DocumentLookup

LONGEST_QUOTE = 200
"""Characters of a quoted span."""
GONE = " (gone)"


class DocumentNames:
    """Names of documents for people: paths of files, and ids of other documents. Without `files`, all have their ids."""

    def __init__(self, files: Callable[[Iterable[str]], Mapping[str, Path]] = lambda doc_ids: {}) -> None:
        self._files = files
        self._known: dict[str, tuple[str, str]] = {}

    def name(self, doc_id: str) -> str:
        """Return the path of its file, or its id, on one line."""
        self.look_up([doc_id])
        return self._known[doc_id][0]

    def remark(self, doc_id: str) -> str:
        """Return the remark after its places: " (gone)" if its file is missing, else an empty string."""
        self.look_up([doc_id])
        return self._known[doc_id][1]

    def look_up(self, doc_ids: Iterable[str]) -> None:
        """Look up the files of several documents at once, which costs as much as one document."""
        wanted = [doc_id for doc_id in dict.fromkeys(doc_ids) if doc_id not in self._known]
        files = self._files(wanted) if wanted else {}
        here = None
        with suppress(OSError):
            here = Path.cwd()
        for doc_id in wanted:
            name, remark = doc_id, ""
            if (file := files.get(doc_id)) is not None:
                name = str(file if here is None or not file.is_relative_to(here) else file.relative_to(here))
                # do not look up a network path: that would contact another machine
                remark = "" if file.drive.startswith("\\\\") or os.path.lexists(file) else GONE
            self._known[doc_id] = (one_line(name), remark)


def file_links(index: Index) -> Callable[[str], str | None]:
    """Return a function that links documents to their files, for pages.

    It returns None for anything but a regular file inside the index's folder. The index names the files, and its author must not
    be able to link to other files of the reader.
    """
    from mergewise.extend import root_of

    root = root_of(index.store.place, index.root)
    roots = [root] if isinstance(root, Path) else list(root.values())

    @cache
    def link(doc_id: str) -> str | None:
        file = index.files([doc_id]).get(doc_id)
        root = None if file is None else next((one for one in roots if file.is_relative_to(one)), None)
        if file is None or root is None:
            return None
        try:
            real = Path(os.path.realpath(file))
            return real.as_uri() if real.is_relative_to(root) and stat.S_ISREG(real.stat().st_mode) else None
        except (OSError, ValueError):
            return None

    return link


def place(citation: Citation, names: DocumentNames) -> str:
    """Format a place: `docs/cats.md:7`, `docs/cats.md@COMMIT:7`, `report.pdf p. 3`, or a name without lines or pages."""
    return joined_places([citation], names)


def _spelled(citation: Citation, name: str) -> str:
    if citation.page is not None:
        return f"{name} p. {citation.page}"
    return name if citation.line is None else f"{name}:{citation.line}"


def joined_places(citations: Sequence[Citation], names: DocumentNames) -> str:
    """Format the places of citations without repeating places or neighbouring documents: `cats.md:7, 12; report.pdf p. 3`."""
    named = []
    names.look_up(citation.span.doc_id for citation in citations)
    for doc_id, group in groupby(citations, key=lambda citation: citation.span.doc_id):
        cited = [*group]
        name = names.name(doc_id) + (f"@{cited[0].commit[:12]}" if cited[0].commit else "")
        places = list(dict.fromkeys(_spelled(citation, name) for citation in cited))
        more = "".join(f", {spelled.removeprefix(name).lstrip(': ')}" for spelled in places[1:])
        named.append(places[0] + more + names.remark(doc_id))
    return "; ".join(named)


def one_line(name: str) -> str:
    """Replace line breaks of a name, so that it cannot look like two lines."""
    return " ".join(name.splitlines())


class Locations:
    """Places and texts of spans. Each document is read once."""

    def __init__(self, document: DocumentLookup, names: DocumentNames | None = None) -> None:
        from mergewise.extend import Locator

        self.document = cache(document)
        self.names = names or DocumentNames()
        self._locator = Locator(self.document)

    def text(self, span: Span) -> str:
        """Return the text of the span, or "" if the document is gone."""
        document = self.document(span.doc_id)
        return document.text[span.start : span.end] if document else ""

    def citation(self, span: Span) -> Citation:
        """Return the span as a citation with number 0: its title, headings, and page or line."""
        return self._locator.citation(0, self.text(span), span)

    def of(self, spans: Sequence[Span]) -> str:
        """Format the places of several spans: `cats.md:7, 12; report.pdf p. 3`."""
        return joined_places([self.citation(span) for span in spans], self.names)

    def quote(self, span: Span, most: int = LONGEST_QUOTE) -> str:
        """Quote the span on one line, cut at a word after `most` characters. Return "" if the document is gone."""
        text = " ".join(self.text(span).split())
        return f"“{text if len(text) <= most else text[:most].rsplit(' ', 1)[0] + ' …'}”" if text else ""


def locations_in(index: Index) -> Locations:
    """Return the places and texts of an index's spans."""
    return Locations(index.store.reader().document, DocumentNames(index.files))
