"""`mcp`: an index for programs that speak the Model Context Protocol, by standard input and output."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.asking import AskingOptions
from mergewise.cli.output import PrintableFormatter
from mergewise.cli.serving import check_extra


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedIndexOptions:
    """The index that is served, and the models that answer."""

    index_dir: options.IndexOption = options.DEFAULT_INDEX
    search: options.SearchOption = None
    embedder: options.NamedEmbedderOption = None
    chat: options.ChatOption = defaults.CHAT
    window: settings.WindowSetting = None
    cache: settings.CacheSetting = None
    prompts: options.PromptsOption = None
    timeout: settings.TimeoutSetting = None
    retries: settings.RetriesSetting = None
    reranker: options.RerankerOption = defaults.RERANKER
    weights: settings.WeightsSetting = None
    tokenizer: settings.TokenizerSetting = None


@options.with_options
def mcp(
    strategy: options.StrategyOption = defaults.STRATEGY,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the program add texts and remove documents.")
    ] = False,
    *,
    common: ServedIndexOptions,
) -> None:
    """Serve an index to a program that starts this command itself, such as Claude Desktop, VS Code or Cursor."""
    check_extra()
    from mergewise.server.mcp.library import serve_index

    # the SDK's own log, beside ours on standard error
    log = logging.StreamHandler()
    log.setFormatter(PrintableFormatter())
    logging.getLogger("mcp").addHandler(log)
    opened = AskingOptions(**{name: getattr(common, name) for name in common.__slots__})
    with opened.open_index() as index:
        serve_index(index, common.index_dir, strategy, writes=allow_writes)
