"""The candidates of a question, Eq. 4 and 5 of AED-RAG: passages, their triplet sets, and a background by the model.

    T_i = Psi(d_i) = {(h_1, r_1, t_1), ..., (h_s, r_s, t_s)}        Eq. 4
    U_mix = D_ret + T_ret + {d_gen}                                 Eq. 5

Passages are split as in the strategy `aed`, so that the predictor is trained on the texts that it will score.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from mergewise.designs.aed import units
from mergewise.designs.aed.ensemble import prompts
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import code_for
from mergewise.text.sections import heading_path
from mergewise.text.sentences import split_sentences
from mergewise.types import DocumentInfo, Json, Message, Span, frozen

if TYPE_CHECKING:
    from mergewise.protocols import IndexReader
    from mergewise.retrieve.hybrid import SearchSettings
    from mergewise.store.manifest import Manifest

Kind: TypeAlias = Literal["passages", "triplets", "generated"]
KINDS: tuple[Kind, ...] = ("passages", "triplets", "generated")
TRIPLETS = "triplet"  # the name of the view
_LINE, _WORD = re.compile(r".+"), re.compile(r"\S+")


@frozen
class TrainCandidate:
    """A candidate u.

    `score` and `span` are the search score and the offsets of the passage, also for a triplet set. If `cut` is set, `text` is the
    beginning that fits into the reader's window.
    """

    kind: Kind
    title: str
    headings: tuple[str, ...]
    text: str
    score: float
    span: Span | None = None
    cut: bool = False

    @property
    def predictor_text(self) -> str:
        """Input of the utility predictor: the heading path and the text."""
        return "\n".join(filter(None, [heading_path(self.title, self.headings), self.text]))


@frozen
class Example:
    """A question of a set, with its gold answers."""

    id: str
    text: str
    answers: tuple[str, ...]
    set: str = ""


@frozen
class LabelSource:
    """Questions with the index to search.

    `facts` are the properties of the index that affect the labels of a kind. They change with the index.
    """

    examples: Sequence[Example]
    reader: IndexReader
    facts: Mapping[Kind, Json]


def passages_of(question: str, reader: IndexReader, k: int, longest: int) -> list[TrainCandidate]:
    """Return D_ret: the k best passages, best first."""
    candidates = []
    for found in units.retrieve(question, reader, k, longest):
        fragments = found.candidate.fragments
        text, last = "\n".join(fragment.visible[2] for fragment in fragments), fragments[-1]
        span = Span(last.doc_id, *last.visible[:2])
        candidates.append(TrainCandidate("passages", last.title, last.headings, text, found.score, span))
    return candidates


def triplets_of(question: str, reader: IndexReader, k: int, longest: int) -> list[TrainCandidate]:
    """Return T_ret: the triplet sets of the passages that have triplets.

    Raises:
        UsageError: if the index lacks the view `triplet`.
    """
    retrieved = units.retrieve(question, reader, k, longest)
    rows = [(found.triplets, found.score) for found in units.map_triplets(retrieved, reader) if found.triplets]
    return [TrainCandidate("triplets", row.title, row.headings, row.text, score, row.span) for row, score in rows]


def generated_candidate(background: str) -> TrainCandidate | None:
    """Return d_gen, or None if the background is empty. A background of "N/A" counts."""
    return TrainCandidate("generated", "", (), background.strip(), 0.0) if background.strip() else None


def beginning_that_fits(candidate: TrainCandidate, fits: Callable[[TrainCandidate], bool]) -> TrainCandidate | None:
    """Cut the candidate to the longest beginning that fits: whole sentences or triplets, otherwise whole words.

    CPPL (Eq. 3) measures the context that the reader has read, so unread text must not be part of the candidate. Return None if
    not even the first word fits.
    """
    if fits(candidate):
        return candidate
    text = candidate.text
    lines, words = ([part.end() for part in pattern.finditer(text)] for pattern in (_LINE, _WORD))
    whole = lines if candidate.kind == "triplets" else [end for _, end in split_sentences(text)]
    for ends in (whole, words):
        beginnings = [replace(candidate, text=text[:end], cut=True) for end in ends]
        fitting = bisect_left(beginnings, True, key=lambda one: not fits(one))
        if fitting:
            return beginnings[fitting - 1]
    return None


def reader_prompt(question: str, candidate: TrainCandidate | None) -> list[Message]:
    """Build the reader's prompt with this candidate, or without a context.

    The code of the quotations depends only on the question, so that the prompts of all its candidates share a prefix.
    """
    code = code_for([question])
    if candidate is None:
        return prompts.answer(question, [], code)
    if candidate.kind == "generated":
        return prompts.answer(question, [candidate.text], code)
    source = Source(1, candidate.title, candidate.headings, candidate.text, (), candidate.score)
    return prompts.answer(question, [source], code)


def label_facts(
    documents: Sequence[DocumentInfo], manifest: Manifest, settings: SearchSettings, reader: IndexReader
) -> dict[Kind, Json]:
    """Collect the properties that affect the passages of a search, and their triplets.

    Args:
        documents: Documents of the index.
        manifest: Manifest of the index.
        settings: Settings of the search.
        reader: Reader of the index.

    Returns:
        The properties by kind of candidate, as `LabelSource.facts`.
    """
    searched = {
        "documents": len(documents),
        "characters": sum(document.characters for document in documents),
        "embedder": manifest.embedder,
        "leaf": dict(manifest.views["leaf"].settings),
        "search": asdict(settings),
    }
    facts: dict[Kind, Json] = {"passages": searched}
    if reader.has(TRIPLETS):
        found = sum(extraction.triplets for extraction in reader.view(TRIPLETS).extractions())
        facts["triplets"] = {**searched, TRIPLETS: dict(manifest.views[TRIPLETS].settings), "found": found}
    return facts
