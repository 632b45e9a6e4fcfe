"""The `mergewise` command: its subcommands, its configuration file, and how errors become exit codes."""

from __future__ import annotations

import logging
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import typer

from mergewise.cli import demo, evaluation, manage, questions
from mergewise.cli.output import say_error
from mergewise.errors import MergewiseError, UsageError

CONFIGURATION = Path("mergewise.toml")

app = typer.Typer(
    name="mergewise",
    help="Assemble the densest context for a token budget, every sentence traceable to its source.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("index")(manage.index)
app.command("ask")(questions.ask)
app.command("context")(questions.context)
app.command("compare")(questions.compare)
app.command("info")(manage.info)
app.command("remove")(manage.remove)
app.command("check")(manage.check)
app.command("eval")(evaluation.evaluate)
app.command("demo")(demo.demo)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from mergewise import __version__

        sys.stdout.write(f"mergewise {__version__}\n")
        raise typer.Exit


def main() -> None:
    """Run the command and exit with 0, 1 (the work failed) or 2 (wrong usage). An error prints one line and a hint below."""
    logging.getLogger("mergewise").addHandler(logging.StreamHandler())  # such as: another process is writing
    command = typer.main.get_command(app)
    try:
        command(default_map=configuration())
    except MergewiseError as error:
        say_error(error.message, error.hint)
        sys.exit(error.exit_code)


def configuration(path: Path = CONFIGURATION) -> dict[str, Any]:
    """Options from `mergewise.toml`: top-level keys are for every command, a table `[ask]` for that command alone."""
    if not path.exists():
        return {}
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "it is a TOML file") from None
    common = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    commands: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {name: {parameter.name for parameter in command.params} for name, command in commands.items()}
    chosen: dict[str, Any] = {}
    for name, parameters in known.items():
        table = settings.get(name)
        given = _named({**common, **(table if isinstance(table, dict) else {})})
        chosen[name] = {key: value for key, value in given.items() if key in parameters}
    tables = {key for key, value in settings.items() if isinstance(value, dict)}
    unknown = (_named(common).keys() - set().union(*known.values())) | (tables - known.keys())
    if unknown:
        raise UsageError(f"{path} sets {', '.join(sorted(unknown))}, which no command knows", "see docs/guide.md")
    return chosen


def _named(options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of their parameters: `index` is the directory, dashes are underscores."""
    return {{"index": "index_dir"}.get(key, key.replace("-", "_")): value for key, value in options.items()}
