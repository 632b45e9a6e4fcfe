"""Streams of merged contexts: by hand, through rounds, and through `then`."""

from __future__ import annotations

from dataclasses import replace

from mergewise.designs.aed.streams import Ensemble
from mergewise.designs.strategies import assemble, merge_context
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.rounds import merge
from mergewise.types import Context, Passage, Span
from tests.designs.aed.test_aed import FOUND, STORE, WORTH, Worth, ensemble_in
from tests.designs.aed.test_ensemble import stream_of
from tests.support import ScriptedReader


def passage(start: int, end: int, text: str = "", verbatim: bool = True) -> Passage:
    return Passage(text or "x" * (end - start), 1.0, (Span("d", start, end),), verbatim)


def context(*passages: Passage, ensemble: Ensemble | None = None) -> Context:
    return Context("q", "aed", 100, "", 0, passages, reading=ensemble)


FIRST = context(
    passage(0, 10), passage(20, 30), passage(0, 5, "(a; b; c)", False),
    ensemble=Ensemble(
        (stream_of("passages", (3.0, 2), (1.0, 1), beta=0.25), stream_of("triplets", (2.0, 3), beta=0.25)),
        memory=False, together=3,
    ),
)  # fmt: skip
SECOND = context(passage(40, 50), ensemble=Ensemble((stream_of("passages", (2.0, 1)),)))


def test_streams_follow_their_passages() -> None:
    merged = context(passage(0, 30), passage(40, 50), passage(0, 5, "(a; b; c)", False))
    found = ensemble_in(merged.merged_from([FIRST, SECOND]))
    passages, triplets = found.streams
    assert (passages.passages, passages.utilities) == ((1, 2), (3.0, 2.0, 1.0))
    assert passages.utility == 3.0 + 0.25 * 2.0 + 0.25**2 * 1.0
    assert (triplets.name, triplets.passages, triplets.utilities) == ("triplets", (3,), (2.0,))
    assert replace(found, streams=()) == Ensemble((), False, 3)


def test_dropped_passages_lose_their_streams() -> None:
    found = ensemble_in(context(passage(0, 10)).merged_from([FIRST]))
    (stream,) = found.streams  # the passage has the source sentence, but the triplets are gone
    assert (stream.name, stream.passages, stream.utilities, stream.utility) == ("passages", (1,), (1.0,), 1.0)
    assert ensemble_in(context().merged_from([FIRST])) == replace(ensemble_in(FIRST), streams=())
    plain = context(passage(0, 10))
    assert plain.merged_from([context(), context()]) is plain


def context_for(question: str, **worth: float) -> Context:
    reader = ScriptedReader(STORE, {leaf: 1.0 - leaf / 100 for leaf in FOUND})
    models = Models(count_tokens, predictor=Worth(**{**WORTH, **worth}))
    return assemble("aed(longest=40, m=1, memory=false)", question, reader, 300, models)


def test_rounds_and_then_keep_the_ensemble() -> None:
    old, new = context_for("Which tower?"), context_for("Which mason?", Arden=9.0)
    models = Models(count_tokens)
    merged = merge(old, new, models)
    assert not ensemble_in(merged).memory
    (stream,) = ensemble_in(merged).streams
    assert stream.utilities == (9.0, 4.0) and stream.utility == 9.0 + 0.5 * 4.0
    headings = [merged.passages[number - 1].headings[-1] for number in stream.passages]
    assert headings == ["Arden", "Delos"]
    fused = merge_context("mergerag-sym", old, 300, models)
    assert ensemble_in(fused).streams[0].utilities == (4.0,)
    assert ensemble_in(fused).streams[0].passages


def test_triplet_sets_survive_rounds() -> None:
    facts = [Passage(f"(tower {i}; built in; {1500 + i})", 0.5, (Span("towns.md", 9, 20),), False) for i in range(12)]
    found = context_for("Which tower?")
    streams = (*ensemble_in(found).streams, stream_of("triplets", *((1.0, n) for n in range(2, 14))))
    old = replace(found, passages=(*found.passages, *facts), reading=Ensemble(streams))
    models = Models(count_tokens)
    merged = merge(old, old, models)
    sets = [passage.text for passage in merged.passages if not passage.verbatim]
    assert len(sets) == len(set(sets)) and 2 < len(sets) < 12  # distinct, within their share of the budget
    assert merged.tokens == count_tokens([merged.text])[0] <= merged.budget == 300
    assert all(text in merged.text for text in sets) and any(passage.verbatim for passage in merged.passages)
    (triplets,) = (stream for stream in ensemble_in(merged).streams if stream.name == "triplets")
    assert {merged.passages[number - 1].text for number in triplets.passages} == set(sets)


def test_merged_streams_keep_their_beta() -> None:
    both = (stream_of("passages", (1.0, 1), beta=0.25), stream_of("triplets", (2.0, 2), beta=0.75))
    one = context(passage(0, 10), passage(0, 5, "(a; b; c)", False), ensemble=Ensemble(both))
    found = ensemble_in(replace(one, reading=None).merged_from([one]))
    assert [stream.beta for stream in found.streams] == [0.25, 0.75]
