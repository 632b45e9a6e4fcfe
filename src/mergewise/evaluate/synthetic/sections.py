"""The sections of an index as sources of questions. A section is a run of leaves under the same headings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

from mergewise import VIEWS
from mergewise.extend import UNKNOWN, HybridReader, Triplet, document_language, readable, triplets_by_rules, words_of
from mergewise.protocols import StoreReader
from mergewise.types import Leaf, Span

DOCUMENTS = 64
"""Number of documents whose sections are cached."""


class SectionSentence(NamedTuple):
    """A sentence of a document: its span, its text, and its text without mark-up."""

    span: Span
    text: str
    plain: str

    @property
    def evidence(self) -> tuple[Span, str]:
        return self.span, self.text


@dataclass(frozen=True)
class SourceSection:
    doc_id: str
    title: str
    headings: tuple[str, ...]
    language: str
    text: str
    leaves: tuple[Leaf, ...]

    @property
    def name(self) -> str:
        """The section's own heading, or the title of the document."""
        return self.headings[-1] if self.headings else self.title

    @cached_property
    def sentences(self) -> tuple[SectionSentence, ...]:
        return tuple(self.sentence(start, end) for leaf in self.leaves for start, end, *_ in leaf.sentences)

    def sentence(self, start: int, end: int) -> SectionSentence:
        text = self.text[start:end]
        return SectionSentence(Span(self.doc_id, start, end), text, " ".join(readable(text).split()))

    @cached_property
    def triplets(self) -> tuple[Triplet, ...]:
        return tuple(triplets_by_rules(self.text, self.title, self.leaves))


class SourceReader:
    """A reader of the sections of an index: by document, by the names that they define, and by the words of a question."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        # without an embedder it ranks by BM25 only
        self._reader = HybridReader(store, None, VIEWS)
        languages = store.languages()
        # texts too short for detection get the index's most common language
        self._language = max(languages, key=languages.__getitem__, default=UNKNOWN)
        self.sections = lru_cache(DOCUMENTS)(self._sections)

    def _sections(self, doc_id: str) -> tuple[SourceSection, ...]:
        document = self._store.document(doc_id)
        if document is None:
            return ()
        language = document_language(document)
        if language == UNKNOWN:
            language = self._language
        ids = self._store.leaf_ranges([doc_id]).get(doc_id, range(0))
        return tuple(
            SourceSection(doc_id, document.title, headings, language, document.text, tuple(group))
            for headings, group in groupby(self._reader.leaves(list(ids)).values(), key=lambda leaf: leaf.headings)
        )

    def defined(self, name: str) -> Iterator[SourceSection]:
        """Yield the sections that define a name."""
        folded = " ".join(words_of(name).folded)
        for definition in self._reader.definitions([folded]).get(folded, []) if folded else ():
            leaf = self._reader.leaves([definition.first_leaf])[definition.first_leaf]
            yield from (one for one in self.sections(leaf.doc_id) if any(own.id == leaf.id for own in one.leaves))

    def nearest(self, words: str, k: int) -> list[tuple[Leaf, float]]:
        """Return the leaves that BM25 ranks first, with scores relative to the best."""
        ranked = self._reader.rank(words, k)
        leaves = self._reader.leaves([leaf for leaf, _ in ranked])
        return [(leaves[leaf], score) for leaf, score in ranked if leaf in leaves]
