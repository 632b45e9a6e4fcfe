"""The options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mergewise.defaults import BUDGET, STRATEGY

IndexOption = Annotated[Path, typer.Option("--index", envvar="MERGEWISE_INDEX", help="Directory of the index.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
EmbedderOption = Annotated[
    str | None,
    typer.Option(envvar="MERGEWISE_EMBEDDER", help="minilm, none, st:NAME_OR_PATH or openai:MODEL. [default: minilm]"),
]
StrategyOption = Annotated[
    str, typer.Option(envvar="MERGEWISE_STRATEGY", help="A strategy, also with parameters: 'auto-merge(mode=never)'.")
]
BudgetOption = Annotated[int, typer.Option(envvar="MERGEWISE_BUDGET", help="Most tokens that the context may hold.")]
WhereOption = Annotated[
    str | None,
    typer.Option(help="SQL condition on id, title and metadata of documents: \"year > 2020 and lang = 'en'\"."),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MERGEWISE_TOKENIZER", help="Count tokens by this tokenizer.json instead of the one that ships."
    ),
]

DEFAULT_INDEX = Path("mergewise.index")

__all__ = ["BUDGET", "DEFAULT_INDEX", "STRATEGY"]
