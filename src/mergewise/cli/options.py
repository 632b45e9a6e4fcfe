"""The options that several commands share, each described once, and the names in their help.

A help text names modes, strategies and views by placeholders, such as `{modes}`. `help_text` fills them in from the registries
when help is shown: the names are those that are installed, and a command that shows no help loads no registry.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mergewise.errors import UsageError
from mergewise.ranges import RETRYING, SECONDS, number, whole
from mergewise.redaction import masked
from mergewise.text.printable import on_one_line

if TYPE_CHECKING:
    from mergewise.evaluate.run import Half
    from mergewise.retrieve.hybrid import SearchSettings

DEFAULT_INDEX = Path("mergewise.index")
# panels of help texts: what is searched and read, by which models, and what is printed
SEARCH, MODELS, OUTPUT = "Search and answer", "Models", "Output"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PLACEHOLDER_IN_SENTENCE = re.compile(r"[:;,]? *\(?\{\w+\}\)?\.?")


@cache
def _registered_names() -> Mapping[str, str]:
    """What the placeholders stand for."""
    from mergewise.designs import MODES, STRATEGIES, VIEWS
    from mergewise.evaluate.methods import GROUPS, METHODS
    from mergewise.evaluate.presets import preset_names

    listed = ", ".join

    def modes(needs: str) -> Iterable[str]:
        return (name for name, mode in MODES.items() if mode.needs.name == needs)

    return {
        "modes": f"without a model {listed(modes(''))}; with a chat model r&b (the default with one), "
        f"{listed(name for name in modes('chat') if name != 'r&b')}; with a causal model {listed(modes('causal'))}",
        "causal_modes": listed(modes("causal")),
        "strategies": listed(STRATEGIES),
        "merging_strategies": listed(name for name, strategy in STRATEGIES.items() if strategy.merge is not None),
        "methods": listed([*GROUPS, *METHODS]),
        "tables": listed(preset_names()),
        "views": listed(VIEWS),
        "reported_views": listed(name for name, view in VIEWS.items() if view.report is not None),
        "written_views": listed(name for name, view in VIEWS.items() if view.writing is not None),
    }


def help_text(text: str) -> str:
    """The help of an option with the names that its placeholders stand for."""
    return _PLACEHOLDER.sub(lambda match: _registered_names()[match[1]], text)


class NamingCommand(TyperCommand):
    """A command whose help fills in the placeholders. The shell's completion leaves them out, to be quick."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if isinstance(parameter, TyperOption):
                parameter.help = help_text(parameter.help or "")
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        found = super().shell_complete(ctx, incomplete)
        for item in found:
            item.help = _PLACEHOLDER_IN_SENTENCE.sub("", item.help or "")
        return found


class PrintableGroup(TyperGroup):
    """The root of the commands. What a wrong word of the command line brings into typer's own messages is printable."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _printable_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # typer's errors, whichever module it has them from, say their message by this
        if hasattr(error, "format_message"):
            message = on_one_line(masked(error.format_message()))
            error.format_message = lambda: message
        raise


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: the fields of its parameter that is a dataclass are options of the command."""
    hints = get_type_hints(command, include_extras=True)
    group_name = next(name for name, hint in hints.items() if is_dataclass(hint))
    group = hints[group_name]
    group_hints = get_type_hints(group, include_extras=True)
    shared = [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=group_hints[f.name])
        for f in fields(group)
    ]

    @wraps(command)
    def call(**values: Any) -> None:
        options = group(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        command(**{group_name: options}, **values)

    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        own = parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])
        parameters += shared if name == group_name else [own]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """For the shell's completion: these names, also behind a comma."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(begun)]

    return complete


def _names_in(registry: str) -> Callable[[], Iterable[str]]:
    """The names in a registry of `mergewise.designs`, which is loaded when they are asked for."""

    def names() -> Iterable[str]:
        from mergewise import designs

        return getattr(designs, registry)  # type: ignore[no-any-return]

    return names


def _merging_strategies() -> Iterable[str]:
    return _registered_names()["merging_strategies"].split(", ")


def _forms() -> Iterable[str]:
    from mergewise.generate.formats import FORMS

    return FORMS


QuestionArgument = Annotated[
    str, typer.Argument(help="The question, in quotes; - reads one a line from standard input.", show_default=False)
]
TraceOption = Annotated[
    bool,
    typer.Option(
        "--trace",
        "-t",
        help="Show what was taken, merged and left out, with the sentences and the reasons.",
        rich_help_panel=OUTPUT,
    ),
]
StrategiesOption = Annotated[
    str,
    typer.Option(
        "--strategies",
        "-s",
        help="Strategies, separated by commas: {strategies}; for eval also: all.",
        autocompletion=_completion(_names_in("STRATEGIES")),
        rich_help_panel=SEARCH,
    ),
]


def in_this_folder(index_dir: Path) -> Path:
    """The directory, where it is not a folder's default index that leads out of the folder: a clone may bring such a link."""
    if index_dir == DEFAULT_INDEX and index_dir.is_symlink():
        # a link that leads to itself leads nowhere
        real = os.path.realpath(index_dir)
        if not Path(real).is_relative_to(os.path.realpath(".")):
            hint = f"if it is yours, name the place: -i {shlex.quote(real)}"
            raise UsageError(f"{index_dir} is a link out of this folder", hint)
    return index_dir


IndexOption = Annotated[
    Path,
    typer.Option(
        "--index",
        "-i",
        envvar="MERGEWISE_INDEX",
        help="Directory of the index, or s3://BUCKET/PREFIX.",
        callback=in_this_folder,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="text; prompt or messages, what the mode r&b asks a chat model; xml; or json, as --json.",
        metavar="FORM",
        autocompletion=_completion(_forms),
        rich_help_panel=OUTPUT,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", "-j", help="Print JSON instead of text.", rich_help_panel=OUTPUT)]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write a page: one HTML file that needs no network.", rich_help_panel=OUTPUT
    ),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        "-e",
        envvar="MERGEWISE_EMBEDDER",
        help="Embedding model: minilm, none, st:NAME_OR_PATH or openai:MODEL.",
        show_default="minilm",
        rich_help_panel=MODELS,
    ),
]
NamedEmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        "-e",
        envvar="MERGEWISE_EMBEDDER",
        help="Embedder that the index may load, to be named once where somebody else made it: st:NAME_OR_PATH or openai:MODEL.",
        rich_help_panel=MODELS,
    ),
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        envvar="MERGEWISE_STRATEGY",
        help="Strategy, also with parameters, such as 'auto-merge(mode=never)' or 'mrag(preset=paper)': {strategies}.",
        autocompletion=_completion(_names_in("STRATEGIES")),
        rich_help_panel=SEARCH,
    ),
]


def _budget(text: str | int) -> int | str:
    if str(text) in ("auto", "default"):
        return str(text)
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the budget is {text!r}", "give a number of tokens, or auto") from None


# a value is an int, "auto" or "default": typer knows no such type
BudgetOption = Annotated[
    Any,
    typer.Option(
        "--budget",
        "-b",
        envvar="MERGEWISE_BUDGET",
        parser=_budget,
        metavar="TOKENS|auto",
        show_default="640, or as many as text of this length takes in the question's language",
        help="Maximum tokens of the context; with auto, weave stops where a further token gains little.",
        rich_help_panel=SEARCH,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        "-w",
        help="SQL condition on id, title and metadata of documents, such as \"year > 2020 and lang = 'en'\".",
        rich_help_panel=SEARCH,
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MERGEWISE_TOKENIZER",
        help="Count tokens by this tokenizer.json instead of the built-in one.",
        rich_help_panel=MODELS,
    ),
]
ChatOption = Annotated[
    str,
    typer.Option(
        "--chat",
        "-c",
        envvar="MERGEWISE_CHAT",
        help="Chat model: openai:MODEL or hf:PATH; or extractive, which quotes sentences without a model.",
        rich_help_panel=MODELS,
    ),
]
WritingChatOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_CHAT",
        help="Chat model that writes rows of the views {written_views}: openai:MODEL; or extractive, without a model.",
        rich_help_panel=MODELS,
    ),
]
CausalOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_CAUSAL",
        help="Causal model of the modes {causal_modes}: hf:PATH; none is the chat model's, with hf:PATH.",
        rich_help_panel=MODELS,
    ),
]
ScorerOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_SCORER",
        help="Model that scores how well one chunk predicts another (MergeRAG): lm, hf:PATH or openai:MODEL.",
        rich_help_panel=MODELS,
    ),
]
SearchOption = Annotated[
    str | None,
    typer.Option(
        "--search",
        metavar="NAME=VALUE,...",
        envvar="MERGEWISE_SEARCH",
        help="How full text and vectors become one ranking: weight of the vectors, depth of both, fusion, such as "
        "'weight=0.5, depth=200'.",
        rich_help_panel=SEARCH,
    ),
]


def search_settings(text: str | None) -> SearchSettings:
    """The settings that `--search` names."""
    from mergewise.designs import specs

    return specs.search_settings(text or "", "--search")


ThenOption = Annotated[
    str | None,
    typer.Option(
        envvar="MERGEWISE_THEN",
        help="Strategy that merges what the first one selected: {merging_strategies}.",
        autocompletion=_completion(_merging_strategies),
        rich_help_panel=SEARCH,
    ),
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        "--mode",
        "-m",
        envvar="MERGEWISE_MODE",
        help="Mode of answering: {modes}.",
        autocompletion=_completion(_names_in("MODES")),
        rich_help_panel=SEARCH,
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option(
        "--rounds",
        "-r",
        envvar="MERGEWISE_ROUNDS",
        help="Rounds of search; each further one searches for what is still missing.",
        rich_help_panel=SEARCH,
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(
        envvar="MERGEWISE_WINDOW",
        help="Context window of the chat model, in tokens.",
        min=1,
        show_default="32768",
        rich_help_panel=MODELS,
    ),
]
MaxTokensOption = Annotated[
    int,
    typer.Option(
        envvar="MERGEWISE_MAX_TOKENS",
        help="Maximum tokens that a model writes in one call.",
        min=1,
        rich_help_panel=MODELS,
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        envvar="MERGEWISE_TIMEOUT",
        metavar="SECONDS",
        help="Seconds that an endpoint may be silent.",
        show_default="120, of rerankers 60",
        rich_help_panel=MODELS,
    ),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        envvar="MERGEWISE_RETRIES",
        help="How often a failed request to an endpoint is tried again.",
        show_default="4",
        rich_help_panel=MODELS,
    ),
]


def set_patience(timeout: float | None, retries: int | None) -> None:
    """Tell every adapter of this process how long it waits for its endpoint, and how often it asks again."""
    if timeout is not None:
        os.environ["MERGEWISE_TIMEOUT"] = str(number("--timeout is", timeout, float, SECONDS))
    if retries is not None:
        os.environ["MERGEWISE_RETRIES"] = str(whole("--retries is", retries, RETRYING))


CacheOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MERGEWISE_CACHE", help="Directory that keeps the chat model's replies.", rich_help_panel=MODELS
    ),
]
PromptsOption = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="DIR",
        envvar="MERGEWISE_PROMPTS",
        help="Folder of prompts of your own; `mergewise prompts` writes those that ship.",
        rich_help_panel=MODELS,
    ),
]
PriceInOption = Annotated[
    float,
    typer.Option(
        envvar="MERGEWISE_PRICE_IN",
        help="Price of a million input tokens, to show the cost.",
        min=0,
        rich_help_panel=MODELS,
    ),
]
PriceOutOption = Annotated[
    float,
    typer.Option(
        envvar="MERGEWISE_PRICE_OUT",
        help="Price of a million output tokens, to show the cost.",
        min=0,
        rich_help_panel=MODELS,
    ),
]
RerankerOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_RERANKER",
        help="Reranker: none, cross-encoder:PATH_OR_NAME, hf:PATH or http:URL.",
        rich_help_panel=MODELS,
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        envvar="MERGEWISE_WEIGHTS",
        help="Weights of weave's features, as `mergewise tune --fit` writes them.",
        rich_help_panel=MODELS,
    ),
]
ViewsOption = Annotated[
    str,
    typer.Option(help="Views to build, separated by commas: {views}.", autocompletion=_completion(_names_in("VIEWS"))),
]
ViewOption = Annotated[
    str | None,
    typer.Option(
        "--view",
        help="Report how the rows of a view were made: {reported_views}.",
        autocompletion=_completion(_names_in("VIEWS")),
    ),
]
MarkersOption = Annotated[bool, typer.Option("--markers", help="The same as --view marker.")]
TripletsOption = Annotated[bool, typer.Option("--triplets", help="The same as --view triplet.")]


def reported_view(view: str | None, markers: bool, triplets: bool) -> str | None:
    """The view that these options name, if any."""
    return "marker" if markers else "triplet" if triplets else view


def _half(text: str) -> Half:
    from mergewise.evaluate.run import parse_half

    return parse_half(text)


# a value is a Half, whose module takes long to import
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Workers on a Ray cluster (extra ray): local, auto or HOST:PORT; as many as it has room for.",
        show_default=False,
    ),
]
GPUsOption = Annotated[
    float, typer.Option("--gpus-per-worker", min=0, max=64, help="With --ray: GPUs of a worker, such as 1 or 0.25.")
]
HalfOption = Annotated[
    Any,
    typer.Option(
        parser=_half,
        metavar="first|second|all",
        help="Half of each question set: first for tuning and training, second for reporting, or all.",
    ),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Only the first N questions of each set.")
]
SetIndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index",
        "-i",
        help="For question sets, the directory that keeps their indexes. For a file of questions, the index to search.",
        show_default="mergewise.index",
    ),
]
