"""What a trace says of the markers that were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.designs.mrag.markers import Marker, ValueSentence


@dataclass(frozen=True, slots=True)
class MarkerNote:
    """A marker that was taken: its key, its value, where it stands, and how its sentences are grounded.

    `sentences` are those that were taken; where that is not all, others stand in the context already or did not fit.
    """

    marker: Marker
    sentences: tuple[ValueSentence, ...]

    @property
    def kind(self) -> str:
        return "marker"

    def as_dict(self) -> dict[str, object]:
        marker = self.marker
        return {
            "key": marker.key,
            "value": marker.value,
            "made": marker.made,
            "paragraphs": list(marker.paragraphs),
            "spans": [{"doc": marker.doc_id, "start": start, "end": end} for start, end in marker.spans],
            "sentences": [
                {
                    "text": marker.value[sentence.start : sentence.end],
                    "support": [{"doc": marker.doc_id, "start": a, "end": b} for a, b in sentence.support],
                    "supported": sentence.supported,
                    "replaced": sentence.replaced,
                    "flags": list(sentence.flags),
                }
                for sentence in self.sentences
            ],
        }


@dataclass(frozen=True, slots=True)
class GroundingNote:
    """Of the sentences in a context, how many a model wrote, how many the document's own stand for, how many have no support."""

    sentences: int
    written: int
    replaced: int
    unsupported: int

    @classmethod
    def of(cls, notes: Sequence[MarkerNote]) -> GroundingNote:
        said = [(note.marker.written, sentence) for note in notes for sentence in note.sentences]
        return cls(
            len(said),
            sum(written and not sentence.replaced for written, sentence in said),
            sum(sentence.replaced for _, sentence in said),
            sum(not sentence.supported for _, sentence in said),
        )

    @property
    def kind(self) -> str:
        return "grounding"

    @property
    def share(self) -> float:
        """The share of the sentences without support."""
        return self.unsupported / self.sentences if self.sentences else 0.0

    def as_dict(self) -> dict[str, object]:
        return {
            "sentences": self.sentences,
            "written": self.written,
            "replaced": self.replaced,
            "unsupported": self.unsupported,
            "unsupported_share": self.share,
        }
