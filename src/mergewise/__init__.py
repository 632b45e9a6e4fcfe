"""mergewise: the densest context for a token budget, every sentence traceable to its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.errors import (
    CorruptIndex,
    EmbedderMismatch,
    IndexBusy,
    MergewiseError,
    MissingExtra,
    ModelError,
    NewerFormat,
    NotAnIndex,
    OlderFormat,
    ReadError,
    StoreError,
    UsageError,
)
from mergewise.types import (
    AddReport,
    Answer,
    Citation,
    Context,
    Document,
    DocumentInfo,
    Failure,
    Heading,
    Page,
    Passage,
    Pictured,
    Problem,
    Span,
    Step,
    Usage,
)

if TYPE_CHECKING:
    from mergewise.engine import Index, open

__version__ = "0.1.0"

__all__ = [
    "AddReport",
    "Answer",
    "Citation",
    "Context",
    "CorruptIndex",
    "Document",
    "DocumentInfo",
    "EmbedderMismatch",
    "Failure",
    "Heading",
    "Index",
    "IndexBusy",
    "MergewiseError",
    "MissingExtra",
    "ModelError",
    "NewerFormat",
    "NotAnIndex",
    "OlderFormat",
    "Page",
    "Passage",
    "Problem",
    "ReadError",
    "Span",
    "Step",
    "StoreError",
    "Usage",
    "UsageError",
    "open",
]


def __getattr__(name: str) -> object:
    """`open` and `Index` bring the store and numpy along, so they are imported when they are first asked for."""
    if name in {"Index", "open"}:
        from mergewise import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _drawn(shown: Context | Answer) -> str:
    """The page of a context or an answer, for notebooks."""
    from mergewise.page import embedded

    return embedded(shown)


Pictured.draw = _drawn
