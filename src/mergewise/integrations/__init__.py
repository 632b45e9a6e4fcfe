"""mergewise inside other frameworks: a retriever for each, imported when it is asked for.

    from mergewise.integrations import LangChainRetriever

Raises MissingExtra, with the extra to install, where the framework is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mergewise.integrations.haystack import HaystackRetriever
    from mergewise.integrations.langchain import LangChainRetriever
    from mergewise.integrations.llama_index import LlamaIndexRetriever

__all__ = ["HaystackRetriever", "LangChainRetriever", "LlamaIndexRetriever"]

_MODULES = {"HaystackRetriever": "haystack", "LangChainRetriever": "langchain", "LlamaIndexRetriever": "llama_index"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
