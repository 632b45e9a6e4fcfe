"""The places of indexes: names of folders that look like something else."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw


@pytest.mark.parametrize("name", ["db", "database/index"])
def test_a_relative_path_is_no_address_of_a_cloud(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with mw.open(name, embedder="none") as index:
            index.add(mw.Document("a", "Owls eat mice."))
            assert "mice" in index.context("What do owls eat?", budget=60).text
