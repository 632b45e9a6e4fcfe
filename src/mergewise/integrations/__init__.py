"""Retrievers for other frameworks, each imported on first use.

    from mergewise.integrations import LangChainRetriever

Importing a retriever raises MissingExtra, with the command that installs the extra, if its framework is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.extend import lazy_names

if TYPE_CHECKING:
    from mergewise.integrations.haystack import HaystackRetriever
    from mergewise.integrations.langchain import LangChainRetriever
    from mergewise.integrations.llama_index import LlamaIndexRetriever

__all__ = ["HaystackRetriever", "LangChainRetriever", "LlamaIndexRetriever"]
__getattr__ = lazy_names(
    __name__, {"haystack": "HaystackRetriever", "langchain": "LangChainRetriever", "llama_index": "LlamaIndexRetriever"}
)
