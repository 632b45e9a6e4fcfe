"""mergewise: the densest context for a token budget, every sentence traceable to its source.

    import mergewise as mw

    with mw.open("my.index") as index:                  # a directory, created if absent
        index.add("docs/")                              # files, folders, mw.Document(...)
        context = index.context("question", budget=640)
        answer = index.ask("question")

Begin with `help(mw.open)` and `help(mw.Index)`. All errors are a `MergewiseError`, with a hint. What is done is logged by the
logger "mergewise".
"""

from __future__ import annotations

import logging
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
    DocumentChange,
    DocumentInfo,
    Duplicate,
    Failure,
    Heading,
    Origin,
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
    "DocumentChange",
    "DocumentInfo",
    "Duplicate",
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
    "Origin",
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

logging.getLogger("mergewise").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """`open` and `Index` bring the store and numpy along, so they are imported when they are first asked for."""
    if name in {"Index", "open"}:
        from mergewise import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _drawn(shown: Context | Answer) -> str:
    """The page of a context or an answer, for notebooks."""
    from mergewise.page import embedded

    return embedded(shown)


Pictured.draw = _drawn
