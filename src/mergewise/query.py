"""A question with its options, declared once for the library and all its interfaces.

A field of `Query` or `AnswerQuery` with a help text is an option. Its name, type, range, default and help are used by the
command line, the HTTP and OpenAI APIs, the tools of MCP, the defaults of collections and profiles, and the retrievers. A field
without a help text exists only in Python.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import (
    Annotated,
    Any,
    Concatenate,
    ForwardRef,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    is_typeddict,
)

from mergewise import defaults
from mergewise.ranges import (
    BUDGET,
    OUTPUT,
    ROUNDS,
    SECONDS,
    Range,
    hints_of,
    number,
    range_of,
    text,
    text_or_none,
    whole,
)
from mergewise.types import Metadata, Turn, Where

Budget: TypeAlias = int | Literal["auto", "default"]
"""Maximum tokens of a context. With "auto", weave decides. "default" is 640 tokens of English, "auto" at most 1,024. For other
languages the number grows with the tokens that text of the same length takes."""
BUDGETS = ("auto", "default")
Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Record = TypeVar("Record")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question with the options of its context: the arguments of `Index.context`.

    Raises:
        UsageError: if an option has a wrong type or is out of its range.
    """

    question: Annotated[str, "Question, as a whole sentence"] = field(kw_only=False)
    strategy: Annotated[
        str, "Strategy, also with parameters, such as 'auto-merge(mode=never)' or 'mrag(preset=paper)': {strategies}"
    ] = defaults.STRATEGY
    budget: Annotated[
        Budget, BUDGET, "Maximum tokens of the context; with auto, weave stops when another sentence would add little"
    ] = defaults.BUDGET
    where: Annotated[
        Where | None, "Condition on id, title and metadata of documents, such as \"year > 2020 and lang = 'en'\""
    ] = None
    parameters: Annotated[Mapping[str, object] | None, "Parameters of the strategy, by name"] = None
    rounds: Annotated[int, ROUNDS, "Rounds of search; each further round searches for missing information"] = 1
    merge_with: Annotated[str | None, "Strategy that merges the selected passages: {merging_strategies}"] = None
    counted: Where | None = None
    history: Sequence[Turn] = ()
    deadline: float | None = None

    def __post_init__(self) -> None:
        text("strategy", self.strategy)
        text_or_none("merge_with", self.merge_with)
        if not (isinstance(self.budget, str) and self.budget in BUDGETS):
            object.__setattr__(self, "budget", whole("budget", self.budget, BUDGET))
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, ROUNDS))
        if self.deadline is not None:
            object.__setattr__(self, "deadline", number("deadline", self.deadline, float, SECONDS))

    def arguments(self, record: type[Query] | None = None) -> dict[str, Any]:
        """Return the fields by name, as the methods of `Index` take them.

        Args:
            record: Record with the wanted fields. With `Query`, the fields are those of `Index.context`.
        """
        return {one.name: getattr(self, one.name) for one in fields(record or self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerQuery(Query):
    """A question with the options of its answer: the arguments of `Index.ask`. Raises what `Query` raises."""

    mode: Annotated[str | None, "Mode of answering: {modes}"] = None
    max_tokens: Annotated[int, OUTPUT, "Maximum tokens that a model writes in one call"] = defaults.MAX_TOKENS
    show: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        # `super()` fails here: a dataclass with slots replaces the class
        Query.__post_init__(self)
        text_or_none("mode", self.mode)
        object.__setattr__(self, "max_tokens", whole("max_tokens", self.max_tokens, OUTPUT))


_PLACEHOLDER = re.compile(r"[:;,]? *\(?\{\w+\}\)?")


class Default(NamedTuple):
    """Default of a `TypedDict` field."""

    value: Any


class Option(NamedTuple):
    """An option for interfaces. `range` is None unless it is a number. `help` is empty if it exists only in Python."""

    name: str
    type: Any
    range: Range | None
    help: str
    default: Any

    @property
    def description(self) -> str:
        """Help as a sentence, without placeholders of names."""
        return _PLACEHOLDER.sub("", self.help) + "."


def options_of(record: type, without: Sequence[str] = (), *, also_of_python: bool = False) -> list[Option]:
    """List the options of a record such as `AnswerQuery` or `IndexingOptions`, except the question and the names in `without`."""
    options = []
    for name, (hint, default) in _fields_of(record).items():
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        help_text = next((note for note in notes if isinstance(note, str)), "")
        if (help_text or also_of_python) and name not in ("question", *without):
            options.append(Option(name, kind, range_of(hint), help_text, default))
    return options


def _fields_of(record: type) -> dict[str, tuple[Any, Any]]:
    """Return types and defaults of the fields of a dataclass or a `TypedDict` with evaluated types."""
    if is_typeddict(record):
        hints = record.__annotations__
        return {
            name: (hint, next(x.value for x in get_args(hint) if isinstance(x, Default)))
            for name, hint in hints.items()
        }
    hints = hints_of(record)
    return {one.name: (hints[one.name], one.default) for one in fields(record)}


def takes(
    record: Callable[Given, Record],
) -> Callable[[Callable[[Owner, Record], Result]], Callable[Concatenate[Owner, Given], Result]]:
    """Turn a method that takes a record into one that takes the record's fields as its arguments."""

    def decorate(method: Callable[[Owner, Record], Result]) -> Callable[Concatenate[Owner, Given], Result]:
        @wraps(method)
        def call(self: Owner, /, *args: Given.args, **options: Given.kwargs) -> Result:
            return method(self, record(*args, **options))

        own = inspect.signature(method)
        parameters = [next(iter(own.parameters.values())), *arguments_of(record)]
        call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def arguments_of(record: Callable[..., object]) -> list[inspect.Parameter]:
    """List the parameters of a record's constructor, with types as text for help."""
    hints = hints_of(record)  # type: ignore[arg-type]
    return [
        parameter.replace(annotation=type_text(hints[parameter.name]))
        for parameter in inspect.signature(record).parameters.values()
    ]


def type_text(hint: Any) -> str:
    """Format a type for help."""
    if isinstance(hint, ForwardRef):
        return hint.__forward_arg__
    shown = inspect.formatannotation(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
    for name, alias in {"Budget": Budget, "Where": Where, "Turn": Turn, "Metadata": Metadata}.items():
        shown = shown.replace(inspect.formatannotation(alias), name)
    return shown.replace("collections.abc.", "")
