"""Reader of the marker view: search of markers by key, and the report of `info --view marker`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, pvariance, quantiles
from typing import Literal

from mergewise.designs.mrag.markers.records import COPY, EXTRACTION, MARKER, Marker, MarkerExtraction
from mergewise.index.views import all_rows, count_rejects, rejects_text, search_rows, unfinished_lines, unfinished_of
from mergewise.protocols import RowReader
from mergewise.types import JsonDict, frozen


@frozen
class TokenLengths:
    """Distribution of the tokens of keys or values, as in the boxes of Figure 5."""

    least: int
    quartiles: Sequence[float]
    most: int

    def __str__(self) -> str:
        low, middle, high = self.quartiles
        return f"quartiles {low:.0f}, {middle:.0f}, {high:.0f}, maximum {self.most}"


@frozen
class MarkerReport:
    """Statistics of the view, with the field names of `info --view marker --json`.

    Shares are in [0, 1]. `coverage` is measured over documents, before copies were added. `fallback_share` is the share of
    segments with a copy, and `fallback_documents` the number of documents with a copy. Tokens exclude copies.

    `unsupported_share` is the share of the model's sentences without support as written, and `unsupported_left` the share in the
    stored values. `renumbered` counts the markers with corrected paragraph numbers. `attempts` is the mean over documents that a
    model has read.
    """

    documents: int
    coverage: Mapping[str, float]
    fallback_share: float
    attempts: float
    rejected: Mapping[str, int]
    unsupported_share: float
    key_tokens: float
    value_tokens: float
    markers: Mapping[str, int]  # by maker
    fallback_documents: int
    unsupported_left: float
    replaced: int
    renumbered: int
    key_lengths: TokenLengths
    value_lengths: TokenLengths
    unfinished: Mapping[str, str]

    def as_dict(self) -> JsonDict:
        """Return the JSON form of `info --view marker --json`."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines that `info --view marker` prints."""
        counts = self.markers.items()
        made = ", ".join(f"{count} copies" if how == COPY else f"{count} by {how}" for how, count in counts)
        yield f"{self.documents} documents, {sum(self.markers.values())} markers: {made or 'none'}"
        yield (
            f"  coverage: mean {self.coverage['mean']:.2%}, variance {1e4 * self.coverage['variance']:.4f} "
            f"(of percent), minimum {self.coverage['least']:.2%}"
        )
        yield f"  fallback: {self.fallback_share:.2%} of the segments, in {self.fallback_documents} documents"
        if self.attempts:
            yield (
                f"  attempts: mean {self.attempts:.2f}; rejected: {rejects_text(self.rejected)}; "
                f"{self.renumbered} renumbered"
            )
            yield (
                f"  sentences of values without support: {self.unsupported_share:.2%} as written, "
                f"{self.unsupported_left:.2%} now; {self.replaced} replaced by sentences of the document"
            )
        yield f"  keys: mean {self.key_tokens:.1f} tokens, {self.key_lengths}"
        yield f"  values: mean {self.value_tokens:.1f} tokens, {self.value_lengths}"
        yield from unfinished_lines(self.unfinished)


def _share(some: int, all_: int) -> float:
    return some / all_ if all_ else 0.0


def _lengths(tokens: Sequence[int]) -> TokenLengths:
    if not tokens:
        return TokenLengths(0, [0.0, 0.0, 0.0], 0)
    quartiles = quantiles(tokens, n=4, method="inclusive") if len(tokens) > 1 else [float(tokens[0])] * 3
    return TokenLengths(min(tokens), quartiles, max(tokens))


# -- the reader


@frozen
class MarkerReader:
    """Access to the markers for the duration of a question."""

    stored: RowReader

    @property
    def prompt(self) -> str:
        """Hash of the custom prompt of the markers, or an empty string for the built-in prompt."""
        return str(self.stored.settings(MARKER.name).get("prompt", ""))

    def search(self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid") -> list[tuple[Marker, float]]:
        """Return the `k` markers with the best keys and their scores, best first."""
        return search_rows(self.stored, MARKER.name, Marker, question, k, by)

    # -- reports

    def extractions(self) -> list[MarkerExtraction]:
        """Return the extraction statistics of each document."""
        return all_rows(self.stored, EXTRACTION, MarkerExtraction)

    def report(self) -> MarkerReport:
        """Report coverage, attempts, rejects, support and lengths over all documents (the paper's Table 3 and Figure 5)."""
        markers = self.stored.whole(MARKER.name, ["made", "sentences", "key_tokens", "value_tokens"])
        extractions = self.extractions()
        read = [one for one in extractions if one.segments]
        coverages = [one.coverage for one in read] or [1.0]
        attempts = [len(one.coverages) for one in read if one.coverages]
        sentences = [row for packed in markers["sentences"].to_pylist() for row in json.loads(packed)]
        # The tokens without those of copies, or with them if all markers are copies.
        counts = (markers[name].to_pylist() for name in ("made", "key_tokens", "value_tokens"))
        rows = list(zip(*counts, strict=True))
        rows = [row for row in rows if row[0] != COPY] or rows
        keys, values = [row[1] for row in rows], [row[2] for row in rows]
        return MarkerReport(
            documents=len(extractions),
            coverage={"mean": fmean(coverages), "variance": pvariance(coverages), "least": min(coverages)},
            fallback_share=_share(sum(one.uncovered for one in read), sum(one.segments for one in read)),
            attempts=fmean(attempts or [0]),
            rejected=count_rejects(extractions),
            unsupported_share=_share(sum(one.unsupported for one in read), sum(one.sentences for one in read)),
            key_tokens=fmean(keys or [0]),
            value_tokens=fmean(values or [0]),
            markers=dict(Counter(markers["made"].to_pylist()).most_common()),
            fallback_documents=sum(one.uncovered > 0 for one in read),
            unsupported_left=_share(sum(not support for _, _, support, _, _ in sentences), len(sentences)),
            replaced=sum(bool(replaced) for _, _, _, replaced, _ in sentences),
            renumbered=sum(one.renumbered for one in read),
            key_lengths=_lengths(keys),
            value_lengths=_lengths(values),
            unfinished=unfinished_of(extractions),
        )
