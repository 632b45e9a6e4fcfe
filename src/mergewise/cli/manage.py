"""Commands that make, show and mend an index: `index`, `info`, `remove`, `check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mergewise.cli.markers import say_markers
from mergewise.cli.options import (
    CHAT,
    DEFAULT_INDEX,
    EmbedderOption,
    IndexOption,
    JsonOption,
    PriceInOption,
    PriceOutOption,
)
from mergewise.cli.output import say, say_aside, say_error, say_json
from mergewise.cli.places import one_line
from mergewise.cli.progress import working
from mergewise.cli.triplets import say_triplets
from mergewise.cli.watching import follow
from mergewise.errors import UsageError
from mergewise.jsonable import info_json, problem_json, report_json
from mergewise.types import AddReport, DocumentInfo, Duplicate

if TYPE_CHECKING:
    from mergewise.engine import Index
    from mergewise.readers.apart import Limits
    from mergewise.store.views import Estimate

NAMED = 10
"""Duplicates that are named; the others are counted."""
NO_SUFFIX = "without a suffix"
MANIFEST = "manifest.json"


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
        str,
        typer.Option(
            envvar="MERGEWISE_CHAT", help="Who writes summaries, markers and triplets: extractive, or openai:MODEL."
        ),
    ] = CHAT,
    sync: Annotated[
        bool, typer.Option("--sync", help="Documents whose files are gone from these folders leave the index.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --sync: only say what would be added, replaced, moved and removed. "
            "With --chat: only say what its calls would cost.",
        ),
    ] = False,
    price_in: PriceInOption = 0.0,
    price_out: PriceOutOption = 0.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Synchronise now and after every change, until Ctrl-C.")
    ] = False,
    apart: Annotated[
        bool,
        typer.Option(
            "--apart/--no-apart",
            help="Read PDF, DOCX and the like in a process apart, so that a file that crashes its parser fails alone.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Index files and folders. Unchanged files are skipped, changed ones replaced; run it again after a kill."""
    import mergewise
    from mergewise.engine import estimate
    from mergewise.readers.apart import Limits

    wanted = [view.strip() for view in views.split(",")]
    limits = Limits() if apart else None
    if dry_run and (watch or (chat == CHAT and not sync)):
        raise UsageError(
            "--dry-run goes with --sync, or with a chat model",
            "mergewise index DIR --sync --dry-run, or ... --chat openai:MODEL",
        )
    if chat != CHAT and (dry_run or price_in or price_out):
        settings = view_settings(wanted, assignments or (), chat)
        cost = estimate(index_dir, *paths, views=wanted, settings=settings, chat=chat, limits=limits)
        say_cost(cost, price_in, price_out, as_json=as_json and dry_run and not sync)
        if dry_run and not sync:
            return
    if dry_run:
        opened = mergewise.open(index_dir, embedder=embedder, create=False)
        say_outcome(opened.sync(*paths, dry_run=True), len(opened), index_dir, as_json, dry_run=True)
        return
    if not any(path.exists() for path in paths):
        _refuse_absent(paths, index_dir)
    settings = view_settings(wanted, assignments or (), chat)
    with working("Indexing") as advance:
        opened = mergewise.open(
            index_dir, views=wanted, settings=settings, embedder=embedder, chat=chat, progress=advance
        )
    if watch:
        follow(
            paths, index_dir, lambda: say_outcome(_synchronised(opened, paths, limits), len(opened), index_dir, as_json)
        )
        return
    if sync:
        report = _synchronised(opened, paths, limits)
    else:
        with working("Indexing") as advance:
            report = opened.add(*paths, progress=advance, limits=limits)
    say_outcome(report, len(opened), index_dir, as_json)
    if report.failed and not report.added + report.replaced + report.unchanged + report.moved:
        raise typer.Exit(1)


def say_cost(cost: Estimate, price_in: float, price_out: float, *, as_json: bool) -> None:
    """What the chat model is to be paid for, on standard error; alone, as JSON or for people, on standard output."""
    usage = cost.usage
    priced = bool(price_in or price_out)
    if as_json:
        say_json(
            {
                "documents": cost.documents,
                "calls": usage.calls,
                "kept": cost.kept,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": usage.cost(price_in, price_out) if priced else None,
            }
        )
        return
    money = f", cost {usage.cost(price_in, price_out):.4f}" if priced else ""
    say_aside(
        f"{cost.documents} documents: {usage.calls} calls, about {usage.input_tokens} tokens to read and "
        f"{usage.output_tokens} to write{money}; {cost.kept} calls are answered already"
    )


def _refuse_absent(paths: Sequence[Path], index_dir: Path) -> None:
    """Where nothing of what is named exists, no index is made of it; one that stands says so in its report."""
    if (index_dir / MANIFEST).exists():
        return
    for path in paths:
        say_error(f"not indexed: {path}: no such file")
    raise typer.Exit(1)


def _synchronised(opened: Index, paths: Sequence[Path], limits: Limits | None) -> AddReport:
    with working("Indexing") as advance:
        return opened.sync(*paths, progress=advance, limits=limits)


def view_settings(views: Sequence[str], assignments: Sequence[str], chat: str) -> dict[str, Any]:
    """Settings of views out of `VIEW.NAME=VALUE`; where a chat model is named, a view may have others by default.

    A view of which nothing is said has none: those that stand, or its default ones.
    """
    from mergewise.designs import VIEWS
    from mergewise.designs.specs import with_parameters
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


def say_outcome(
    report: AddReport, total: int, index_dir: Path, as_json: bool = False, *, dry_run: bool = False
) -> None:
    if as_json:
        say_json(report_json(report))
    else:
        say_report(report, total, index_dir, dry_run=dry_run)


def say_report(report: AddReport, total: int, index_dir: Path, *, dry_run: bool = False) -> None:
    for failure in report.failed:
        say_error(f"not indexed: {failure.source}: {failure.reason}")
    for change in report.changes if dry_run else ():
        was = f" (was {change.was})" if change.was else ""
        say(one_line(f"would be {change.action}: {change.id}{was}"))
    for copy in report.duplicates[:NAMED]:
        say(one_line(f"the same as {copy.same_as}: {copy.id}"))
    if len(report.duplicates) > NAMED:
        say(f"... and {len(report.duplicates) - NAMED} more that say the same as another document")
    if report.left_out:
        say(f"left out: {', '.join(f'{count} {suffix or NO_SUFFIX}' for suffix, count in report.left_out)}")
    counts = [f"{report.added} added", f"{report.replaced} replaced", f"{report.unchanged} unchanged"]
    counts += [f"{report.moved} moved"] if report.moved else []
    counts += [f"{report.removed} removed"] if report.removed else []
    would = "a dry run, nothing was changed: " if dry_run else ""
    say(f"{would}{', '.join(counts)}, {len(report.failed)} failed; {total} documents in {index_dir}")


def info(
    index_dir: IndexOption = DEFAULT_INDEX,
    documents: Annotated[bool, typer.Option("--documents", help="List the documents.")] = False,
    markers: Annotated[
        bool, typer.Option("--markers", help="How markers came to be: coverage, attempts, support, lengths.")
    ] = False,
    triplets: Annotated[
        bool, typer.Option("--triplets", help="How triplets came to be: who made them, how many, what was not taken.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What an index holds."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    if markers:
        say_markers(opened, as_json)
        return
    if triplets:
        say_triplets(opened, as_json)
        return
    counts = opened.store.reader().row_counts()
    views = {name: rows for name, rows in counts.items() if name != "documents"}
    held = opened.documents()
    contents = contents_of(held, opened.duplicates(), index_dir)
    listed = held if documents else None
    if as_json:
        manifest = opened.manifest
        say_json(info_json(counts["documents"], views, manifest.embedder, manifest.format, listed, contents))
        return
    say(f"{counts['documents']} documents in {index_dir}, embedder {opened.manifest.embedder}")
    say_contents(contents)
    for name, rows in views.items():
        say(f"  {name}: {rows} rows")
    for name in opened.manifest.views:
        if lacking := opened.store.missing(name):
            say(f"  the view {name!r} is being added: {len(lacking)} documents lack it")
    for document in listed or ():
        named = one_line(f"{document.id}  {document.title}")
        say(f"{named}  ({document.characters} characters, {document.leaves} leaves)")


def contents_of(held: Sequence[DocumentInfo], copies: Sequence[Duplicate], index_dir: Path) -> dict[str, Any]:
    """Formats, sizes, dates and duplicates of what an index holds, as JSON; dates in UTC."""
    from datetime import UTC, datetime

    def day(seconds: float | None) -> str | None:
        try:
            return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
        except (OverflowError, ValueError, OSError):  # a time that no calendar has
            return None

    files = [document.origin for document in held if document.origin is not None]
    formats = Counter(PurePosixPath(file.source).suffix.lower() or NO_SUFFIX for file in files)
    dates = [file.modified for file in files]
    return {
        "formats": dict(formats.most_common()),
        "without_file": len(held) - len(files),
        "characters": sum(document.characters for document in held),
        "bytes": sum(file.bytes for file in files),
        "index_bytes": sum(map(_size_of, index_dir.rglob("*"))),
        "oldest": day(min(dates, default=None)),
        "newest": day(max(dates, default=None)),
        "changed": day((index_dir / MANIFEST).stat().st_mtime),
        "duplicates": [{"id": copy.id, "same_as": copy.same_as} for copy in copies],
    }


def _size_of(path: Path) -> int:
    """0 for a folder, and for a file that a writer has just dropped."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def say_contents(contents: dict[str, Any]) -> None:
    formats = [f"{count} {suffix}" for suffix, count in contents["formats"].items()]
    formats += [f"{contents['without_file']} without a file"] if contents["without_file"] else []
    say(f"  formats: {', '.join(formats) or 'none'}")
    sizes = f"{contents['characters']} characters, {_megabytes(contents['bytes'])} of files"
    say(f"  sizes: {sizes}, {_megabytes(contents['index_bytes'])} of index")
    if contents["oldest"] is not None and contents["newest"] is not None:
        say(f"  files changed: {contents['oldest'][:10]} to {contents['newest'][:10]}")
    say(f"  index changed: {contents['changed']}")
    for copy in contents["duplicates"][:NAMED]:
        say(f"  the same as {copy['same_as']}: {copy['id']}")
    if len(contents["duplicates"]) > NAMED:
        say(f"  ... and {len(contents['duplicates']) - NAMED} more that say the same as another document")


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def remove(
    wanted: Annotated[
        list[str],
        typer.Argument(metavar="DOC_ID...", help="Ids as `info --documents` lists them, folders, or patterns of ids."),
    ],
    index_dir: IndexOption = DEFAULT_INDEX,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove documents with all their rows: by id, by folder, or by a pattern such as 'docs/*.txt'."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    found = opened.find(*wanted)
    unknown = [one for one, ids in found.items() if not ids]
    ids = list(dict.fromkeys(doc_id for of_one in found.values() for doc_id in of_one))
    removed = len(ids) if dry_run else opened.remove(ids)
    if as_json:
        say_json({"removed": removed, "ids": ids, "unknown": unknown})
    else:
        for doc_id in ids if dry_run else ():
            say(one_line(f"would be removed: {doc_id}"))
        left = f"{len(opened)} documents left"
        say(f"a dry run, nothing was changed: {removed} to be removed" if dry_run else f"{removed} removed; {left}")
    for one in unknown:
        say_error(f"nothing in the index is called {one}", "`mergewise info --documents` lists the ids")
    if not ids:
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
            say(one_line(f"{problem.doc_id}: {problem.what}" if problem.doc_id else problem.what))
        say("all invariants hold" if not problems else f"{len(problems)} problems")
    if problems:
        if not repair:
            say_error("the index is damaged", "`mergewise check --repair` mends what can be mended")
        raise typer.Exit(1)
