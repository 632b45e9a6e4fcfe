"""The sizes of chunks and slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mergewise.errors import UsageError

Unit: TypeAlias = Literal["tokens", "characters"]

VECTORS = ("slice", "chunk", "summary")


@dataclass(frozen=True, slots=True)
class SliceSettings:
    """Sizes as in appendix A.5: chunks of 400 tokens (or 1500 characters), slices of 450 characters overlapping by 300.

    `summary_share` is how much of a chunk's text an extractive summary keeps: the paper's are 800 to 1000 of 1500
    characters. `summary="none"` slices the chunk itself (the ablation). `vectors` names what is embedded: "slice", and
    for multi-view retrieval also "chunk" and "summary".
    """

    chunk: int = 400
    overlap: int = 100
    unit: Unit = "tokens"
    summary: Literal["extractive", "abstractive", "none"] = "extractive"
    summary_share: float = 0.6
    slice: int = 450
    slice_overlap: int = 300
    slice_unit: Unit = "characters"
    vectors: tuple[str, ...] = ("slice",)

    def __post_init__(self) -> None:
        for name, size, overlap in (
            ("chunk", self.chunk, self.overlap),
            ("slice", self.slice, self.slice_overlap),
        ):
            if not 0 <= overlap < size:
                raise UsageError(f"a {name} of {size} cannot overlap by {overlap}", "overlap by less than the size")
        if not 0 < self.summary_share <= 1:
            raise UsageError(f"a summary cannot have {self.summary_share} of its chunk", "a share above 0, at most 1")
        if "slice" not in self.vectors or not set(self.vectors) <= set(VECTORS):
            raise UsageError(f"vectors of {', '.join(self.vectors)}", "slice, and also chunk and summary")
