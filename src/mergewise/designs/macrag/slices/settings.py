"""The sizes of chunks and slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from mergewise.errors import UsageError
from mergewise.ranges import Range, check_fields, short_repr

Unit: TypeAlias = Literal["tokens", "characters"]

VECTORS = ("slice", "chunk", "summary")
_SIZE, _SHARED = Range(1, 1_000_000), Range(0, 1_000_000)


@dataclass(frozen=True, slots=True)
class SliceSettings:
    """Sizes as in MacRAG's appendix A.5: chunks of 400 tokens (or 1500 characters), slices of 450 characters that share 300.

    The paper's summaries have 800 to 1000 of 1500 characters. `summary="none"` is its ablation.
    """

    chunk: Annotated[int, _SIZE, "size of a chunk"] = 400
    overlap: Annotated[int, _SHARED, "what neighbouring chunks share"] = 100
    unit: Annotated[Unit, "in what both are counted"] = "tokens"
    summary: Annotated[
        Literal["extractive", "abstractive", "none"],
        "by its own sentences, by the chat model, or none: the chunk itself is sliced",
    ] = "extractive"
    summary_share: Annotated[
        float,
        Range(0, 1, above=True),
        "share of the characters that an extractive summary keeps; what is no longer than this share of a full chunk stays whole",
    ] = 0.6
    slice: Annotated[int, _SIZE, "size of a slice"] = 450
    slice_overlap: Annotated[int, _SHARED, "what neighbouring slices share"] = 300
    slice_unit: Annotated[Unit, "in what both are counted"] = "characters"
    vectors: Annotated[
        tuple[str, ...], "what is embedded: `slice`, and for `macrag(views=all)` also `chunk` and `summary`"
    ] = ("slice",)

    def __post_init__(self) -> None:
        check_fields(self)
        for name, size, overlap in (
            ("chunk", self.chunk, self.overlap),
            ("slice", self.slice, self.slice_overlap),
        ):
            if not 0 <= overlap < size:
                raise UsageError(f"a {name} of {size} cannot overlap by {overlap}", "overlap by less than the size")
        if "slice" not in self.vectors or not set(self.vectors) <= set(VECTORS):
            raise UsageError(f"vectors cannot be {short_repr(self.vectors)}", "slice, and also chunk and summary")
