"""`mcp`: an index for programs that speak the Model Context Protocol, by standard input and output."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from mergewise import defaults
from mergewise.cli import options
from mergewise.cli.asking import IndexModelOptions
from mergewise.cli.output import PrintableFormatter
from mergewise.cli.serving import check_extra


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
