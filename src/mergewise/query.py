"""A question with its options, declared once for the library and all its interfaces.

A field of `Query` or `AnswerQuery` with a help text is an option. Its name, type, range, default and help are used by the
command line, the HTTP and OpenAI APIs, the tools of MCP, the defaults of collections and profiles, and the retrievers. A field
without a help text exists only in Python.
"""

# Options are read from the types of fields, so modules of records have no `from __future__ import annotations`.
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from mergewise import defaults
from mergewise.errors import UsageError
from mergewise.ranges import (
    BUDGET,
    OUTPUT,
    ROUNDS,
    SECONDS,
    Range,
    number,
    range_of,
    short_repr,
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
Owner_contra = TypeVar("Owner_contra", contravariant=True)
Record_contra = TypeVar("Record_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)


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
    for one in fields(record):
        kind, *notes = get_args(one.type) if get_origin(one.type) is Annotated else (one.type,)
        help_text = next((note for note in notes if isinstance(note, str)), "")
        if (help_text or also_of_python) and one.name not in ("question", *without):
            options.append(Option(one.name, kind, range_of(one.type), help_text, one.default))
    return options


class _TakesQuery(Protocol[Given, Record_contra, Result_co]):
    """A bound method that takes a record, or the fields of a record."""

    @overload
    def __call__(self, query: Record_contra, /, **options: Any) -> Result_co: ...
    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Result_co: ...


class _QueryMethod(Protocol[Owner_contra, Given, Record_contra, Result_co]):
    def __get__(
        self, owner: Owner_contra | None, kind: Any = None, /
    ) -> _TakesQuery[Given, Record_contra, Result_co]: ...
    def __call__(self, owner: Owner_contra, /, *args: Given.args, **options: Given.kwargs) -> Result_co: ...


def takes(
    record: Callable[Given, Record],
) -> Callable[[Callable[[Owner, Record], Result]], _QueryMethod[Owner, Given, Record, Result]]:
    """Let a method that takes a record take the record's fields as its arguments, too. Keywords override fields of a record."""

    def decorate(method: Callable[[Owner, Record], Result]) -> _QueryMethod[Owner, Given, Record, Result]:
        @wraps(method)
        def call(self: Owner, /, *args: Any, **options: Any) -> Result:
            if len(args) == 1 and isinstance(args[0], record):  # type: ignore[arg-type]
                return method(self, replace(args[0], **options))
            return method(self, record(*args, **options))

        return _with_arguments(call, method, record)  # type: ignore[no-any-return]

    return decorate


def takes_options(record: type[Record]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a method with the keyword `options`, a record, take the record's fields as keywords, which override it.

    The method raises UsageError for options of another type.
    """
    names = {one.name for one in fields(record)}  # type: ignore[arg-type]

    def decorate(method: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(method)
        def call(*args: Any, options: Record | None = None, **given: Any) -> Result:
            own = {name: given.pop(name) for name in given.keys() - names}
            if not isinstance(options, record | None):
                raise UsageError(f"invalid options: {short_repr(options)}", f"give keywords, or {record.__name__}(...)")
            return method(*args, **own, options=record(**given) if options is None else replace(options, **given))  # type: ignore[type-var]

        return _with_arguments(call, method, record)  # type: ignore[no-any-return]

    return decorate


def _with_arguments(call: Any, method: Callable[..., object], record: Callable[..., object]) -> Any:
    """Show the record's fields as parameters in help, in the place of the method's last parameter."""
    own = inspect.signature(method)
    types = {one.name: one.type for one in fields(record)}  # type: ignore[arg-type]
    arguments = [
        parameter.replace(annotation=_type_text(types[parameter.name]))
        for parameter in inspect.signature(record).parameters.values()
    ]
    call.__signature__ = own.replace(parameters=[*list(own.parameters.values())[:-1], *arguments])
    return call


def _type_text(hint: Any) -> str:
    """Format a type for help."""
    if isinstance(hint, str):
        return hint
    shown = inspect.formatannotation(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
    for name, alias in {"Budget": Budget, "Where": Where, "Turn": Turn, "Metadata": Metadata}.items():
        shown = shown.replace(inspect.formatannotation(alias), name)
    return shown.replace("collections.abc.", "")
