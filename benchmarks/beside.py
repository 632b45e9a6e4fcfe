"""The table of the README: how often a context holds all evidence of its question, against LlamaIndex auto-merging.

    python -m benchmarks.beside SETS [--names hotpotqa-long,musique-long,2wiki,manuals] [--budgets 128,384,640] [--cache DIR]

SETS is a folder of question sets. The name `manuals` means the questions of benchmarks/manuals.
Questions come from the second halves. All methods get the same documents and the same MiniLM vectors, and share the scoring code.
LlamaIndex needs the environment of benchmarks/peers.py. Without it, the cells of LlamaIndex stay empty. It runs as its
documentation shows: `HierarchicalNodeParser` 2048/512/128 and `AutoMergingRetriever` over 24 hits. The title of a document is
metadata of its nodes, so it is searched with each node. Nodes are shown in the order of their scores, without the title, until
the budget is full. The last node is cut.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mergewise as mw
from benchmarks import manuals
from benchmarks.peers import HITS
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import mean, score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.run import chosen_questions
from mergewise.models.onnx import minilm
from mergewise.models.tokens import count_tokens, token_offsets

STRATEGIES = ("weave", "topk")


@dataclass(frozen=True)
class Examination:
    """An index and its questions, each with a function that scores a context: 1 if it holds all evidence."""

    index: mw.Index
    questions: Sequence[tuple[str, Callable[[mw.Context], float]]]


def examination(name: str, sets: Path, cache: Path) -> Examination:
    if name == "manuals":
        asked = [one for one in manuals.load("questions", "test") if one.answerable]
        index = manuals.opened(cache)
        return Examination(index, [(one.question.text, partial(_all_of_manuals, one)) for one in asked])
    task = load_question_set(sets / name)
    index = mw.open(cache / name)
    index.add(task.documents)
    return Examination(index, [(one.text, partial(_all_of, one)) for one in chosen_questions(task, "test")])


def _all_of_manuals(asked: manuals.Asked, context: mw.Context) -> float:
    return asked.score(context).all or 0.0


def _all_of(asked: Question, context: mw.Context) -> float:
    return score_context(asked, context.text, context.tokens, count_tokens).all or 0.0


def rows(exam: Examination, budgets: Sequence[int]) -> Iterator[tuple[str, list[float]]]:
    """Yield each method with the share of questions answered in full at each budget."""
    for strategy in STRATEGIES:
        yield (
            strategy,
            [
                mean(
                    [
                        holds(exam.index.context(text, strategy=strategy, budget=budget))
                        for text, holds in exam.questions
                    ]
                )
                for budget in budgets
            ],
        )
    if (retrieve := llamaindex(exam)) is not None:
        found = [(text, holds, retrieve(text)) for text, holds in exam.questions]
        yield (
            "LlamaIndex",
            [mean([holds(first_tokens(text, shown, budget)) for text, holds, shown in found]) for budget in budgets],
        )


def llamaindex(exam: Examination) -> Callable[[str], str] | None:
    """Return a function from a question to the texts of LlamaIndex's nodes, best first, or None if it is not installed."""
    try:
        from llama_index.core import Document, StorageContext, VectorStoreIndex
        from llama_index.core.embeddings import MockEmbedding
        from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
        from llama_index.core.retrievers import AutoMergingRetriever
        from llama_index.core.schema import MetadataMode, QueryBundle
        from llama_index.core.storage.docstore import SimpleDocumentStore
    except ModuleNotFoundError:
        return None
    embedder = minilm()
    ids = [info.id for info in exam.index.documents()]
    whole = [
        Document(id_=one.id, text=one.text, metadata={"title": one.title}) for one in map(exam.index.document, ids)
    ]
    nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[2048, 512, 128]).get_nodes_from_documents(whole)
    leaves = get_leaf_nodes(nodes)
    vectors = embedder.embed_documents([leaf.get_content(MetadataMode.EMBED) for leaf in leaves])
    for leaf, vector in zip(leaves, vectors.tolist(), strict=True):
        leaf.embedding = vector
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    storage = StorageContext.from_defaults(docstore=docstore)
    # Nodes and questions already carry vectors, so this model is never called.
    index = VectorStoreIndex(leaves, storage_context=storage, embed_model=MockEmbedding(embedder.dimension))
    retriever = AutoMergingRetriever(index.as_retriever(similarity_top_k=HITS), storage)

    def retrieve(question: str) -> str:
        asked = QueryBundle(question, embedding=embedder.embed_queries([question])[0].tolist())
        hits = sorted(retriever.retrieve(asked), key=lambda hit: -(hit.score or 0.0))
        return "\n\n".join(hit.node.get_content(MetadataMode.NONE) for hit in hits)

    return retrieve


def first_tokens(question: str, text: str, budget: int) -> mw.Context:
    """Return the first `budget` tokens of a text as a context."""
    offsets = token_offsets(text)
    if len(offsets) > budget:
        text = text[: int(offsets[budget - 1][1])]
    return mw.Context(question, "", budget, text, count_tokens([text])[0], ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--names", default="hotpotqa-long,musique-long,2wiki,manuals")
    parser.add_argument("--budgets", default="128,384,640")
    parser.add_argument("--cache", type=Path, default=Path("beside.cache"))
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    for name in options.names.split(","):
        exam = examination(name, options.sets, options.cache)
        print(f"{name}, {len(exam.questions)} questions", file=sys.stderr)
        for method, shares in rows(exam, budgets):
            print(f"{name:14} {method:12} " + " / ".join(f"{share:.2f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
