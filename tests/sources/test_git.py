"""Git repositories as sources: ids, commits, changes, deletions, what is fetched again, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw
from tests.sources.serving import git, repositories


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository whose `uploadpack` can leave out contents."""
    folder = tmp_path / "served" / "manual"
    (folder / "docs").mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "config", "uploadpack.allowFilter", "true")
    (folder / "README.md").write_text("# Manual\n\nThe manual of the lamp.\n")
    (folder / "docs" / "lamp.md").write_text("# Lamp\n\nThe lamp shines for nine hours.\n")
    (folder / "docs" / "battery.md").write_text("# Battery\n\nThe battery holds two ampere hours.\n")
    (folder / ".hidden.md").write_text("# Hidden\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "link.md").symlink_to("/etc/passwd")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    return mw.open(tmp_path / "index", embedder="none")


def ids(index: mw.Index) -> set[str]:
    return {info.id for info in index.documents()}


ALL = {"README.md", "docs/lamp.md", "docs/battery.md"}


def test_files_of_a_commit_and_their_citations(repository: Path, index: mw.Index) -> None:
    address, commit = f"git+file://{repository}", git(repository, "rev-parse", "HEAD")
    report = index.add(address)
    assert (report.added, report.failed, ids(index)) == (3, (), ALL)
    assert dict(report.left_out) == {".png": 1}
    document = index.document("docs/lamp.md")
    assert document.metadata == {"commit": commit, "source": address} and document.title == "Lamp"
    answer = index.ask("How long does the lamp shine?")
    cited = answer.citations[0]
    assert (cited.span.doc_id, cited.line, cited.commit) == ("docs/lamp.md", 3, commit)
    assert index.files(ALL) == {}


def test_changes_moves_and_deletions_of_a_later_commit(repository: Path, index: mw.Index) -> None:
    address, first = f"git+file://{repository}@main", git(repository, "rev-parse", "HEAD")
    assert index.add(address).failed == ()
    (repository / "README.md").write_text("# Manual\n\nThe manual of the new lamp.\n")
    git(repository, "mv", "docs/lamp.md", "docs/lights.md")
    git(repository, "rm", "--quiet", "docs/battery.md")
    git(repository, "commit", "--quiet", "-am", "second")
    second = git(repository, "rev-parse", "HEAD")
    report = index.add(address)
    assert (report.added, report.replaced, sorted(report.gone)) == (1, 1, ["docs/battery.md", "docs/lamp.md"])
    report = index.sync(address)
    assert (report.unchanged, report.removed, ids(index)) == (2, 2, {"README.md", "docs/lights.md"})
    assert {one.metadata["commit"] for one in index.documents()} == {second}
    # another ref is another source
    report = index.sync(f"git+file://{repository}@{first}")
    assert report.added == 3 and {one for one in ids(index) if "battery" in one} == {"docs/battery.md"}


def test_a_move_keeps_its_rows(repository: Path, index: mw.Index) -> None:
    address = f"git+file://{repository}"
    index.add(address)
    git(repository, "mv", "docs/lamp.md", "docs/lights.md")
    git(repository, "commit", "--quiet", "-m", "second")
    report = index.sync(address)
    assert (report.moved, report.unchanged, report.added) == (1, 2, 0)
    assert index.document("docs/lights.md").text.startswith("# Lamp")


def test_a_second_run_fetches_little(
    tmp_path: Path, repository: Path, index: mw.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        lines = "".join(f"Line {number * line} of section {line}.\n\n" for line in range(100))
        (repository / "docs" / f"{number}.md").write_text(f"# Part {number}\n\n{lines}")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "many")
    monkeypatch.setenv("MERGEWISE_PRIVATE_SOURCES", "127.0.0.0/8")
    with repositories(tmp_path / "served") as served:
        address = f"git+{served.base}/manual"
        assert index.add(address).added == 33
        paths, first = served.take()
        assert len(paths) <= 6
        assert index.sync(address).unchanged == 33
        paths, second = served.take()
        assert len(paths) <= 3 and second < first / 5
        (repository / "docs" / "7.md").write_text("# Seven\n\nNew.\n")
        git(repository, "commit", "--quiet", "-am", "seven")
        assert index.sync(address).replaced == 1
        assert served.take()[1] < first / 5


def test_a_failure_keeps_the_documents(repository: Path, index: mw.Index, tmp_path: Path) -> None:
    address = f"git+file://{repository}"
    index.add(address)
    repository.rename(tmp_path / "away")
    report = index.sync(address)
    assert [one.source for one in report.failed] == [address] and ids(index) == ALL
    # an empty commit is more likely a mistake
    (tmp_path / "away").rename(repository)
    git(repository, "rm", "-r", "--quiet", ".")
    git(repository, "commit", "--quiet", "-m", "empty")
    report = index.sync(address)
    assert report.failed[0].reason == "no files: nothing was removed" and ids(index) == ALL


def test_two_repositories_and_a_folder_with_the_same_names(repository: Path, index: mw.Index, tmp_path: Path) -> None:
    other = tmp_path / "served" / "other"
    git(tmp_path / "served", "clone", "--quiet", str(repository), "other")
    (tmp_path / "README.md").write_text("# Here\n\nA file of this machine.\n")
    addresses = [f"git+file://{one}" for one in (repository, other)]
    index.add(tmp_path / "README.md", *addresses)
    assert {one for one in ids(index) if one.endswith("README.md")} == {
        "README.md",
        *(f"file:{address}//README.md" for address in addresses),
    }
    # a folder above knows nothing of documents of sources
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nText.\n")
    assert index.sync(tmp_path, exclude=["served/"]).removed == 0
    assert index.sync(*addresses).unchanged == 6


def test_variables_of_git_do_not_lead_elsewhere(
    repository: Path, index: mw.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of a repository has such variables."""
    git(repository, "config", "uploadpack.allowFilter", "false")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    before = sorted(path.name for path in (other / ".git").rglob("*"))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "none")
    assert index.add(f"git+file://{repository}").added == 3
    assert sorted(path.name for path in (other / ".git").rglob("*")) == before


def test_a_huge_file_fails_alone(repository: Path, index: mw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "docs" / "huge.md").write_text("Huge. " * 100)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "huge")
    for module in ("mergewise.sources.git", "mergewise.readers"):
        monkeypatch.setattr(f"{module}.MAX_BYTES", 300)
    report = index.add(f"git+file://{repository}")
    assert report.added == 3 and [one.source.rpartition("//")[2] for one in report.failed] == ["docs/huge.md"]


def test_newer_readers_read_again(repository: Path, index: mw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"git+file://{repository}"
    index.add(address)
    monkeypatch.setattr("mergewise.defaults.READERS_VERSION", 100)
    assert index.add(address).unchanged == 3 and index.add(address, reread=True).replaced == 3


def test_refusals(repository: Path, index: mw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    with repositories(repository.parent) as served:
        for address, reason in (
            (f"git+{served.base}/manual", "127.0.0.1 has a private address: set MERGEWISE_PRIVATE_SOURCES"),
            ("git+http://localhost:1/x", "localhost has a private address"),
            ("git+https://ann:secret@example.org/x", "the address contains a user"),
        ):
            (failure,) = index.add(address).failed
            assert failure.source == address and reason in failure.reason
        assert served.take() == ([], 0)
    for address in (f"git+file://{repository}@--upload-pack=touch", f"git+file://{repository}@none"):
        assert len(index.add(address).failed) == 1
    assert not ids(index)
