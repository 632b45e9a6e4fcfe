"""SIGKILL of the writer and the evaluator: each job ends once, no call is repeated, a poisoned document fails only its job."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.server.configuration import CollectionConfig, ModelConfig, ServerConfig
from mergewise.server.jobs.process import run_jobs
from mergewise.server.processes import prepare
from mergewise.server.records import ENDED
from mergewise.server.state import State
from tests.chat_server import ChatServer
from tests.server.killing import Summarizer, assert_each_done_once, queue
from tests.support import patience, until

pytest.importorskip("openai")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("MERGEWISE_ATTACK" not in os.environ, reason="half a minute: make chaos"),
]
KILLS = int(os.environ.get("MERGEWISE_KILLS", "4"))
SPAWN = multiprocessing.get_context("spawn")


def start(config: ServerConfig, name: str = "writer") -> Any:
    process = SPAWN.Process(target=run_jobs, args=(config, os.getpid(), name))
    process.start()
    return process


def is_asked_again(chat: Summarizer, before: int) -> bool:
    return len(chat.asked) > before


def test_kills_during_model_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILLS_KEY", "sk-kills")
    draw = random.Random(0)
    chat = Summarizer(tmp_path / "data")
    with ChatServer(chat) as endpoint:
        config = ServerConfig(
            tmp_path / "data",
            chats={"local": ModelConfig("openai:m", base_url=endpoint.base_url, key_env="KILLS_KEY")},
            collections={"a": CollectionConfig(embedder="none", views=("leaf", "slice"), chat="local")},
        )
        with State.of(config) as state:
            prepare(config, state)
            bodies = {
                f"d{n}": f"# D{n}\n\nThe town {n} built a bridge over the river in 18{n}.\n"
                for n in range(24 + 24 * KILLS)
            }
            jobs = [queue(state, config.data, doc_id, body) for doc_id, body in bodies.items()]
            for _ in range(KILLS):
                writer, before = start(config), len(chat.asked)
                assert until(partial(is_asked_again, chat, before))
                time.sleep(draw.uniform(0, 0.3))
                assert any(state.jobs.get(job).state == "running" for job in jobs)  # type: ignore[union-attr]
                os.kill(writer.pid, signal.SIGKILL)
                writer.join()
            writer = start(config)
            assert until(lambda: set(state.jobs.counts()) == {"done"}, 240)
            writer.terminate()
            writer.join(patience(20))
            assert writer.exitcode == 0
            assert_each_done_once(state, jobs)
    with mw.open(config.data / "collections/a/index", create=False) as index:
        assert index.check() == []
        assert {info.id: index.document(info.id).text for info in index.documents()} == bodies
    assert len(set(chat.asked)) == len(bodies) and not any(chat.paid_twice)


def run_poisoned_writer(config: ServerConfig) -> None:
    add = mw.Index.add

    def die(self: mw.Index, sources: list[mw.File], **options: Any) -> mw.AddReport:
        for source in sources:
            options["progress"](0, 9, source.id)
            if source.id == "poison":
                os.kill(os.getpid(), signal.SIGKILL)
        return add(self, sources, **options)

    mw.Index.add = die  # type: ignore[method-assign]
    run_jobs(config, os.getppid())


def test_a_document_that_kills_the_writer_fails_only_its_job(tmp_path: Path) -> None:
    config = ServerConfig(tmp_path / "data", collections={"a": CollectionConfig(embedder="none")})
    with State.of(config) as state:
        prepare(config, state)
        jobs = {one: queue(state, config.data, one, f"The text of {one}.") for one in ("before", "poison", "after")}
        for _ in range(3):
            writer = SPAWN.Process(target=run_poisoned_writer, args=(config,))
            writer.start()
            writer.join(patience(60))
            assert writer.exitcode == -signal.SIGKILL
        writer = SPAWN.Process(target=run_poisoned_writer, args=(config,))
        writer.start()
        assert until(lambda: state.jobs.get(jobs["after"]).state == "done")  # type: ignore[union-attr]
        writer.terminate()
        writer.join(patience(20))
        ended = {doc_id: state.jobs.get(job) for doc_id, job in jobs.items()}
    states = {"before": "done", "poison": "failed", "after": "done"}
    assert {doc_id: job.state for doc_id, job in ended.items() if job} == states
    assert ended["poison"].error["document"] == "poison"  # type: ignore[union-attr, index]


def test_kills_during_evaluations_and_checks(tmp_path: Path) -> None:
    draw = random.Random(0)
    config = ServerConfig(tmp_path / "data", collections={"a": CollectionConfig(embedder="none")})
    questions = [{"question": f"Who built bridge {n}?", "answers": ["the town"]} for n in range(60)]
    with State.of(config) as state:
        prepare(config, state)
        writer = start(config)
        uploaded = queue(state, config.data, "d", "# D\n\nThe town built a bridge over the river in 1812.\n")
        jobs = [
            state.jobs.enqueue(kind, "a", {"questions": questions} if kind == "evaluate" else {}).id
            for _ in range(1 + KILLS // 2)
            for kind in ("evaluate", "check")
        ]
        assert until(lambda: state.jobs.get(uploaded).state == "done")  # type: ignore[union-attr]
        for _ in range(KILLS):
            evaluator = start(config, "evaluator")
            assert until(lambda: "running" in state.jobs.counts(), 60) or set(state.jobs.counts()) == {"done"}
            time.sleep(draw.uniform(0, 0.3))
            os.kill(evaluator.pid, signal.SIGKILL)
            evaluator.join()
        # the writer is not affected
        assert state.jobs.get(queue(state, config.data, "e", "A text."))
        assert until(lambda: state.jobs.counts().get("done", 0) > 1)
        evaluator = start(config, "evaluator")
        assert until(lambda: not {"queued", "running"} & set(state.jobs.counts()), 240)
        for process in (evaluator, writer):
            process.terminate()
            process.join(patience(20))
            assert process.exitcode == 0
        ended = [state.jobs.get(job) for job in jobs]
        for job in ended:
            assert job is not None and (job.state == "done" or job.error["code"] == "writer_killed"), job  # type: ignore[index]
            assert sum(event.job["state"] in ENDED for event in state.jobs.events(job.id)) == 1
        assert sum(job.state == "done" for job in ended if job) >= len(jobs) - KILLS // 3


def test_the_evaluator_ends_with_its_parent(tmp_path: Path) -> None:
    config = ServerConfig(tmp_path / "data")
    with State.of(config) as state:
        prepare(config, state)
        evaluator = SPAWN.Process(target=run_jobs, args=(config, 1, "evaluator"))
        evaluator.start()
        evaluator.join(patience(30))
        assert evaluator.exitcode == 0
