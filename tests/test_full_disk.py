"""A disk that fills up: an error means that nothing changed, or its message counts the changes that stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# a tmpfs in a namespace of its own, which ends with the script
SMALL_DISK = [
    "unshare",
    "--map-root-user",
    "--mount",
    "bash",
    "-c",
    'mount -t tmpfs -o size="$0" none "$1" && exec "${@:2}"',
]

WRITER = """
import json, random, sys
import pytest
import mergewise as mw
from mergewise.index import pipeline

pipeline.BATCH_DOCUMENTS = 4
at_once, shards = int(sys.argv[2]), int(sys.argv[3]) or None
pick = random.Random(0)


def document(number):
    words = ("".join(pick.choices("abcdefghij", k=7)) for _ in range(900))
    return mw.Document(f"d{number}", " ".join(words), f"Place {number}")


index, errors = mw.open(sys.argv[1], embedder="none", shards=shards), 0
for first in range(0, 2000, at_once):
    documents, error = [document(number) for number in range(first, first + at_once)], ""
    try:
        index.add(documents)
    except mw.MergewiseError as raised:
        error, errors = raised.message, errors + 1
    found = {info.id for info in index.documents()} & {one.id for one in documents}
    print(json.dumps([len(found), error]))
    if errors == 3:
        break
print(json.dumps([len(index.check()), ""]))
"""


def fill_disk(folder: Path, at_once: int, shards: int) -> list[tuple[int, str]]:
    """Add documents until the disk was full three times. Return how many of each call are there, with its error.

    The last pair has the number of problems that `check` finds.
    """
    if subprocess.run([*SMALL_DISK, "1m", str(folder), "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mounts in a namespace")
    words = [*SMALL_DISK, "2m", str(folder), sys.executable, "-c", WRITER, f"{folder}/index", str(at_once), str(shards)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [(count, error) for count, error in map(json.loads, done.stdout.splitlines())]


@pytest.mark.slow
@pytest.mark.parametrize("shards", [0, 2])
def test_an_error_means_that_nothing_was_added(tmp_path: Path, shards: int) -> None:
    *calls, (problems, _) = fill_disk(tmp_path, 4, shards)
    assert problems == 0 and {count for count, error in calls if not error} == {4}
    failed = [count for count, error in calls if "space" in error]
    assert failed == [0, 0, 0] and sum(not error for _, error in calls) > 1


@pytest.mark.slow
@pytest.mark.parametrize("shards", [0, 2])
def test_an_error_counts_the_documents_that_were_added_before(tmp_path: Path, shards: int) -> None:
    *calls, (problems, _) = fill_disk(tmp_path, 400, shards)
    assert problems == 0
    for count, error in calls:
        assert "space" in error and ("kept" in error) == bool(count)
        assert count < 400 and (not count or error.endswith(f"done before and kept: {count} added"))
    assert calls[0][0] > 0
