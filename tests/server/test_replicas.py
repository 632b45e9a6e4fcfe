"""Several servers with one state in Postgres: rights to collections, takeovers, lost connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest

from mergewise.errors import StoreError, UsageError
from mergewise.server.configuration import ServeLimits, load_config
from mergewise.server.conversations import OwnConversations
from mergewise.server.records import CHANGING, READ_ONLY, CollectionRecord, Job, Upload
from mergewise.server.state import State
from tests.postgres import PostgresServer
from tests.server.conftest import live_server
from tests.support import until

Open = Callable[[], State]


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.create(token_hex(8))


@pytest.fixture
def replica(database: str, tmp_path: Path) -> Iterator[Open]:
    """A function that opens the state in one more process's place."""
    opened: list[State] = []

    def begin() -> State:
        opened.append(State(tmp_path / f"data{len(opened)}" / "server.sqlite", database, tmp_path / "shared"))
        return opened[-1]

    yield begin
    for state in opened:
        state.close()


def test_tokens_and_records_are_shared(replica: Open, tmp_path: Path) -> None:
    one, other = replica(), replica()
    token, secret = one.tokens.add(["read", "write"])
    assert other.tokens.authenticate(secret) == token
    session = other.tokens.open_session(token, 60)
    assert one.tokens.of_session(*session) == token
    assert other.tokens.remove(token.id)
    assert one.tokens.authenticate(secret) is None and one.tokens.of_session(*session) is None
    one.collections.add(CollectionRecord("a", str(tmp_path / "shared/a"), "s3:/bucket/blobs", views=("leaf",)))
    assert other.collections.get("a") == one.collections.get("a")
    assert one.collections.get("a").path == str(tmp_path / "shared/a")  # type: ignore[union-attr]
    key = ("key", "fingerprint")
    assert one.jobs.enqueue("check", "a", idempotency=key) == other.jobs.enqueue("check", "a", idempotency=key)


def test_one_writer_runs_the_jobs_of_a_collection(replica: Open) -> None:
    one, other = replica(), replica()
    jobs = {name: [one.jobs.enqueue("optimize", name).id for _ in range(2)] for name in "ab"}
    check = one.jobs.enqueue("evaluate", "c").id
    (first,) = one.jobs.claim(kinds=CHANGING)
    (second,) = other.jobs.claim(kinds=CHANGING)
    assert {first.collection, second.collection} == {"a", "b"}
    # the other collection is taken, and so is the rest of the own one
    assert (
        one.jobs.claim(kinds=CHANGING, busy=[first.collection]) == []
        and other.jobs.claim(kinds=CHANGING, busy=[second.collection]) == []
    )
    # jobs that only read do not wait for the writer
    assert [job.id for job in other.jobs.claim(kinds=[*READ_ONLY])] == [check]
    one.jobs.finish(first.id, "done")
    one.jobs.release(["optimize"], [first.collection])
    (third,) = other.jobs.claim(kinds=CHANGING, busy=[second.collection])
    assert third.id == jobs[first.collection][1]
    # a living process keeps its jobs
    assert one.jobs.recover(3, CHANGING) == []


def test_the_jobs_of_a_dead_writer_are_taken_over(replica: Open) -> None:
    one, other = replica(), replica()
    upload = Upload("d", "ab" * 32, "d.md", 3)
    job = one.jobs.enqueue("add", "a", uploads=[upload])
    assert [claimed.id for claimed in one.jobs.claim(coalesce=0)] == [job.id]
    assert other.jobs.recover(3) == [] and other.jobs.claim(coalesce=0) == []
    one.close()
    recovered: Job | None = None

    def is_recovered() -> bool:
        nonlocal recovered
        recovered = recovered or next(iter(other.jobs.recover(3)), None)
        return recovered is not None

    assert until(is_recovered, 10) and recovered is not None
    assert (recovered.id, recovered.state, recovered.kills) == (job.id, "queued", 1)
    (again,) = other.jobs.claim(coalesce=0)
    assert (again.id, again.attempt) == (job.id, 2)


def test_claims_of_many_threads_take_each_job_once(replica: Open) -> None:
    states = [replica() for _ in range(4)]
    jobs = [states[0].jobs.enqueue("optimize", f"c{number % 8}").id for number in range(40)]
    taken: list[str] = []

    def work(state: State) -> None:
        while state.jobs.counts().get("queued"):
            for job in state.jobs.claim():
                taken.append(job.id)
                state.jobs.finish(job.id, "done")
                state.jobs.release([job.kind], [job.collection])

    threads = [threading.Thread(target=work, args=[state]) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == sorted(jobs)


def test_a_lost_connection_is_opened_again_but_its_rights_are_gone(replica: Open, postgres: PostgresServer) -> None:
    idle, busy = replica(), replica()
    job = idle.jobs.enqueue("optimize", "a")
    assert [one.id for one in busy.jobs.claim()] == [job.id]
    postgres.stop()
    with pytest.raises(StoreError, match="check the database"):
        idle.jobs.find()
    postgres.start()
    assert [one.state for one in idle.jobs.find()] == ["running"]
    assert [one.id for one in idle.jobs.recover(3)] == [job.id]
    assert [one.id for one in idle.jobs.claim()] == [job.id]
    # whoever lost its right to the collection changes nothing more
    for _ in range(2):
        with pytest.raises(StoreError):
            busy.jobs.finish(job.id, "failed")
    assert busy.jobs.get(job.id) == idle.jobs.get(job.id)
    idle.jobs.finish(job.id, "done")
    assert busy.jobs.get(job.id).state == "done"  # type: ignore[union-attr]


def test_nothing_of_a_removed_token_remains_in_the_tables(replica: Open, postgres: PostgresServer) -> None:
    state, secret = replica(), f"harbour-{token_hex(8)}"
    token, other = (state.tokens.add(["read"])[0] for _ in range(2))
    user = replace(token, id=f"{token.id}-user")

    def files() -> set[str]:
        """Return the kinds of files with the secret."""
        postgres.run("CHECKPOINT")
        found = (one.relative_to(postgres.folder) for one in postgres.folder.rglob("*") if one.is_file())
        return {one.parts[0] for one in found if secret.encode() in (postgres.folder / one).read_bytes()}

    for n in range(400):
        # enough for pages that hold nothing else
        state.conversations(user, "a").add_turn("", f"{secret} {n}", {"answer": {}}, ServeLimits())
    state.responses(token).keep("resp_1", {"response": secret})
    state.conversations(other, "a").add_turn("", "q", {"answer": {}}, ServeLimits())
    assert "base" in files()
    assert state.tokens.remove(token.id)
    assert "base" not in files()
    assert [one.title for one in state.conversations(other, "a").find()] == ["q"]


@pytest.mark.usefixtures("scripted_key")
def test_a_server_without_its_database_is_away_for_a_while(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    with live_server(tmp_path / "data", database=database, storage=tmp_path / "shared") as server:
        client, paths = server.client("read"), ("/api/v1/collections", "/v1/models", "/api/v1/jobs")
        assert {client.get(path).status_code for path in paths} == {200}
        postgres.stop()
        for answer in map(client.get, (*paths, "/readyz")):
            assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1, answer.text
            assert "postgres" not in answer.text
        assert client.get("/livez").status_code == 200
        postgres.start()
        assert {client.get(path).status_code for path in paths} == {200}


def test_texts_that_postgres_does_not_store(replica: Open) -> None:
    state = replica()
    token, _ = state.tokens.add(["read"])
    own: OwnConversations = state.conversations(token, "a")
    turn = own.add_turn("", "What\0 is Ärger?", {"answer": {"answer": "A \0 \\u0000 text, 100 % sure?"}}, ServeLimits())
    assert own.turns(turn["conversation"])[0]["question"] == "What\ufffd is Ärger?"
    assert [one.id for one in own.find("ÄRGER")] == [turn["conversation"]] == [one.id for one in own.find("100 % SURE")]
    assert own.find("100 % unsure") == []


def test_a_newer_database_is_refused(replica: Open) -> None:
    state = replica()
    with state.database.change() as rows:
        rows.execute("INSERT INTO version VALUES (?)", [1000])
    with pytest.raises(UsageError, match="newer"):
        replica()


def test_the_password_is_masked(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as failure:
        State(tmp_path / "server.sqlite", "postgresql://me:very-secret-word@127.0.0.1:1/none")
    assert "very-secret-word" not in str(failure.value)


def test_a_database_and_a_storage_belong_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a database and a storage"):
        load_config(tmp_path, environment={"MERGEWISE_SERVE_DATABASE": "postgresql:///x"})
    with pytest.raises(UsageError, match="a database and a storage"):
        load_config(tmp_path, flags={"role": "web"}, environment={})
    with pytest.raises(UsageError, match="role"):
        load_config(tmp_path, flags={"role": "reader"}, environment={})
    names = {"DATABASE": "postgresql:///x", "STORAGE": "s3://bucket/place", "ROLE": "writer"}
    config = load_config(tmp_path, environment={f"MERGEWISE_SERVE_{name}": value for name, value in names.items()})
    assert (config.role, config.database) == ("writer", "postgresql:///x")
    assert str(config.home_of("a")) == "s3:/bucket/place/collections/a" and config.spool == tmp_path / "spool"
    folder = load_config(tmp_path, environment={}, flags={"database": "postgresql:///x", "storage": "/mnt/all"})
    assert folder.home_of("a") == Path("/mnt/all/collections/a") and folder.spool == Path("/mnt/all/spool")
