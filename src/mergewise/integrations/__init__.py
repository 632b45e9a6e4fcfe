"""mergewise inside other frameworks: a retriever for each, imported when it is asked for.

    from mergewise.integrations import LangChainRetriever

Raises MissingExtra, with the extra to install, where the framework is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.integrations.haystack import HaystackRetriever
    from mergewise.integrations.langchain import LangChainRetriever
    from mergewise.integrations.llama_index import LlamaIndexRetriever

__all__ = ["HaystackRetriever", "LangChainRetriever", "LlamaIndexRetriever"]
__getattr__ = lazy_names(
    __name__, {"haystack": "HaystackRetriever", "langchain": "LangChainRetriever", "llama_index": "LlamaIndexRetriever"}
)
