"""CRAG (Yan et al. 2024, Algorithm 1): an evaluator scores the passages that were found, and one of three actions follows.

    correct     the score of one is `upper` or more: the passages are refined
    ambiguous   the score of one is `lower` or more: the passages are refined, and it is searched again
    incorrect   else: what a second search by keywords finds is refined instead

To refine is to cut passages into strips of three sentences, to score each, and to keep the six best; five of the second search.

Where we differ, and why:
- the paper searches the web. Here the second search is one of the same index by keywords: nothing leaves the machine, and rows
  of a table are comparable. What the first search found is left out of it, and stands where there is nothing else;
- the evaluator is not the paper's (`evaluator`), so that its thresholds (0.592 and -0.995 on PopQA) mean nothing for ours. Ours
  are set on first halves (docs/evaluation.md);
- a rest of one sentence belongs to the strip before it; strips stand under their headings, and not between semicolons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate
from mergewise.assemble.passages import SEARCHED, LeafRun, search_passages
from mergewise.assemble.render import Order
from mergewise.assemble.sentences import SentenceInLeaf
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.crag.evaluator import evaluations, evaluator_name
from mergewise.designs.crag.keywords import keywords
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.text.keys import search_key
from mergewise.types import Context, LeafSentences, Step, Usage

STRIP = 3  # sentences
EXTERNAL = 5
"""Strips of the second search."""

_SCORE = Range(-1, 1)


@dataclass(frozen=True, slots=True)
class CRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "passages of each search"] = 10
    upper: Annotated[float, _SCORE, "the evaluator's score from which on a passage answers"] = -0.3
    lower: Annotated[float, _SCORE, "the score below which no passage helps"] = -0.75
    cut: Annotated[
        Literal["sentences", "whole"], "how passages are refined: to strips of three sentences, or not at all"
    ] = "sentences"
    n: Annotated[int, Range(1, MOST_ROWS), "strips that are kept of the first search"] = 6
    order: Order = "score"


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: CRAG) -> Context:
    trace: list[Step] = []
    # the evaluator alone asks the reranker
    found = search_passages(question, reader, parameters.k, PASSAGE_TOKENS, trace, by="search")
    leaves = _sentences(found, reader)
    texts = [_text([leaves[leaf] for leaf in one.leaves if leaf in leaves]) for one in found]
    scores = evaluations(question, texts, models)
    best = max(scores, default=-1.0)
    action = action_of(scores, parameters.upper, parameters.lower)
    spans = tuple(span for one in found for span in one.candidate.spans)
    trace.append(Step("evaluate", f"{action}, by {evaluator_name(models)}", spans, score=best))
    usage = Usage()
    ranked: list[Candidate] = []
    if action != "incorrect":
        ranked += _best_strips(question, found, leaves, parameters.n, models, parameters, trace)
    if action != "correct":
        named, usage = keywords(question, texts, models)
        trace.append(Step("keywords", ", ".join(named)))
        known = {leaf for one in found for leaf in one.leaves}
        again = search_passages(" ".join(named), reader, 2 * parameters.k, PASSAGE_TOKENS, trace, by="search")
        fresh = [one for one in again if known.isdisjoint(one.leaves)][: parameters.k]
        ranked += _best_strips(question, fresh, _sentences(fresh, reader), EXTERNAL, models, parameters, trace)
    if not ranked:
        ranked = _best_strips(question, found, leaves, parameters.n, models, parameters, trace)
    ranked.sort(key=lambda one: -one.score)
    context = pack(question, ranked, budget, models, parameters.order, trace)
    return replace(context, usage=context.usage + usage)


def action_of(scores: Sequence[float], upper: float, lower: float) -> Literal["correct", "ambiguous", "incorrect"]:
    """The action that the scores of all passages trigger (section 4.4)."""
    best = max(scores, default=-1.0)
    if scores and best >= upper:
        return "correct"
    return "ambiguous" if scores and best >= lower else "incorrect"


def _sentences(found: Sequence[LeafRun], reader: IndexReader) -> dict[int, LeafSentences]:
    return reader.sentences(sorted({leaf for one in found for leaf in one.leaves}))


def _text(leaves: Sequence[LeafSentences]) -> str:
    """A passage as the evaluator reads it."""
    return (
        search_key(leaves[0].title, leaves[0].headings, "".join(leaf.text for leaf in leaves)).strip() if leaves else ""
    )


def _best_strips(
    question: str,
    found: Sequence[LeafRun],
    leaves: Mapping[int, LeafSentences],
    most: int,
    models: Models,
    parameters: CRAG,
    trace: list[Step],
) -> list[Candidate]:
    """The best strips of the passages, by their scores."""
    strips = [
        strip
        for one in found
        for strip in strips_of([leaves[leaf] for leaf in one.leaves if leaf in leaves], parameters.cut == "whole")
    ]
    texts = [" ".join(" ".join(one.text.split()) for one in strip) for strip in strips]
    scored = zip(strips, evaluations(question, texts, models), strict=True)
    kept = sorted(scored, key=lambda pair: -pair[1])[: most if parameters.cut == "sentences" else (most + 1) // 2]
    candidates = [Candidate(tuple(one.fragment for one in strip), score) for strip, score in kept]
    spans = tuple(span for one in candidates for span in one.spans)
    trace.append(Step("strips", f"the best {len(kept)} of {len(strips)}", spans))
    return candidates


def strips_of(leaves: Sequence[LeafSentences], whole: bool = False) -> list[list[SentenceInLeaf]]:
    """The sentences of a passage in threes, a rest of one with those before it; all together where it stays `whole`."""
    sentences = [SentenceInLeaf(leaf, number) for leaf in leaves for number in range(len(leaf.sentences))]
    size = max(1, len(sentences)) if whole else STRIP
    strips = [sentences[first : first + size] for first in range(0, len(sentences), size)]
    if len(strips) > 1 and len(strips[-1]) == 1:
        strips[-2:] = [strips[-2] + strips[-1]]
    return strips
