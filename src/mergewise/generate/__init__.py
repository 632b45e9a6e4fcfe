"""Answers from contexts: modes, citations, marks, and output formats of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.generate.citations import Locator as Locator
    from mergewise.generate.formats import FORMS as FORMS
    from mergewise.generate.formats import xml_of as xml_of
    from mergewise.generate.marks import marked_texts as marked_texts
    from mergewise.generate.marks import without_unknown as without_unknown
    from mergewise.generate.mode import CAUSAL as CAUSAL
    from mergewise.generate.mode import CHAT as CHAT
    from mergewise.generate.mode import NO_MODEL as NO_MODEL
    from mergewise.generate.mode import RERANKER as RERANKER
    from mergewise.generate.mode import Need as Need
    from mergewise.generate.mode import Request as Request
    from mergewise.generate.sources import DocumentLookup as DocumentLookup

__getattr__ = lazy_names(
    __name__,
    {
        "citations": "Locator",
        "formats": "FORMS xml_of",
        "marks": "marked_texts without_unknown",
        "mode": "CAUSAL CHAT NO_MODEL RERANKER Need Request",
        "sources": "DocumentLookup",
    },
)
