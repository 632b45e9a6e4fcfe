"""The sentences of a context by another strategy, as evidence, so that the mode `extractive` can quote each of them.

Nothing is searched. The leaves under the context's spans are read. Instead of a leaf's score in the search, `evidence` gets the
score of the best passage that overlaps the leaf. Names lead from sentence to sentence within the context alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mergewise.designs.weave.evidence import PoolSignals, QuestionAspects, SentencePool, judge
from mergewise.designs.weave.hops import Follower, by_section, named_definitions, named_sections
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import read_needed
from mergewise.protocols import IndexReader
from mergewise.types import Context, Definition, Evidence

PARAMETERS = Weave()
EVERY = 1 << 62  # candidate


def evidence_in(context: Context, reader: IndexReader) -> tuple[Evidence, ...]:
    """Return all sentences of the context as evidence for its question, by the vectors in the index, the most relevant first.

    For a passage written by a model, these are the sentences of the documents that it was written from.
    """
    spans = [span for passage in context.passages for span in passage.spans]
    if not spans:
        return ()
    leaves = reader.sentences(reader.leaves_under(spans))
    # The score of each leaf: that of the best passage that overlaps it, as a share of 1.
    scores = {
        leaf.id: min(max(passage.score, 0.0), 1.0)
        for passage in sorted(context.passages, key=lambda passage: passage.score)
        for leaf in leaves.values()
        if any(span.overlaps(leaf.span) for span in passage.spans)
    }
    pool = SentencePool(QuestionAspects.read(context.question, reader), scores)
    pool.add(leaves.values())
    # Judge the pool with the names in the question, and with the names that lead from one candidate to another.
    names, known = named_definitions(pool.asked, reader)
    named = [(definition, mention.name) for mention in names for definition in known[mention.name]]
    _read_beginnings([definition for definition, _ in named], pool, reader)
    candidates = judge(pool, PoolSignals(named_sections(pool, named)))
    follower = Follower(pool, reader, names, PARAMETERS.beam)
    for _ in range(PARAMETERS.hops):
        definitions = follower.follow(candidates)
        _read_beginnings(definitions, pool, reader)
        links = by_section(pool, definitions)
        if links == candidates.signals.links:
            break
        candidates = judge(pool, replace(candidates.signals, links=links))
    candidates = read_needed(candidates, reader, EVERY, previous=True)
    return candidates.evidence(
        i for i, sentence in enumerate(pool.sentences) if any(span.contains(sentence.span) for span in spans)
    )


def _read_beginnings(definitions: Iterable[Definition], pool: SentencePool, reader: IndexReader) -> None:
    """Read the first leaf of each definition that is partly in the context, since the first leaf identifies it."""
    leaves = pool.leaves
    firsts = [
        definition.first_leaf
        for definition in definitions
        if definition.first_leaf not in leaves and any(leaf in leaves for leaf in definition.leaves)
    ]
    if firsts:
        pool.add(reader.sentences(firsts).values())
