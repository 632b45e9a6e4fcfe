"""The commands `serve` and `mcp`, and the group `server`, which manages a server's data: tokens, backup and restore."""

from __future__ import annotations

import logging
import shlex
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mergewise import defaults
from mergewise.cli import options
from mergewise.cli.asking import IndexModelOptions
from mergewise.cli.configuration import permitted_embedder
from mergewise.cli.output import say, say_aside, say_json, say_warning
from mergewise.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from mergewise.server.configuration import ServerConfig
    from mergewise.server.records import Scope
    from mergewise.server.state import State
    from mergewise.server.targets import ServedPlace

app = typer.Typer(
    name="server",
    help="Manage a server's data: tokens, backup and restore.",
    no_args_is_help=True,
    cls=options.PlainGroup,
)


def _data_argument(help: str) -> Any:
    return typer.Argument(help=help, show_default="mergewise.index", envvar="MERGEWISE_SERVE_DATA")


DataArgument = Annotated[Path | None, _data_argument("Directory of the server's data, or an existing index.")]
ServedArgument = Annotated[Path | None, _data_argument("Directory of a server's data, as given to `mergewise serve`.")]


def serve(
    data: DataArgument = None,
    docs: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Folder to index, serve and watch; may be repeated.")
    ] = None,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Follow links that lead out of the folders of --docs.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="Port to listen on; 0 picks a free port.", show_default="8077")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes that answer.", show_default="one per core, at most 4")
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth/--no-auth", help="Require a token; --no-auth needs a loopback address.")
    ] = True,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration file of the server.", show_default="DATA/serve.toml"),
    ] = None,
    chat: Annotated[
        list[str] | None,
        options.model_option(
            "chat",
            "Chat model: openai:MODEL or hf:PATH; may be repeated, the first is the default.",
            "-c",
            metavar="[NAME=]SPEC",
        ),
    ] = None,
    embedder: options.EmbedderOption = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Ray cluster that searches the index.")] = None,
) -> None:
    """Serve documents over HTTP: a web page, an API, OpenAI's API and MCP. Needs the extra serve.

    Start with `mergewise serve --docs FOLDER`. The directory of the data is created if it does not exist.
    """
    check_extra()
    from mergewise.server.configuration import missing_parts
    from mergewise.server.logs import log_as_json
    from mergewise.server.processes import Supervisor, saved_token, token_file

    place = _place(data, docs or [], follow_links)
    flags = {"host": host, "port": port, "workers": workers, "needs_token": auth, "ray": ray}
    settings = server_config(place, config, chat or (), embedder, **flags)

    def say_where(url: str, secret: str | None) -> None:
        if settings.role == "writer":
            say("running jobs")
            return
        is_shown = secret is not None and sys.stdout.isatty()
        say(f"{url}/#t={secret}" if is_shown else url)
        if is_shown:
            say_aside(f"the address contains the token, which is saved in {token_file(settings.data)}", None)
        elif not settings.needs_token:
            say_warning("--no-auth: every user of this machine may read, write and remove documents")
        elif saved_token(settings) is not None:
            say_aside(f"sign in with the token in {token_file(settings.data)}", None)
        else:
            named = "" if data is None else f" {shlex.quote(str(data))}"
            say_aside(
                f"sign in with a token; for a new one, run `mergewise server add-token{named} -s read -s write`", None
            )
        say_aside("press Ctrl-C to stop", None)

    for problem in missing_parts(settings):
        say_warning(problem)
    log_as_json()
    say_aside("starting", None)
    Supervisor(settings, on_ready=say_where).run()


@options.with_options
def mcp(
    strategy: options.StrategyOption = defaults.STRATEGY,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the program add and remove documents.")
    ] = False,
    *,
    common: IndexModelOptions,
) -> None:
    """Serve an index over MCP to programs such as Claude Desktop, VS Code or Cursor. Needs the extra serve and an index.

    The program starts this command itself.
    """
    check_extra()
    from mergewise.extend import token_counter
    from mergewise.server.mcp.library import LocalCallers, serve_index

    # the MCP SDK logs to standard error, next to our own log
    logging.getLogger("mcp").handlers = logging.getLogger("mergewise").handlers
    if sys.stdin.isatty():
        say_aside("waiting for an MCP client on standard input, which should start this command: see --help")
    callers = LocalCallers(common.open_index, common.index_dir, strategy)
    serve_index(callers, token_counter(common.tokenizer or "", common.chat), writes=allow_writes)


def check_extra() -> None:
    """Check that the packages of the extra are installed. Raises MissingExtra."""
    # the parent of a server's processes needs none of them, and they take 40 MB
    if not all(map(find_spec, ("fastapi", "mcp", "prometheus_client", "python_multipart", "uvicorn"))):
        raise MissingExtra("serving", "serve")


def server_config(
    place: ServedPlace, file: Path | None, chats: Any = (), embedder: str | None = None, **flags: Any
) -> ServerConfig:
    """Load the server's configuration from its file, the environment and the command line."""
    from dataclasses import replace

    from mergewise.server.configuration import ModelConfig, load_config

    models = {}
    for spec in chats:
        if spec != "extractive":
            # without a name, a model has its own
            name, equals, rest = spec.partition("=")
            is_named = equals and ":" not in name
            models[name if is_named else spec.partition(":")[2] or spec] = ModelConfig(rest if is_named else spec)
    # folders named on the command line are watched
    watch = True if any(one.folders for one in place.collections.values()) else None
    collections = {
        name: replace(one, embedder=embedder or (permitted_embedder(one.path) if one.path is not None else None))
        for name, one in place.collections.items()
    }
    return load_config(
        place.data, file, flags={**flags, "chats": models or None, "collections": collections or None, "watch": watch}
    )


def _place(data: Path | None, docs: list[Path], follow_links: bool = False) -> ServedPlace:
    from mergewise.server.configuration import check_directory
    from mergewise.server.targets import served_place

    for path in docs:
        check_directory("folder of documents", path)
    return served_place(None if data is None else options.in_this_folder(data), docs, follow_links)


def _state(data: Path | None) -> State:
    """Open the state of a server that was started before."""
    from mergewise.server.state import DATABASE_FILE, State

    config = server_config(_place(data, []), None)
    if config.database is None and not (config.data / DATABASE_FILE).exists():
        raise UsageError(
            f"no server data in {config.data}", f"start the server once: mergewise serve {shlex.quote(str(data or ''))}"
        )
    return State.of(config)


@app.command("add-token", cls=options.NamingCommand)
def add_token(
    data: ServedArgument = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            "-s",
            metavar="read|write|feedback|admin",
            help="Permission of the token; may be repeated.",
            show_default="read",
        ),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", "-n", metavar="NAME", help="Collection that the token may access; all by default."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Owner or purpose of the token.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0, help="Days until the token expires.", show_default="never")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0, help="Maximum requests per second.", show_default="20")] = None,
) -> None:
    """Create a token and print it. It cannot be shown again."""
    with _state(data) as state:
        expires = None if days is None else time() + days * 86_400.0
        _, secret = state.tokens.add(
            cast("list[Scope]", scope or ["read"]), collections=collection, title=title, expires=expires, rate=rate
        )
    say(secret)


@app.command("tokens", cls=options.NamingCommand)
def tokens(data: ServedArgument = None, as_json: options.JsonOption = False) -> None:
    """List the tokens without their secrets."""
    with _state(data) as state:
        found = state.tokens.all()
    if as_json:
        say_json([token.as_dict() for token in found])
        return
    for token in found:
        among = "all collections" if token.collections is None else ", ".join(sorted(token.collections))
        until = (
            "" if token.expires is None else f"until {datetime.fromtimestamp(token.expires, UTC):%Y-%m-%d %H:%M} UTC"
        )
        say("  ".join(filter(None, (token.id, "+".join(token.as_dict()["scopes"]), among, until, token.title))))


@app.command("remove-token", cls=options.NamingCommand)
def remove_token(
    token: Annotated[str, typer.Argument(help="Id of the token (see `tokens`).")], data: ServedArgument = None
) -> None:
    """Revoke a token. The server refuses it from now on."""
    with _state(data) as state:
        if not state.tokens.remove(token):
            raise UsageError(f"unknown token: {token!r}", "run `mergewise server tokens` for a list")


@app.command("backup", cls=options.NamingCommand)
def backup(file: Annotated[Path, typer.Argument(help="Backup file to write.")], data: ServedArgument = None) -> None:
    """Back up a server's data to one file, even while it runs: tokens, jobs, original files and indexes."""
    from mergewise.server.backup import write_backup

    elsewhere = write_backup(_place(data, []).data, file)
    say(f"{file}: {file.stat().st_size:,} bytes")
    if elsewhere:
        say_warning(f"not in the backup, because these indexes are elsewhere: {', '.join(elsewhere)}")


@app.command("restore", cls=options.NamingCommand)
def restore(
    file: Annotated[Path, typer.Argument(help="Backup file.")],
    data: Annotated[Path, typer.Argument(help="New directory for the data.")],
) -> None:
    """Restore a server's data from a backup into a new directory."""
    from mergewise.server.backup import read_backup
    from mergewise.server.configuration import check_directory

    check_directory("directory", data)
    read_backup(data, file)
    say(f"restored; start the server: mergewise serve {shlex.quote(str(data))}")
