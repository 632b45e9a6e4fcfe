"""The strategy weave: gather candidates by the search and over bridge hops, and select the best of them.

MergeRAG merges chunks with a model to approximate its Eq. 1 (the most information about the question per token). Here a
tractable form of Eq. 1 is solved directly over verbatim sentences: each gets the probability that it is needed (`evidence`),
and a monotone submodular objective is maximised under the budget (`selection`). It is deterministic and takes milliseconds.
With `select=point` a chat model first points at the needed sentences (`pointing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate
from mergewise.defaults import EMBEDDER
from mergewise.designs.design import Strategy
from mergewise.designs.weave import sentence
from mergewise.designs.weave.completeness import probabilities, scored_passages
from mergewise.designs.weave.evidence import (
    Candidates,
    PoolSignals,
    QuestionAspects,
    Reranked,
    SentencePool,
    by_score,
    judge,
)
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
from mergewise.designs.weave.place import relevance_in_place
from mergewise.designs.weave.pointing import Pointed, point
from mergewise.designs.weave.selection import CONSIDERED, select
from mergewise.errors import UsageError
from mergewise.models.calibration import calibration_of
from mergewise.models.record import Models
from mergewise.models.scores import logits_of
from mergewise.protocols import IndexReader
from mergewise.text.spans import spans_of
from mergewise.types import Cause, Context, HopNote, Step

SMALLEST = 8  # sentences tried without their heading lines if none fits with them
AROUND = 10  # the first leaves of the search, around which the text is read on
REACH = 2  # leaves read before and after each of them
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
    sentences = candidates.pool.sentences
    if not sentences:
        return replace(pack(question, [], budget, models, "document", trace), evidence=(), complete=0.0)
    pointed, raised = Pointed(), candidates
    if parameters.select == "point" and models.chat is not None:
        search = partial(gather, reader=reader, parameters=parameters, trace=[], weights=weights, models=models)
        candidates, pointed = point(candidates, search, models.chat, models, parameters, trace)
        raised = replace(candidates, relevance=pointed.raise_relevance(candidates.relevance, parameters.trust))
    chosen, counts = select(raised, budget, models, parameters, trace, pointed.needed)
    context, shown = pack_whole(question, raised, chosen, budget, models, parameters, trace, counts)
    complete = float(probabilities(raised, shown, [len(shown)])[0]) if shown else 0.0
    passages = scored_passages(context.passages, raised, shown)
    # Confidence in answers was calibrated on weave's own scores.
    evidence = candidates.evidence(shown, previous=parameters.previous)
    context = replace(context, passages=passages, usage=pointed.usage, evidence=evidence, complete=complete)
    more = Step("more", f"there may be more: all evidence is held with a probability of {complete:.2f}")
    return replace(context, trace=(*trace, more, *context.trace[len(trace) :])) if context.may_lack else context


def pack_whole(
    question: str,
    candidates: Candidates,
    chosen: Sequence[int],
    budget: int,
    models: Models,
    parameters: Weave,
    trace: Sequence[Step],
    counts: Mapping[str, int],
) -> tuple[Context, list[int]]:
    """Pack candidates into a context. Leave out those that do not fit with what they need. Return the context and the others."""
    pool = candidates.pool
    while True:
        # No sentence fits with its heading line. Sentences that need no others may fit without.
        small = (i for i in candidates.best(SMALLEST) if pool.bundle(i) == (i,) and not pool.says_nothing(i))
        chosen = chosen or list(small)
        taken, ranked = {*chosen}, []
        for i in chosen:
            sentence = pool.sentences[i]
            # a directive or the like after a sentence is shown only before the next one
            fragment = sentence.fragment if pool.beside(i, 1) in taken else sentence.bare_fragment
            ranked.append(Candidate((fragment,), float(candidates.relevance[i])))
        context = pack(question, ranked, budget, models, "document", trace, counts)
        spans = spans_of(context)
        shown = [i for i in chosen if any(map(pool.sentences[i].span.overlaps, spans))]
        bundles = (pool.bundle(i, previous=parameters.previous) or () for i in shown)
        whole = {i for bundle in bundles if {*bundle} <= {*shown} for i in bundle}
        if len(whole) == len(shown):
            return context, shown
        chosen = [i for i in shown if i in whole]


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
    embedder = None if models is None else models.embedder
    pool = SentencePool(asked, ranked, weights, rescaled=embedder is not None and embedder.spec != EMBEDDER)
    around = [near for leaf in islice(ranked, AROUND) for near in range(max(0, leaf - REACH), leaf + REACH + 1)]
    found = reader.sentences([*ranked, *of_named, *around])
    pool.add(found[leaf] for leaf in (*ranked, *of_named) if leaf in found)
    documents = {found[leaf].document for leaf in islice(ranked, AROUND) if leaf in found}
    pool.add(leaf for leaf in found.values() if leaf.document in documents)
    candidates = judge(pool, PoolSignals(named_sections(pool, named)))
    trace.append(Step("search", f"{len(ranked)} leaves, {len(pool)} sentences"))
    previous = previous_leaves(candidates, parameters.beam) if parameters.previous else []
    follower = Follower(pool, reader, names, parameters.beam)
    for hop in range(1, parameters.hops + 1):
        reached, count, before = follower.follow(candidates), len(pool), candidates.signals
        pool.add(reader.sentences([*leaves_of(strongest(reached), pool.leaves), *previous]).values())
        previous = []
        links = by_section(pool, reached)
        settled = links == before.links
        # The sections that the hop reached for the first time, those with the strongest links first.
        fresh = [
            (max(group, key=lambda link: link.strength), section)
            for section, group in links.items()
            if section not in before.links
        ]
        for link, section in sorted(fresh, key=lambda pair: -pair[0].strength):
            target = pool.sentences[pool.members[section][0]].leaf.span
            reason = f"{hop}: the evidence names “{link.name}”, expected gain {link.gain:.2f}"
            note = HopNote(hop, link.name, round(link.gain, 4))
            spans = (pool.sentences[link.evidence].span,)
            trace.append(Step("hop", reason, spans, target, link.strength, note, Cause.LINK))
        if not settled or len(pool) > count:
            candidates = judge(pool, replace(before, links=links))
        onward = search_onward(candidates, follower, parameters.onward, trace) if hop == 1 else None
        if onward is not None:
            candidates = judge(pool, replace(candidates.signals, onward=onward))
        elif settled:
            break
    reranker = None if models is None else models.reranker
    if reranker is not None and parameters.asked and len(pool):
        # The most relevant candidates are scored in one call, and all are judged again.
        asked_of = candidates.best(parameters.asked)
        logits = logits_of(reranker, question, [pool.sentences[i].below_path for i in asked_of])
        trace.append(Step("rerank", f"{len(asked_of)} sentences by {reranker.spec}"))
        reranked = Reranked(asked_of, logits, calibration_of(reranker))
        candidates = judge(pool, replace(candidates.signals, reranked=reranked))
    return read_needed(candidates, reader, CONSIDERED)


def read_needed(candidates: Candidates, reader: IndexReader, count: int, *, previous: bool = False) -> Candidates:
    """Read the leaves that the `count` candidates to select first need before them, and the leaves that these need in turn."""
    pool = candidates.pool
    among = by_score(relevance_in_place(candidates))[:count]
    for _ in range(LEADS):
        needed, known = pool.missing(among), len(pool)
        needed += previous_leaves(candidates, count) if previous else []
        further = reader.sentences(needed) if needed else {}
        if not further:
            break
        pool.add(further.values())
        candidates = judge(pool, candidates.signals)
        among += range(known, len(pool))
    return candidates


def search_onward(candidates: Candidates, follower: Follower, k: int, trace: list[Step]) -> dict[int, float] | None:
    """Run the second search and add its leaves. Return the scores of those that the first search did not find.

    Returns None if the search does not pay.
    """
    asked = open_question(candidates, follower) if k and len(candidates.pool) else None
    if asked is None:
        return None
    # Names and rare words say what is missing. Vectors would find no more, and cost four times as much.
    (query, gain), reader, pool = asked, follower.reader.searching_by("text"), candidates.pool
    found = {leaf: score for leaf, score in reader.rank(query, k, by="search") if leaf not in pool.scores}
    pool.add(reader.sentences([leaf for leaf in found if leaf not in pool.leaves]).values())
    reason = f"{len(found)} further leaves for missing facts, expected gain {gain:.2f}: {' '.join(query.splitlines())}"
    trace.append(Step("search", reason))
    return found


def previous_leaves(candidates: Candidates, count: int) -> list[int]:
    """Return the unknown leaves whose last sentence one of the `count` most relevant candidates needs before it."""
    pool = candidates.pool
    firsts = (i for i in candidates.best(count) if pool.sentences[i].number == 0 and pool.needs_previous(i))
    return [leaf for leaf in dict.fromkeys(pool.sentences[i].leaf.id - 1 for i in firsts) if leaf not in pool.leaves]


STRATEGIES = {
    "weave": Strategy(assemble, Weave(), "sentences with the most information about the question, over bridge hops"),
    "sentence": Strategy(sentence.assemble, sentence.Sentences(), "the best single sentences until the budget is full"),
    "recomp": Strategy(
        sentence.assemble,
        sentence.Sentences(k=5, by="cosine", n=2, least=0.2),
        "the sentences of a few leaves that are most similar to the question, if any (RECOMP, extractive)",
    ),
}
