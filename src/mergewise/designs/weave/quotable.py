"""The sentences of a context by another strategy, as evidence, so that the mode `extractive` can quote each of them.

Nothing is searched. The leaves under the context's spans are read. Instead of a leaf's score in the search, `evidence` gets the
score of the best passage that overlaps the leaf. Names lead from sentence to sentence within the context alone.
archive/evaluation.md compares the answers with those of a weave search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mergewise.designs.weave.evidence import Candidates, QuestionAspects
from mergewise.designs.weave.hops import Follower, by_section, named_definitions, named_sections
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import read_needed
from mergewise.protocols import IndexReader
from mergewise.types import Context, Definition, Evidence, LeafSentences

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
    candidates = Candidates(QuestionAspects.read(context.question, reader), _scores(context, leaves.values()))
    candidates.add(leaves.values())
    _link(candidates, reader)
    read_needed(candidates, reader, EVERY, previous=True)
    return candidates.evidence(
        i for i, sentence in enumerate(candidates.sentences) if any(span.contains(sentence.span) for span in spans)
    )


def _scores(context: Context, leaves: Iterable[LeafSentences]) -> Mapping[int, float]:
    """Return the score of each leaf: that of the best passage that overlaps it, as a share of 1."""
    return {
        leaf.id: min(max(passage.score, 0.0), 1.0)
        for passage in sorted(context.passages, key=lambda passage: passage.score)
        for leaf in leaves
        if any(span.overlaps(leaf.span) for span in passage.spans)
    }


def _link(candidates: Candidates, reader: IndexReader) -> None:
    """Judge the candidates with the names in the question, and with the names that lead from one candidate to another."""
    names, known = named_definitions(candidates.asked, reader)
    named = [(definition, mention.name) for mention in names for definition in known[mention.name]]
    _read_beginnings([definition for definition, _ in named], candidates, reader)
    candidates.named = named_sections(candidates, named)
    candidates.judge()
    follower = Follower(candidates, reader, names, PARAMETERS.beam)
    for _ in range(PARAMETERS.hops):
        definitions = follower.follow()
        _read_beginnings(definitions, candidates, reader)
        links = by_section(candidates, definitions)
        if links == candidates.links:
            break
        candidates.links = links
        candidates.judge()


def _read_beginnings(definitions: Iterable[Definition], candidates: Candidates, reader: IndexReader) -> None:
    """Read the first leaf of each definition that is partly in the context, since the first leaf identifies it."""
    leaves = candidates.leaves
    firsts = [
        definition.first_leaf
        for definition in definitions
        if definition.first_leaf not in leaves and any(leaf in leaves for leaf in definition.leaves)
    ]
    if firsts:
        candidates.add(reader.sentences(firsts).values())
