"""`serve` and `mcp`, and the commands of the group `server` that look after a server's data: tokens, backup and restore."""

from __future__ import annotations

import logging
import shlex
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mergewise import defaults
from mergewise.cli import options
from mergewise.cli.asking import IndexModelOptions
from mergewise.cli.configuration import permitted_embedder
from mergewise.cli.output import PrintableFormatter, say, say_aside, say_json, say_warning
from mergewise.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from mergewise.server.configuration import ServerConfig
    from mergewise.server.records import Scope
    from mergewise.server.state import State
    from mergewise.server.targets import ServedPlace

app = typer.Typer(name="server", help="Look after a server's data: tokens, backup and restore.", no_args_is_help=True)
_DAY = 86_400.0

DataArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Directory of the server's data, made where there is none; or an index that stands.",
        show_default="mergewise.index",
        envvar="MERGEWISE_SERVE_DATA",
    ),
]
ServedArgument = Annotated[
    Path | None,
    typer.Argument(
        help="What `mergewise serve` was given.", show_default="mergewise.index", envvar="MERGEWISE_SERVE_DATA"
    ),
]


def serve(
    data: DataArgument = None,
    docs: Annotated[
        list[Path] | None,
        typer.Option(
            "--docs", metavar="DIR", help="Folder to index, serve and keep in step; may be given several times."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="Port; 0 takes a free one.", show_default="8077")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes that answer.", show_default="one a core, at most 4")
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth/--no-auth", help="Ask for a token; without one only on a loopback address.")
    ] = True,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration.", show_default="DATA/serve.toml")
    ] = None,
    chat: Annotated[
        list[str] | None,
        typer.Option(
            "--chat",
            "-c",
            metavar="[NAME=]SPEC",
            envvar="MERGEWISE_CHAT",
            help="Chat model that may answer: openai:MODEL or hf:PATH; the first one is the default.",
            rich_help_panel=options.MODELS,
        ),
    ] = None,
    embedder: options.EmbedderOption = None,
) -> None:
    """Serve documents by HTTP: a page, an API, OpenAI's API, and MCP. `mergewise serve --docs FOLDER` is enough to begin."""
    check_extra()
    from mergewise.server.logs import log_as_json
    from mergewise.server.supervisor import Supervisor, token_file

    place = _place(data, docs or [])
    settings = server_config(
        place, config, chat or (), embedder, host=host, port=port, workers=workers, needs_token=auth
    )

    def say_where(url: str, secret: str | None) -> None:
        say(f"{url}/#t={secret}" if secret else url)
        if secret:
            say_aside(f"this address holds the token, which is kept in {token_file(settings.data)}", None)
        elif not settings.needs_token:
            say_warning("everybody on this machine may read, write and remove: --no-auth")
        say_aside("Ctrl-C ends it", None)

    log_as_json()
    say_aside("starting", None)
    Supervisor(settings, on_ready=say_where).run()


@options.with_options
def mcp(
    strategy: options.StrategyOption = defaults.STRATEGY,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the program add texts and remove documents.")
    ] = False,
    *,
    common: IndexModelOptions,
) -> None:
    """Serve an index to a program that starts this command itself, such as Claude Desktop, VS Code or Cursor."""
    check_extra()
    from mergewise.server.mcp.library import serve_index

    # the SDK's own log, beside ours on standard error
    log = logging.StreamHandler()
    log.setFormatter(PrintableFormatter())
    logging.getLogger("mcp").addHandler(log)
    with common.open_index() as index:
        serve_index(index, common.index_dir, strategy, writes=allow_writes)


def check_extra() -> None:
    """Raises MissingExtra where a package of the extra is not installed."""
    try:
        import fastapi  # noqa: F401
        import mcp  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("serving", "serve", error) from error


def server_config(
    place: ServedPlace, file: Path | None, chats: Any = (), embedder: str | None = None, **flags: Any
) -> ServerConfig:
    """What the server is told by its configuration, the environment and the command line."""
    from dataclasses import replace

    from mergewise.server.configuration import ModelConfig, load_config

    named = dict(_named_chat(spec) for spec in chats if spec != "extractive")
    # a folder that is served by one command is followed
    watch = True if any(one.folders for one in place.collections.values()) else None
    collections = {
        name: replace(one, embedder=embedder or (permitted_embedder(one.path) if one.path is not None else None))
        for name, one in place.collections.items()
    }
    models = {name: ModelConfig(spec) for name, spec in named.items()}
    return load_config(
        place.data, file, flags={**flags, "chats": models or None, "collections": collections or None, "watch": watch}
    )


def _named_chat(spec: str) -> tuple[str, str]:
    """`NAME=SPEC`, or a spec whose model is the name."""
    name, equals, rest = spec.partition("=")
    return (name, rest) if equals and ":" not in name else (spec.partition(":")[2] or spec, spec)


def _place(data: Path | None, docs: list[Path]) -> ServedPlace:
    from mergewise.server.configuration import check_directory
    from mergewise.server.targets import served_place

    for path in (*docs, *([] if data is None else [data])):
        check_directory("what is to be served is", path)
    return served_place(None if data is None else options.in_this_folder(data), docs)


def _state(data: Path | None) -> State:
    """The state of a server that was started once."""
    from mergewise.server.state import State

    place = _place(data, [])
    database = place.data / "server.sqlite"
    if not database.exists():
        raise UsageError(
            f"{place.data} holds no server's data", f"start it once: mergewise serve {shlex.quote(str(data or ''))}"
        )
    return State(database)


@app.command("add-token", cls=options.NamingCommand)
def add_token(
    data: ServedArgument = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            "-s",
            metavar="read|write|admin",
            help="What it may do; may be given several times.",
            show_default="read",
        ),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-n", metavar="NAME", help="Collection that it may see; none named: all of them."),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Who or what has it.")] = "",
    days: Annotated[
        float | None, typer.Option("--days", min=0, help="Days that it is valid.", show_default="without end")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0, help="Requests a second.", show_default="20")] = None,
) -> None:
    """Make a token, and print it: nobody can show it again."""
    with _state(data) as state:
        expires = None if days is None else time() + days * _DAY
        _, secret = state.add_token(
            cast("list[Scope]", scope or ["read"]), collections=collection, title=title, expires=expires, rate=rate
        )
    say(secret)


@app.command("tokens", cls=options.NamingCommand)
def tokens(data: ServedArgument = None, as_json: options.JsonOption = False) -> None:
    """List the tokens, without their secrets."""
    with _state(data) as state:
        found = state.tokens()
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
    token: Annotated[str, typer.Argument(help="Id of the token, as `tokens` lists it.", show_default=False)],
    data: ServedArgument = None,
) -> None:
    """Take a token back: it is refused from now on."""
    with _state(data) as state:
        if not state.remove_token(token):
            raise UsageError(f"there is no token {token!r}", "`mergewise server tokens` lists them")


@app.command("backup", cls=options.NamingCommand)
def backup(
    file: Annotated[Path, typer.Argument(help="File to write.", show_default=False)], data: ServedArgument = None
) -> None:
    """Write a server's data to one file, also while it runs: tokens, jobs, originals and its indexes."""
    from mergewise.server.backup import write_backup

    elsewhere = write_backup(_place(data, []).data, file)
    say(f"{file}: {file.stat().st_size:,} bytes")
    if elsewhere:
        say_warning(f"not in it, as these indexes stand elsewhere: {', '.join(elsewhere)}")


@app.command("restore", cls=options.NamingCommand)
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="New directory of data.", show_default=False)],
) -> None:
    """Make a server's data out of a backup, in a new directory."""
    from mergewise.server.backup import read_backup
    from mergewise.server.configuration import check_directory

    check_directory("the new directory is", data)
    read_backup(data, file)
    say(f"restored; start it: mergewise serve {shlex.quote(str(data))}")
