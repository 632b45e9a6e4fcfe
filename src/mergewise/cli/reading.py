"""The commands `grep`, `read` and `outline`, the tools of `mergewise.agents` for shells and pipes, and `skill`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.agents.results import BUDGET, LEAST
from mergewise.agents.tools import IndexDocuments, Tools
from mergewise.cli.options import DEFAULT_INDEX, IndexOption, JsonOption, with_options
from mergewise.cli.output import say, say_json
from mergewise.cli.settings import TokenizerSetting
from mergewise.cli.show import document_at
from mergewise.extend import run, token_counter
from mergewise.types import frozen

if TYPE_CHECKING:
    from mergewise import Index

BudgetOption = Annotated[int, typer.Option("--budget", "-b", min=LEAST, help="Maximum tokens of the output.")]


@frozen
class ReadingOptions:
    """Options of every command that reads documents."""

    index_dir: IndexOption = DEFAULT_INDEX
    tokenizer: TokenizerSetting = None

    def tools(self) -> tuple[Index, Tools]:
        import mergewise

        index = mergewise.open(self.index_dir, create=False)
        return index, Tools(IndexDocuments(index), token_counter(self.tokenizer or ""))


@with_options
def grep(
    pattern: Annotated[str, typer.Argument(help="Regular expression (RE2). Small letters match capitals, too.")],
    where: Annotated[str | None, typer.Option(help="Part of the documents' names, or a condition on them.")] = None,
    around: Annotated[int, typer.Option("--around", "-a", min=0, help="Lines to show before and after.")] = 0,
    budget: BudgetOption = BUDGET,
    as_json: JsonOption = False,
    *,
    common: ReadingOptions,
) -> None:
    """Print the lines of all documents that match. Exits with 1 if there are none. Needs an index."""
    _, tools = common.tools()
    found, note = run(tools.matches(pattern, where))
    if as_json:
        say_json(
            [
                {"doc": one.document.id, "line": one.line, "start": one.start, "end": one.end, "match": one.at}
                for one in found
            ]
        )
    else:
        say(tools.matches_text(found, note, around, budget))
    if not found:
        raise typer.Exit(1)


@with_options
def read(
    place: Annotated[str, typer.Argument(metavar="NAME[:LINE[-LINE]|#HEADING]", help="Document, lines or section.")],
    budget: BudgetOption = BUDGET,
    *,
    common: ReadingOptions,
) -> None:
    """Print the text of a document as far as the budget goes, and where it goes on. Needs an index."""
    index, tools = common.tools()
    say(run(tools.read("".join(document_at(index, place)), budget)))


@with_options
def outline(
    document: Annotated[str, typer.Argument(help="Name of the document, or a unique part of it.")],
    *,
    common: ReadingOptions,
) -> None:
    """Print the headings of a document with their lines and tokens. Needs an index."""
    index, tools = common.tools()
    say(run(tools.outline(document_at(index, document)[0])))


def skill(folder: Annotated[Path, typer.Argument(help="Folder of skills.")] = Path(".claude/skills")) -> None:
    """Write a skill that tells coding agents how to use these commands."""
    target = folder / "mergewise" / "SKILL.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text((files("mergewise.agents") / "skills/mergewise/SKILL.md").read_text("utf-8"), "utf-8")
    say(str(target))
