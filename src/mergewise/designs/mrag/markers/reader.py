"""What can be asked of the marker view: markers by their keys, and how markers came to be, as `info --view marker` shows it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance, quantiles
from typing import Any, Literal

from mergewise.designs.mrag.markers.records import COPY, EXTRACTION, MARKER, Marker, MarkerExtraction
from mergewise.protocols import RowReader


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Tokens of keys or values, as the boxes of Figure 5 show them."""

    mean: float
    least: int
    quartiles: tuple[float, float, float]
    most: int

    def __str__(self) -> str:
        low, middle, high = self.quartiles
        return f"{self.mean:.1f} tokens on average, quartiles {low:.0f}, {middle:.0f}, {high:.0f}, most {self.most}"


@dataclass(frozen=True, slots=True)
class MarkerReport:
    """Shares lie in [0, 1]. Coverage is that before copies were made, over documents; `fallback_share` the share of segments that
    have copies, `fallback_documents` the documents with one. TokenLengths are those of markers that are no copies.

    `unsupported_share` is the share of the model's sentences that had no support as they were written, `unsupported_left` that
    of the sentences which stand in values now. `renumbered` markers named other paragraphs than those that hold what they say.
    `attempts` is the mean over documents that a model read.
    """

    documents: int
    made: Mapping[str, int]  # markers by how they came to be
    coverage_mean: float
    coverage_variance: float
    coverage_least: float
    fallback_share: float
    fallback_documents: int
    attempts: float
    rejects: Mapping[str, int]
    unsupported_share: float
    unsupported_left: float
    replaced: int
    renumbered: int
    keys: TokenLengths
    values: TokenLengths
    failures: Mapping[str, str]  # documents of which something is missing, with the reason

    def as_dict(self) -> dict[str, Any]:
        """As `info --view marker --json` prints it."""
        return {
            "documents": self.documents,
            "coverage": {"mean": self.coverage_mean, "variance": self.coverage_variance, "least": self.coverage_least},
            "fallback_share": self.fallback_share,
            "attempts": self.attempts,
            "rejected": dict(self.rejects),
            "unsupported_share": self.unsupported_share,
            "key_tokens": self.keys.mean,
            "value_tokens": self.values.mean,
            "markers": dict(self.made),
            "fallback_documents": self.fallback_documents,
            "unsupported_left": self.unsupported_left,
            "replaced": self.replaced,
            "renumbered": self.renumbered,
            "key_lengths": _lengths_json(self.keys),
            "value_lengths": _lengths_json(self.values),
            "unfinished": dict(self.failures),
        }

    def lines(self) -> Iterator[str]:
        """As `info --view marker` prints it."""
        made = ", ".join(f"{count} copies" if how == COPY else f"{count} by {how}" for how, count in self.made.items())
        yield f"{self.documents} documents, {sum(self.made.values())} markers: {made or 'none'}"
        yield (
            f"  coverage: {self.coverage_mean:.2%} on average, variance {1e4 * self.coverage_variance:.4f} "
            f"(of percent), least {self.coverage_least:.2%}"
        )
        yield f"  fallback: {self.fallback_share:.2%} of the segments, in {self.fallback_documents} documents"
        if self.attempts:
            rejected = ", ".join(f"{count} {kind}" for kind, count in self.rejects.items())
            yield (
                f"  attempts: {self.attempts:.2f} on average; not taken: {rejected or 'nothing'}; "
                f"{self.renumbered} renumbered"
            )
            yield (
                f"  sentences of values without support: {self.unsupported_share:.2%} as they were written, "
                f"{self.unsupported_left:.2%} now; {self.replaced} replaced by the document's own"
            )
        yield f"  keys: {self.keys}"
        yield f"  values: {self.values}"
        for doc_id, reason in self.failures.items():
            yield f"  not complete: {doc_id}: {reason}"
        if self.failures:
            yield "  `mergewise index` with the chat model takes these documents up again; what was answered is kept"


def report_of(extractions: Sequence[MarkerExtraction], markers: Any) -> MarkerReport:
    """`markers` is an Arrow table with their columns made, sentences, key_tokens and value_tokens."""
    read = [one for one in extractions if one.segments]
    coverages = [one.coverage for one in read] or [1.0]
    rejects: Counter[str] = Counter()
    for one in extractions:
        rejects.update(dict(zip(one.rejects, one.reject_counts, strict=True)))
    attempts = [len(one.coverages) for one in read if one.coverages]
    sentences = [row for packed in markers["sentences"].to_pylist() for row in json.loads(packed)]
    return MarkerReport(
        documents=len(extractions),
        made=dict(Counter(markers["made"].to_pylist()).most_common()),
        coverage_mean=fmean(coverages),
        coverage_variance=pvariance(coverages),
        coverage_least=min(coverages),
        fallback_share=_share(sum(one.uncovered for one in read), sum(one.segments for one in read)),
        fallback_documents=sum(one.uncovered > 0 for one in read),
        attempts=fmean(attempts or [0]),
        rejects=dict(rejects.most_common()),
        unsupported_share=_share(sum(one.unsupported for one in read), sum(one.sentences for one in read)),
        unsupported_left=_share(sum(not support for _, _, support, _, _ in sentences), len(sentences)),
        replaced=sum(bool(replaced) for _, _, _, replaced, _ in sentences),
        renumbered=sum(one.renumbered for one in read),
        keys=_lengths(_token_counts(markers, "key_tokens")),
        values=_lengths(_token_counts(markers, "value_tokens")),
        failures={one.doc_id: one.failure for one in extractions if one.failure},
    )


def _token_counts(markers: Any, column: str) -> list[int]:
    """The column of the markers that somebody made, or of copies where there are no others."""
    pairs = list(zip(markers[column].to_pylist(), markers["made"].to_pylist(), strict=True))
    return [value for value, made in pairs if made != COPY] or [value for value, _ in pairs]


def _share(some: int, all_: int) -> float:
    return some / all_ if all_ else 0.0


def _lengths(tokens: Sequence[int]) -> TokenLengths:
    if not tokens:
        return TokenLengths(0.0, 0, (0.0, 0.0, 0.0), 0)
    low, middle, high = quantiles(tokens, n=4, method="inclusive") if len(tokens) > 1 else [float(tokens[0])] * 3
    return TokenLengths(fmean(tokens), min(tokens), (low, middle, high), max(tokens))


def _lengths_json(lengths: TokenLengths) -> dict[str, Any]:
    return {"least": lengths.least, "quartiles": list(lengths.quartiles), "most": lengths.most}


# -- the reader


class MarkerReader:
    """For the length of a question."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def search(self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid") -> list[tuple[Marker, float]]:
        """The `k` markers whose keys fit best with their scores, best first."""
        ranking = (self._rows.rank_rows if by == "hybrid" else self._rows.rank_by_vectors)(question, k, MARKER.name)
        markers = self._rows.rows(MARKER.name, Marker, [row for row, _ in ranking])
        return [(markers[row], score) for row, score in ranking if row in markers]

    # -- reports

    def extractions(self) -> list[MarkerExtraction]:
        """How the markers of each document came to be."""
        ids = self._rows.whole(EXTRACTION.name, ["id"])["id"].to_pylist()
        return list(self._rows.rows(EXTRACTION.name, MarkerExtraction, ids).values())

    def report(self) -> MarkerReport:
        """Coverage, attempts, rejects, support and lengths over all documents (the paper's Table 3 and Figure 5)."""
        rows = self._rows.whole(MARKER.name, ["made", "sentences", "key_tokens", "value_tokens"])
        return report_of(self.extractions(), rows)
