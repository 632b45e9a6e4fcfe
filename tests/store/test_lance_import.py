"""LanceDB is imported without the half that mergewise does not need, and is complete for other users."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import mergewise
from mergewise.store import lance_import
from mergewise.store.text_scores import TEXT_TOKENIZER, text_index

NEEDLESS = {
    "lancedb.db",
    "lancedb.table",
    "lancedb.query",
    "lancedb.index",
    "lancedb.remote.db",
    "lancedb.namespace",
    "lance_namespace",
    "urllib3",
}


def in_a_process(code: str) -> list[object]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_reading_an_index_imports_no_cloud_clients(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(mergewise.Document(id="d", text="Cats eat fish."))
    code = f"""
import json, sys, mergewise
index = mergewise.open({str(tmp_path / "index")!r})
assert index.context("What do cats eat?").passages
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(in_a_process(code))
    assert "lancedb._lancedb" in loaded and not loaded & NEEDLESS


def test_the_settings_of_a_text_index_are_those_of_lancedb() -> None:
    from lancedb.index import FTS

    ours = text_index()
    theirs = FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=ours.custom_stop_words)
    assert vars(ours) == vars(theirs) and type(ours).__name__ == FTS.__name__


def test_the_package_is_complete_after_the_first_access_to_a_name() -> None:
    code = """
import json
from mergewise.store import lance_import
lance_import.prepare()
import lancedb
import lance_namespace_urllib3_client as client
from lancedb.table import AsyncTable
deferred = [type(module).__name__ for module in (lancedb, client)]
from lancedb import connect, Table, AsyncTable as same
missing = [name for name in lancedb.__all__ if not hasattr(lancedb, name)]
assert AsyncTable is same and callable(connect) and client.ApiClient.__module__.startswith(client.__name__)
print(json.dumps([deferred, missing, hasattr(lancedb, "no_such_name"), lancedb.__version__, "connect" in dir(lancedb)]))
"""
    deferred, missing, absent, version, listed = in_a_process(code)
    assert deferred == ["DeferredPackage", "DeferredPackage"]
    assert (missing, absent, listed) == ([], False, True)
    assert str(version)[0].isdigit()


def test_an_earlier_import_is_kept() -> None:
    code = """
import json, lancedb
from mergewise.store import lance_import
lance_import.prepare()
import lancedb as again
print(json.dumps([type(again).__name__, again is lancedb, callable(lancedb.connect)]))
"""
    assert in_a_process(code) == ["module", True, True]


def test_many_threads_may_access_names_at_once(tmp_path: Path) -> None:
    code = f"""
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from mergewise.store import lance_import
lance_import.prepare()
def ask(i):
    if i % 3 == 0:
        from lancedb.table import AsyncTable
        return 0
    if i % 2:
        return len(lance_import.connect(Path({str(tmp_path)!r}), lance_import.Sessions()).table_names())
    import lancedb
    return len(lancedb.__all__) and 0
with ThreadPoolExecutor(8) as pool:
    print(json.dumps(list(pool.map(ask, range(16)))))
"""
    assert in_a_process(code) == [0] * 16


def test_tables_share_a_session_until_it_has_opened_many_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_import, "OPENINGS", 3)
    sessions = lance_import.Sessions()
    given = [sessions.current() for _ in range(7)]
    assert given[0] is given[1] is given[2] is not given[3] and given[3] is given[5] is not given[6]


INTERNALS = """
import asyncio, json, sys
from inspect import signature
from mergewise.store import lance_import
from mergewise.store.snapshot import scan
lance_import.prepare()
changed = []

def holds(internal, said):
    if not said:
        changed.append(internal)

from lancedb._lancedb import connect
from lancedb.table import AsyncTable
entered = [name for name in lance_import.DEFERRED if not isinstance(sys.modules[name], lance_import.DeferredPackage)]
holds(f"lancedb.table imports without the package's __init__ (entered: {entered})", not entered)
from lancedb._lancedb import Session
holds("a connection takes a session", "session" in signature(connect).parameters and callable(Session))
_, *others = signature(connect).parameters.values()
holds("lancedb._lancedb.connect(uri) needs nothing else", all(one.default is not one.empty for one in others))

async def open_both_ways():
    directory = DIRECTORY
    database = await connect(directory)
    opened = await database.open_table("documents")
    import lancedb
    public = await (await lancedb.connect_async(directory)).open_table("documents")
    holds("AsyncTable holds what open_table of the connection gives", type(public._inner) is type(opened))
    same = await opened.version() == await public.version() and await scan(opened, None) == await public.to_arrow()
    holds("connect(uri).open_table(name) opens the table that the public way opens", same)

asyncio.run(open_both_ways())
import lancedb
holds("lancedb.__version__ is the version of the distribution", lancedb.__version__ == lance_import.version("lancedb"))
print(json.dumps(changed))
"""


def test_lancedb_has_the_internals_that_the_import_needs(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(mergewise.Document(id="d", text="Cats eat fish."))
    changed = in_a_process(INTERNALS.replace("DIRECTORY", repr(str(tmp_path / "index"))))
    assert not changed, (
        f"LanceDB {version('lancedb')} changed what mergewise/store/lance_import.py leans on: {changed}. Look at "
        "`connect_for_reading` and `DeferredPackage` there, and at "
        "lancedb/__init__.py, lancedb/db.py and lancedb/table.py. Without them, "
        "`lancedb.connect_async(directory).open_table(name)` does the same, and startup takes three times as long."
    )
