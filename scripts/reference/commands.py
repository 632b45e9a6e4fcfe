"""The page of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from mergewise.cli.main import app, callbacks
from mergewise.cli.options import help_text
from mergewise.cli.settings import setting_of, variable
from scripts.reference.markup import code_block, table, wrapped


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Command line\n"
    yield wrapped(
        "Every option can also be set in the environment and in `mergewise.toml`, by its name without the dashes. "
        "`mergewise config COMMAND` shows each value and where it comes from. Every command takes `--help`."
    )
    for name, command in commands().items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        yield f"## mergewise {name}\n"
        yield code_block(f"mergewise {' '.join([name, *map(_written, arguments)])} [OPTIONS]", "text")
        yield wrapped(command.help)
        if command.params:
            yield table(("option", "default", "meaning"), map(_option, command.params))
        if listed := settings(name):
            yield "Settings, in `mergewise.toml` or the environment:\n"
            yield table(("setting", "variable", "meaning"), listed)


def commands() -> dict[str, Any]:
    """Return all commands by name. A command of a group has both names."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {one}": inner[one] for one in inner}
    return found


def settings(command: str) -> list[tuple[str, str, str]]:
    """Return the name, variable and meaning of each setting of a command that is not an option."""
    declared = getattr(callbacks()[command], "settings", {})
    return [
        (f"`{name.replace('_', '-')}`", f"`{variable(name)}`", f"{setting.help}.")
        for name, (hint, _) in declared.items()
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
