"""The command `eval --out`: rows are saved and never computed twice, even if a run is killed; dry runs and checks."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.invoking import invoke
from tests.evaluate.measured_runs import without_seconds
from tests.evaluate.towns import DOCUMENTS, QUESTIONS, TASK, saved_task
from typer.testing import CliRunner

import mergewise.models
from mergewise import asking
from mergewise.cli.evaluate import EvaluationOptions
from mergewise.cli.evaluation_runner import experiment_of
from mergewise.cli.main import app, configuration
from mergewise.designs.weave.evidence import WEIGHTS
from mergewise.errors import ModelError, UsageError
from mergewise.evaluate import evaluator
from mergewise.evaluate.columns import chosen_metrics, main_metric
from mergewise.evaluate.experiment import compute_shard
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.report import evaluation_report
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.runs.lines import RowCount
from mergewise.evaluate.runs.run_folder import open_run, read_table, write_table
from mergewise.evaluate.runs.run_schema import ROWS
from mergewise.models.scripted import ScriptedChat
from mergewise.query import Query
from mergewise.retrieve.hybrid import SearchSettings

KILLS = int(os.environ.get("MERGEWISE_KILLS", "2"))


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a question set and its index."""
    folder = tmp_path_factory.mktemp("towns")
    saved_task(folder / "towns")
    run(str(folder / "towns"), "-s", "topk", "-b", "60", "-n", "1", "-i", str(folder / "indexes"))
    return folder


@pytest.fixture
def indexed(towns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy of the folder, as the working directory."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(towns, tmp_path, dirs_exist_ok=True)


run = partial(invoke, "eval", "-e", "none")


def timeless_bytes(path: Path) -> bytes:
    """Return the bytes of a run's rows without their seconds."""
    copy = path.with_suffix(".timeless")
    write_table(copy, without_seconds(read_table(path, ROWS)))
    return copy.read_bytes()


def record_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the questions whose contexts are assembled from now on."""
    asked: list[str] = []
    assemble = asking.context

    def context(query: Query, state: Any) -> Any:
        asked.append(query.question)
        return assemble(query, state)

    monkeypatch.setattr(evaluator, "context", context)
    return asked


def test_a_run_is_kept_and_nothing_is_computed_twice(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record_questions(monkeypatch)
    given = "towns", "-i", "indexes", "-b", "30,60", "--out", "run"
    first = run(*given, "-s", "topk,weave")
    assert len(asked) == 2 * 2 * len(QUESTIONS)
    made = open_run(indexed / "run")
    assert not list((indexed / "run" / "rows").iterdir())
    assert [one.name for one in made.plan.methods] == ["topk", "weave"] and made.plan.budgets == (30, 60)
    assert (made.plan.sets[0].name, made.plan.sets[0].asked, made.plan.reference) == ("towns", 4, "")
    assert made.set_questions("towns")[1].text == QUESTIONS[1].text
    for row in made.run_rows():
        assert row.tokens and row.query_seconds is not None and row.ranking[0].doc == row.passages[0].spans[0].doc_id
        text = "".join(made.passage_text("towns", passage) for passage in row.passages)
        assert row.scores["answer"] == float(QUESTIONS[int(row.question)].answers[0] in text)
        assert row.scores["recall@1"] == 1.0 and row.scores["em"] is None if "em" in row.scores else True
    asked.clear()
    files = {path.name: path.read_bytes() for path in (indexed / "run").glob("*.parquet")}
    assert run(*given, "-s", "topk,weave").splitlines()[:-1] == first.splitlines()[:-1] and not asked
    assert {path.name: path.read_bytes() for path in (indexed / "run").glob("*.parquet")} == files
    # another method joins the existing ones
    run(*given, "-s", "hybrid")
    assert len(asked) == 2 * len(QUESTIONS)
    later = open_run(indexed / "run")
    assert [one.name for one in later.plan.methods] == ["topk", "weave", "hybrid"]
    assert later.rows()["method"].to_pylist() == [name for name in ("topk", "weave", "hybrid") for _ in range(8)]


def test_tuned_settings_are_compared_with_the_defaults_in_one_run(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = dict[str, Any]()
    assemble = asking.context

    def context(query: Query, state: Any) -> Any:
        asked[query.strategy] = state.settings, (state.models.weights or WEIGHTS)["cosine"]
        return assemble(query, state)

    monkeypatch.setattr(evaluator, "context", context)
    file = indexed / "w.toml"
    file.write_text("[weave]\ncosine = 3.25")
    tuned = "weave(k=9, search.depth=5, weights=w.toml)"
    given = "towns", "-i", "indexes", "-b", "30", "-n", "1", "--out", "run", "-s", f"weave, {tuned}"
    run(*given)
    assert asked == {"weave": (SearchSettings(), WEIGHTS["cosine"]), "weave(k=9)": (SearchSettings(depth=5), 3.25)}
    plan = open_run(indexed / "run").plan
    assert [(one.name, one.strategy, one.search, one.weights) for one in plan.methods] == [
        ("weave", "weave", "", ""),
        (tuned, "weave(k=9)", "depth=5", "cosine=3.25"),
    ]
    # other weights in the file: other rows
    asked.clear()
    file.write_text("[weave]\ncosine = 4.5")
    run(*given)
    assert asked == {"weave(k=9)": (SearchSettings(depth=5), 4.5)}
    # options for all strategies, and the configuration, apply unless a strategy sets its own
    asked.clear()
    (indexed / "mergewise.toml").write_text('search = "weight=0.5, depth=7"\nweights = "w.toml"')
    known = configuration()["eval"]
    monkeypatch.setenv("MERGEWISE_WEIGHTS", known["weights"])
    run(*given[:-1], "topk, weave(search.depth=5)", search=known["search"])
    assert asked["topk"] == (SearchSettings(weight=0.5, depth=7), 4.5)
    assert asked["weave"] == (SearchSettings(weight=0.5, depth=5), 4.5)
    for wrong in ("weave(search.breadth=5)", "weave(weights=none.toml)", "topk(weights=w.toml)"):
        with pytest.raises(UsageError, match=r"has no parameter|cannot be read"):
            run(*given[:-1], wrong)


def test_rankings_are_files_for_other_tools(indexed: Path) -> None:
    run("towns", "-i", "indexes", "-s", "topk,weave", "-b", "30,60", "--out", "run")
    folder = indexed / "run" / "trec"
    assert sorted(path.name.split("@")[0] for path in folder.glob("*.run")) == ["topk", "topk", "weave", "weave"]
    (first,) = folder.glob("topk@60*")
    lines = [line.split(" ") for line in first.read_text().splitlines()]
    assert {len(line) for line in lines} == {6} and {(line[1], line[5]) for line in lines} == {("Q0", "topk@60")}
    assert [line[:4] for line in lines if line[3] == "1"] == [
        [f"towns/{n}", "Q0", DOCUMENTS[n].id, "1"] for n in range(4)
    ]
    gold = (folder / "gold.qrels").read_text().splitlines()
    assert gold == [f"towns/{n} 0 {one.id} 1" for n, one in enumerate(DOCUMENTS)]


@pytest.fixture
def uninterrupted(indexed: Path) -> tuple[list[str], bytes]:
    """Options of a complete run, and the bytes of its rows."""
    words = ["towns", "-i", "indexes", "-s", "topk,weave,sentence", "-b", "20,30,60", "--out"]
    run(*words, "whole")
    return words, timeless_bytes(indexed / "whole" / "rows.parquet")


def test_a_killed_run_continues_and_ends_like_an_uninterrupted_one(
    indexed: Path, uninterrupted: tuple[list[str], bytes]
) -> None:
    """Kill a run soon after a saved question, and leave a torn last line. MERGEWISE_KILLS sets the number of kills."""
    words, whole = uninterrupted
    slow = (
        "import sys, time; from mergewise.evaluate import evaluator; from mergewise.cli.main import main; "
        "add = evaluator.RowStore.add; "
        "evaluator.RowStore.add = lambda *given: (add(*given), print('added', flush=True), time.sleep(0.05))[0]; "
        "main()"
    )
    draw = random.Random(0)
    for _ in range(KILLS):
        command = [sys.executable, "-c", slow, "eval", "-e", "none", *words, "run"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line == "added\n":
                    break
            time.sleep(draw.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
        assert not list((indexed / "run").glob("*.tmp"))
        for path in (indexed / "run" / "rows").glob("*.jsonl"):
            # a kill in the middle of a write leaves half a line
            path.write_bytes(path.read_bytes()[: -draw.randrange(1, 400)])
    run(*words, "run")
    assert timeless_bytes(indexed / "run" / "rows.parquet") == whole
    for name in ("questions.parquet", "texts.parquet"):
        assert (indexed / "run" / name).read_bytes() == (indexed / "whole" / name).read_bytes()


def test_a_kill_while_the_tables_are_written_costs_nothing(
    indexed: Path, uninterrupted: tuple[list[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, whole = uninterrupted

    def killed_before(name: str) -> Callable[[Path, pa.Table], None]:
        def write(path: Path, table: pa.Table) -> None:
            if path.name == name:
                raise KeyboardInterrupt
            write_table(path, table)

        return write

    for name in ("texts.parquet", "questions.parquet", "rows.parquet"):
        with monkeypatch.context() as patch:
            patch.setattr("mergewise.evaluate.runs.finish.write_table", killed_before(name))
            CliRunner().invoke(app, ["eval", "-e", "none", *words, "run"])
        if name == "texts.parquet":
            # a run without its tables can be reported
            assert "weave" in CliRunner().invoke(app, ["report", "run"], catch_exceptions=False).output
    with monkeypatch.context() as patch:
        patch.setattr("mergewise.evaluate.runs.finish.write_rankings", lambda *given: 1 / 0)
        CliRunner().invoke(app, ["eval", "-e", "none", *words, "run"])
    # the table and the lines both exist
    assert (indexed / "run" / "rows.parquet").exists() and list((indexed / "run" / "rows").iterdir())
    asked = record_questions(monkeypatch)
    run(*words, "run")
    assert timeless_bytes(indexed / "run" / "rows.parquet") == whole and not asked


def test_shards_become_one_run(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = EvaluationOptions(
        out=Path("run"), index_dir=Path("indexes"), embedder="none", strategies="topk", budgets="60"
    )
    (indexed / "run").mkdir()
    (indexed / "run" / ".lock").touch()
    for number in (1, 3, 2):
        assert compute_shard(experiment_of([Path("towns")], options), 3, number) == ""
        assert not (indexed / "run" / "rows.parquet").exists()
    asked = record_questions(monkeypatch)
    run("towns", "-i", "indexes", "-s", "topk", "-b", "60", "--out", "run")
    assert len(open_run(indexed / "run").rows()) == len(QUESTIONS) and not asked


@pytest.mark.skipif("MERGEWISE_ATTACK" not in os.environ, reason="starts processes: with MERGEWISE_ATTACK=1")
def test_workers_compute_the_same(indexed: Path, uninterrupted: tuple[list[str], bytes]) -> None:
    words, whole = uninterrupted
    run(*words, "run", workers="2")
    assert timeless_bytes(indexed / "run" / "rows.parquet") == whole


def test_a_node_without_the_run_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = EvaluationOptions(out=Path("run"), index_dir=Path("indexes"))
    assert "folder run not found on" in compute_shard(experiment_of([Path("towns")], options), 2, 1)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_a_shard_are_returned(indexed: Path) -> None:
    (indexed / "run").mkdir()
    (indexed / "run" / ".lock").touch()
    options = EvaluationOptions(
        out=Path("run"), index_dir=Path("indexes"), embedder="none", strategies="topk", budgets="60"
    )
    experiment = experiment_of([Path("towns")], options)
    missing = replace(experiment, sets=[Path("nowhere")])
    assert compute_shard(missing, 2, 1).startswith("no question set in nowhere (")
    assert compute_shard(experiment, 2, 1) == ""
    assert RowCount(indexed / "run" / "rows")() == len(QUESTIONS) // 2


def test_one_process_computes_a_run_at_a_time(indexed: Path) -> None:
    from filelock import FileLock

    words = "towns", "-i", "indexes", "-s", "topk", "-b", "60", "--out", "run"
    (indexed / "run").mkdir()
    with FileLock(indexed / "run" / ".lock"), pytest.raises(UsageError, match="another process is computing this"):
        run(*words)
    with FileLock(indexed / "run" / ".lock-1-of-2"), pytest.raises(UsageError, match="is still running"):
        run(*words)
    run(*words)


def test_a_sample_depends_on_its_seed_and_grows(indexed: Path) -> None:
    def drawn() -> list[str]:
        run("towns", "-i", "indexes", "-s", "topk", "-b", "60", "--json", "rows.json", sample="2", seed="1")
        lines = (indexed / "rows.questions.jsonl").read_text().splitlines()
        return [json.loads(line)["id"] for line in lines]

    samples = {seed: [one.id for one in chosen_questions(TASK, sample=2, seed=seed)] for seed in range(9)}
    assert samples[1] == drawn() and len({tuple(one) for one in samples.values()}) > 3
    assert all(len(one) == 2 and one == sorted(one) for one in samples.values())
    assert set(samples[0]) < {one.id for one in chosen_questions(TASK, sample=3, seed=0)}
    assert chosen_questions(TASK, sample=9) == list(QUESTIONS)


def test_a_method_without_its_requirements_is_skipped(indexed: Path) -> None:
    given = "towns", "-i", "indexes", "-b", "60", "--methods", "full,bm25,dense,hybrid,bge-reranker"
    out = run(*given, "--out", "run")
    assert "needs vectors (index with an embedder" in out and "needs a reranker" in out
    plan = open_run(indexed / "run").plan
    assert [one.method for one in plan.needs()] == ["dense", "bge-reranker"] and len(plan.specs()) == 3
    with pytest.raises(UsageError, match="needs vectors"):
        run(*given, strict="true")
    with pytest.raises(UsageError, match="rag-5 needs a chat model"):
        run(*given[:-1], "rag-5,rag-1", "-a")
    # an index of a question set gets every view that a method reads
    assert "needs" not in run("towns", "-b", "60", "-s", "topk,macrag,fixed")


def test_a_file_of_questions_finds_its_index_among_others(indexed: Path) -> None:
    table = indexed / "own.csv"
    table.write_text("question,answer\n" + "".join(f"{q.text},{q.answers[0]}\n" for q in QUESTIONS))
    (indexed / "indexes" / "own").symlink_to(indexed / "indexes" / "towns")
    out = run("towns", "own.csv", "-i", "indexes", "-s", "topk", "-b", "60")
    assert "towns: 4 questions" in out and "own: 4 questions" in out
    (indexed / "more").mkdir()
    saved_task(indexed / "more" / "towns")
    out = run("towns", "more", "-i", "indexes", "-s", "topk", "-b", "60")
    assert "\nmore-towns: 4 questions" in out and (indexed / "indexes" / "more-towns").is_dir()
    with pytest.raises(UsageError, match="duplicate name of a question set: more-towns"):
        run("towns", "more", "more", "-i", "indexes", "-s", "topk", "-b", "60")


def test_the_reference_comes_first(indexed: Path) -> None:
    out = run("towns", "-i", "indexes", "-s", "topk,weave,hybrid", "-b", "60", "--out", "run", reference="weave")
    plan = open_run(indexed / "run").plan
    assert "Differences to weave" in out and plan.reference == "weave"
    assert [method.name for method in plan.methods] == ["weave", "topk", "hybrid"]


def test_a_table_of_a_paper_is_filled(indexed: Path) -> None:
    out = run("towns", "-i", "indexes", "--table", "mrag-2", "-b", "60", "--out", "run")
    plan = open_run(indexed / "run").plan
    assert plan.tables == ("mrag-2",) and plan.budgets == (60,) and "needs the view semantic" in out
    assert [(name, method) for name, method, _ in plan.specs()] == [("towns", "dos")]
    assert "failed on every question: this index has no vectors" in " ".join(out.split())


def test_a_failed_row_is_retried(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "towns", "-i", "indexes", "-s", "topk,weave", "-b", "60", "--out", "run"
    assemble = asking.context

    def broken(query: Query, state: Any) -> Any:
        if "Corin" in query.question and query.strategy == "weave":
            raise ModelError("it broke", "mend it")
        return assemble(query, state)

    with monkeypatch.context() as patch:
        patch.setattr(evaluator, "context", broken)
        out = run(*words)
    assert "weave, question 2: it broke" in out and "1 of 8 rows failed" in out
    rows = list(open_run(indexed / "run").run_rows())
    assert [row.error for row in rows if row.error] == ["it broke (mend it)"] and len(rows) == 8
    asked = record_questions(monkeypatch)
    run(*words)
    assert asked == [QUESTIONS[2].text] and not any(row.error for row in open_run(indexed / "run").run_rows())


class Drawing(ScriptedChat):
    """A model that samples its answers, and names the seed."""

    def drawing(self, temperature: float | None, seed: int) -> Drawing:
        drawn = Drawing([f"It was Mason {seed}. [1]"] * 99)
        drawn.identity = f"{self.identity} {temperature} {seed}"
        return drawn


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model that `--chat openai:drawing` loads."""
    monkeypatch.setitem(
        mergewise.models.CHATS, "openai:MODEL", lambda name, window: Drawing(["It was Mason. [1]"] * 99)
    )


def test_a_sampling_model_is_asked_several_times(indexed: Path, drawing: None) -> None:
    given = "towns", "-i", "indexes", "-s", "topk", "-b", "60", "-a", "--out", "run"
    run(*given, "--mode", "short", "--chat", "openai:drawing", repeats="3", temperature="0.5")
    rows = list(open_run(indexed / "run").run_rows())
    assert [(row.repeat, row.prediction) for row in rows if row.question == "0"] == [
        (n, f"It was Mason {n}.") for n in range(3)
    ]
    assert {row.calls for row in rows} == {1} and len({row.spec for row in rows}) == 1
    # without a model nothing is sampled
    run(*given, "--mode", "extractive", repeats="3")
    kept = open_run(indexed / "run")
    assert {row.repeat for row in kept.run_rows() if row.mode == "extractive"} == {0}
    # both modes stay, each in a row that says so
    measured = measured_runs([kept])
    assert [one.name for one in measured.methods] == ["topk, short", "topk, extractive"]
    assert [(one.strategy, one.mode, one.questions) for one in kept.means()] == [
        ("topk, short", "short", 4),
        ("topk, extractive", "extractive", 4),
    ]
    shown = invoke("report", "run")
    assert "answers in the mode short" in shown and "quotations" in shown and "No model was asked" not in shown


def test_contexts_and_answers_of_one_run_stay_in_its_report(indexed: Path) -> None:
    given = "towns", "-i", "indexes", "--out", "run"
    run(*given, "-b", "40,60")
    run(*given, "-b", "60", "-s", "weave", "--answers")
    kept = open_run(indexed / "run")
    measured = measured_runs([kept])
    assert {key[1:] for key in measured.values} == {("topk", 40), ("topk", 60), ("weave", 40), ("weave", 60)}
    # the answered row of a question has its context: the stored one is not shown again
    assert len(kept.rows()) == 16 and len(list(kept.run_rows())) == 16
    assert (main_metric(measured), chosen_metrics(measured)) == ("evidence", ("evidence", "relaxed_em"))
    assert [measured.kind("weave", budget) for budget in (40, 60)] == ["contexts only", "quotations"]
    shown = invoke("report", "run")
    assert shown.count("contexts only") == 3 and shown.count("quotations") == 2 and "F1" not in shown
    assert "No model was asked" in shown and "Costs per question" not in shown
    invoke("report", "run", "--html", "page.html", "--md", "page.md")
    page = (indexed / "page.html").read_text()
    assert "A model answers" not in page and "The answer quotes sentences" in page
    assert "weave (contexts only)" in (indexed / "page.md").read_text()


def test_answers_alone_lead_with_relaxed_and_are_not_compared_with_themselves(indexed: Path) -> None:
    run("towns", "-i", "indexes", "--out", "run", "-b", "40,60", "-s", "weave", "--answers")
    measured = measured_runs([open_run(indexed / "run")])
    assert chosen_metrics(measured) == ("relaxed_em", "evidence")
    shown = invoke("report", "run")
    assert "Differences to" not in shown
    assert "compared with" not in evaluation_report(measured).facts


def test_rows_of_earlier_settings_are_named(indexed: Path) -> None:
    given = "towns", "-i", "indexes", "--out", "run"
    run(*given, "-b", "40,60")
    run(*given, "-b", "60", "-s", "weave", search="depth=7")
    shown = " ".join(invoke("report", "run").split())
    # weave was measured again at 60 tokens only
    assert "which the tables leave out: 4 of weave." in shown
    run(*given, "-b", "40,60", "-s", "weave", search="depth=7")
    assert "earlier settings" not in invoke("report", "run")


def test_equal_methods_are_called_equal(indexed: Path) -> None:
    out = " ".join(run("towns", "-i", "indexes", "-s", "topk,topk(k=31)", "-b", "60").split())
    assert "At 60 tokens topk and topk(k=31) have the same evidence" in out


def test_cached_answers_have_no_time(indexed: Path, drawing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERGEWISE_CACHE", "cache")
    given = "towns", "-i", "indexes", "-s", "topk", "-b", "60", "-a", "--mode", "short", "--chat", "openai:drawing"
    for place in ("one", "two"):
        run(*given, "--out", place)
    first, second = (list(open_run(indexed / place).run_rows()) for place in ("one", "two"))
    assert all(row.answer_seconds is not None and row.calls == 1 for row in first)
    assert all(row.answer_seconds is None and (row.calls, row.scores["paid_calls"]) == (1, 0) for row in second)
    assert [row.prediction for row in first] == [row.prediction for row in second]


def test_a_dry_run_estimates_the_cost_without_a_model(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Drawing([])
    monkeypatch.setitem(mergewise.models.CHATS, "openai:MODEL", lambda name, window: chat)
    given = "towns", "-i", "indexes", "-s", "topk,aed", "-b", "60", "-a", "--mode", "short", "--chat", "openai:x"
    monkeypatch.setenv("MERGEWISE_PRICE_IN", "10")
    monkeypatch.setenv("MERGEWISE_PRICE_OUT", "1000")
    out = run(*given, "--dry-run", "--out", "run", max_tokens="20")
    line = next(line for line in out.splitlines() if line.startswith("topk 60: "))
    assert re.search(r"^total: 8 calls, .* at most 160 output tokens, cost at most 0.1", out, re.MULTILINE)
    assert "4 rows, " in line and " 4 calls, " in line and "at most 80 output tokens, cost at most 0.0" in line
    assert chat.asked == [] and not (indexed / "run").exists()
