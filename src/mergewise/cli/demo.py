"""The command `demo`: an index of a folder, or of the project's manual, and answers from it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from mergewise.cli.answering import say_answer
from mergewise.cli.manage import say_report
from mergewise.cli.output import say
from mergewise.cli.places import DocumentNames
from mergewise.cli.progress import characters, progress
from mergewise.errors import UsageError
from mergewise.extend import STRATEGY, defaults

QUESTIONS = ("What happens if indexing is interrupted?", "Can a context exceed its budget?")


def demo(
    docs: Annotated[
        Path | None, typer.Argument(help="Folder or file to index; the project's manual by default.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Question to ask.")] = None,
) -> None:
    """Index documents into a temporary directory and answer questions with quoted, cited sentences."""
    import mergewise

    sources = [docs] if docs else manual_folders()
    with TemporaryDirectory(prefix="mergewise-demo-") as folder:
        index_dir = Path(folder) / "index"
        opened = mergewise.open(index_dir)
        with progress("Indexing", characters) as advance:
            report = opened.add(*sources, progress=advance)
        say_report(report, len(opened), index_dir)
        if not len(opened):
            raise typer.Exit(1)
        # any folder can answer a question about the topic of its longest document
        longest = max(opened.documents(), key=lambda document: document.characters)
        for text in [question] if question else QUESTIONS if docs is None else [f"What is {longest.title}?"]:
            say(f"\n? {text}", style="cyan")
            say_answer(opened.ask(text, strategy=STRATEGY, budget=defaults.BUDGET), DocumentNames(opened.files))
        say(
            f"\nYour own documents: mergewise index {docs or 'FOLDER'}, then mergewise ask QUESTION, or mergewise serve"
        )


def manual_folders() -> list[Path]:
    """Return the folders of the manual that `demo` indexes, from an installed package or a checkout."""
    package = Path(__file__).parents[1]
    for manual in (package / "manual", package.parents[1] / "docs"):
        folders = [manual / name for name in ("tutorials", "how-to")]
        if all(folder.is_dir() for folder in folders):
            return folders
    raise UsageError("manual not installed", "name a folder: mergewise demo PATH")
