"""Addresses of documents, and of places in them: `mergewise://COLLECTION/documents/KEY#START-END`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mergewise.server.collections import id_of, key_of

TEMPLATE = "mergewise://{collection}/documents/{key}"
_ADDRESS = re.compile(
    r"mergewise://([a-z0-9][a-z0-9-]{0,62})/documents/([A-Za-z0-9_-]+)(?:#(\d{1,12})(?:-(\d{1,12}))?)?"
)


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A document of a collection, from a character on."""

    collection: str
    doc_id: str
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        address = TEMPLATE.format(collection=self.collection, key=key_of(self.doc_id))
        if self.end is None:
            return f"{address}#{self.start}" if self.start else address
        return f"{address}#{self.start}-{self.end}"


def parse_place(address: str) -> DocumentPlace | None:
    """The place, or None for what is no such address. Raises HTTPProblem where the key is none."""
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        return None
    collection, key, start, end = found.groups()
    return DocumentPlace(collection, id_of(key), int(start or 0), None if end is None else int(end))
