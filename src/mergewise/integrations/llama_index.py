"""A retriever for LlamaIndex (`pip install 'mergewise[llama-index]'`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mergewise.engine import Index
from mergewise.errors import MissingExtra
from mergewise.integrations.passages import QUERY_OPTIONS, id_of, with_metadata
from mergewise.types import Context, Passage, Span

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index", error) from error

# metadata that a model has no use for
_NOT_FOR_MODELS = ["spans", "source"]


class LlamaIndexRetriever(BaseRetriever):
    """One node a passage: `LlamaIndexRetriever(mergewise.open("my.index"), budget=640)`, with the options of `Index.context`.

    A node's text is the passage. Where it is one span of its document, `start_char_idx` and `end_char_idx` say which, exactly; a
    passage of several spans has none, but all of them in `metadata["spans"]`. With `by_span` each span is a node of its own. The
    nodes are of `similarity_top_k` passages at most, if that is given.

    Raises what `Index.context` raises.
    """

    def __init__(
        self, index: Index, *, by_span: bool = False, similarity_top_k: int | None = None, **options: Any
    ) -> None:
        """`options` are those of `Index.context`, and of LlamaIndex's own base, such as `callback_manager`."""
        search = {name: options.pop(name) for name in QUERY_OPTIONS if name in options}
        super().__init__(**options)
        self._index = index
        self._by_span = by_span
        self._most = similarity_top_k
        self._search = search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self._index.context(query_bundle.query_str, **self._search))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(await self._index.acontext(query_bundle.query_str, **self._search))

    def _nodes(self, context: Context) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=node, score=passage.score)
            for passage, metadata in with_metadata(context, self._index, self._most)
            for node in self._nodes_of(passage, metadata)
        ]

    def _nodes_of(self, passage: Passage, metadata: Mapping[str, Any]) -> list[TextNode]:
        if not passage.verbatim or (len(passage.spans) > 1 and not self._by_span):
            return [_node(passage, passage.text, None, metadata)]
        return [_node(passage, text, span, metadata) for span, text in passage.parts()]


def _node(passage: Passage, text: str, span: Span | None, metadata: Mapping[str, Any]) -> TextNode:
    """A node of a whole passage, or of one span of it, which then has offsets."""
    source = metadata.get("source") if span is None else span.doc_id
    own = {} if span is None else {"spans": [{"doc": span.doc_id, "start": span.start, "end": span.end}]}
    return TextNode(
        id_=id_of(passage, span),
        text=text,
        metadata={**metadata, **own},
        start_char_idx=None if span is None else span.start,
        end_char_idx=None if span is None else span.end,
        excluded_llm_metadata_keys=_NOT_FOR_MODELS,
        excluded_embed_metadata_keys=_NOT_FOR_MODELS,
        relationships={} if source is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)},
    )
