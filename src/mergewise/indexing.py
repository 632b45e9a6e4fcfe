"""Options of `Index.add`, `sync` and `embed`, declared once for the library and all its interfaces.

A field with a help text is also an option of the command line, with the same name, type, range, default and help. A field
without a help text exists only in Python.
"""

# `takes_options` evaluates the types on import, so this module has no `from __future__ import annotations`. Types of slow modules
# are in quotes.
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypedDict, TypeVar

from mergewise.defaults import When
from mergewise.query import Default, options_of, type_text
from mergewise.ranges import GPUS, WORKERS
from mergewise.types import Metadata

if TYPE_CHECKING:
    from mergewise.readers.sandbox import Limits
    from mergewise.store.views import Progress

Given = ParamSpec("Given")
Result = TypeVar("Result")


class EmbeddingOptions(TypedDict, total=False):
    """Options of `Index.embed`, `add` and `sync`."""

    workers: Annotated[int | None, Default(1), WORKERS, "Processes that read, split and embed documents"]
    ray: Annotated[str | None, Default(None), "Ray cluster that runs the workers (extra ray): local, auto or HOST:PORT"]
    gpus_per_worker: Annotated[float, Default(0.0), GPUS, "GPUs of a worker on a Ray cluster, such as 1 or 0.25"]
    progress: Annotated["Progress | None", Default(None)]
    cancel: Annotated[Callable[[], bool] | None, Default(None)]


class IndexingOptions(EmbeddingOptions, total=False):
    """Further options of `Index.add` and `Index.sync`."""

    include: Annotated[Iterable[str], Default(()), "Pattern of files to read in folders, such as '*.md' or 'manual/'"]
    exclude: Annotated[
        Iterable[str], Default(()), "Pattern of files to skip in folders, such as 'drafts/' or '2019/**/*.md'"
    ]
    follow_links: Annotated[bool, Default(False), "Follow links that lead out of a folder"]
    metadata: Annotated[
        Metadata | None, Default(None), "Metadata of all documents of this run, such as team=sales or year=2024"
    ]
    embed: Annotated[
        When,
        Default("now"),
        "Time to compute vectors: now, or later with `mergewise index`; until then, texts are found by words",
    ]
    reread: Annotated[bool, Default(False), "Read files again that an older version of mergewise read"]
    dry_run: Annotated[bool, Default(False)]
    limits: Annotated["Limits | None", Default(None)]


def takes_options(record: type) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Give a method with `**options: Unpack[record]` the defaults of the record, and show its fields as parameters in help."""

    def decorate(method: Callable[Given, Result]) -> Callable[Given, Result]:
        own = [one for one in signature(method).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        options = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=type_text(one.type))
            for one in options_of(record, also_of_python=True)
        ]
        shown = signature(method).replace(parameters=[*own, *options])

        @wraps(method)
        def call(*args: Given.args, **given: Given.kwargs) -> Result:
            bound = shown.bind(*args, **given)
            bound.apply_defaults()
            return method(*bound.args, **bound.kwargs)

        call.__signature__ = shown  # type: ignore[attr-defined]
        return call

    return decorate
