"""Hostile folders: pipes, sockets, devices, circular links, deep paths, a hundred thousand files, a line of 50 MB."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.readers import find_files
from tests.attack.support import LONG, command, linux_only, posix_only, run_measured

pytestmark = posix_only


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def opened(folder: Path) -> mw.Index:
    return mw.open(folder / "index", embedder="none")


def failures(report: mw.types.AddReport) -> dict[str, str]:
    return {failure.source: failure.reason for failure in report.failed}


def test_special_files_are_reported_and_never_read(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, "real.md", "Owls eat mice.\n")
    os.mkfifo(docs / "pipe.md")
    os.mkfifo(docs / "pipe.bin")
    (docs / "zero.txt").symlink_to("/dev/zero")
    (docs / "random.pdf").symlink_to("/dev/urandom")
    (docs / "nowhere.md").symlink_to(docs / "gone.md")
    (docs / "self.md").symlink_to(docs / "self.md")
    (docs / "one.md").symlink_to(docs / "two.md")
    (docs / "two.md").symlink_to(docs / "one.md")
    (docs / "up").symlink_to(docs)
    (docs / "deeper").mkdir()
    (docs / "deeper/up").symlink_to(docs)
    (docs / "folder.md").mkdir()
    (docs / "again.md").symlink_to(docs / "real.md")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(docs)  # a socket's path must be short
        listening.bind("talk.md")
        os.chdir(tmp_path)
        index = opened(tmp_path)
        report = index.add(docs)
        assert report.added == 1
        reasons = failures(report)
        for name in ("pipe.md", "talk.md"):
            assert reasons.pop(f"docs/{name}") == "not a regular file"
        assert {link.target for link in report.outward} == {"/dev/zero", "/dev/urandom"}
        followed = failures(index.add(docs, follow_links=True))
        assert followed["docs/zero.txt"] == followed["docs/random.pdf"] == "not a regular file"
        assert reasons.pop("docs/nowhere.md") == "no such file"
        assert {"symbolic links" in reason or "no such file" in reason for reason in reasons.values()} == {True}, (
            reasons
        )
        assert index.sync(docs).unchanged == 1
        named = index.add(*(docs / name for name in ("pipe.md", "zero.txt", "talk.md", "random.pdf")), "/dev/zero")
        assert len(named.failed) == 5 and not named.added
        assert index.check() == []


def test_file_of_a_terabyte_is_refused_by_its_size(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, "real.md", "Owls eat mice.\n")
    with (docs / "sparse.md").open("wb") as file:
        file.truncate(1 << 40)
    report = opened(tmp_path).add(docs)
    assert report.added == 1 and failures(report) == {"docs/sparse.md": "larger than 200 MB"}


def test_deeply_nested_folders(tmp_path: Path) -> None:
    """Deeper than Python's recursion limit, then longer than a path may be."""
    docs = tmp_path / "docs"
    write(docs, "first.md", "Owls eat mice.\n")
    write(docs, "z/last.md", "Bats eat moths.\n")
    before = Path.cwd()
    os.chdir(docs)
    try:
        for depth in range(1500 if LONG else 1100):
            Path("d").mkdir()
            os.chdir("d")
            if depth in (5, 1050):
                Path("in.md").write_text(f"Text number {depth}.\n")
        os.chdir(before)
        report = opened(tmp_path).add(docs)
        assert report.added == 4, report
        assert all("long" in reason for reason in failures(report).values())
    finally:
        os.chdir(docs)
        os.system("rm -rf d")  # shutil.rmtree is recursive
        os.chdir(before)


def test_order_of_a_folder_is_stable(tmp_path: Path) -> None:
    for name in ("b/2.md", "a.md", "b.md", "b/1.md", "c/x/3.md", "c/4.md", ".hidden/5.md"):
        write(tmp_path, name, "x")
    found = [path.relative_to(tmp_path).as_posix() for path in find_files([tmp_path])]
    assert found == ["a.md", "b/1.md", "b/2.md", "b.md", "c/4.md", "c/x/3.md"]


@linux_only
def test_many_small_files(tmp_path: Path) -> None:
    count = 30_000 if LONG else 300
    for number in range(count):
        folder = tmp_path / "docs" / f"{number // 1000:03}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nThe value of item {number} is {number * 7}.\n")
    done, megabytes = run_measured(tmp_path, "index", "docs", "--embedder", "none", "--json")
    assert done.code == 0 and json.loads(done.out)["added"] == count
    assert megabytes < 3000
    again, _ = run_measured(tmp_path, "index", "docs", "--sync", "--json")
    assert json.loads(again.out)["unchanged"] == count
    found = command(tmp_path, "ask", f"What is the value of item {count - 1}?", "--json")
    assert str((count - 1) * 7) in found.out
    assert command(tmp_path, "check").code == 0


LINE_MB = 8 if LONG else 1
LINES: dict[str, Callable[[int], str]] = {
    "words.txt": lambda size: "word " * (size // 5),
    "letters.txt": lambda size: "a" * size,
    "digits.md": lambda size: "7" * size,
    "marks.md": lambda size: "[*_`" * (size // 4),
    "brackets.md": lambda size: "[" * (size // 50) + "](x)" * (size // 50),
    "dots.txt": lambda size: "... " * (size // 4),
    "spaces.txt": lambda size: "x" + " " * size + "y",
    "letters.rst": lambda size: "`a " * (size // 30),
    "wide.txt": lambda size: "漢字。" * (size // 9),
    "row.csv": lambda size: "a,b\n" + "x" * (size // 2) + "," + "y " * (size // 4),
    "list.json": lambda size: json.dumps({"text": "word " * (size // 5)}),
    "page.html": lambda size: "<p>" + "word <b>x</b> " * (size // 14),
    "code.py": lambda size: "x = [" + "1, " * (size // 3) + "]",
    "mail.eml": lambda size: "Subject: " + "x" * (size // 2) + "\n\n" + "word " * (size // 10),
}


@linux_only
@pytest.mark.parametrize("name", LINES if LONG else ["all"])
def test_one_line(name: str, tmp_path: Path) -> None:
    """One line of 8 MB of one kind. Short form: all kinds together, 400 kB each."""
    names = list(LINES) if name == "all" else [name]
    size = LINE_MB * 1_000_000 // (1 if LONG else 20)
    for one in names:
        write(tmp_path / "docs", one, LINES[one](size))
    done, megabytes = run_measured(
        tmp_path, "index", "docs", *map("docs/{}".format, names), "--embedder", "none", "--json"
    )
    report = json.loads(done.out)
    assert report["added"] + len(report["failed"]) == len(names)
    assert all(failure["reason"] for failure in report["failed"])
    assert megabytes < (4000 if LONG else 1500)
    if report["added"]:
        command(tmp_path, "ask", "Which word is there?")
        assert command(tmp_path, "check").code == 0


DEPTH = 100_000 if LONG else 3_000
DEEP = {
    "deep.json": "[" * DEPTH + "]" * DEPTH,
    "deep_objects.json": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "deep.jsonl": '{"text": "one"}\n' + "[" * DEPTH + "]" * DEPTH + "\n",
    "deep.html": "<div>" * DEPTH + "Owls eat mice." + "</div>" * DEPTH,
    "lists.html": "<ul><li>" * (DEPTH // 4) + "Owls eat mice.",
    "tables.html": "<table><tr><td>" * (DEPTH // 20) + "Owls eat mice.",
    "deep.xml": "<article>" + "<sec>" * DEPTH + "<p>Owls</p>" + "</sec>" * DEPTH + "</article>",
    "quotes.md": ">" * (DEPTH // 10) + " Owls eat mice.\n",
    "lists.md": "".join(f"{'  ' * i}- item {i}\n" for i in range(300)),
    "headings.md": "".join(f"{'#' * (1 + i % 6)} Heading {i}\n\nText {i}.\n\n" for i in range(DEPTH // 50)),
    "emphasis.md": "*" * DEPTH + "a" + "*" * DEPTH,
    "lists.rst": "".join(f"{'  ' * i}- item {i}\n\n" for i in range(200)),
    "deep.py": "(" * DEPTH + ")" * DEPTH,
    "blocks.py": "".join(f"{' ' * i}if x:\n" for i in range(99)) + " " * 99 + "pass\n",
    "deep.ipynb": '{"cells": ' + "[" * DEPTH + "]" * DEPTH + "}",
    "deep.eml": "".join(
        f"Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n" for i in range(DEPTH // 100)
    ) + "Content-Type: text/plain\n\nOwls eat mice.\n",
    "front.md": "---\na: " + "[" * DEPTH + "]" * DEPTH + "\n---\n\nOwls eat mice.\n",
    "laughs.md": "---\na: &a [x]\n"
    + "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}' if i else '*a'] * 9)}]\n" for i in range(12))
    + "---\n\nOwls eat mice.\n",
}  # fmt: skip


@linux_only
def test_deep_nesting(tmp_path: Path) -> None:
    for name, text in DEEP.items():
        write(tmp_path / "docs", name, text)
    named = [f"docs/{name}" for name in DEEP]
    done, megabytes = run_measured(tmp_path, "index", *named, "--embedder", "none", "--json")
    report = json.loads(done.out)
    assert report["added"] + len(report["failed"]) == len(DEEP)
    assert {failure["source"] for failure in report["failed"]} <= set(named)
    assert all(failure["reason"] for failure in report["failed"])
    assert megabytes < 3000
    for words in (("ask", "What do owls eat?"), ("context", "item 199", "--strategy", "auto-merge"), ("check",)):
        command(tmp_path, *words)
    assert command(tmp_path, "check").code == 0


def test_file_with_an_invalid_name_fails_alone(tmp_path: Path) -> None:
    """On every run: the second run looks these names up in the index."""
    docs = tmp_path / "docs"
    write(docs, "owls.md", "Owls eat mice.\n")
    odd = os.fsdecode(b"bytes\xff.md")
    try:
        write(docs, odd, "Bats eat moths.\n")
    except OSError:
        pytest.skip("this file system does not support such a name")
    index = opened(tmp_path)
    for added in (1, 0):
        report = index.add(docs)
        assert report.added == added and "Unicode" in failures(report)[f"docs/{odd}"]
    assert not index.sync(docs, dry_run=True).added
    assert index.sync(docs).unchanged == 1
    for call in (index.document, lambda name: index.remove([name])):
        with pytest.raises(mw.UsageError, match="Unicode"):
            call(f"docs/{odd}")
    assert command(tmp_path, "show", f"docs/{odd}", "--index", "index").code == 2
    with pytest.raises(mw.UsageError, match="Unicode"):
        mw.open(tmp_path / odd)


@pytest.mark.parametrize("seconds", [-1, 0, 2**31, 2**33, 2**40, -(2**40)])
def test_times_of_files(tmp_path: Path, seconds: int) -> None:
    """Times before and after calendar dates, and a time that goes back while the content changes."""
    path = write(tmp_path / "docs", "owls.md", "Owls eat mice.\n")
    try:
        os.utime(path, (seconds, seconds))
    except (OSError, OverflowError):
        pytest.skip("this file system does not support such a time")
    index = opened(tmp_path)
    assert index.add(path.parent).added == 1
    path.write_text("Owls eat voles.\n")
    os.utime(path, (max(0, seconds - 10**6), max(0, seconds - 10**6)))
    assert index.sync(path.parent).replaced == 1
    assert "voles" in index.ask("What do owls eat?").text
    assert command(tmp_path, "info", "--index", "index").code == 0
    assert index.check() == []


def test_interpreter_limits_are_unchanged() -> None:
    """Parsing must not change the interpreter's limits."""
    assert sys.getrecursionlimit() <= 3000
