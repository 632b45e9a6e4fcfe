"""docs/reference.md, made from the code: run `python -m scripts.reference` after a change of what it lists.

Nothing is described here. A command and its options say what they mean in `cli/`, a strategy in the dictionary
`STRATEGIES`, a parameter in the `Annotated` type of its field, a mode in `MODES`, a class in its docstring.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

import mergewise
from mergewise import designs, errors, protocols, types
from mergewise.cli.main import app, callbacks
from mergewise.cli.options import help_text
from mergewise.cli.settings import setting_of, variable
from mergewise.defaults import CAUSAL, CHAT, EMBEDDER, RERANKER, SCORER
from mergewise.designs import MODES, STRATEGIES, VIEWS
from mergewise.models import CAUSALS, CHATS, EMBEDDERS, RERANKERS, SCORERS
from mergewise.ranges import range_of
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.store.views import Presets

ROOT = Path(__file__).parents[1]
PATH = ROOT / "docs/reference.md"
COMMAND = "python -m scripts.reference"
WIDTH = 100

# What no option stands for. A variable that the code reads and that is neither here nor an option stops `environment`.
OTHER_VARIABLES = {
    "AWS_ALLOW_HTTP": "`true` where the object store of an `s3://` index is reached without TLS, beside the other `AWS_...`",
    "OPENAI_API_KEY": "the key of OpenAI's endpoint, or of the one that `OPENAI_BASE_URL` names",
    "OPENAI_BASE_URL": "the endpoint of every `openai:MODEL`; without it, OpenAI's",
    "NOTIFY_SOCKET": "where systemd is told that `mergewise serve` is ready",
    "PROMETHEUS_MULTIPROC_DIR": "where the workers of `mergewise serve` add up their figures; it is set by them",
    "FORCE_COLOR": "colours and bars also where standard output is no terminal",
    "RERANK_API_KEY": "the key of the endpoint that `--reranker http:URL` names",
    "XDG_CONFIG_HOME": "the folder of the user's own `mergewise/mergewise.toml`; `~/.config` on Linux",
    "XDG_STATE_HOME": "the folder in which `mergewise show` finds the last answer; `~/.local/state` on Linux",
}
# Public names that are no classes and no functions, and so have no docstring.
OTHER_NAMES = {
    "MODES": "The modes, by name: a dictionary.",
    "STRATEGIES": "The strategies, by name: a dictionary.",
    "VIEWS": "The views, by name: a dictionary.",
    "CAUSAL": "What a mode needs: a causal model.",
    "CHAT": "What a mode needs: a chat model.",
    "NO_MODEL": "What a mode needs: no model.",
    "LeafId": "A field of a view's row: the number of a leaf of the same document.",
    "Progress": "A function that is called with the work done, the work in all, and the name of the document at hand.",
    "RowId": "A field of a view's row: the number of a row of the same view and document, counted from 0.",
    "TokenCounter": "A function from texts to the number of tokens of each.",
}
PUBLIC_MODULES = {
    mergewise: mergewise.__all__,
    designs: sorted({*designs.__all__} - {*mergewise.__all__, "DESIGNS", "PROMPTS"}),
    types: (
        "DocumentChange DocumentRows Duplicate Failure Heading LeafId Location Origin Page Problem PromptTemplate Reply RowId "
        "Rows Step Usage VectorCount"
    ).split(),
    protocols: ["CausalModel", "IndexReader", "NLLScorer", "PartEmbedder", "RowReader", "UtilityPredictor"],
}
"""The public names by the module that one imports them from."""
SPECS = (
    ("embedder", "--embedder", EMBEDDERS, EMBEDDER),
    ("chat model", "--chat", CHATS, CHAT),
    ("reranker", "--reranker", RERANKERS, RERANKER),
    ("scorer", "--scorer", SCORERS, SCORER),
    ("causal model", "--causal", CAUSALS, CAUSAL),
)
INTRODUCTION = f"""\
# Reference

This page is made from the code by `{COMMAND}`, and a test compares the two. The [guide](guide.md) says how to use what
is listed here.
"""


def reference() -> str:
    """The whole page."""
    sections = (commands(), environment(), strategies(), modes(), views(), specs(), python())
    return "\n".join([wrapped(INTRODUCTION), *("\n".join(section) for section in sections)])


# -- the command line


def commands() -> Iterator[str]:
    yield "## Commands\n"
    yield wrapped(
        "Options can also be given in the environment and in `mergewise.toml`, by the names they have here without the "
        "dashes in front. Every command takes `--help`."
    )
    for name, command in _commands().items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        yield f"### mergewise {name}\n"
        yield f"    mergewise {' '.join([name, *map(_written, arguments)])} [OPTIONS]\n"
        yield wrapped(command.help)
        yield table(("option", "default", "meaning"), map(_option, command.params))
        if settings := _settings(name):
            yield "Settings, of `mergewise.toml` or the environment:\n"
            yield table(("setting", "variable", "meaning"), settings)


def _commands() -> dict[str, Any]:
    """All commands; those of a group by both names."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {one}": inner[one] for one in inner}
    return found


def _settings(command: str) -> list[tuple[str, str, str]]:
    """The settings of a command: what no option sets."""
    settings = getattr(callbacks()[command], "settings", {})
    return [
        (f"`{name.replace('_', '-')}`", f"`{variable(name)}`", f"{setting.help}.")
        for name, (hint, _) in settings.items()
        if (setting := setting_of(hint)) is not None
    ]


def _written(argument: Any) -> str:
    name = argument.metavar or argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return str(name if argument.required else f"[{name}]")


def _option(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "argument":
        return f"`{_written(parameter)}`", "", parameter.help
    default = str(parameter.show_default if isinstance(parameter.show_default, str) else parameter.default or "")
    value = f" {parameter.metavar}" if parameter.metavar else ""
    names = ", ".join(f"`{name}{value}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names, default if " " in default or not default else f"`{default}`", help_text(parameter.help)


# -- the environment


def environment() -> Iterator[str]:
    yield "## Environment variables\n"
    meanings = dict(OTHER_VARIABLES)
    for command in _commands().values():
        for option in command.params:
            if option.envvar:
                meanings.setdefault(option.envvar, f"`{option.opts[0]}`")
    for name in _commands():
        for setting, env, _ in _settings(name):
            meanings.setdefault(env.strip("`"), f"the setting {setting}")
    unknown = variables() - meanings.keys()
    if unknown:
        raise LookupError(f"scripts/reference.py does not say what these are for: {', '.join(sorted(unknown))}")
    yield table(("variable", "what it is"), ((f"`{name}`", meanings[name]) for name in sorted(meanings)))


def variables() -> set[str]:
    """Every environment variable that the source reads."""
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\(|envvar=)["'](\w+)["']""")
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    return {name for text in texts for name in read.findall(text)}


# -- strategies, modes, views


def strategies() -> Iterator[str]:
    yield "## Strategies\n"
    yield wrapped(
        "Parameters are written in brackets, `auto-merge(mode=always, k=24)`, or given as `parameters` in Python. A switch "
        "is `on` or `off`."
    )
    for kind, names in _by_parameters().items():
        yield f"### {', '.join(f'`{name}`' for name in names)}\n"
        for name in names:
            yield wrapped(f"`{name}`: {STRATEGIES[name].summary}{_own(name, kind)}.")
        yield settings_table(kind())
        yield from _presets(STRATEGIES[names[0]].presets)


def _by_parameters() -> dict[type, list[str]]:
    """Names of strategies that have the same parameters."""
    found: dict[type, list[str]] = {}
    for name, strategy in STRATEGIES.items():
        found.setdefault(type(strategy.parameters), []).append(name)
    return found


def _own(name: str, kind: type) -> str:
    """What a strategy has that others of the same parameters do not: defaults, views it needs."""
    chosen, usual = STRATEGIES[name].parameters, kind()
    own = [f.name for f in fields(kind) if getattr(chosen, f.name) != getattr(usual, f.name)]
    notes = [f"`{field}` is `{getattr(chosen, field)}`" for field in own]
    notes += [f"needs the view `{view}`" for view in STRATEGIES[name].views]
    return "".join(f"; {note}" for note in notes)


def modes() -> Iterator[str]:
    yield "## Modes of answering\n"
    rows = ((f"`{name}`", mode.summary, mode.needs.name) for name, mode in MODES.items())
    yield table(("mode", "what the answer is made from", "model it needs"), rows)


def views() -> Iterator[str]:
    yield "## Views\n"
    yield wrapped(
        'Built with `--views`, or `views=` of `open`. Settings are given in Python, `settings={"slice": '
        "SliceSettings(...)}`, and stay what they are once an index has the view."
    )
    for name, view in VIEWS.items():
        yield f"### `{name}`\n"
        tables = ", ".join(f"`{one.name}`" for one in view.tables(view.settings()))
        yield wrapped(f"Tables: {tables}. Settings: `mergewise.{view.settings.__name__}`.")
        yield described(view.settings)
        yield settings_table(view.settings())
        yield from _presets(view.presets)


def _presets(presets: Presets) -> Iterator[str]:
    for name, sets in presets.items():
        listed = ", ".join(f"`{parameter}={_written_value(value)}`" for parameter, value in sets.items())
        yield wrapped(f"`preset={name}` sets {listed}.")


def specs() -> Iterator[str]:
    yield "## Models by spec\n"
    rows = (
        (what, f"`{option}`", ", ".join(f"`{form}`" for form in sorted(forms)), f"`{default}`")
        for what, option, forms, default in SPECS
    )
    yield table(("model", "option", "forms", "default"), rows)


# -- Python


def python() -> Iterator[str]:
    yield "## Python\n"
    yield "### `mergewise.open`\n"
    yield signature("mergewise.open", mergewise.open)
    yield described(mergewise.open)
    yield "### `Index`\n"
    methods = {n: m for n, m in vars(mergewise.Index).items() if inspect.isfunction(m) and not n.startswith("_")}
    for name, method in methods.items():
        yield signature(name, method)
        yield described(method)
    yield "### `SearchSettings`\n"
    yield "`mergewise.SearchSettings`, for `search_settings=` of `open`.\n"
    yield described(SearchSettings)
    yield settings_table(SearchSettings())
    yield "### Public names\n"
    for module, names in PUBLIC_MODULES.items():
        yield f"In `{module.__name__}`:\n"
        named = {name: getattr(module, name) for name in names}
        kept = {n: thing for n, thing in named.items() if not (inspect.isclass(thing) and issubclass(thing, Exception))}
        rows = ((f"`{n}`", OTHER_NAMES.get(n) or _first_sentences(thing)) for n, thing in kept.items())
        yield table(("name", "what it is"), rows)
    yield "### Errors\n"
    told, _, tree = str(inspect.getdoc(errors)).partition("\n\n")
    yield wrapped(told)
    yield textwrap.indent(tree, "    ") + "\n"


def _first_sentences(thing: Any) -> str:
    """The first sentence of the docstring, and the second one where the first says next to nothing."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z`])", " ".join(str(inspect.getdoc(thing)).split("\n\n")[0].split()))
    return " ".join([first, *others[:1]]) if len(first) < 30 else first


def signature(name: str, function: Any) -> str:
    """The call as it is written: on one line where it fits."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    written = [
        f"{p.name}: {p.annotation}" + ("" if p.default is p.empty else f" = {_code(p.default)}") for p in parameters
    ]
    written = [f"*{w}" if p.kind is p.VAR_POSITIONAL else w for p, w in zip(parameters, written, strict=True)]
    first = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        written.insert(first, "*")
    gives = f" -> {inspect.signature(function).return_annotation}"
    short = f"{name}({', '.join(written)}){gives}"
    lines = [f"{name}(", *(f"    {w}," for w in written), f"){gives}"] if len(short) > WIDTH else [short]
    return textwrap.indent("\n".join(lines), "    ") + "\n"


def _code(default: Any) -> str:
    return str(default.__name__) if inspect.isfunction(default) else repr(default)


# -- what the sections share


def settings_table(settings: Any) -> str:
    """The fields of a dataclass with types and defaults, and with their meanings where their types say them."""
    hints = get_type_hints(type(settings), include_extras=True)
    rows = [(f"`{f.name}`", *_typed(hints[f.name]), f"`{_value(settings, f.name)}`") for f in fields(settings)]
    if not any(meaning for _, _, meaning, _ in rows):
        return table(("setting", "type", "default"), ((name, kind, default) for name, kind, _, default in rows))
    return table(
        ("parameter", "type", "default", "meaning"),
        ((name, kind, default, meaning) for name, kind, meaning, default in rows),
    )


def _value(settings: Any, name: str) -> str:
    return _written_value(getattr(settings, name))


def _written_value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _typed(hint: Any) -> tuple[str, str]:
    """The type in words with its range, and the meaning, which the last note of an `Annotated` type tells."""
    meaning, limits = "", range_of(hint)
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        meaning = next((note for note in reversed(notes) if isinstance(note, str)), "")
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint)), meaning
    kind = {bool: "switch", int: "whole number", float: "number"}.get(hint, f"`{hint}`")
    return kind if limits is None else f"{kind}, {limits}", meaning


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def described(thing: Any) -> str:
    """The docstring, its paragraphs wrapped."""
    return wrapped(inspect.getdoc(thing) or "")


def wrapped(text: str) -> str:
    return "\n\n".join(p if p.startswith("#") else _filled(p) for p in text.strip().split("\n\n")) + "\n"


def _filled(paragraph: str) -> str:
    """Lines of up to `WIDTH` characters. What stands between backticks stays on one line."""
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), " ".join(paragraph.split()))
    return textwrap.fill(whole, WIDTH, break_on_hyphens=False, break_long_words=False).replace("\0", " ")


if __name__ == "__main__":
    PATH.write_text(reference(), encoding="utf-8")
