"""The `mergewise` command: its subcommands, its configuration and its exit codes."""

from __future__ import annotations

import gc
import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from mergewise.cli.configuration import (
    TRUST,
    existing_configuration,
    find_configuration,
    harmless,
    own_configuration,
    read_configuration,
    trusted_folders,
    working_directory,
)
from mergewise.cli.options import Commands, JsonOption, RootGroup
from mergewise.cli.output import PrintableFormatter, say, say_aside, say_error, say_json, say_warning
from mergewise.cli.settings import from_environment, variable
from mergewise.errors import MergewiseError, check_known
from mergewise.types import JsonDict

COMMANDS = Commands(
    {
        "index": "manage.index",
        "ask": "questions.ask",
        "chat": "chat.chat",
        "context": "questions.context",
        "compare": "comparison.compare",
        "show": "show.show",
        "grep": "reading.grep",
        "read": "reading.read",
        "outline": "reading.outline",
        "skill": "reading.skill",
        "info": "manage.info",
        "embed": "manage.embed",
        "remove": "manage.remove",
        "check": "manage.check",
        "reshard": "manage.reshard",
        "copy": "manage.copy",
        "prompts": "manage.prompts",
        "eval": "evaluate.evaluate",
        "report": "evaluate.report",
        "repeat": "repeat.repeat",
        "tune": "tuning.tune",
        "questions": "tuning.questions",
        "serve": "serving.serve",
        "mcp": "serving.mcp",
        "demo": "demo.demo",
        "config": "main.config",
        "train": "training.app",
        "server": "serving.app",
        "cluster": "cluster.app",
    }
)


class Root(RootGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": COMMANDS})


app = typer.Typer(
    name="mergewise",
    help="Assemble the densest context for a token budget, every sentence traceable to its source.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    cls=Root,
)


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print the path of the configuration file."),
) -> None:
    if version:
        from mergewise import __version__

        sys.stdout.write(f"mergewise {__version__}\n")
        raise typer.Exit
    if verbose:
        file = find_configuration()
        say_aside(f"configuration: {file or 'no mergewise.toml found here or above'}")


def config(
    command: Annotated[str, typer.Argument(help="Name of the command, such as ask or 'train utility'.")] = "ask",
    as_json: JsonOption = False,
) -> None:
    """Show every option and setting of a command with its value and its origin."""
    check_known("command", command, callbacks())
    given = {
        name: (value, str(file)) for file, by in configuration_files(quiet=True) for name, value in by[command].items()
    }
    rows = []
    for name, env, default in _known_settings(command):
        in_environment = from_environment(env)
        value, origin = (in_environment, env) if in_environment else given.get(name, (default, "default"))
        rows.append(
            {
                "name": "index" if name == "index_dir" else name.replace("_", "-"),
                "value": value,
                "origin": origin,
                "variable": env or None,
            }
        )
    if as_json:
        plain = str, int, float, list, type(None)
        say_json(
            [{**row, "value": row["value"] if isinstance(row["value"], plain) else str(row["value"])} for row in rows]
        )
        return
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        value = "" if row["value"] is None else row["value"]
        say(f"{row['name']:{width}}  {value}  ({row['origin']})", style="" if row["origin"] != "default" else "dim")


def _known_settings(command: str) -> list[tuple[str, str, Any]]:
    """Return the name, the environment variable and the default of each option and setting of a command."""
    group, _, word = command.rpartition(" ")
    found = COMMANDS[group].commands[word] if group else COMMANDS[word]
    options = [(one.name, one.envvar or "", one.default) for one in found.params if one.param_type_name == "option"]
    settings = [
        (name, variable(name), default) for name, (_, default) in getattr(found.callback, "settings", {}).items()
    ]
    return [one for one in [*options, *settings] if one[0] not in ("help", "ctx")]


def main() -> None:
    """Run the command and exit with its code.

    The process skips Python's clean-up at exit, which takes longer than many commands. Changes of an index are complete by then,
    and temporary folders are removed.
    """
    for stream in (sys.stdout, sys.stderr):
        # escape the characters that the terminal's encoding lacks
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # the matrices of a command are small: further threads of numpy's BLAS would only wait, at 6 % of the run time
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # LanceDB warns of what this program handles itself
    os.environ.setdefault("LANCEDB_LOG", "error")
    # objects made by imports are never garbage: collecting among them costs a tenth of the run time
    gc.set_threshold(50_000, 20, 20)
    code = run()
    if "mergewise.tracing" in sys.modules:
        from mergewise.extend import send_spans

        send_spans()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # the reader of the pipe closed it
        code = code or 1
    os._exit(code)


def run() -> int:
    """Run the command. An error prints one line and a hint.

    Returns:
        0 for success, 1 if the work failed or nothing was found, 2 for wrong usage.
    """
    log = logging.StreamHandler()
    log.setFormatter(PrintableFormatter())
    logging.getLogger("mergewise").addHandler(log)
    if sys.stderr.isatty():
        logging.getLogger("mergewise.waiting").setLevel(logging.INFO)
    try:
        # shell completion works without the configuration, so that a half-edited file cannot break it
        defaults: JsonDict = {}
        if "_MERGEWISE_COMPLETE" not in os.environ:
            for name, options in configuration().items():
                group, _, command = name.rpartition(" ")
                (defaults.setdefault(group, {}) if group else defaults)[command] = options
        typer.main.get_command(app)(default_map=defaults, prog_name="mergewise")
    except MergewiseError as error:
        say_error(error.message, error.hint)
        return error.exit_code
    except (OSError, MemoryError) as error:
        from mergewise.extend import machine_advice

        if not (advice := machine_advice(error)):
            raise
        say_error(str(error) or "out of memory", advice)
        return 1
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    return 0


def callbacks() -> dict[str, Any]:
    """Return the functions behind the commands, by name. A command of a group has both words in its name."""
    found = {}
    for name, command in COMMANDS.items():
        for one, part in getattr(command, "commands", {"": command}).items():
            found[f"{name} {one}".rstrip()] = part.callback.__wrapped__
    return found


def configuration() -> JsonDict:
    """Return the options that the configuration files set, by command. The nearest file overrides the user's own."""
    merged: JsonDict = {}
    for _, options in configuration_files():
        for command, given in options.items():
            merged[command] = {**merged.get(command, {}), **given}
    return merged


def configuration_files(*, quiet: bool = False) -> list[tuple[Path, JsonDict]]:
    """List the configuration files with the options that each sets, by command. A later file overrides an earlier one.

    Paths in the user's own file, and in a file above the working directory, are relative to the file's folder. Options that the
    nearest file must not set are dropped with a warning, unless `quiet`.
    """
    own, nearest = existing_configuration(), find_configuration()
    if own is None and nearest is None:
        # the names of all options are not needed: leave the modules of the other commands alone
        return []
    known = {
        command: {
            name: Path in (hint, *get_args(hint)) for name, hint in get_type_hints(callback).items() if name != "return"
        }
        for command, callback in callbacks().items()
    }
    files = [] if own is None else [(own, read_configuration(own, known, own.parent))]
    if nearest is None or (own is not None and os.path.realpath(nearest) == os.path.realpath(own)):
        return files
    local = read_configuration(nearest, known, nearest.parent if nearest.parent != working_directory() else None)
    trusted = [] if own is None else trusted_folders(own)
    if not any(nearest.parent.resolve().is_relative_to(folder) for folder in trusted):
        local = _without_harm(nearest, local, quiet)
    return [*files, (nearest, local)]


def _without_harm(file: Path, options: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Return the options that an untrusted file may set, and warn about the others."""
    allowed = {command: harmless(given, file.parent) for command, given in options.items()}
    refused = {name for command, given in options.items() for name in given.keys() - allowed[command].keys()}
    if refused and not quiet:
        folder, own = file.parent.resolve(), own_configuration()
        say_warning(f"{file} may not set {', '.join(sorted(refused))}: ignored, because the folder is not trusted")
        say_aside(f'  use the command line or the environment, or write {TRUST} = ["{folder}"] into {own}')
    return allowed
