"""Folders on the command line: index, sync, watch, remove and info."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

import pytest
from tests.support import until
from typer.testing import CliRunner, Result

import mergewise as mw
from mergewise.cli.configuration import harmless, read_configuration
from mergewise.cli.main import app
from mergewise.cli.manage import one_round
from mergewise.errors import MergewiseError, UsageError, install_command

COMMAND = Path(sys.executable).parent / "mergewise"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory with a folder and its index."""
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "cats.md").write_text("# Cats\n\nCats eat fish.\n")
    (docs / "sub" / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
    (docs / "picture.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    assert run("index", "docs", "--embedder", "none").exit_code == 0
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_index_and_info_name_the_documents_of_an_older_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "older version" not in run("info").output + run("index", "docs").output
    monkeypatch.setattr("mergewise.defaults.READERS_VERSION", 100)
    line = "2 documents were read by an older version: run `mergewise index FOLDER --reread` to read them again"
    assert line in run("index", "docs").stderr
    shown = run("info").stdout
    assert line in shown and "docs/cats.md" in shown and "docs/sub/dogs.md" in shown
    assert json.loads(run("info", "--json").stdout)["outdated"] == ["docs/cats.md", "docs/sub/dogs.md"]
    assert "would be replaced: docs/cats.md" in run("index", "docs", "--sync", "--reread", "--dry-run").stdout
    assert "0 added, 1 replaced" in run("index", "docs/cats.md", "--reread").stdout
    assert "1 document was read by an older version" in run("info").stdout
    assert "0 added, 1 replaced, 1 unchanged" in run("index", "docs", "--reread").stdout
    assert "older version" not in run("info").output


def test_a_run_without_readable_files_fails_and_questions_say_that_the_index_is_empty(home: Path) -> None:
    (home / "empty").mkdir()
    (home / "unreadable").mkdir()
    (home / "unreadable" / "picture.png").write_bytes(b"x")
    for folder in ("empty", "unreadable"):
        done = run("index", folder, "-i", "e.index", "-e", "none")
        assert done.exit_code == 1 and f"no readable files in {folder}" in done.stderr
    done = run("index", "unreadable", "-i", "e.index", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["left_out"] == {".png": 1}
    for words in (["ask", "Who?"], ["context", "Who?"], ["ask", "Who?", "--json"]):
        done = run(*words, "-i", "e.index")
        assert done.exit_code == 1 and "e.index has no documents" in done.stderr and "index FOLDER" in done.stderr
    assert run("index", "docs").exit_code == 0
    assert "has no documents" not in run("ask", "xyzzy?").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ask", "-s", "waeve", "q"], "did you mean weave?"),
        (["ask", "-s", "weave(hopps=1)", "q"], "did you mean hops?"),
        (["ask", "-m", "shrt", "q"], "did you mean short?"),
        (["index", "docs", "--views", "slcie"], "did you mean slice?"),
        (["index", "docs", "--embed", "latr"], "did you mean later?"),
        (["context", "q", "--format", "xlm"], "did you mean xml?"),
        (["config", "aks"], "did you mean ask?"),
        (["index", "docs", "-e", "st:other"], "use --embedder none"),
        (["index", "docs", "--meta", "year=abc"], "expected a date"),
    ],
)
def test_hints_name_what_was_probably_meant(home: Path, words: list[str], says: str) -> None:
    with pytest.raises(MergewiseError) as raised:
        run(*words)
    assert says in str(raised.value)


def test_removals_are_listed_in_order(home: Path) -> None:
    (home / "docs" / "ants.md").write_text("Ants dig.\n")
    run("index", "docs")
    listed = [line for line in run("remove", "--dry-run", "docs/*").stdout.splitlines() if "would be" in line]
    assert listed == [f"would be removed: docs/{name}" for name in ("ants.md", "cats.md", "sub/dogs.md")]


def test_sync_lists_its_changes_and_makes_them(home: Path) -> None:
    (home / "docs" / "cats.md").rename(home / "docs" / "sub" / "cats.md")
    (home / "docs" / "sub" / "dogs.md").unlink()
    (home / "docs" / "birds.md").write_text("Birds sing.\n")
    dry = run("index", "docs", "--sync", "--dry-run")
    assert "would be added: docs/birds.md" in dry.stdout
    assert "would be moved: docs/sub/cats.md (was docs/cats.md)" in dry.stdout
    assert "would be removed: docs/sub/dogs.md" in dry.stdout
    counts = "1 added, 0 replaced, 0 unchanged, 1 moved, 1 removed, 0 failed"
    assert f"dry run, nothing changed: {counts}; 2 documents in mergewise.index" in dry.stdout
    done = run("index", "docs", "--sync")
    assert "left out: 1 .png (add `--include" in done.stdout
    assert f"{counts}; 2 documents in mergewise.index" in done.stdout and "dry run" not in done.stdout
    report = json.loads(run("index", "docs", "--sync", "--json").stdout)
    assert (report["unchanged"], report["removed"], report["left_out"]) == (2, 0, {".png": 1})
    assert run("check").exit_code == 0


def test_a_dry_run_makes_no_index(home: Path) -> None:
    with pytest.raises(UsageError, match="index not found: new"):
        run("index", "docs", "--sync", "--dry-run", "--index", "new")
    with pytest.raises(UsageError, match="requires --sync"):
        run("index", "docs", "--dry-run")
    with pytest.raises(UsageError, match="requires --sync"):
        run("index", "docs", "--watch", "--dry-run")
    assert not (home / "new").exists()


def test_missing_paths_create_no_index(home: Path) -> None:
    for more in ((), ("--sync",), ("--watch",)):
        done = run("index", "absent", "gone.md", "--index", "new", *more)
        assert done.exit_code == 1
        assert "absent: no such file" in done.stderr and "gone.md: no such file" in done.stderr
    assert not (home / "new").exists()
    done = run("index", "absent")
    assert done.exit_code == 1 and "not indexed: absent: no such file" in done.stderr
    assert run("index", "absent", "docs").exit_code == 1


def test_a_missing_folder_is_refused(home: Path) -> None:
    (home / "docs").rename(home / "elsewhere")
    with pytest.raises(UsageError, match="docs does not exist, but the index has 2 documents from it"):
        run("index", "docs", "--sync")
    assert json.loads(run("info", "--json").stdout)["documents"] == 2


def test_remove_by_folder_and_pattern(home: Path) -> None:
    (home / "docs" / "sub" / "more.md").write_text("More.\n")
    run("index", "docs")
    dry = run("remove", "docs/sub", "*cats*", "nobody", "--dry-run")
    assert dry.exit_code == 0 and "3 to be removed" in dry.stdout
    assert "would be removed: docs/cats.md" in dry.stdout and "unknown document: nobody" in dry.stderr
    done = run("remove", "docs/sub", "nobody", "docs/sub/dogs.md")
    assert done.exit_code == 0 and "2 removed; 1 documents left" in done.stdout
    assert "unknown document: nobody" in done.stderr and "unknown document: docs" not in done.stderr
    output = json.loads(run("remove", "docs/*", "--json").stdout)
    assert output == {"removed": 1, "ids": ["docs/cats.md"], "unknown": []}
    assert run("remove", "docs/cats.md").exit_code == 1


def test_info_shows_formats_sizes_dates_and_duplicates(home: Path) -> None:
    (home / "docs" / "cats (1).md").write_text("# Cats\n\nCats eat fish.\n")
    (home / "docs" / "birds.txt").write_text("Birds sing.\n")
    os.utime(home / "docs" / "birds.txt", (0, 86_400))
    assert "the same as docs/cats.md: docs/cats (1).md" in run("index", "docs").stdout
    mw.open("mergewise.index").add(mw.Document(id="own", text="Mine."))
    info = json.loads(run("info", "--json").stdout)
    assert info["formats"] == {".md": 3, ".txt": 1} and info["without_file"] == 1
    assert info["oldest"] == "1970-01-02T00:00:00+00:00" < info["newest"] <= info["changed"]
    assert info["duplicates"] == [{"id": "docs/cats (1).md", "same_as": "docs/cats.md"}]
    assert info["languages"] == {"und": 5}
    assert info["bytes"] == sum(p.stat().st_size for p in (home / "docs").rglob("*.[mt]*"))
    assert info["characters"] == info["bytes"] + len("Mine.") and info["index_bytes"] > 0
    shown = run("info").stdout
    for part in (
        "formats: 3 .md, 1 .txt, 1 without a file",
        "languages: 5 und",
        "the same as docs/cats.md: docs/cats (1).md",
        "1970-01-02",
    ):
        assert part in shown
    listed = json.loads(run("info", "--documents", "--json").stdout)["list"]
    assert {entry.get("source") for entry in listed} >= {"docs/cats.md", None}


def test_report_lists_missing_files_links_and_patterns(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "out.md").write_text("Owls eat mice.\n")
    (home / "docs" / "link.md").symlink_to(home / "out.md")
    (home / "docs" / "sub" / "dogs.md").unlink()
    output = run("index", "docs", "--exclude", "*.txt", "--exclude", "docs/pict*").stdout
    way = f"docs/link.md -> {os.path.realpath(home / 'out.md')}"
    assert (
        f"link out of the folder, left out: {way}\n  set follow-links = true in mergewise.toml to read their files"
        in output
    )
    monkeypatch.setenv("MERGEWISE_FOLLOW_LINKS", "true")
    output = run("index", "docs", "--exclude", "*.txt", "--exclude", "docs/pict*").stdout
    monkeypatch.delenv("MERGEWISE_FOLLOW_LINKS")
    assert f"link out of the folder, followed: {way}" in output
    assert "no longer there, but in the index: docs/sub/dogs.md" in output and "--sync" in output
    assert "left out by patterns: 1 files and folders" in output and "left out: 1 .png" not in output
    assert "1 added, 0 replaced, 1 unchanged, 1 without files, 0 failed; 3 documents" in output
    report = json.loads(run("index", "docs", "--json").stdout)
    assert report["gone"] == ["docs/sub/dogs.md", "docs/link.md"] and report["excluded"] == 0
    assert [link["link"] for link in report["outward"]] == ["docs/link.md"]
    done = run("index", "docs", "--sync", "--include", "cats.md").stdout
    assert "removed: docs/link.md" in done and "removed: docs/sub/dogs.md" in done and "2 removed" in done


def test_only_the_user_allows_links_out_of_a_folder(tmp_path: Path) -> None:
    options = {"follow_links": True, "include": ["*.md"]}
    assert harmless(options, tmp_path) == {"include": ["*.md"]}
    own = tmp_path / "mergewise.toml"
    own.write_text("[index]\nfollow-links = true\n")
    assert read_configuration(own, {"index": {"follow_links": False}}) == {"index": {"follow_links": True}}


def test_many_missing_files_are_counted(home: Path) -> None:
    for number in range(14):
        (home / "docs" / f"{number}.md").write_text(f"Number {number}.\n")
    run("index", "docs")
    for number in range(14):
        (home / "docs" / f"{number}.md").unlink()
    output = run("index", "docs").stdout
    assert output.count("no longer there") == 10 and "... and 4 more documents without files" in output
    assert "14 without files" in output


def test_metadata_of_a_run_are_typed_like_front_matter(home: Path) -> None:
    words = ["year=2024", "Team=Sales & Law", "draft=true", "version=1.10", "tags=a", "tags=b", "date=5 May 2024"]
    assert "2 given metadata" in run("index", "docs", *(word for one in words for word in ("--meta", one))).stdout
    (first, _) = json.loads(run("info", "--documents", "--json").stdout)["list"]
    assert first["metadata"] == {
        "year": 2024,
        "team": "Sales & Law",
        "draft": True,
        "version": "1.10",
        "keywords": "a, b",
        "date": "2024-05-05",
    }
    shown = run("info", "--documents").stdout
    assert "metadata: 2 year" in shown and "team: Sales & Law; draft: True" in shown
    for wrong in ("team", "title=x", "date=soon", "=x", "team="):
        with pytest.raises(UsageError, match="invalid --meta"):
            run("index", "docs", "--meta", wrong)
    with pytest.raises(UsageError, match="team twice"):
        run("index", "docs", "--meta", "team=a", "--meta", "Team=b")


def test_removal_by_condition_needs_confirmation(home: Path) -> None:
    run("index", "docs/cats.md", "--meta", "team=sales")
    shown = run("remove", "--where", "team = 'sales'")
    assert shown.exit_code == 1 and "would be removed: docs/cats.md" in shown.stdout and "--yes" in shown.stderr
    assert "1 to be removed" in run("remove", "--where", "team = 'sales'", "--dry-run", "--yes").stdout
    none = run("remove", "--where", "team = 'law'", "--yes")
    assert none.exit_code == 1 and "no document meets the condition" in none.stderr
    assert run("remove", "docs/sub", "--where", "team = 'sales'", "--yes").exit_code == 1
    assert json.loads(run("info", "--json").stdout)["documents"] == 2
    done = json.loads(run("remove", "docs", "--where", "team = 'sales'", "--yes", "--json").stdout)
    assert done == {"removed": 1, "ids": ["docs/cats.md"], "unknown": []}
    with pytest.raises(UsageError, match="expected documents or a view"):
        run("remove")


def test_patterns_may_be_configured(home: Path) -> None:
    (home / "mergewise.toml").write_text('[index]\nexclude = ["sub/"]\nmeta = ["team=law"]\nyes = true\nsync = true\n')
    done = subprocess.run([COMMAND, "index", "docs"], cwd=home, capture_output=True, text=True)
    assert "removed: docs/sub/dogs.md" in done.stdout and "given metadata" not in done.stdout
    assert "may not set meta" in done.stderr
    (home / "mergewise.toml").write_text('where = "true"\n[remove]\nyes = true\ncondition = "true"\n')
    done = subprocess.run([COMMAND, "remove", "docs/x"], cwd=home, capture_output=True, text=True)
    assert "may not set condition, yes" in done.stderr and done.returncode == 1
    assert json.loads(run("info", "--json").stdout)["documents"] == 1
    (home / "mergewise.toml").write_text('[index]\nexclude = "sub/"\n')
    done = subprocess.run([COMMAND, "index", "docs"], cwd=home, capture_output=True, text=True)
    assert done.returncode == 2 and "--exclude" in done.stderr


# -- watching


@pytest.fixture
def watching(home: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Process that watches the folder. The index is inside, and its own writes must not trigger a round."""
    command = [str(COMMAND), "index", "docs", "--watch", "--index", "docs/my.index", "--embedder", "none"]
    with (
        (home / "out").open("w") as out,
        subprocess.Popen(command, cwd=home, stdout=out, stderr=out, text=True) as process,
    ):
        yield home, process
        if process.poll() is None:
            process.kill()


def test_watching_follows_bursts_and_survives_a_round_that_fails(watching: tuple[Path, subprocess.Popen[str]]) -> None:
    home, process = watching
    docs, index = home / "docs", home / "docs" / "my.index"

    def printed(text: str) -> bool:
        return text in (home / "out").read_text()

    assert until(lambda: printed("press Ctrl-C to stop"))
    assert printed("2 added")
    for number in range(5):
        (docs / f"{number}.md").write_text(f"Number {number}.\n")
    (docs / "cats.md").unlink()
    assert until(lambda: printed("1 removed"))
    assert until(lambda: len(mw.open(index)) == 6)
    assert (home / "out").read_text().count("documents in") <= 4

    docs_away = {path: path.read_text() for path in docs.rglob("*.md")}
    for path in docs_away:
        path.unlink()
    assert until(lambda: printed("nothing was removed"))
    for path, text in docs_away.items():
        path.write_text(text)
    (docs / "last.md").write_text("The last one.\n")
    assert until(lambda: len(mw.open(index)) == 7)
    rounds = (home / "out").read_text().count("documents in")
    time.sleep(1.5)
    assert (home / "out").read_text().count("documents in") <= rounds + 1  # its own writes trigger no round

    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert printed("stopped watching") and "Traceback" not in (home / "out").read_text()
    assert mw.open(index).check() == []


def test_no_error_ends_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise RuntimeError("no space left")

    one_round(fails)
    assert "RuntimeError: no space left" in capsys.readouterr().err


def test_watching_needs_its_extra(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(mw.MissingExtra) as error:
        run("index", "docs", "--watch")
    assert error.value.hint == install_command("watch")


def test_only_folders_are_watched(home: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        run("index", "docs/cats.md", "--watch")


def test_a_file_that_cannot_be_read_fails_the_command_at_its_end(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An empty file loses nothing, and a file without a reader is left out on purpose."""
    (home / "docs" / "empty.md").write_text("")
    assert run("index", "docs").exit_code == 0
    (home / "docs" / "lines.jsonl").write_text('{"text": "Owls."}\n{"text": oops\n')
    assert run("index", "docs").exit_code == 0 and "lines.jsonl: left out: invalid JSON in line 2" in caplog.text
    (home / "docs" / "broken.pdf").write_text("no pdf")
    done = run("index", "docs")
    assert done.exit_code == 1 and "not indexed: docs/broken.pdf: not a PDF" in done.stderr


def test_documents_are_shown_by_names_in_another_unicode_form(home: Path) -> None:
    (home / "docs" / normalize("NFD", "Café.md")).write_text("Open at seven.\n")
    run("index", "docs")
    for name in ("docs/Café.md", "Café.md", "café"):
        assert "Open at seven." in run("show", normalize("NFC", name)).stdout
