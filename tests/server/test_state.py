"""The state of a server: tokens, jobs, documents, collections, and its file."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest

from mergewise.errors import StoreError, UsageError
from mergewise.server import state
from mergewise.server.configuration import ServeLimits
from mergewise.server.database import Postgres
from mergewise.server.records import CollectionRecord, Job, JobProgress, Upload
from mergewise.server.schema import MIGRATIONS, check_local_disk
from mergewise.server.state import State
from mergewise.server.tables import responses
from mergewise.server.tables.rows import Conflict
from tests.postgres import PostgresServer

BLOB = "ab" * 32


@pytest.fixture(params=["sqlite", "postgres"])
def own(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[State]:
    """The same state in both databases."""
    database = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.create(token_hex(8))
        (tmp_path / "data").mkdir()
    with State(tmp_path / "data" / "server.sqlite", database) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "data" / "server.sqlite") as opened:
        yield opened


FILTER = {"type": "eq", "key": "kind", "value": "open"}


def upload(doc_id: str, blob: str = BLOB, **fields: object) -> Upload:
    return Upload(doc_id, blob, f"{doc_id}.md", 3, **fields)  # type: ignore[arg-type]


def states_of(own: State, job: Job) -> list[str]:
    return [event.job["state"] for event in own.jobs.events(job.id)]


# -- tokens


def test_only_the_secret_authenticates(own: State) -> None:
    token, secret = own.tokens.add(["read"], collections=["a"], filter=FILTER, rate=5)
    assert own.tokens.authenticate(secret) == token and own.tokens.all() == [token]
    other = own.tokens.add(["read"])[1]
    crossed = f"mw_{token.id}_{other.rsplit('_', 1)[0][-43:]}"
    for wrong in ("", "mw_", secret[:-1], secret + "A", crossed, secret.replace(token.id, "0" * 12)):
        assert own.tokens.authenticate(wrong) is None
    if isinstance(own.database, Postgres):
        return
    kept = own.path.read_bytes() + own.path.with_name("server.sqlite-wal").read_bytes()
    assert token.id.encode() in kept and secret.encode() not in kept and secret[-43:].encode() not in kept


def test_a_token_has_only_its_scopes_and_collections(own: State) -> None:
    token, _ = own.tokens.add(["write"], collections=["a"])
    assert token.knows_of("a") and token.may("write")
    assert not token.knows_of("b") and not token.may("read") and not token.may("admin")
    anywhere, _ = own.tokens.add(["read"])
    assert anywhere.knows_of("anything") and anywhere.may("read")
    with pytest.raises(UsageError):
        own.tokens.add(["all"])  # type: ignore[list-item]
    with pytest.raises(UsageError):
        own.tokens.add([])


def test_tokens_and_sessions_expire(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    token, secret = own.tokens.add(["read"], expires=1000.0)
    monkeypatch.setattr(time, "time", lambda: 999.0)
    lasting = own.tokens.add(["read"])[0]
    sessions = [
        own.tokens.open_session(token, 60),
        own.tokens.open_session(lasting, 60),
        own.tokens.open_session(lasting, 60),
    ]
    assert [own.tokens.of_session(*session) for session in sessions] == [token, lasting, lasting]
    own.tokens.close_session(*sessions[2])
    assert own.tokens.of_session(*sessions[2]) is None and own.tokens.of_session("", "") is None
    # a cookie is valid only with its own secret
    assert (
        own.tokens.of_session(sessions[1][0], sessions[0][1]) is None
        and own.tokens.of_session(sessions[1][0], "") is None
    )
    monkeypatch.setattr(time, "time", lambda: 1001.0)
    assert own.tokens.authenticate(secret) is None and own.tokens.of_session(*sessions[0]) is None
    assert own.tokens.remove(lasting.id) and not own.tokens.remove(lasting.id)
    assert own.tokens.of_session(*sessions[1]) is None


# -- responses


def test_responses_are_kept_for_a_while_and_up_to_a_number(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    token, other = own.tokens.add(["read"])[0], own.tokens.add(["read"])[0]
    monkeypatch.setattr(responses, "MOST_RESPONSES", 2)
    for number in range(3):
        own.responses(token).keep(f"resp_{number}", {"number": number})
    own.responses(other).keep("resp_other", {})
    assert own.responses(token).get("resp_0") is None and own.responses(token).get("resp_2") == {"number": 2}
    assert own.responses(other).get("resp_2") is None and not own.responses(other).drop("resp_2")
    # the same token with other rights
    assert own.responses(replace(token, filter={"type": "eq"})).get("resp_2") is None
    assert own.responses(token).drop("resp_2") and own.responses(token).get("resp_2") is None
    assert own.tokens.remove(token.id) and own.responses(token).get("resp_1") is None
    assert own.responses(other).get("resp_other") == {}
    monkeypatch.setattr(responses, "RESPONSE_SECONDS", 0.0)
    assert own.responses(other).get("resp_other") is None


# -- jobs


def test_the_states_of_a_job(own: State) -> None:
    job = own.jobs.enqueue("add", "a", {"on_conflict": "replace"}, uploads=[upload("x"), upload("y")], token="t")
    assert job.state == "queued" and [one.status for one in own.documents.find("a")] == ["queued", "queued"]
    assert own.jobs.claim(coalesce=60) == []
    (claimed,) = own.jobs.claim(coalesce=0)
    assert (claimed.id, claimed.state, claimed.attempt) == (job.id, "running", 1)
    assert [one.status for one in own.documents.find("a")] == ["indexing", "indexing"]
    assert own.jobs.set_progress(job.id, JobProgress(1, 6, document="x")) == "running"
    own.jobs.set_progress(job.id, JobProgress(2, 6, document="x"))
    own.jobs.finish(job.id, "done", report={"indexed": 1}, documents={"x": None, "y": {"code": "unreadable"}})
    x, y = own.documents.find("a")
    assert (x.status, x.blob, y.status, y.error) == ("indexed", BLOB, "failed", {"code": "unreadable"})
    # late listeners need only the last progress event
    assert states_of(own, job) == ["queued", "running", "running", "done"]
    after = own.jobs.events(job.id)[1].number
    assert [event.job["progress"]["done"] for event in own.jobs.events(job.id, after)] == [2, 2]
    assert own.jobs.counts() == {"done": 1} and own.jobs.get("none") is None


def test_consecutive_uploads_are_grouped(own: State) -> None:
    first, second = (own.jobs.enqueue("add", "a", uploads=[upload(name)]) for name in "xy")
    other = own.jobs.enqueue("add", "b", uploads=[upload("x")])
    between = own.jobs.enqueue("metadata", "a", {"id": "x", "metadata": {}})
    last = own.jobs.enqueue("replace", "a", uploads=[upload("x")])
    taken = [[job.id for job in own.jobs.claim(coalesce=0)] for _ in range(5)]
    assert taken == [[first.id, second.id], [other.id], [between.id], [last.id], []]


def test_uploads_do_not_wait_for_a_clock_that_was_set_back(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    own.jobs.enqueue("add", "a", uploads=[upload("x")])
    own.beat(1)
    assert own.jobs.claim(coalesce=60) == [] and own.writer_is_alive()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert len(own.jobs.claim(coalesce=60)) == 1
    assert not own.writer_is_alive(), "its last sign of life may be an hour old"
    own.jobs.enqueue("add", "a", uploads=[upload("y")])
    assert own.jobs.claim(coalesce=60) == [], "uploads after the change still wait for others"


def test_continuous_uploads_start_after_the_longest_wait(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    own.jobs.enqueue("add", "a", uploads=[upload("x")])
    with own.database.change() as connection:
        connection.execute("UPDATE jobs SET created = created - 6")
    own.jobs.enqueue("add", "a", uploads=[upload("y")])
    assert len(own.jobs.claim(coalesce=60)) == 2


def test_removals_go_first_and_withdraw_uploads(own: State) -> None:
    add = own.jobs.enqueue("add", "a", uploads=[upload("d/x"), upload("d/y"), upload("e")])
    remove = own.jobs.enqueue("remove", "a", {"ids": ["e"]})
    prefix = own.jobs.enqueue("remove", "a", {"prefix": "d/x"})
    by_filter = own.jobs.enqueue("remove", "a", {"filter": {"type": "eq", "key": "id", "value": "d/y"}})
    later = own.jobs.enqueue("add", "a", uploads=[upload("e")])
    order = [[job.id for job in own.jobs.claim(0)] for _ in range(5)]
    assert order == [[remove.id], [prefix.id], [add.id], [by_filter.id], [later.id]]
    assert [one.id for one in own.jobs.uploads(add.id)] == ["d/y"]
    own.jobs.finish(remove.id, "done", removed=["e"])
    assert [(one.id, one.status) for one in own.documents.find("a")] == [("d/y", "indexing"), ("e", "indexing")]


def test_a_prefix_is_matched_literally(own: State) -> None:
    own.jobs.enqueue("add", "a", uploads=[upload("50%_a"), upload("50xya")])
    assert [one.id for one in own.documents.find("a", prefix="50%")] == ["50%_a"]
    assert [one.id for one in own.documents.find("a", after="50%_a", limit=5)] == ["50xya"]
    assert own.documents.find("a", ids=[]) == [] and own.documents.find("b") == []


def test_a_removed_upload_is_not_retried(own: State) -> None:
    add = own.jobs.enqueue("add", "a", uploads=[upload("x"), upload("y")])
    own.jobs.claim(0)
    remove = own.jobs.enqueue("remove", "a", {"ids": ["x"]})
    own.jobs.recover(3)
    assert [job.id for job in own.jobs.claim(0)] == [remove.id]
    assert [one.id for one in own.jobs.uploads(add.id)] == ["y"]
    own.jobs.finish(add.id, "done", documents={"x": None, "y": None})
    assert [one.id for one in own.documents.find("a")] == ["y"]


def test_a_newer_upload_of_a_document_stays_queued(own: State) -> None:
    older = own.jobs.enqueue("add", "a", uploads=[upload("x")])
    own.jobs.claim(0)
    newer = own.jobs.enqueue("replace", "a", uploads=[upload("x", "cd" * 32)])
    own.jobs.finish(older.id, "done", documents={"x": None})
    (x,) = own.documents.find("a")
    assert (x.status, x.job, x.blob) == ("queued", newer.id, BLOB)
    assert own.documents.blobs_needed("a") == {BLOB, "cd" * 32}
    own.jobs.claim(0)
    own.jobs.finish(newer.id, "done", documents={"x": None})
    assert own.documents.blobs_needed("a") == {"cd" * 32} and own.documents.find("a")[0].status == "indexed"


def test_deaths_of_the_writer(own: State) -> None:
    job = own.jobs.enqueue("add", "a", uploads=[upload("x"), upload("y")])
    with_it = own.jobs.enqueue("add", "a", uploads=[upload("z")])
    together = [job.id, with_it.id]
    for document in ("x", "y", "y"):
        assert [one.id for one in own.jobs.claim(0)] == together
        for one in together:
            own.jobs.set_progress(one, JobProgress(1, 9, document=document))
        assert [one.state for one in own.jobs.recover(3)] == ["queued", "queued"]
    # after two deaths at one document, the jobs run one by one
    assert [one.id for one in own.jobs.claim(0)] == [job.id]
    own.jobs.set_progress(job.id, JobProgress(1, 6, document="y"))
    assert [one.state for one in own.jobs.recover(3)] == ["failed"]
    failed = own.jobs.get(job.id)
    assert failed is not None and failed.error is not None
    assert (failed.state, failed.error["code"], failed.error["document"]) == ("failed", "writer_killed", "y")
    assert {one.status for one in own.documents.find("a", ids=["x", "y"])} == {"failed"}
    assert own.jobs.get(with_it.id).state == "queued"  # type: ignore[union-attr]
    again = own.jobs.retry(job.id)
    assert again is not None and (again.state, again.kills, again.error) == ("queued", 0, None)
    assert {one.status for one in own.documents.find("a")} == {"queued"}


def test_putting_a_job_aside_counts_no_kill(own: State) -> None:
    job = own.jobs.enqueue("check", "a")
    for _ in range(5):
        own.jobs.claim()
        own.jobs.requeue(job.id)
    queued = own.jobs.get(job.id)
    assert queued is not None and (queued.state, queued.kills, queued.attempt) == ("queued", 0, 5)


def test_cancelling(own: State) -> None:
    waiting = own.jobs.enqueue("add", "a", uploads=[upload("x")])
    assert own.jobs.cancel(waiting.id).state == "cancelled" and own.documents.find("a") == []  # type: ignore[union-attr]
    running = own.jobs.enqueue("add", "a", uploads=[upload("x"), upload("y")])
    own.jobs.claim(0)
    assert own.jobs.cancel(running.id).state == "cancelling"  # type: ignore[union-attr]
    assert own.jobs.set_state(running.id, "waiting_lock") == "cancelling"
    assert own.jobs.set_progress(running.id, JobProgress()) == "cancelling"
    own.jobs.finish(running.id, "cancelled", documents={"x": None})
    assert [(one.id, one.status) for one in own.documents.find("a")] == [("x", "indexed")]
    assert own.jobs.cancel(running.id).state == "cancelled"  # type: ignore[union-attr]
    assert own.jobs.cancel("none") is None
    again = own.jobs.retry(running.id)
    assert again is not None and [one.id for one in own.jobs.uploads(again.id)] == ["y"]
    own.jobs.claim(0)
    own.jobs.cancel(running.id)
    assert [one.state for one in own.jobs.recover(3)] == ["cancelled"]


def test_an_indexed_document_survives_a_cancelled_upload(own: State) -> None:
    first = own.jobs.enqueue("add", "a", uploads=[upload("x")])
    own.jobs.claim(0)
    own.jobs.finish(first.id, "done", documents={"x": None})
    own.jobs.cancel(own.jobs.enqueue("replace", "a", uploads=[upload("x", "cd" * 32)]).id)
    assert [(one.status, one.blob) for one in own.documents.find("a")] == [("indexed", BLOB)]


def test_only_ended_jobs_with_unfinished_documents_can_be_retried(own: State) -> None:
    job = own.jobs.enqueue("add", "a", uploads=[upload("x")])
    with pytest.raises(Conflict):
        own.jobs.retry(job.id)
    own.jobs.claim(0)
    own.jobs.finish(job.id, "done", documents={"x": None})
    with pytest.raises(Conflict):
        own.jobs.retry(job.id)
    assert own.jobs.retry("none") is None


def test_an_idempotency_key_returns_the_same_job_for_a_day(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    first = own.jobs.enqueue("check", "a", token="t", idempotency=("k", "f"))
    assert own.jobs.enqueue("check", "a", token="t", idempotency=("k", "f")).id == first.id
    assert own.jobs.enqueue("check", "a", token="u", idempotency=("k", "f")).id != first.id
    with pytest.raises(Conflict):
        own.jobs.enqueue("check", "a", token="t", idempotency=("k", "g"))
    later = time.time() + 86_401
    monkeypatch.setattr(time, "time", lambda: later)
    assert own.jobs.enqueue("check", "a", token="t", idempotency=("k", "f")).id != first.id


def test_dropping_a_collection_cancels_its_jobs(own: State) -> None:
    running, waiting, other = (own.jobs.enqueue("check", name) for name in "aab")
    own.jobs.claim(0)
    drop = own.jobs.enqueue("drop", "a")
    assert own.jobs.get(running.id).state == "cancelling" and own.jobs.get(waiting.id).state == "cancelled"  # type: ignore[union-attr]
    assert [job.id for job in own.jobs.claim(0)] == [drop.id] and [job.id for job in own.jobs.claim(0)] == [other.id]


def test_jobs_in_pages(own: State) -> None:
    made = [own.jobs.enqueue("check", name).id for name in "abab"]
    newest = own.jobs.find(limit=3)
    assert [job.id for job in newest] == made[:0:-1]
    assert [job.id for job in own.jobs.find(before=newest[-1].number)] == made[:1]
    assert [job.id for job in own.jobs.find(collections=["a"], states=["queued"])] == [made[2], made[0]]


# -- collections


def test_collection_paths_move_with_the_data(file: State, tmp_path: Path) -> None:
    data = file.path.parent
    record = CollectionRecord(
        "a", str(data / "collections/a/index"), str(data / "collections/a/blobs"), views=("leaf",)
    )
    made = file.collections.add(record)
    file.collections.add(CollectionRecord("b", "/elsewhere/index", str(data / "b"), configured=True))
    with pytest.raises(Conflict):
        file.collections.add(record)
    assert file.collections.get("a") == made == replace(record, created=made.created)
    assert file.collections.change("a", title="A", defaults={"budget": 9}).title == "A"  # type: ignore[union-attr]
    file.close()
    data.rename(tmp_path / "moved")
    with State(tmp_path / "moved" / file.path.name) as moved:
        assert moved.collections.get("a").path == str(tmp_path / "moved/collections/a/index")  # type: ignore[union-attr]
        assert moved.collections.get("b").path == "/elsewhere/index"  # type: ignore[union-attr]
        moved.collections.forget("a")
        assert [one.name for one in moved.collections.all()] == ["b"]


# -- the file


def test_threads_and_connections_share_the_state(file: State) -> None:
    def enqueue() -> None:
        with State(file.path) as theirs:
            for _ in range(5):
                theirs.jobs.enqueue("check", "a")
                file.jobs.find()

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(file.jobs.find()) == 20 and sorted(job.number for job in file.jobs.find()) == list(range(1, 21))


def test_a_failed_transaction_changes_nothing(own: State) -> None:
    with pytest.raises(StoreError):
        own.jobs.enqueue("add", "a", uploads=[upload("x"), upload("y", metadata={}, title=b"\0" * 3 and object())])
    assert own.jobs.find() == [] and own.documents.find("a") == []


def test_a_newer_file_is_refused(file: State) -> None:
    connection = sqlite3.connect(file.path)
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(UsageError, match="newer"):
        State(file.path)


def test_an_invalid_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.sqlite").write_text("nonsense " * 200)
    with pytest.raises(StoreError, match=r"server\.sqlite"):
        State(tmp_path / "server.sqlite")


def test_the_file_is_private(file: State) -> None:
    assert file.path.stat().st_mode & 0o077 == 0 and file.path.parent.stat().st_mode & 0o077 == 0


def test_check_writable_notices_a_full_disk_and_a_replaced_file(file: State, monkeypatch: pytest.MonkeyPatch) -> None:
    file.check_writable()
    monkeypatch.setattr(state, "_FREE_BYTES", 10**18)
    with pytest.raises(StoreError, match="full"):
        file.check_writable()
    monkeypatch.undo()
    file.path.rename(file.path.with_name("gone"))
    with pytest.raises(StoreError):
        file.check_writable()


def test_network_disks_are_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"a / ext4 rw 0 0\nhost:/x {tmp_path}/a\\040b nfs4 rw 0 0\n/dev/b {tmp_path}/a\\040b/c ext4 rw 0 0\n"
    )
    for place, refused in (("a b", True), ("a b/d", True), ("a b/c/d", False), ("a", False), ("a bc", False)):
        try:
            check_local_disk(tmp_path / place, mounts)
            assert not refused, place
        except UsageError as error:
            assert refused and "nfs4" in error.message
    check_local_disk(tmp_path, tmp_path / "none")


def test_pruning_deletes_old_events_and_uploads(own: State, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = own.jobs.enqueue("add", "a", uploads=[upload("x")])
    own.jobs.claim(0)
    own.jobs.finish(ended.id, "failed", error={"code": "model"})
    waiting = own.jobs.enqueue("add", "a", uploads=[upload("y")])
    later = time.time() + 8 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    own.prune(ServeLimits())
    assert own.jobs.events(ended.id) == [] and own.jobs.uploads(ended.id) == []
    assert own.jobs.uploads(waiting.id) and own.jobs.events(waiting.id)
    with pytest.raises(Conflict):
        own.jobs.retry(ended.id)


def test_the_writers_beat(own: State) -> None:
    assert not own.writer_is_alive()
    own.beat(1)
    assert own.writer_is_alive() and not own.writer_is_alive(within=-1)
    own.beat(None)
    assert not own.writer_is_alive()


def test_records_as_clients_see_them(own: State) -> None:
    token = own.tokens.add(["write", "read"], collections=["b", "a"])[0]
    assert json.loads(json.dumps(token.as_dict()))["collections"] == ["a", "b"]
    assert token.as_dict()["scopes"] == ["read", "write"]
    public = own.jobs.enqueue("check", "a").as_dict()
    assert "request" not in public and "token" not in public and public["progress"]["unit"] == "characters"
