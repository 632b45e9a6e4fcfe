"""Options that several commands share, and the placeholders in their help.

A help text lists modes, strategies and views by placeholders, such as `{modes}`. `help_text` fills them in from the registries
only when help is shown, so that other commands load no registry.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

import mergewise
from mergewise import AnswerQuery, Query, extend
from mergewise.cli.settings import Setting, setting_of, setting_value, variable
from mergewise.errors import UsageError
from mergewise.extend import (
    EmbeddingOptions,
    IndexingOptions,
    Option,
    choice,
    masked,
    on_one_line,
    options_of,
    plugins,
    short_repr,
)

DEFAULT_INDEX = Path("mergewise.index")
# panels of options in help
SEARCH, MODELS, OUTPUT = "Search and answer", "Models", "Output"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PLACEHOLDER_IN_SENTENCE = re.compile(r"[:;,]? *\(?\{\w+\}\)?\.?")


@cache
def _registered_names() -> Mapping[str, str]:
    """Return the text of each placeholder."""
    from mergewise import MODES, STRATEGIES, VIEWS
    from mergewise.evaluate.methods import GROUPS, METHODS
    from mergewise.evaluate.presets import preset_names

    listed = ", ".join

    def modes(needs: str) -> Iterable[str]:
        return (name for name, mode in MODES.items() if mode.needs.name == needs)

    return {
        "modes": f"no model: {listed(modes(''))}; chat model: r&b (default), "
        f"{listed(name for name in modes('chat') if name != 'r&b')}; causal model: {listed(modes('causal'))}",
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
    """Fill in the placeholders of a help text."""
    return _PLACEHOLDER.sub(lambda match: _registered_names()[match[1]], text)


class PlainSwitches:
    """Part of a command whose help shows no type beside switches."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.display_type_rich = lambda ctx: None
        return parameters


class PlainGroup(PlainSwitches, TyperGroup):
    """A group of commands."""


class NamingCommand(PlainSwitches, TyperCommand):
    """A command whose help fills in the placeholders. Shell completion removes them instead, to be quick."""

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


def command_of(name: str, part: Any) -> Any:
    """Make a command from a function. A typer app is a command if it has one function, and a group otherwise."""
    app = part if isinstance(part, typer.Typer) else typer.Typer(add_completion=False)
    if app is not part:
        app.command(name, cls=NamingCommand)(part)
    command = typer.main.get_command(app)
    command.name = name
    return command


class Commands(Mapping[str, Any]):
    """Commands by name. The module of a command is imported at its first use.

    Args:
        places: Module and name of the function or typer app of each command, such as "manage.index", in the order of the help.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places, self._made = places, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, part = self._places[name].partition(".")
            found = getattr(import_module(f"mergewise.cli.{module}"), part)
            is_group = isinstance(found, typer.Typer)
            self._made[name] = typer.main.get_group(found) if is_group else command_of(name, found)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class RootGroup(PlainGroup):
    """The root command, with the commands of other packages: entry points of the group `mergewise.commands`.

    Makes typer's own messages printable, which quote words of the command line.
    """

    @cached_property
    def _extra_commands(self) -> dict[str, Any]:
        """The commands of other packages, by name. They are loaded only for help and for words that name no command."""
        found = plugins("mergewise.commands", Callable, "function")
        return {one.name: command_of(one.name, one.part) for one in found}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or self._extra_commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self._extra_commands]

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
        # any error of typer or click has this method, whichever module defines it
        if hasattr(error, "format_message"):
            message = on_one_line(masked(error.format_message()))
            name = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
            command = getattr(getattr(error, "ctx", None), "command", None)
            if name in getattr(getattr(command, "callback", None), "settings", {}):
                message = (
                    f"--{name.replace('_', '-')} is a setting: write it into mergewise.toml, or set {variable(name)}"
                )
            error.format_message = lambda: message
        raise


def with_options(command: Callable[..., None], without: Sequence[str] = ()) -> Callable[..., None]:
    """Turn the fields of a command's record parameters into options, as typer takes them.

    A parameter or field that is a `Setting` does not become an option: the environment and the configuration file set it.

    Args:
        command: The command. Its records are dataclasses of options, a `Query`, or the options of indexing.
        without: Fields that keep their defaults and do not become options.
    """
    hints = get_type_hints(command, include_extras=True)
    own = signature(command).parameters
    groups = {name: hints[name] for name in own if is_dataclass(hints[name])}
    shared = {name: _fields_of(group, without) for name, group in groups.items()}
    settings = {name: (hints[name], own[name].default) for name in own if setting_of(hints[name])}

    @wraps(command)
    def call(ctx: typer.Context, **values: Any) -> None:
        def value_of_setting(name: str, hint: Any, default: Any) -> Any:
            return setting_value(name, hint, default, ctx.default_map or {})

        for name, group in groups.items():
            parameters, settings_of_group = shared[name]
            given = {"metadata" if one.name == "meta" else one.name: values.pop(one.name) for one in parameters}
            given |= {one: value_of_setting(one, *rest) for one, rest in settings_of_group.items()}
            values[name] = (
                group("", **given) if issubclass(group, Query) and "question" not in given else group(**given)
            )
        command(**values, **{name: value_of_setting(name, *rest) for name, rest in settings.items()})

    parameters = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, parameter in own.items():
        if name in shared:
            parameters += shared[name][0]
        elif name not in settings:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    every_setting = {**settings, **{one: rest for _, group in shared.values() for one, rest in group.items()}}
    call.settings = every_setting  # type: ignore[attr-defined]
    call.__annotations__ = {
        **{parameter.name: parameter.annotation for parameter in parameters[1:]},
        **{name: hint for name, (hint, _) in every_setting.items()},
    }
    return call


def _fields_of(group: Any, without: Sequence[str]) -> tuple[list[Parameter], dict[str, tuple[Any, Any]]]:
    """Return the options of a record, and the type and the default of each of its settings, by name."""
    if issubclass(group, Query | EmbeddingOptions):
        return record_parameters(group, without), {
            one.name: (Annotated[one.type, Setting(one.help, one.range)], one.default)
            for one in options_of(group)
            if one.name in _SETTINGS
        }
    hints = get_type_hints(group, include_extras=True)
    settings = {one.name: (hints[one.name], one.default) for one in fields(group) if setting_of(hints[one.name])}
    return [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(group)
        if one.name not in settings and one.name not in without
    ], settings


def _completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Make a shell completion of these names, also after a comma."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(begun)]

    return complete


def model_option(name: str, help: str, *short: str, metavar: str | None = None, show_default: bool | str = True) -> Any:
    """Return an option of a model, or of its prompts, that the environment may also set."""
    return typer.Option(
        f"--{name}",
        *short,
        envvar=variable(name),
        help=help,
        metavar=metavar,
        show_default=show_default,
        rich_help_panel=MODELS,
    )


QuestionArgument = Annotated[str, typer.Argument(help="Question in quotes; - reads one per line from standard input.")]
TraceOption = Annotated[
    bool,
    typer.Option("--trace", "-t", help="Show each step: text selected, merged and left out.", rich_help_panel=OUTPUT),
]
StrategiesOption = Annotated[
    str,
    typer.Option(
        "--strategies",
        "-s",
        help="Strategies, separated by commas: {strategies}; eval also takes all.",
        autocompletion=_completion(lambda: mergewise.STRATEGIES),
        rich_help_panel=SEARCH,
    ),
]


def in_this_folder(index_dir: Path) -> Path:
    """Return the directory, unless it is the default index and a link out of the folder, which a clone may contain."""
    if index_dir == DEFAULT_INDEX and index_dir.is_symlink():
        # realpath also handles a link to itself
        real = os.path.realpath(index_dir)
        if not Path(real).is_relative_to(os.path.realpath(".")):
            hint = f"if you trust it, name its target: -i {shlex.quote(real)}"
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
        help="Output format: text, prompt, messages, xml or json.",
        metavar="FORM",
        autocompletion=_completion(lambda: extend.FORMS),
        rich_help_panel=OUTPUT,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", "-j", help="Print JSON instead of text.", rich_help_panel=OUTPUT)]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a self-contained HTML page.", rich_help_panel=OUTPUT),
]
EmbedderOption = Annotated[
    str | None,
    model_option(
        "embedder",
        "Embedding model: minilm, e5, none, onnx:PATH, st:NAME_OR_PATH or openai:MODEL.",
        "-e",
        show_default="minilm",
    ),
]


def _budget(text: str | int) -> int | str:
    if str(text) in ("auto", "default"):
        return str(text)
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"invalid budget: {short_repr(text)}", "give a number of tokens, or auto") from None


ChatOption = Annotated[
    str, model_option("chat", "Chat model: openai:MODEL, hf:PATH, or extractive (quotes sentences, no model).", "-c")
]
WritingChatOption = Annotated[
    str, model_option("chat", "Chat model of the views {written_views}: openai:MODEL, or extractive (no model).")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="VIEW.NAME=VALUE", help="Setting of a view, such as slice.chunk=300 or slice.preset=paper."
    ),
]


# command-line names, types and defaults of options that differ from the record's; typer has no type "number or word"
_SHORT = {"strategy": "-s", "budget": "-b", "where": "-w", "mode": "-m", "rounds": "-r"}
_COMPLETIONS = {
    "strategy": _completion(lambda: mergewise.STRATEGIES),
    "mode": _completion(lambda: mergewise.MODES),
    "merge_with": _completion(lambda: _registered_names()["merging_strategies"].split(", ")),
}
_METAVARS = {"budget": "TOKENS|auto", "include": "GLOB", "exclude": "GLOB", "metadata": "KEY=VALUE", "ray": "ADDRESS"}
_TYPES: Mapping[str, Any] = {
    "where": str | None,
    "include": list[str] | None,
    "exclude": list[str] | None,
    "metadata": list[str] | None,
}
_SHOWN_DEFAULTS = {"budget": "640 for English, scaled for other languages", "workers": "one per core for large inputs"}


def record_parameters(record: type, without: Sequence[str] = ()) -> list[Parameter]:
    """Return the options of a record such as `AnswerQuery`, as typer takes them.

    Parameters of a strategy are not options: they are part of its name, in brackets.
    """
    panel = SEARCH if issubclass(record, Query) else None
    return [option_parameter(option, panel) for option in options_of(record, [*without, "parameters", *_SETTINGS])]


def option_parameter(option: Option, panel: str | None = None) -> Parameter:
    """Return an option of a record, as typer takes it. With a panel it is a field of a `Query`, which checks ranges itself."""
    name = "meta" if option.name == "metadata" else option.name
    default = None if name in ("include", "exclude", "workers") else option.default
    words = get_args(option.type) if get_origin(option.type) is Literal else ()
    parser: Callable[[Any], Any] | None = _budget if name == "budget" else None
    if words:
        parser = partial(choice, f"--{name}", choices=words)
    limits = option.range if panel is None else None
    described = typer.Option(
        f"--{name.replace('_', '-')}",
        *([_SHORT[name]] if name in _SHORT else []),
        envvar=variable(name) if panel is not None and name != "where" else None,
        help=f"{option.help}.",
        autocompletion=_COMPLETIONS.get(name),
        parser=parser,
        min=None if limits is None else limits.low,
        max=None if limits is None else limits.high,
        metavar="|".join(words) or _METAVARS.get(option.name),
        show_default=_SHOWN_DEFAULTS.get(option.name, default is not None),
        rich_help_panel=panel,
    )
    annotation: Any = Annotated[Any if parser else _TYPES.get(option.name, option.type), described]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# options of records that the environment and the configuration file set
_SETTINGS = ("gpus_per_worker", "follow_links", "max_tokens")
_BY_NAME = {option.name: option for option in [*options_of(AnswerQuery), *options_of(IndexingOptions)]}
StrategyOption = option_parameter(_BY_NAME["strategy"], SEARCH).annotation
ModeOption = option_parameter(_BY_NAME["mode"], SEARCH).annotation
WhereOption = option_parameter(_BY_NAME["where"], SEARCH).annotation


RerankerOption = Annotated[
    str, model_option("reranker", "Reranker: none, cross-encoder:PATH_OR_NAME, hf:PATH or http:URL.")
]
ViewsOption = Annotated[
    str,
    typer.Option(
        help="Views to build, separated by commas: {views}.", autocompletion=_completion(lambda: mergewise.VIEWS)
    ),
]
ViewOption = Annotated[
    str | None,
    typer.Option(
        "--view",
        help="View whose rows are explained: {reported_views}.",
        autocompletion=_completion(lambda: mergewise.VIEWS),
    ),
]


# values are `Split`, but its module is slow to import
SplitOption = Annotated[
    Any,
    typer.Option(
        parser=partial(choice, "--split", choices=("dev", "test", "all")),
        metavar="dev|test|all",
        help="Questions of each set: dev (first half), test (second half) or all.",
    ),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of questions of each set.")
]
SetIndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index",
        "-i",
        help="Directory of the sets' indexes, or index of a question file.",
        show_default="mergewise.index",
    ),
]
