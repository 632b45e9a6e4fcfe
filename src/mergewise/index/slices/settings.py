"""The sizes of chunks and slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from mergewise.errors import UsageError

Unit: TypeAlias = Literal["tokens", "characters"]

VECTORS = ("slice", "chunk", "summary")


@dataclass(frozen=True, slots=True)
class SliceSettings:
    """Sizes as in MacRAG's appendix A.5: chunks of 400 tokens (or 1500 characters), slices of 450 characters that share 300.

    The paper's summaries have 800 to 1000 of 1500 characters. `summary="none"` is its ablation.
    """

    chunk: Annotated[int, "size of a chunk"] = 400
    overlap: Annotated[int, "what neighbouring chunks share"] = 100
    unit: Annotated[Unit, "in what both are counted"] = "tokens"
    summary: Annotated[
        Literal["extractive", "abstractive", "none"],
        "by its own sentences, by the chat model, or none: the chunk itself is sliced",
    ] = "extractive"
    summary_share: Annotated[
        float,
        "share of the characters that an extractive summary keeps; what is no longer than this share of a full chunk stays whole",
    ] = 0.6
    slice: Annotated[int, "size of a slice"] = 450
    slice_overlap: Annotated[int, "what neighbouring slices share"] = 300
    slice_unit: Annotated[Unit, "in what both are counted"] = "characters"
    vectors: Annotated[
        tuple[str, ...], "what is embedded: `slice`, and for `macrag(views=all)` also `chunk` and `summary`"
    ] = ("slice",)

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
