"""The options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mergewise.defaults import BUDGET, CAUSAL, CHAT, MAX_TOKENS, RERANKER, SCORER, STRATEGY
from mergewise.errors import UsageError


def strategy_names(incomplete: str) -> list[str]:
    """For the shell's completion: the names of strategies, also behind a comma."""
    from mergewise.designs import STRATEGIES

    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in STRATEGIES if name.startswith(begun)]


QuestionArgument = Annotated[
    str, typer.Argument(help="The question, in quotes; - for one a line from standard input.", show_default=False)
]
TraceOption = Annotated[
    bool,
    typer.Option("--trace", "-t", help="Show what was taken, merged and left out, with the sentences, and why."),
]
StrategiesOption = Annotated[
    str, typer.Option("--strategies", "-s", help="Strategies, separated by commas.", autocompletion=strategy_names)
]
IndexOption = Annotated[Path, typer.Option("--index", "-i", envvar="MERGEWISE_INDEX", help="Directory of the index.")]
JsonOption = Annotated[bool, typer.Option("--json", "-j", help="Print JSON instead of text.")]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page to look at: one HTML file that needs no network."),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        "-e",
        envvar="MERGEWISE_EMBEDDER",
        help="minilm, none, st:NAME_OR_PATH or openai:MODEL. [default: minilm]",
    ),
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        envvar="MERGEWISE_STRATEGY",
        help="A strategy, also with parameters: 'auto-merge(mode=never)'.",
        autocompletion=strategy_names,
    ),
]


def _budget(text: str | int) -> int | str:
    if str(text) == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the budget is {text!r}", "give a number of tokens, or auto") from None


BudgetOption = Annotated[
    Any,  # int or "auto"
    typer.Option(
        "--budget",
        "-b",
        envvar="MERGEWISE_BUDGET",
        parser=_budget,
        metavar="TOKENS|auto",
        help="Most tokens that the context may hold; auto: weave stops where a further token gains little.",
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", help="SQL condition on id, title and metadata of documents: \"year > 2020 and lang = 'en'\"."
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MERGEWISE_TOKENIZER", help="Count tokens by this tokenizer.json instead of the one that ships."
    ),
]
ChatOption = Annotated[
    str,
    typer.Option(
        "--chat",
        "-c",
        envvar="MERGEWISE_CHAT",
        help="Who answers: extractive (sentences, verbatim), openai:MODEL or hf:PATH.",
    ),
]
CausalOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_CAUSAL",
        help="Whose next tokens the modes aed and replug choose: none (the chat model's, with hf:PATH) or hf:PATH.",
    ),
]
ScorerOption = Annotated[
    str,
    typer.Option(
        envvar="MERGEWISE_SCORER", help="What tells which chunks say the same (MergeRAG): lm, hf:PATH or openai:MODEL."
    ),
]
ThenOption = Annotated[
    str | None,
    typer.Option(envvar="MERGEWISE_THEN", help="Merge what the strategy selected: mergerag-asym or mergerag-sym."),
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        "--mode",
        "-m",
        envvar="MERGEWISE_MODE",
        help="How to answer: extractive, or by a chat model r&b (the default with one), "
        "r&l, full-ext, fil, full-e&f, r&b-ext, r&b-e&f, aed-best, short, recomp, naive, closed-book, or by a causal model "
        "aed, replug.",
    ),
]
RoundsOption = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        "-r",
        envvar="MERGEWISE_ROUNDS",
        help="Rounds of search; each asks for what is missing so far. [default: 1]",
    ),
]
# what --rounds was called: for one version
HopsOption = Annotated[int | None, typer.Option("--hops", envvar="MERGEWISE_HOPS", hidden=True)]
WindowOption = Annotated[
    int | None,
    typer.Option(envvar="MERGEWISE_WINDOW", help="Tokens that the chat model takes. [default: 32768]", min=1),
]
MaxTokensOption = Annotated[
    int, typer.Option(envvar="MERGEWISE_MAX_TOKENS", help="Most tokens that a chat model writes in one call.", min=1)
]
CacheOption = Annotated[
    Path | None, typer.Option(envvar="MERGEWISE_CACHE", help="Keep the chat model's answers in this directory.")
]
PriceInOption = Annotated[
    float, typer.Option(envvar="MERGEWISE_PRICE_IN", help="Price of a million tokens read, to show the cost.", min=0)
]
PriceOutOption = Annotated[
    float, typer.Option(envvar="MERGEWISE_PRICE_OUT", help="Price of a million tokens written.", min=0)
]

RerankerOption = Annotated[
    str,
    typer.Option(envvar="MERGEWISE_RERANKER", help="Who orders chunks: none, cross-encoder:PATH_OR_NAME or http:URL."),
]

DEFAULT_INDEX = Path("mergewise.index")

__all__ = ["BUDGET", "CAUSAL", "CHAT", "DEFAULT_INDEX", "MAX_TOKENS", "RERANKER", "SCORER", "STRATEGY"]
