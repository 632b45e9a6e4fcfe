"""The definition of views. A `View` tells a store all it needs to know; stores contain no code for single views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from typing import Any, Protocol, TypeAlias

from mergewise.errors import UsageError, check_known
from mergewise.models.record import Models, chat_of
from mergewise.protocols import RowReader, StoreReader
from mergewise.store.tables import Table
from mergewise.types import DocumentRows, Json, JsonDict, Prompts, Rows, Usage, frozen

ViewRows: TypeAlias = Mapping[str, Rows]
"""The rows of one document in one view, by table."""

Presets: TypeAlias = Mapping[str, Mapping[str, object]]
"""Settings or parameters by preset name, such as `paper`. `preset=NAME` sets all of a preset at once."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""A function that is called with the work done, the total work, and the name of the current document.

Work is measured in characters of text. The total is 0 until the changed files are known, and may change as files are read.
"""

OnShare: TypeAlias = Callable[[float], None]
"""A function that is called with the share of a batch's work done since the last call."""


@frozen
class Estimate:
    """The expected cost of indexing documents with a chat model.

    Attributes:
        documents: Number of documents to process.
        usage: Remaining calls, input tokens, and output tokens if all answers are valid.
        kept: Number of calls with cached answers.
    """

    documents: int = 0
    usage: Usage = field(default_factory=Usage)
    kept: int = 0

    def of_documents(self, count: int) -> Estimate:
        """Return a copy for `count` documents, or for 0 documents if no calls remain."""
        return replace(self, documents=count if self.usage.calls else 0)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.documents + other.documents, self.usage + other.usage, self.kept + other.kept)


@frozen
class Writing:
    """The chat model part of a view whose rows a chat model may write.

    `asks(settings)` returns whether the chat model writes the rows. `build` then replaces the view's own, and reports progress.
    The model caches its answers, so that no call is paid for twice, even after a kill. `estimate` returns the cost of writing
    the rows of documents, given with the rows of the first view. `unfinished` returns the documents with substitutes for rows
    that the model failed to write. These rows are built again when documents are next added.
    """

    asks: Callable[[Any], bool]
    build: Callable[[Sequence[DocumentRows], Any, Models, OnShare], Sequence[ViewRows]]
    estimate: Callable[[Sequence[DocumentRows], Any, Models], Estimate]
    unfinished: Callable[[StoreReader], Sequence[str]] = lambda reader: ()


class ViewReport(Protocol):
    """A report on the origin of a view's rows, over all documents of an index."""

    def as_dict(self) -> JsonDict:
        """Return the report as JSON."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report for people."""


@frozen
class View:
    """One granularity of an index: its tables, and functions that build, check and read their rows.

    Attributes:
        name: Name of the view.
        settings: A frozen dataclass with a default for every field. The manifest stores a tuple as a list.
        tables: Returns the tables for given settings.
        build: `build(documents, settings, models)` returns the rows of each document, in order. Each document comes with the
            rows of earlier views, with ids that may be final.
        problems: `problems(rows, settings, dimension)` yields the problems of one document's rows.
        reader: `reader(rows)` returns the view's own reader. Each query creates one.
        batch: Number of documents that are built and written in one step when the view is added to an existing index.
        with_chat: Settings that the command line changes if a chat model is given.
        needs_embedder: True if an index without an embedder cannot have the view.
        writing: The chat model part of a view that may call a chat model for every document.
        prompt: Name of the prompt of these calls. The settings then have a field `prompt` for the hash of a custom prompt.
        presets: Settings by preset name. `VIEW.preset=NAME` sets all of them at once.
        report: `report(reader)` reports on the origin of the rows.
        with_files: Replaces the paths in a user's settings by the content of the files. An index may be somebody else's, so its
            manifest never names a file to read.
        without_files: Replaces paths in settings from a manifest or a request, without reading them.
    """

    name: str
    settings: type
    tables: Callable[[Any], Sequence[Table]]
    build: Callable[[Sequence[DocumentRows], Any, Models], Sequence[ViewRows]]
    problems: Callable[[DocumentRows, Any, int], Iterator[str]]
    reader: Callable[[RowReader], Any]
    batch: int = 64
    with_chat: Json = field(default_factory=dict)
    needs_embedder: bool = False
    writing: Writing | None = None
    prompt: str = ""
    presets: Presets = field(default_factory=dict)
    report: Callable[[Any], ViewReport] | None = None
    with_files: Callable[[Any], Any] | None = None
    without_files: Callable[[Any], Any] | None = None

    def asks_chat(self, settings: Json) -> bool:
        """Return whether a chat model writes the rows under these stored settings."""
        return self.writing is not None and self.writing.asks(self.load(settings))

    def is_same(self, standing: Json, asked: Json) -> bool:
        """Return whether the settings of an index (`standing`) equal the requested ones, both in stored form.

        Old settings may lack newer fields. The prompt is not compared here, but by `check_prompt` when rows are written.
        """
        whole = self.dump(self.load(standing))
        return all(whole[name] == value for name, value in asked.items() if not (self.prompt and name == "prompt"))

    def with_prompt(self, settings: Json, prompts: Prompts) -> JsonDict:
        """Add the hash of the current prompt to stored settings."""
        written = {"prompt": prompts.digest(self.prompt)} if self.prompt and self.asks_chat(settings) else {}
        return {**settings, **written}

    def new_settings(self, asked: Json | None, prompts: Prompts) -> JsonDict:
        """Return the stored settings of a new view, by default the default settings."""
        return self.with_prompt(self.dump() if asked is None else asked, prompts)

    def check_prompt(self, settings: Json, prompts: Prompts) -> None:
        """Raise UsageError if the existing rows were written with another prompt than the current one."""
        old, new = settings.get("prompt", ""), self.with_prompt(settings, prompts).get("prompt", "")
        if old != new:
            then, now = (f"the custom prompt {digest}" if digest else "the built-in prompt" for digest in (old, new))
            raise UsageError(
                f"prompt changed: rows of the view {self.name!r} were written with {then}, new rows would use {now}",
                f"name the same prompts (MERGEWISE_PROMPTS=DIR, with {self.prompt}.txt), or index into another directory",
            )

    def check_needs(self, settings: Json, embedder: str, models: Models) -> None:
        """Raise UsageError if rows cannot be built: for an invalid setting, a missing model or a changed prompt."""
        self.load(settings)
        if self.needs_embedder and embedder == "none":
            raise UsageError(f"the view {self.name!r} needs an embedder", "index into another directory with one")
        if self.asks_chat(settings):
            self.check_prompt(settings, models.prompts)
            chat_of(models, f"{self.name}s")

    def tables_of(self, settings: Json) -> Sequence[Table]:
        """Return the tables for stored settings."""
        return self.tables(self.load(settings))

    def load(self, settings: Json) -> Any:
        """Convert stored settings to the settings record."""
        known = {field.name for field in fields(self.settings)}
        if unknown := settings.keys() - known:
            raise UsageError(
                f"unknown setting of the view {self.name!r}: {min(unknown)!r}", f"one of: {', '.join(sorted(known))}"
            )
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        loaded = self.settings(**given)
        return self.without_files(loaded) if self.without_files else loaded

    def dump(self, settings: Any = None) -> JsonDict:
        """Convert settings, by default the default ones, to their stored form."""
        values = asdict(self.settings() if settings is None else settings)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


Registry: TypeAlias = Mapping[str, View]
"""Views by name. The first is the tree, which every index has. Other views are built from its rows."""


def views_of(registry: Registry, names: Sequence[str]) -> list[View]:
    """Return the views of these names, in the order of the registry."""
    for name in names:
        check_known("view", name, registry)
    return [registry[name] for name in registry if name in names]
