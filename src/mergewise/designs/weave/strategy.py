"""The strategy weave: gather candidates by the search and over bridge hops, and select the best of them.

MergeRAG merges chunks with a model to approximate its Eq. 1 (the most information about the question per token). Here a
tractable form of Eq. 1 is solved directly over verbatim sentences: each gets the probability that it is needed (`evidence`),
and a monotone submodular objective is maximised under the budget (`selection`). It is deterministic and takes milliseconds.
With `select=point` a chat model first points at the needed sentences (`pointing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, SectionKey
from mergewise.defaults import SHIPPED_EMBEDDERS
from mergewise.designs.weave.completeness import probabilities
from mergewise.designs.weave.evidence import Candidates, Link, QuestionAspects
from mergewise.designs.weave.hops import (
    Follower,
    by_section,
    leaves_of,
    named_definitions,
    named_sections,
    open_question,
    strongest,
)
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.pointing import Pointed, point
from mergewise.designs.weave.ranking import scored_passages
from mergewise.designs.weave.reranking import Reranked
from mergewise.designs.weave.selection import CONSIDERED, select
from mergewise.errors import UsageError
from mergewise.models.calibration import calibration_of
from mergewise.models.record import Models
from mergewise.models.scores import logits_of
from mergewise.protocols import IndexReader
from mergewise.types import Cause, Context, HopNote, Step

SMALLEST = 8  # sentences tried without their heading lines if none fits with them
LEADS = 3  # maximum reads of further leaves for leads: a row's header, and the line that announces it


def assemble(
    question: str,
    reader: IndexReader,
    budget: int,
    models: Models,
    parameters: Weave,
    weights: Mapping[str, float] | None = None,
) -> Context:
    if parameters.select == "point" and models.chat is None:
        raise UsageError("select=point needs a chat model", "name one (--chat), or use select=scores")
    weights = models.weights or weights
    trace: list[Step] = []
    candidates = gather(question, reader, parameters, trace, weights, models)
    if not candidates.sentences:
        return replace(pack(question, [], budget, models, "document", trace), evidence=(), complete=0.0)
    pointed = Pointed()
    if parameters.select == "point" and models.chat is not None:
        search = partial(gather, reader=reader, parameters=parameters, trace=[], weights=weights, models=models)
        pointed = point(candidates, search, models.chat, models, parameters, trace)
    own = candidates.relevance
    candidates.relevance = pointed.raise_relevance(own, parameters.trust)
    chosen, counts = select(candidates, budget, models, parameters, trace, pointed.needed)
    # No sentence fits with its heading line. Sentences that need no others may fit without.
    chosen = chosen or [i for i in candidates.best(SMALLEST) if candidates.bundle(i) == (i,)]
    ranked = [Candidate((candidates.sentences[i].fragment,), float(candidates.relevance[i])) for i in chosen]
    context = pack(question, ranked, budget, models, "document", trace, counts)
    spans = [span for passage in context.passages for span in passage.spans]
    own_spans = {i: candidates.sentences[i].span for i in chosen}
    shown = [i for i, own in own_spans.items() if any(map(own.overlaps, spans))]
    complete = float(probabilities(candidates, shown, [len(shown)])[0]) if shown else 0.0
    passages = scored_passages(context.passages, candidates, chosen)
    candidates.relevance = own  # confidence in answers was calibrated on weave's own scores
    evidence = candidates.evidence(chosen, previous=parameters.previous)
    context = replace(context, passages=passages, usage=pointed.usage, evidence=evidence, complete=complete)
    more = Step("more", f"there may be more: all evidence is held with a probability of {complete:.2f}")
    return replace(context, trace=(*trace, more, *context.trace[len(trace) :])) if context.may_lack else context


def gather(
    question: str,
    reader: IndexReader,
    parameters: Weave,
    trace: list[Step],
    weights: Mapping[str, float] | None = None,
    models: Models | None = None,
) -> Candidates:
    """Gather candidates and their relevance from the search, from the sections that the question names, and over `hops` hops.

    After the first hop, a second search looks for facts that the best evidence lacks.
    """
    ranked = dict(reader.rank(question, parameters.k, by="search"))  # embeds the question during the text search
    asked = QuestionAspects.read(question, reader)
    names, known = named_definitions(asked, reader)
    named = [(definition, name.name) for name in names for definition in known[name.name]]
    of_named = leaves_of([definition for definition, _ in named], ranked)
    candidates = Candidates(asked, ranked, weights)
    embedder = None if models is None else models.embedder
    candidates.rescaled = embedder is not None and embedder.spec not in SHIPPED_EMBEDDERS
    candidates.add(reader.sentences([*ranked, *of_named]).values())
    candidates.named = named_sections(candidates, named)
    candidates.judge()
    trace.append(Step("search", f"{len(ranked)} leaves, {len(candidates)} sentences"))
    previous = previous_leaves(candidates, parameters.beam) if parameters.previous else []
    follower = Follower(candidates, reader, names, parameters.beam)
    for hop in range(1, parameters.hops + 1):
        reached, count = follower.follow(), len(candidates)
        candidates.add(reader.sentences([*leaves_of(strongest(reached), candidates.leaves), *previous]).values())
        previous = []
        links = by_section(candidates, reached)
        settled = links == candidates.links
        _trace_hop(hop, candidates, links, trace)
        candidates.links = links
        if not settled or len(candidates) > count:
            candidates.judge()
        if hop == 1 and search_onward(candidates, follower, parameters.onward, trace):
            candidates.judge()
        elif settled:
            break
    ask_reranker(candidates, models, parameters.asked, trace)
    read_needed(candidates, reader, CONSIDERED)
    return candidates


def read_needed(candidates: Candidates, reader: IndexReader, count: int, *, previous: bool = False) -> None:
    """Read the leaves that the `count` most relevant candidates need before them, and the leaves that these need in turn."""
    for _ in range(LEADS):
        needed = candidates.missing(candidates.best(count))
        needed += previous_leaves(candidates, count) if previous else []
        further = reader.sentences(needed) if needed else {}
        if not further:
            return
        candidates.add(further.values())
        candidates.judge()


def search_onward(candidates: Candidates, follower: Follower, k: int, trace: list[Step]) -> bool:
    """Run the second search. Returns False if it does not pay. Leaves from the first search keep their score."""
    asked = open_question(candidates, follower) if k and candidates.sentences else None
    if asked is None:
        return False
    (query, gain), reader = asked, follower.reader
    found = {leaf: score for leaf, score in reader.rank(query, k, by="search") if leaf not in candidates.scores}
    candidates.onward = found
    candidates.add(reader.sentences([leaf for leaf in found if leaf not in candidates.leaves]).values())
    trace.append(Step("search", f"{len(found)} further leaves for missing facts, expected gain {gain:.2f}: {query}"))
    return True


def previous_leaves(candidates: Candidates, count: int) -> list[int]:
    """Return the unknown leaves whose last sentence one of the `count` most relevant candidates needs before it."""
    sentences = candidates.sentences
    firsts = (i for i in candidates.best(count) if sentences[i].number == 0 and candidates.needs_previous(i))
    return [leaf for leaf in dict.fromkeys(sentences[i].leaf.id - 1 for i in firsts) if leaf not in candidates.leaves]


def _trace_hop(hop: int, candidates: Candidates, links: Mapping[SectionKey, list[Link]], trace: list[Step]) -> None:
    """Trace the sections that a hop reached for the first time, those with the strongest links first."""
    best = {section: max(group, key=lambda link: link.strength) for section, group in links.items()}
    fresh = [(section, link) for section, link in best.items() if section not in candidates.links]
    for section, link in sorted(fresh, key=lambda pair: -pair[1].strength):
        target = candidates.sentences[candidates.members[section][0]].leaf.span
        evidence = candidates.sentences[link.evidence].span
        reason = f"{hop}: the evidence names “{link.name}”, expected gain {link.gain:.2f}"
        note = HopNote(hop, link.name, round(link.gain, 4))
        trace.append(Step("hop", reason, (evidence,), target, link.strength, note, Cause.LINK))


def ask_reranker(candidates: Candidates, models: Models | None, count: int, trace: list[Step]) -> None:
    """Score the `count` most relevant candidates in one call of the reranker, and judge all candidates again."""
    reranker = None if models is None else models.reranker
    if reranker is None or not count or not len(candidates):
        return
    asked = candidates.best(count)
    logits = logits_of(reranker, candidates.asked.text, [candidates.sentences[i].below_path for i in asked])
    candidates.reranked = Reranked(asked, logits, calibration_of(reranker))
    candidates.judge()
    trace.append(Step("rerank", f"{len(asked)} sentences by {reranker.spec}"))
