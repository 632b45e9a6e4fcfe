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
from importlib import import_module
from typing import TYPE_CHECKING

from mergewise.errors import (
    CorruptIndex,
    EmbedderMismatch,
    IndexBusy,
    InputRefused,
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
    DocumentRows,
    Duplicate,
    Failure,
    Heading,
    LeafId,
    Message,
    Origin,
    Page,
    Passage,
    Pictured,
    Problem,
    Reply,
    RowId,
    Rows,
    Span,
    Step,
    Usage,
)

if TYPE_CHECKING:
    from mergewise.assemble.budget import pack
    from mergewise.assemble.fragments import Candidate, Fragment
    from mergewise.designs import MODES, STRATEGIES, VIEWS, Design, Strategy
    from mergewise.designs.aed.triplets import TripletSettings
    from mergewise.designs.macrag.slices import SliceSettings
    from mergewise.designs.mrag.chunks import FixedSettings, PICSettings, SemanticSettings
    from mergewise.designs.mrag.markers import MarkerSettings
    from mergewise.engine import Index, estimate, open
    from mergewise.generate.mode import CAUSAL, CHAT, NO_MODEL, Mode, Request
    from mergewise.index.tree import TreeSettings
    from mergewise.models.cppl import cppl
    from mergewise.models.openai import OpenAIEmbedder
    from mergewise.models.openai_chat import OpenAIChat
    from mergewise.models.openai_scorer import OpenAIScorer
    from mergewise.models.record import Models
    from mergewise.models.rerank_http import HTTPReranker
    from mergewise.models.scripted import ChatServer, ScriptedChat
    from mergewise.models.scripted_causal import ScriptedCausal
    from mergewise.models.tokens import count_tokens
    from mergewise.protocols import (
        CausalModel,
        ChatModel,
        Embedder,
        IndexReader,
        NLLScorer,
        PartEmbedder,
        Reranker,
        RowReader,
        TokenCounter,
        UtilityPredictor,
    )
    from mergewise.readers.apart import Limits
    from mergewise.retrieve.hybrid import SearchSettings
    from mergewise.store.tables import Table
    from mergewise.store.views import Estimate, Progress, View
    from mergewise.twins import AnswerStream, AsyncAnswerStream

__version__ = "0.1.0"

__all__ = [
    "CAUSAL",
    "CHAT",
    "MODES",
    "NO_MODEL",
    "STRATEGIES",
    "VIEWS",
    "AddReport",
    "Answer",
    "AnswerStream",
    "AsyncAnswerStream",
    "Candidate",
    "CausalModel",
    "ChatModel",
    "ChatServer",
    "Citation",
    "Context",
    "CorruptIndex",
    "Design",
    "Document",
    "DocumentChange",
    "DocumentInfo",
    "DocumentRows",
    "Duplicate",
    "Embedder",
    "EmbedderMismatch",
    "Estimate",
    "Failure",
    "FixedSettings",
    "Fragment",
    "HTTPReranker",
    "Heading",
    "Index",
    "IndexBusy",
    "IndexReader",
    "InputRefused",
    "LeafId",
    "Limits",
    "MarkerSettings",
    "MergewiseError",
    "Message",
    "MissingExtra",
    "Mode",
    "ModelError",
    "Models",
    "NLLScorer",
    "NewerFormat",
    "NotAnIndex",
    "OlderFormat",
    "OpenAIChat",
    "OpenAIEmbedder",
    "OpenAIScorer",
    "Origin",
    "PICSettings",
    "Page",
    "PartEmbedder",
    "Passage",
    "Problem",
    "Progress",
    "ReadError",
    "Reply",
    "Request",
    "Reranker",
    "RowId",
    "RowReader",
    "Rows",
    "ScriptedCausal",
    "ScriptedChat",
    "SearchSettings",
    "SemanticSettings",
    "SliceSettings",
    "Span",
    "Step",
    "StoreError",
    "Strategy",
    "Table",
    "TokenCounter",
    "TreeSettings",
    "TripletSettings",
    "Usage",
    "UsageError",
    "UtilityPredictor",
    "View",
    "count_tokens",
    "cppl",
    "estimate",
    "open",
    "pack",
]

# Names that bring numpy, the store or a model along, by the module that has them. It is imported when one is first used.
_HOMES = {
    "mergewise.assemble.budget": "pack",
    "mergewise.models.record": "Models",
    "mergewise.assemble.fragments": "Candidate Fragment",
    "mergewise.designs": "MODES STRATEGIES VIEWS Design Strategy",
    "mergewise.designs.aed.triplets": "TripletSettings",
    "mergewise.designs.macrag.slices": "SliceSettings",
    "mergewise.designs.mrag.chunks": "FixedSettings PICSettings SemanticSettings",
    "mergewise.designs.mrag.markers": "MarkerSettings",
    "mergewise.engine": "Index estimate open",
    "mergewise.generate.mode": "CAUSAL CHAT NO_MODEL Mode Request",
    "mergewise.index.tree": "TreeSettings",
    "mergewise.models.cppl": "cppl",
    "mergewise.models.openai": "OpenAIEmbedder",
    "mergewise.models.openai_chat": "OpenAIChat",
    "mergewise.models.openai_scorer": "OpenAIScorer",
    "mergewise.models.rerank_http": "HTTPReranker",
    "mergewise.models.scripted": "ChatServer ScriptedChat",
    "mergewise.models.scripted_causal": "ScriptedCausal",
    "mergewise.models.tokens": "count_tokens",
    "mergewise.protocols": (
        "CausalModel ChatModel Embedder IndexReader NLLScorer PartEmbedder Reranker RowReader TokenCounter UtilityPredictor"
    ),
    "mergewise.readers.apart": "Limits",
    "mergewise.retrieve.hybrid": "SearchSettings",
    "mergewise.store.tables": "Table",
    "mergewise.store.views": "Estimate Progress View",
    "mergewise.twins": "AnswerStream AsyncAnswerStream",
}
_LAZY = {name: module for module, names in _HOMES.items() for name in names.split()}

logging.getLogger("mergewise").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """The public names that are imported when they are first used."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _notebook_page(shown: Context | Answer) -> str:
    """The page of a context or an answer, for notebooks."""
    from mergewise.page import notebook_frame

    return notebook_frame(shown)


Pictured.draw = _notebook_page
