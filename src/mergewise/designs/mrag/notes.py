"""Trace notes of the selected markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import ClassVar

from mergewise.designs.mrag.markers import Marker, ValueSentence
from mergewise.jsonable import span_json
from mergewise.types import Note, Quoter, Span, Step, frozen

SUPPORTS = 4  # maximum number of quoted supports of a written sentence
_MADE = {"model": "written by a model", "rules": "made by rules, verbatim", "copy": "copy of its paragraph"}


@frozen
class MarkerNote(Note):
    """A selected marker: its key, value and spans, and the support of its sentences.

    `sentences` are the selected ones. The rest is already in the context, or does not fit.
    """

    kind: ClassVar[str] = "marker"

    marker: Marker
    sentences: tuple[ValueSentence, ...]

    def as_dict(self) -> dict[str, object]:
        marker = self.marker
        return {
            "key": marker.key,
            "value": marker.value,
            "made": marker.made,
            "paragraphs": list(marker.paragraphs),
            "spans": [span_json(Span(marker.doc_id, *part)) for part in marker.spans],
            "sentences": [
                {
                    "text": marker.value[sentence.start : sentence.end],
                    "support": [span_json(Span(marker.doc_id, *part)) for part in sentence.support],
                    "supported": sentence.supported,
                    "replaced": sentence.replaced,
                    "flags": list(sentence.flags),
                }
                for sentence in self.sentences
            ],
        }

    def lines(self, step: Step, quoter: Quoter) -> list[str]:
        """Format the marker's key, and a line per sentence of its value. A written sentence is followed by its supports."""
        score = "" if step.score is None else f"  score {step.score:.3f}"
        made = _MADE.get(self.marker.made, self.marker.made)
        lines = [f"{step.action}: {step.reason}{score}", f"    {made}: {quoter.where(step.inputs)}"]
        for sentence in self.sentences:
            text = " ".join(self.marker.value[sentence.start : sentence.end].split())
            unsupported = "" if sentence.supported else "without support"
            state = "replaces a sentence without support" if sentence.replaced else unsupported
            remarks = "; ".join(filter(None, (state, *sentence.flags)))
            lines.append(f"    “{text}”" + (f"  ({remarks})" if remarks else ""))
            if self.marker.written and not sentence.replaced:
                spans = [Span(self.marker.doc_id, start, end) for start, end in sentence.support[:SUPPORTS]]
                lines += [f"      from {quoter.quote(span)}" for span in spans]
        return lines


@frozen
class GroundingNote(Note):
    """Counts of the sentences in a context: all, written by a model, replaced by the document's own, without support."""

    kind: ClassVar[str] = "grounding"

    sentences: int
    written: int
    replaced: int
    unsupported: int

    @classmethod
    def of(cls, notes: Sequence[MarkerNote]) -> GroundingNote:
        sentences = [(note.marker.written, sentence) for note in notes for sentence in note.sentences]
        return cls(
            len(sentences),
            sum(written and not sentence.replaced for written, sentence in sentences),
            sum(sentence.replaced for _, sentence in sentences),
            sum(not sentence.supported for _, sentence in sentences),
        )

    @property
    def share(self) -> float:
        """Share of the sentences without support."""
        return self.unsupported / self.sentences if self.sentences else 0.0

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "unsupported_share": self.share}
