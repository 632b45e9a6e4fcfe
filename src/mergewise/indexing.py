"""Options of `Index.add`, `sync` and `embed`: each is declared once, here, for the library and for every surface.

A field with a help text is an option of the command line, too, with the name, type, range, default and help that it has here. A
field without a help text belongs to Python alone.
"""

# types are read when this module is imported, but for those in quotes, whose modules take long: no `annotations` from the future
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
    """The options of `Index.embed`, which `add` and `sync` have too."""

    workers: Annotated[int | None, Default(1), WORKERS, "Processes that read, split and embed documents"]
    ray: Annotated[
        str | None,
        Default(None),
        "Workers on a Ray cluster (extra ray): local, auto or HOST:PORT; as many as it has room for",
    ]
    gpus_per_worker: Annotated[float, Default(0.0), GPUS, "GPUs of a worker on a Ray cluster, such as 1 or 0.25"]
    progress: Annotated["Progress | None", Default(None)]
    cancel: Annotated[Callable[[], bool] | None, Default(None)]


class IndexingOptions(EmbeddingOptions, total=False):
    """The options of `Index.add` and `Index.sync`."""

    include: Annotated[
        Iterable[str], Default(()), "Read only files of folders that a pattern means, such as '*.md' or 'manual/'"
    ]
    exclude: Annotated[
        Iterable[str], Default(()), "Leave out what a pattern means in folders, such as 'drafts/' or '2019/**/*.md'"
    ]
    metadata: Annotated[
        Metadata | None, Default(None), "Metadata for all documents of this run, such as team=sales or year=2024"
    ]
    embed: Annotated[
        When,
        Default("now"),
        "Make vectors now, or leave them to a later `mergewise index`: until then, texts are found by words",
    ]
    dry_run: Annotated[bool, Default(False)]
    limits: Annotated["Limits | None", Default(None)]


def takes_options(record: type) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Give a method that takes `**options: Unpack[record]` the defaults of the record, and its fields as parameters in help."""

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
