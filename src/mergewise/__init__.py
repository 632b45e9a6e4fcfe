"""mergewise: the densest context for a token budget, every sentence traceable to its source.

    import mergewise as mw

    with mw.open("my.index") as index:                  # a directory, created if absent
        index.add("docs/")                              # files, folders, mw.Document(...)
        context = index.context("question", budget=640)
        answer = index.ask("question")

Begin with `help(mw.open)` and `help(mw.Index)`. Every error is a `MergewiseError` with a hint. The logger is "mergewise".
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names, names_by_module
from mergewise.types import Pictured

if TYPE_CHECKING:
    from mergewise import designs as designs
    from mergewise import errors as errors
    from mergewise import protocols as protocols
    from mergewise import types as types
    from mergewise.asking import PreparedAnswer as PreparedAnswer
    from mergewise.async_api import AnswerStream as AnswerStream
    from mergewise.async_api import AsyncAnswerStream as AsyncAnswerStream
    from mergewise.designs import MODES as MODES
    from mergewise.designs import STRATEGIES as STRATEGIES
    from mergewise.designs import VIEWS as VIEWS
    from mergewise.designs.aed.triplets import TripletSettings as TripletSettings
    from mergewise.designs.macrag.slices import SliceSettings as SliceSettings
    from mergewise.designs.mrag.chunks import FixedSettings as FixedSettings
    from mergewise.designs.mrag.chunks import PICSettings as PICSettings
    from mergewise.designs.mrag.chunks import SemanticSettings as SemanticSettings
    from mergewise.designs.mrag.markers import MarkerSettings as MarkerSettings
    from mergewise.designs.raptor.chunks import RaptorSettings as RaptorSettings
    from mergewise.designs.tree_rag.outline import OutlineSettings as OutlineSettings
    from mergewise.engine import Index as Index
    from mergewise.errors import Cancelled as Cancelled
    from mergewise.errors import DeadlineExceeded as DeadlineExceeded
    from mergewise.errors import IndexBusy as IndexBusy
    from mergewise.errors import MergewiseError as MergewiseError
    from mergewise.errors import MissingExtra as MissingExtra
    from mergewise.errors import ModelError as ModelError
    from mergewise.errors import ReadError as ReadError
    from mergewise.errors import UsageError as UsageError
    from mergewise.index.tree import TreeSettings as TreeSettings
    from mergewise.models.cppl import cppl as cppl
    from mergewise.models.openai import OpenAIEmbedder as OpenAIEmbedder
    from mergewise.models.openai_chat import OpenAIChat as OpenAIChat
    from mergewise.models.openai_scorer import OpenAIScorer as OpenAIScorer
    from mergewise.models.record import Models as Models
    from mergewise.models.rerank_http import HTTPReranker as HTTPReranker
    from mergewise.models.scripted import ScriptedChat as ScriptedChat
    from mergewise.models.scripted_causal import ScriptedCausal as ScriptedCausal
    from mergewise.models.tokens import count_tokens as count_tokens
    from mergewise.opening import estimate as estimate
    from mergewise.opening import open as open
    from mergewise.protocols import ChatModel as ChatModel
    from mergewise.protocols import Embedder as Embedder
    from mergewise.protocols import Reranker as Reranker
    from mergewise.protocols import TokenCounter as TokenCounter
    from mergewise.query import AnswerQuery as AnswerQuery
    from mergewise.query import Query as Query
    from mergewise.ranges import Ceilings as Ceilings
    from mergewise.readers.sandbox import Limits as Limits
    from mergewise.retrieve.hybrid import SearchSettings as SearchSettings
    from mergewise.store.views import Estimate as Estimate
    from mergewise.store.views import Progress as Progress
    from mergewise.types import AddReport as AddReport
    from mergewise.types import Answer as Answer
    from mergewise.types import Citation as Citation
    from mergewise.types import Context as Context
    from mergewise.types import Document as Document
    from mergewise.types import DocumentInfo as DocumentInfo
    from mergewise.types import File as File
    from mergewise.types import Message as Message
    from mergewise.types import Passage as Passage
    from mergewise.types import Span as Span

__version__: str

# Public names by module. A module is imported at the first use of one of its names.
_HOMES = names_by_module("""
    mergewise.asking: PreparedAnswer
    mergewise.designs: MODES STRATEGIES VIEWS
    mergewise.designs.aed.triplets: TripletSettings
    mergewise.designs.macrag.slices: SliceSettings
    mergewise.designs.mrag.chunks: FixedSettings PICSettings SemanticSettings
    mergewise.designs.mrag.markers: MarkerSettings
    mergewise.designs.raptor.chunks: RaptorSettings
    mergewise.designs.tree_rag.outline: OutlineSettings
    mergewise.engine: Index
    mergewise.errors: Cancelled DeadlineExceeded IndexBusy MergewiseError MissingExtra ModelError ReadError UsageError
    mergewise.index.tree: TreeSettings
    mergewise.models.cppl: cppl
    mergewise.models.openai: OpenAIEmbedder
    mergewise.models.openai_chat: OpenAIChat
    mergewise.models.openai_scorer: OpenAIScorer
    mergewise.models.record: Models
    mergewise.models.rerank_http: HTTPReranker
    mergewise.models.scripted: ScriptedChat
    mergewise.models.scripted_causal: ScriptedCausal
    mergewise.models.tokens: count_tokens
    mergewise.opening: estimate open
    mergewise.protocols: ChatModel Embedder Reranker TokenCounter
    mergewise.query: AnswerQuery Query
    mergewise.ranges: Ceilings
    mergewise.readers.sandbox: Limits
    mergewise.retrieve.hybrid: SearchSettings
    mergewise.store.views: Estimate Progress
    mergewise.async_api: AnswerStream AsyncAnswerStream
    mergewise.types: AddReport Answer Citation Context Document DocumentInfo File Message Passage Span
""")
_MODULES = frozenset({"designs", "errors", "protocols", "types"})
"""Modules with the other public names: records, protocols, errors, and the tools to write a design."""
_public_name = lazy_names(__name__, _HOMES)

__all__ = sorted(" ".join(_HOMES.values()).split(), key=lambda name: (not name.isupper(), name[0].islower(), name))

logging.getLogger("mergewise").addHandler(logging.NullHandler())

# onnxruntime sends telemetry and writes a device id from its import on, unless this is set before. A value of the user stays.
if "onnxruntime" in sys.modules and "ORT_DISABLE_TELEMETRY" not in os.environ:
    warnings.warn(
        "onnxruntime was imported before mergewise, so its telemetry stays on in this process: import mergewise first, "
        "or set ORT_DISABLE_TELEMETRY=1",
        RuntimeWarning,
        stacklevel=2,
    )
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> object:
    """Import public names at their first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("mergewise")
    return import_module(f"{__name__}.{name}") if name in _MODULES else _public_name(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _notebook_page(shown: Context | Answer) -> str:
    """Return the page of a context or an answer for notebooks."""
    from mergewise.page import notebook_frame

    return notebook_frame(shown)


Pictured.draw = _notebook_page
