"""Options of `Index.add`, `sync` and `embed`, declared once for the library and all its interfaces.

A field with a help text is also an option of the command line, with the same name, type, range, default and help. A field
without a help text exists only in Python.
"""

# Options are read from the types of fields, so this module has no `from __future__ import annotations`. Types of slow modules are
# in quotes.
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, get_args

from mergewise.defaults import When
from mergewise.ranges import GPUS, WORKERS, choice
from mergewise.types import Metadata

if TYPE_CHECKING:
    from mergewise.readers.sandbox import Limits
    from mergewise.store.views import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """Options of `Index.embed`, `add` and `sync`."""

    workers: Annotated[int | None, WORKERS, "Processes that read, split and embed documents"] = 1
    ray: Annotated[str | None, "Ray cluster that runs the workers (extra ray): local, auto or HOST:PORT"] = None
    gpus_per_worker: Annotated[float, GPUS, "GPUs of a worker on a Ray cluster, such as 1 or 0.25"] = 0.0
    progress: "Progress | None" = None
    cancel: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingOptions(EmbeddingOptions):
    """Further options of `Index.add` and `Index.sync`.

    Raises:
        UsageError: for an invalid `embed`.
    """

    include: Annotated[Iterable[str], "Pattern of files to read in folders, such as '*.md' or 'manual/'"] = ()
    exclude: Annotated[Iterable[str], "Pattern of files to skip in folders, such as 'drafts/' or '2019/**/*.md'"] = ()
    follow_links: Annotated[bool, "Follow links that lead out of a folder"] = False
    metadata: Annotated[Metadata | None, "Metadata of all documents of this run, such as team=sales or year=2024"] = (
        None
    )
    embed: Annotated[
        When, "Time to compute vectors: now, or later with `mergewise index`; until then, texts are found by words"
    ] = "now"
    reread: Annotated[bool, "Read files again that an older version of mergewise read"] = False
    dry_run: bool = False
    limits: "Limits | None" = None

    def __post_init__(self) -> None:
        choice("embed", self.embed, get_args(When))
