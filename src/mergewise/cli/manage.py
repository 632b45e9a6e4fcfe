"""Commands that make, show and mend an index: `index`, `info`, `remove`, `check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mergewise.cli.options import CHAT, DEFAULT_INDEX, EmbedderOption, IndexOption, JsonOption
from mergewise.cli.output import progress, say, say_error, say_json
from mergewise.errors import UsageError
from mergewise.jsonable import info_json, problem_json, report_json
from mergewise.types import AddReport


def index(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", show_default=False)],
    index_dir: IndexOption = DEFAULT_INDEX,
    embedder: EmbedderOption = None,
    views: Annotated[str, typer.Option(help="Views to build, separated by commas.")] = "leaf",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="VIEW.NAME=VALUE", help="A setting of a view, such as slice.chunk=300."),
    ] = None,
    chat: Annotated[
        str, typer.Option(envvar="MERGEWISE_CHAT", help="Who writes summaries: extractive, or openai:MODEL.")
    ] = CHAT,
    as_json: JsonOption = False,
) -> None:
    """Index files and folders. Unchanged files are skipped, changed ones replaced; run it again after a kill."""
    import mergewise

    wanted = [view.strip() for view in views.split(",")]
    settings = view_settings(wanted, assignments or (), chat)
    with progress("Indexing") as advance:
        opened = mergewise.open(
            index_dir, views=wanted, settings=settings, embedder=embedder, chat=chat, progress=advance
        )
        report = opened.add(*paths, progress=advance)
    if as_json:
        say_json(report_json(report))
    else:
        say_report(report, len(opened), index_dir)
    if report.failed and not report.added + report.replaced + report.unchanged:
        raise typer.Exit(1)


def view_settings(views: Sequence[str], assignments: Sequence[str], chat: str) -> dict[str, Any]:
    """Settings of views out of `VIEW.NAME=VALUE`; where a chat model is named, a view may have others by default.

    A view of which nothing is said has none: those that stand, or its default ones.
    """
    from mergewise.assemble.specs import with_parameters
    from mergewise.index import VIEWS
    from mergewise.store.views import views_of

    given: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        view, dot, setting = assignment.partition(".")
        name, equals, value = setting.partition("=")
        if not (dot and equals):
            raise UsageError(f"{assignment!r} sets nothing", "write --set VIEW.NAME=VALUE, such as slice.chunk=300")
        given.setdefault(view.strip(), {})[name.strip()] = value.strip()
    settings = {}
    for known in views_of(VIEWS, [*views, *given]):
        chosen = {**(known.with_chat if chat != CHAT else {}), **given.get(known.name, {})}
        if chosen:
            settings[known.name] = with_parameters(known.settings(), chosen, f"the view {known.name}")
    return settings


def say_report(report: AddReport, total: int, index_dir: Path) -> None:
    for failure in report.failed:
        say_error(f"not indexed: {failure.source}: {failure.reason}")
    counts = (
        f"{report.added} added, {report.replaced} replaced, {report.unchanged} unchanged, {len(report.failed)} failed"
    )
    say(f"{counts}; {total} documents in {index_dir}")


def info(
    index_dir: IndexOption = DEFAULT_INDEX,
    documents: Annotated[bool, typer.Option("--documents", help="List the documents.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What an index holds."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    counts = opened.store.reader().row_counts()
    views = {name: rows for name, rows in counts.items() if name != "documents"}
    listed = opened.documents() if documents else None
    if as_json:
        say_json(info_json(counts["documents"], views, opened.manifest.embedder, opened.manifest.format, listed))
        return
    say(f"{counts['documents']} documents in {index_dir}, embedder {opened.manifest.embedder}")
    for name, rows in views.items():
        say(f"  {name}: {rows} rows")
    for name in opened.manifest.views:
        if lacking := opened.store.missing(name):
            say(f"  the view {name!r} is being added: {len(lacking)} documents lack it")
    for document in listed or ():
        say(f"{document.id}  {document.title}  ({document.characters} characters, {document.leaves} leaves)")


def remove(
    doc_ids: Annotated[list[str], typer.Argument(metavar="DOC_ID...", help="Ids as `info --documents` lists them.")],
    index_dir: IndexOption = DEFAULT_INDEX,
    as_json: JsonOption = False,
) -> None:
    """Remove documents with all their rows."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    removed = opened.remove(doc_ids)
    if as_json:
        say_json({"removed": removed})
    else:
        say(f"{removed} removed; {len(opened)} documents left")
    if removed < len(set(doc_ids)):
        say_error(f"{len(set(doc_ids)) - removed} of the ids are not in the index", "`mergewise info --documents`")
        raise typer.Exit(1)


def check(
    index_dir: IndexOption = DEFAULT_INDEX,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify every invariant of an index."""
    import mergewise

    problems = mergewise.open(index_dir, create=False).check(repair=repair)
    if as_json:
        say_json([problem_json(problem) for problem in problems])
    else:
        for problem in problems:
            say(f"{problem.doc_id}: {problem.what}" if problem.doc_id else problem.what)
        say("all invariants hold" if not problems else f"{len(problems)} problems")
    if problems:
        if not repair:
            say_error("the index is damaged", "`mergewise check --repair` mends what can be mended")
        raise typer.Exit(1)
