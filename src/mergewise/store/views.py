"""What a view is: a value that tells a store all it needs to know, and that no store names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol, TypeAlias

from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.protocols import RowReader, StoreReader
from mergewise.store.tables import Table
from mergewise.types import DocumentRows, Prompts, Rows, Usage

ViewRows: TypeAlias = Mapping[str, Rows]
"""The rows of one document in one view, by table."""

Presets: TypeAlias = Mapping[str, Mapping[str, object]]
"""Several settings or parameters under one name, such as `paper`: what `preset=NAME` sets at once."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the work done, the work in all, and the name of the document at hand.

Work is counted in characters of text; in all it is 0 until it is known what has changed, and may change as files are read.
"""

OnShare: TypeAlias = Callable[[float], None]
"""Called with the share of the work on one batch that is through since it was called last."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is still to be paid for documents: calls, tokens read, and tokens written if every answer says what it should.

    `kept` are calls whose answers are there already.
    """

    documents: int = 0
    usage: Usage = field(default_factory=Usage)
    kept: int = 0

    def of_documents(self, count: int) -> Estimate:
        """The same, as that of so many documents, or of none where nothing is due."""
        return replace(self, documents=count if self.usage.calls else 0)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.documents + other.documents, self.usage + other.usage, self.kept + other.kept)


@dataclass(frozen=True, slots=True)
class Writing:
    """What is known of a view whose rows a chat model may write.

    `asks(settings)` tells whether it does. `build` is that of the view, which also reports how far it is: for settings that ask
    the chat model. That model keeps its answers, so that no call is paid for twice, after a kill neither. `estimate` says what
    it costs to write the rows of documents, given with those of the first view. `unfinished` are the documents that have rows
    which stand in for what the model failed to write: they are made again when documents are added the next time.
    """

    asks: Callable[[Any], bool]
    build: Callable[[Sequence[DocumentRows], Any, Models, OnShare], Sequence[ViewRows]]
    estimate: Callable[[Sequence[DocumentRows], Any, Models], Estimate]
    unfinished: Callable[[StoreReader], Sequence[str]] = lambda reader: ()


class ViewReport(Protocol):
    """How the rows of a view were made, over all documents of an index."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        ...

    def lines(self) -> Iterator[str]:
        """The report for people."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """One granularity of an index: its tables, and how their rows are made, checked and read.

    `settings` is a frozen dataclass with a default for every field; a tuple in it is kept as a list. `tables(settings)` may
    depend on them. `build(documents, settings, models)` gives the rows of each document, in order, out of what is
    given of it: the document, and the rows of the views before this one, with ids that may be final. `problems(rows,
    settings, dimension)` tells what is wrong with one document's rows of this view. `reader(rows)` is what a question
    can ask of the view: an object of its own kind, made for each question. `batch` documents are built and written in one
    step where a view is added to an index that stands. `with_chat` are settings that the command line changes where a chat
    model is named. An index without an embedder is refused a view that `needs_embedder`, before anything is written.
    `writing` is what is known of the calls of a view that asks it for every document, and `prompt` the name of the prompt that
    they begin with; its settings then have a field `prompt` for the hash of a user's own. `presets` are settings that
    `VIEW.preset=NAME` sets at once. `report(reader)` tells how rows came to be.
    """

    name: str
    settings: type
    tables: Callable[[Any], Sequence[Table]]
    build: Callable[[Sequence[DocumentRows], Any, Models], Sequence[ViewRows]]
    problems: Callable[[DocumentRows, Any, int], Iterator[str]]
    reader: Callable[[RowReader], Any]
    batch: int = 64
    with_chat: Mapping[str, Any] = field(default_factory=dict)
    needs_embedder: bool = False
    writing: Writing | None = None
    prompt: str = ""
    presets: Presets = field(default_factory=dict)
    report: Callable[[Any], ViewReport] | None = None

    def asks_chat(self, settings: Mapping[str, Any]) -> bool:
        """Whether a chat model writes the rows, under `settings` as they are kept in the manifest."""
        return self.writing is not None and self.writing.asks(self.load(settings))

    def is_same(self, standing: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
        """Whether settings are the same, as they are kept; those that stand may lack some that came later. Which prompt wrote the
        rows is told when rows are written (`check_prompt`)."""
        whole = self.dump(self.load(standing))
        return all(whole[name] == value for name, value in asked.items() if not (self.prompt and name == "prompt"))

    def with_prompt(self, settings: Mapping[str, Any], prompts: Prompts) -> dict[str, Any]:
        """The settings, as they are kept, with the hash of the prompt by which rows would be written now."""
        written = {"prompt": prompts.digest(self.prompt)} if self.prompt and self.asks_chat(settings) else {}
        return {**settings, **written}

    def new_settings(self, asked: Mapping[str, Any] | None, prompts: Prompts) -> dict[str, Any]:
        """The settings, as they are kept, with which an index gets the view; the default ones where none are asked for."""
        return self.with_prompt(self.dump() if asked is None else asked, prompts)

    def check_prompt(self, settings: Mapping[str, Any], prompts: Prompts) -> None:
        """Raises UsageError where rows stand by another prompt than that by which they would be written now."""
        standing, now = settings.get("prompt", ""), self.with_prompt(settings, prompts).get("prompt", "")
        if standing != now:
            stand, come = (
                f"a prompt of one's own, {one}" if one else "the prompt that ships" for one in (standing, now)
            )
            raise UsageError(
                f"rows of the view {self.name!r} are written by {stand}, and would now be by {come}",
                f"name the same prompts (--prompts DIR, with {self.prompt}.txt), or index into another directory",
            )

    def tables_of(self, settings: Mapping[str, Any]) -> Sequence[Table]:
        """`settings` as they are kept in the manifest."""
        return self.tables(self.load(settings))

    def load(self, settings: Mapping[str, Any]) -> Any:
        """The settings out of the form in which the manifest keeps them."""
        known = {field.name for field in fields(self.settings)}
        if unknown := settings.keys() - known:
            raise UsageError(f"the view {self.name!r} has no setting {sorted(unknown)[0]!r}", "see docs/guide.md")
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        return self.settings(**given)

    def dump(self, settings: Any = None) -> dict[str, Any]:
        """The settings, or the default ones, as the manifest keeps them."""
        values = asdict(self.settings() if settings is None else settings)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


Registry: TypeAlias = Mapping[str, View]
"""Views by name. The first is the tree, which every index has: other views are built from its rows."""


def views_of(registry: Registry, names: Sequence[str]) -> list[View]:
    """The views of these names, in the order of the registry."""
    unknown = [name for name in names if name not in registry]
    if unknown:
        raise UsageError(f"unknown view {unknown[0]!r}", f"one of: {', '.join(registry)}")
    return [view for name, view in registry.items() if name in names]
