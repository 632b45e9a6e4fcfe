"""Watching folders for changes, with and without `watchfiles`."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event

import pytest

from mergewise.errors import MissingExtra, UsageError
from mergewise.readers.watching import bursts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "own.index").mkdir(parents=True)
    (tmp_path / "docs" / "a.md").write_text("A.")
    return tmp_path / "docs"


@pytest.mark.parametrize("package", [True, False], ids=["watchfiles", "looking"])
def test_each_burst_is_one_event(folder: Path, package: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not package:
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    else:
        pytest.importorskip("watchfiles")
    stop = Event()
    told = bursts([folder], [folder / "own.index"], stop, 0.01)
    next(told)
    (folder / "own.index" / "table").write_text("written by the index itself")
    (folder / ".hidden").write_text("x")
    (folder / "b.md").write_text("B.")
    next(told)
    stop.set()
    assert list(told) == []


def test_own_and_hidden_files_are_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    class Looks(Event):
        """Event that is set after three intervals."""

        looks = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.looks += 1
            (folder / "own.index" / f"{self.looks}").write_text("x")
            (folder / f".{self.looks}").write_text("x")
            if self.looks == 3:
                self.set()
            return False

    assert len(list(bursts([folder], [folder / "own.index"], Looks(), 0.01))) == 1


def test_missing_folder_or_package_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        next(bursts([folder / "none"], []))
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingExtra):
        next(bursts([folder], []))
