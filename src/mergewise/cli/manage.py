"""Commands that build, show, check and copy an index, from `index` to `prompts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.configuration import permitted_embedder
from mergewise.cli.output import (
    INEXACT,
    indexing_lock,
    outdated_line,
    say,
    say_aside,
    say_error,
    say_json,
    say_waiting,
    waiting_line,
)
from mergewise.cli.places import one_line
from mergewise.cli.progress import characters, progress
from mergewise.errors import MergewiseError, UsageError
from mergewise.extend import (
    EmbeddingOptions,
    IndexingOptions,
    info_json,
    number_ranges,
    problem_json,
    report_json,
    short_repr,
)
from mergewise.types import AddReport, Duplicate, MetadataValue

if TYPE_CHECKING:
    from mergewise import Estimate, Index
    from mergewise.extend import Manifest

NAMED = 10
"""Lines of a list that are printed; the rest are counted."""


@options.with_options
def index(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders, and addresses of sites, Git repositories and buckets. Default: compute missing vectors."
        ),
    ] = None,
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    embedder: options.EmbedderOption = None,
    views: options.ViewsOption = "leaf",
    assignments: options.SetOption = None,
    chat: options.WritingChatOption = defaults.CHAT,
    prompts: settings.PromptsSetting = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="Also remove documents whose files are gone or excluded by patterns.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the changes of --sync, or estimate the cost of --chat.")
    ] = False,
    price_in: settings.PriceInSetting = 0.0,
    price_out: settings.PriceOutSetting = 0.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Synchronise now and after each change, until Ctrl-C.")
    ] = False,
    sandbox: settings.SandboxSetting = True,
    file_seconds: settings.FileSecondsSetting = defaults.FILE_SECONDS,
    ocr: Annotated[bool, typer.Option("--ocr", help="Recognise text on scanned PDF pages (extra ocr).")] = False,
    ocr_pages: settings.OCRPagesSetting = defaults.OCR_PAGES,
    shards: Annotated[int | None, typer.Option(min=1, help="Number of shards of a new index.")] = None,
    *,
    given: IndexingOptions,
    patience: settings.Patience,
    as_json: options.JsonOption = False,
) -> None:
    """Index files, folders and sources. Unchanged files are skipped, so a stopped run can be repeated.

    Needs paths; the index is created if it does not exist. Without paths, missing vectors of the index are computed.
    """
    import mergewise
    from mergewise import Limits, estimate
    from mergewise.extend import is_address, place_of, view_settings

    embedder = embedder or permitted_embedder(index_dir)
    patience.set_patience()
    if not paths:
        if sync or watch or dry_run:
            raise UsageError("missing folder", "run `mergewise index DIR --sync`")
        opened = mergewise.open(index_dir, embedder=embedder, chat=chat, prompts=prompts, create=False)
        make_vectors(opened, None, given, as_json)
        return
    names = [view.strip() for view in views.split(",")]
    if ocr and not sandbox:
        raise UsageError("--ocr requires the sandbox", "leave out the setting sandbox = false")
    limits = Limits(seconds=file_seconds, ocr_pages=ocr_pages if ocr else 0) if sandbox else None
    metadata = _run_metadata(cast("Sequence[str]", given.metadata or ()))
    given = replace(given, include=given.include or (), exclude=given.exclude or (), metadata=metadata, limits=limits)
    if dry_run and (watch or (chat == defaults.CHAT and not sync)):
        raise UsageError(
            "--dry-run requires --sync or a chat model",
            "run `mergewise index DIR --sync --dry-run`, or add --chat openai:MODEL",
        )
    if chat != defaults.CHAT and (dry_run or price_in or price_out):
        chosen = view_settings(names, assignments or (), chat)
        cost = estimate(
            index_dir,
            *paths,
            views=names,
            settings=chosen,
            chat=chat,
            prompts=prompts,
            limits=limits,
            include=given.include,
            exclude=given.exclude,
            follow_links=given.follow_links,
        )
        say_cost(cost, price_in, price_out, as_json=as_json and dry_run and not sync)
        if dry_run and not sync:
            return
    if dry_run:
        opened = mergewise.open(index_dir, embedder=embedder, create=False)
        unread = replace(given, limits=None, dry_run=True)
        say_report(opened.sync(*paths, options=unread), len(opened), opened.store.place, as_json, dry_run=True)
        return
    # an existing index reports missing paths itself
    if not any(is_address(path) or Path(path).exists() for path in paths) and place_of(index_dir).known() is None:
        for path in paths:
            say_error(f"not indexed: {path}: no such file")
        raise typer.Exit(1)
    chosen = view_settings(names, assignments or (), chat)
    with progress("Indexing", characters) as advance:
        opened = mergewise.open(
            index_dir,
            views=names,
            settings=chosen,
            embedder=embedder,
            chat=chat,
            progress=advance,
            prompts=prompts,
            shards=shards,
        )

    def update() -> AddReport:
        with _indexing(opened), progress("Indexing", characters) as advance:
            step = opened.sync if sync or watch else opened.add
            return step(*paths, options=replace(given, progress=advance))

    if watch:
        if any(map(is_address, paths)):
            raise UsageError("--watch follows folders only", "run `mergewise index ADDRESS --sync` now and then")
        follow([*map(Path, paths)], index_dir, lambda: say_report(update(), len(opened), opened.store.place, as_json))
        return
    report = update()
    say_report(report, len(opened), opened.store.place, as_json)
    if line := outdated_line(len(opened.outdated_documents())):
        say_aside(line)
    say_waiting(opened)
    known = getattr(opened.embedder, "languages", None) if given.embed == "now" else None
    found = opened.store.reader().languages().items() if known else ()
    if unknown := [f"{count} {language}" for language, count in found if language not in {"und"}.union(known or ())]:
        say_aside(
            f"documents in languages that {opened.manifest.embedder} does not know: {', '.join(unknown)}; "
            "run `mergewise embed --embedder e5`"
        )
    has_none = not report.added + report.replaced + report.unchanged + report.updated + report.moved
    if has_none and not report.failed:
        hint = "check the folder and the patterns; name other files themselves, or add them with --include"
        say_error(f"no readable files in {', '.join(paths)}", hint)
    # nothing is lost with an empty file
    if has_none or any(failure.reason != "empty" for failure in report.failed):
        raise typer.Exit(1)


def embed(
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    embedder: options.EmbedderOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Change the embedder of an index, or compute missing vectors. Nothing is read again; a stopped run can be repeated."""
    import mergewise

    make_vectors(mergewise.open(index_dir, create=False), embedder, EmbeddingOptions(), as_json)


def make_vectors(opened: Index, embedder: str | None, given: EmbeddingOptions, as_json: bool) -> None:
    with _indexing(opened), progress("Indexing", characters) as advance:
        vectors = opened.embed(embedder=embedder, options=replace(given, progress=advance))
    if as_json:
        say_json(asdict(vectors))
        return
    count = f"vectors: {vectors.embedded:,} of {vectors.leaves:,} leaves"
    say(f"{count if opened.manifest.dimension else 'no vectors: embedder none'}, in {opened.store.place}")


def follow(folders: Sequence[Path], index_dir: Path, synchronise: Callable[[], None]) -> None:
    """Synchronise now, and after every burst of changes. An error is printed and does not end the watch."""
    from mergewise.extend import bursts

    try:
        for number, _ in enumerate(bursts(folders, [index_dir])):
            one_round(synchronise)
            if number == 0:
                say_aside(f"watching {', '.join(map(str, folders))}; press Ctrl-C to stop", None)
    except KeyboardInterrupt:
        say_aside("stopped watching", None)


def one_round(synchronise: Callable[[], None]) -> None:
    """Synchronise once; print any error."""
    try:
        synchronise()
    except MergewiseError as error:
        say_error(error.message, error.hint)
    except Exception as error:
        # the cause, such as a full disk, may be gone in the next round
        say_error(f"{type(error).__name__}: {error}")


@contextmanager
def _indexing(opened: Index) -> Iterator[None]:
    """Let other processes know that this one indexes, and report the saved work on Ctrl-C."""
    try:
        with ExitStack() as held:
            # an index may be in a bucket, or another process may index it, too
            with suppress(OSError):
                held.enter_context(indexing_lock(opened))
            yield
    except KeyboardInterrupt:
        vectors = opened.vectors()
        count = f", {vectors.embedded:,} of {vectors.leaves:,} leaves with vectors" if opened.manifest.dimension else ""
        say_error(f"interrupted: {len(opened)} documents saved{count}", "run the same command again to continue")
        raise


def _run_metadata(assignments: Sequence[str]) -> dict[str, MetadataValue]:
    """Parse the values of `--meta`, typed and named like front matter. Raises UsageError for invalid metadata."""
    from mergewise.extend import ADDING_KEYS, key_of, metadata_from, typed_value

    pairs: list[tuple[str, MetadataValue]] = []
    for assignment in assignments:
        name, sign, value = (part.strip() for part in assignment.partition("="))
        pair = (name, typed_value(name, value))
        if not sign or not metadata_from([pair]):
            hint = (
                "write --meta KEY=VALUE, such as --meta team=sales or --meta date=2024-05-01; the key must not be title"
            )
            is_date = key_of(name) in ("year", "date", "modified")
            expected = " (expected a date, such as 2024 or 2024-05-01)" if is_date else ""
            raise UsageError(f"invalid --meta: {short_repr(assignment)}{expected}", hint)
        if key_of(name) not in ADDING_KEYS and key_of(name) in {key_of(before) for before, _ in pairs}:
            raise UsageError(f"--meta sets {key_of(name)} twice", "give it one value")
        pairs.append(pair)
    return dict(metadata_from(pairs))


def say_cost(cost: Estimate, price_in: float, price_out: float, *, as_json: bool) -> None:
    """Print the estimated calls, tokens and cost: on standard error, or as JSON on standard output."""
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
        f"{cost.documents} documents: {usage.calls} calls, about {usage.input_tokens} input tokens and "
        f"{usage.output_tokens} output tokens{money}; {cost.kept} calls are cached"
    )


def say_report(report: AddReport, total: int, place: object, as_json: bool = False, *, dry_run: bool = False) -> None:
    if as_json:
        say_json(report_json(report))
        return
    for change in report.changes if dry_run else ():
        was = f" (was {change.was})" if change.was else ""
        say(one_line(f"would be {change.action}: {change.id}{was}"))
    _say_duplicates(report.duplicates)
    removed = [f"removed: {change.id}" for change in report.changes if change.action == "removed" and not dry_run]
    _say_some(removed, "removed")
    followed = any(link.followed for link in report.outward)
    what = "followed" if followed else "left out"
    remedy = "add `--exclude PATH` to leave out" if followed else "set follow-links = true in mergewise.toml to read"
    links = [f"link out of the folder, {what}: {link.link} -> {link.target}" for link in report.outward]
    _say_some(links, "such links", hint=f"{remedy} their files")
    _say_some(
        [
            f"no text on {'page' if len(one.pages) == 1 else 'pages'} {number_ranges(one.pages)} (a scan?): {one.source}"
            for one in report.textless
        ],
        "files with pages without text",
        hint="add `--ocr` to read scans; if pages remain, raise the settings ocr-pages and file-seconds",
    )
    gone = [f"no longer there, but in the index: {doc_id}" for doc_id in report.gone]
    remedy = "run `mergewise index FOLDER --sync` to remove documents without files, or `mergewise remove` for single documents"
    _say_some(gone, "documents without files", hint=remedy)
    if report.left_out:
        suffixes = [f"{count} {suffix or 'without a suffix'}" for suffix, count in report.left_out]
        say(f"left out: {', '.join(suffixes)} (add `--include '*.SUFFIX'` to read the text files of a suffix)")
    if report.excluded:
        say(f"left out by patterns: {report.excluded} files and folders")
    counts = [f"{report.added} added", f"{report.replaced} replaced", f"{report.unchanged} unchanged"]
    others = {"given metadata": report.updated, "moved": report.moved, "removed": report.removed}
    others["without files"] = len(report.gone)
    counts += [f"{number} {what}" for what, number in others.items() if number]
    would = "dry run, nothing changed: " if dry_run else ""
    say(f"{would}{', '.join(counts)}, {len(report.failed)} failed; {total} documents in {place}")
    # last, where a long run leaves them in sight
    for failure in report.failed:
        say_error(f"not indexed: {failure.source}: {failure.reason}")


def info(
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    documents: Annotated[bool, typer.Option("--documents", help="List the documents.")] = False,
    view: options.ViewOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the contents of an index."""
    import mergewise
    from mergewise import VIEWS
    from mergewise.extend import HybridReader, contents_of, views_of

    opened = mergewise.open(index_dir, create=False)
    if view is not None:
        (explained,) = views_of(VIEWS, [view])
        if explained.report is None:
            able = ", ".join(other.name for other in VIEWS.values() if other.report is not None)
            hint = f"run `mergewise info` to count its rows; reports exist for: {able}"
            raise UsageError(f"no report for the view {view!r}", hint)
        report = explained.report(HybridReader(opened.store.reader(), None, VIEWS).view(view))
        if as_json:
            say_json(report.as_dict())
            return
        for line in report.lines():
            say(line)
        return
    counts = opened.store.reader().row_counts()
    views = {name: rows for name, rows in counts.items() if name != "documents"}
    rows = opened.documents()
    contents = contents_of(rows, opened.duplicates(), opened.store.place.size())
    listed, outdated = rows if documents else None, opened.outdated_documents()
    has_exact = opened.store.reader().has_exact_names()
    if as_json:
        manifest = opened.manifest
        said = info_json(counts["documents"], views, manifest.embedder, manifest.format, listed, asdict(contents))
        say_json(
            {
                **said,
                "prompts": _own_prompts(manifest),
                "vectors": asdict(opened.vectors()),
                "outdated": outdated,
                "exact": has_exact,
            }
        )
        return
    say(f"{counts['documents']} documents in {opened.store.place}, embedder {opened.manifest.embedder}")
    formats = [f"{count} {suffix}" for suffix, count in contents.formats.items()]
    formats += [f"{contents.without_file} without a file"] if contents.without_file else []
    say(f"  formats: {', '.join(formats) or 'none'}")
    languages = [f"{count} {language}" for language, count in contents.languages.items()]
    say(f"  languages: {', '.join(languages) or 'unknown'}")
    if contents.metadata:
        say(f"  metadata: {', '.join(f'{count} {key}' for key, count in contents.metadata.items())}")
    files, index_size = (f"{size / 1_000_000:.1f} MB" for size in (contents.bytes, contents.index_bytes))
    say(f"  sizes: {contents.characters} characters, {files} of files, {index_size} of index")
    if contents.oldest is not None and contents.newest is not None:
        say(f"  files changed: {contents.oldest[:10]} to {contents.newest[:10]}")
    say(f"  index changed: {contents.changed}")
    _say_duplicates(contents.duplicates, "  ")
    for name, count in views.items():
        say(f"  {name}: {count} rows")
    if line := waiting_line(opened):
        say(f"  {line}")
    if not has_exact:
        say(f"  {INEXACT}")
    if outdated:
        say(f"  {outdated_line(len(outdated))}")
        _say_some(outdated, "such documents", indent="    ")
    for name, digest in _own_prompts(opened.manifest).items():
        say(f"  view {name!r}: written with your own prompt, {digest}")
    for name in opened.manifest.views:
        if lacking := opened.store.missing(name):
            say(f"  view {name!r}: being added, missing for {len(lacking)} documents")
    for document in listed or ():
        heading = one_line(f"{document.id}  {document.title}")
        say(f"{heading}  ({document.characters} characters, {document.leaves} leaves)")
        if document.metadata:
            fields = "; ".join(f"{key}: {value}" for key, value in document.metadata.items())
            say(f"    {shorten(one_line(fields), 200, placeholder=' ...')}")


def _own_prompts(manifest: Manifest) -> dict[str, str]:
    """Return the hashes of the user's own prompts, by the view that they write."""
    written = ((name, state.settings.get("prompt", "")) for name, state in manifest.views.items())
    return {name: digest for name, digest in written if digest}


def _say_duplicates(duplicates: Sequence[Duplicate], indent: str = "") -> None:
    _say_some([f"the same as {copy.same_as}: {copy.id}" for copy in duplicates], "duplicates", indent=indent)


def _say_some(lines: Sequence[str], rest: str, *, indent: str = "", hint: str = "") -> None:
    """Print the first lines, the number of the rest, and the hint."""
    for line in lines[:NAMED]:
        say(indent + one_line(line))
    if len(lines) > NAMED:
        say(f"{indent}... and {len(lines) - NAMED} more {rest}")
    if lines and hint:
        say(f"  {hint}")


def remove(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOC_ID...", help="Ids (see `info --documents`), folders, or patterns of ids."),
    ] = None,
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    condition: options.WhereOption = None,
    view: Annotated[str | None, typer.Option(help="View to remove, instead of documents.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the documents without removing them.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --where: remove the documents, instead of listing them.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Remove documents or a view from an index. Needs ids, folders, patterns such as 'docs/*.txt', a condition, or --view."""
    import mergewise

    if (view is None) == (not wanted and condition is None) or (view is not None and dry_run):
        raise UsageError(
            "expected documents or a view", "give ids, folders or patterns of ids, --where, or --view alone"
        )
    opened = mergewise.open(index_dir, create=False)
    if view is not None:
        opened.remove_views([view])
        say(f"view removed: {view}")
        return
    found = opened.find(*(wanted or ["*"]), where=condition)
    unknown = [one for one, ids in found.items() if not ids]
    ids = sorted({doc_id for of_one in found.values() for doc_id in of_one})
    unsure = condition is not None and not (yes or dry_run)
    dry_run = dry_run or unsure
    removed = len(ids) if dry_run else opened.remove(ids)
    if as_json:
        say_json({"removed": removed, "ids": ids, "unknown": unknown})
    else:
        for doc_id in ids if dry_run else ():
            say(one_line(f"would be removed: {doc_id}"))
        left = f"{len(opened)} documents left"
        say(f"dry run, nothing changed: {removed} to be removed" if dry_run else f"{removed} removed; {left}")
    for one in unknown if condition is None else ():
        say_error(f"unknown document: {one}", "run `mergewise info --documents` to list the ids")
    if unknown and condition is not None:
        say_error("no document meets the condition", "run `mergewise info --documents --json` to list metadata")
    elif unsure:
        say_error("nothing removed: a condition needs confirmation", "check the list, then add --yes")
    if unsure or not ids:
        raise typer.Exit(1)


@options.with_options
def check(
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    repair: Annotated[bool, typer.Option("--repair", help="Repair damage where possible.")] = False,
    embedder: settings.EmbedderSetting = None,
    chat: Annotated[
        str, settings.Setting("Chat model of views: openai:MODEL, or extractive (no model)")
    ] = defaults.CHAT,
    prompts: settings.PromptsSetting = None,
    as_json: options.JsonOption = False,
    *,
    patience: settings.Patience,
) -> None:
    """Check an index for damage. With --repair, repair the damage where possible."""
    import mergewise
    from mergewise import VIEWS
    from mergewise.extend import LOCK_SECONDS, MOVED, restore_manifest

    patience.set_patience()
    if repair and restore_manifest(index_dir, VIEWS, LOCK_SECONDS, embedder):
        say_aside(f"the manifest was rebuilt from the tables; a damaged one is now {index_dir / MOVED}")
    known, writer = permitted_embedder(index_dir, embedder), chat if repair else defaults.CHAT
    opened = mergewise.open(index_dir, embedder=known, chat=writer, prompts=prompts, create=False)
    problems = opened.check(repair=repair)
    if as_json:
        say_json([problem_json(problem) for problem in problems])
    else:
        for problem in problems:
            say(one_line(f"{problem.doc_id}: {problem.what}" if problem.doc_id else problem.what))
        found = sum(problem.kind != "note" for problem in problems)
        say(f"{found} problem{'s'[: found > 1]}" if found else "all invariants hold")
    if kinds := {problem.kind for problem in problems} - {"note"}:
        hint = "restore the index from a copy, or index the documents again into a new directory"
        if kinds == {"altered"}:
            hint = "index the files of the documents above again, or run `mergewise remove DOC_ID`"
        elif "lost" not in kinds and not repair:
            hint = "run `mergewise check --repair` to repair it"
        say_error("the index is damaged", hint)
        raise typer.Exit(1)


def reshard(
    shards: Annotated[int, typer.Option(min=1, help="New number of shards.")],
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    into: Annotated[
        str | None, typer.Option(metavar="TO", help="Copy into shards here: DIR or s3://BUCKET/PREFIX.")
    ] = None,
) -> None:
    """Change the number of shards of an index. Nothing is embedded, and a killed command goes on when it is repeated."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    opened.reshard(shards, into)
    say(f"{len(opened)} documents in {shards} shards in {opened.store.place if into is None else into}")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Directory of the index, or s3://BUCKET/PREFIX.")],
    goal: Annotated[str, typer.Argument(metavar="TO", help="New directory, or new prefix of a bucket.")],
) -> None:
    """Copy an index to a new directory or bucket prefix. Cached answers of chat models are not copied."""
    from mergewise.extend import LOCK_SECONDS, copy_index, place_of

    files = copy_index(place_of(source), place_of(goal), LOCK_SECONDS)
    say(f"{files} files copied to {place_of(goal)}")


def prompts(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the prompts into this folder, except existing files.")
    ] = None,
) -> None:
    """List the prompts of chat models, or write them into a folder. Edit the files and set MERGEWISE_PROMPTS to the folder."""
    from mergewise.extend import PROMPTS, write_prompts

    if out is not None:
        fresh = write_prompts(out, PROMPTS)
        say(f"{len(fresh)} prompts written to {out}, {len(PROMPTS) - len(fresh)} left unchanged")
        return
    for name, template in PROMPTS.items():
        say(f"{name}: {template.summary}")
