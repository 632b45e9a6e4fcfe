"""Random parameters of strategies, foreign caches, models with external data, and writers that are killed or lose permissions."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mergewise as mw
from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.models.cache import FILE, CachedChat
from mergewise.models.cross_encoder import load_cross_encoder
from mergewise.models.scripted import ScriptedChat
from mergewise.ranges import range_of
from mergewise.types import Message
from tests.attack.support import LONG, SECONDS, command, environment, linux_only, posix_only, script

pytestmark = posix_only


# -- parameters


WORDS = "owls mice barn dusk Ada Brix 1902 ate wrote Delft".split()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mw.Index]:
    """An index with every view that needs no model, over a few documents with names, figures and headings."""
    rng = random.Random(5)
    texts = [
        "\n\n".join(
            f"## Part {part}\n\n" + " ".join(f"{' '.join(rng.sample(WORDS, 5)).capitalize()} {part}." for _ in range(9))
            for part in range(3)
        )
        for _ in range(4)
    ]
    views = [name for name, view in mw.VIEWS.items() if not view.needs_embedder]
    with mw.open(tmp_path_factory.mktemp("strategies") / "index", embedder="none", views=views) as index:
        assert index.add(*(mw.Document(f"d{i}", f"# Text {i}\n\n{text}\n") for i, text in enumerate(texts))).added == 4
        yield index


def values_around(hint: Any) -> st.SearchStrategy[Any]:
    """Draw values inside the range of an annotated type, at its bounds, outside of it, and of other types."""
    kind = get_args(hint)[0] if get_origin(hint) is not None and hasattr(hint, "__metadata__") else hint
    strange: st.SearchStrategy[Any] = st.sampled_from(
        [None, "", "nan", "inf", "-1", "1e999", math.nan, math.inf, -1, 0, 2**70, [], {}, b"x", "\x00", "a=b)"]
    )
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind)) | strange
    if kind is bool:
        return st.booleans() | st.sampled_from(["yes", "off", "maybe"]) | strange
    limits = range_of(hint)
    if kind in (int, float) and limits is not None:
        bounds = [limits.low, limits.high, limits.low - 1, limits.high + 1, math.nextafter(limits.low, math.inf)]
        low = math.ceil(limits.low)
        inside: st.SearchStrategy[float] = st.integers(low, min(math.floor(limits.high), low + 50))
        if kind is float:
            inside = inside | st.floats(limits.low, min(limits.high, limits.low + 50))
        return inside | st.sampled_from(bounds) | strange
    return st.text(max_size=8) | st.integers() | st.floats() | strange


@st.composite
def parameters(draw: st.DrawFn, name: str) -> dict[str, Any]:
    defaults = mw.STRATEGIES[name].parameters
    hints = get_type_hints(type(defaults), include_extras=True)
    chosen = draw(st.lists(st.sampled_from([field.name for field in fields(defaults)]), max_size=3, unique=True))
    return {key: draw(values_around(hints[key])) for key in chosen}


BUDGETS = st.sampled_from([1, 2, 7, 40, 150, 1000])


@pytest.mark.parametrize("name", sorted(mw.STRATEGIES))
def test_any_parameters_give_a_context_or_a_usage_error(name: str, index: mw.Index) -> None:
    if not fields(mw.STRATEGIES[name].parameters):
        return

    @given(parameters(name), BUDGETS, st.booleans())
    @settings(max_examples=400 if LONG else 6, suppress_health_check=list(HealthCheck))
    def hold(chosen: dict[str, Any], budget: int, as_text: bool) -> None:
        options: dict[str, Any] = {"strategy": name, "parameters": chosen}
        if as_text:
            options = {"strategy": f"{name}({', '.join(f'{k}={v}' for k, v in chosen.items())})"}
        try:
            context = index.context("What did Ada Brix write in 1902?", budget=budget, **options)
        except UsageError as error:
            assert error.message
            return
        assert context.tokens <= budget and index.tokens([context.text])[0] <= budget
        for passage in context.passages:
            for span in passage.spans:
                assert 0 <= span.start < span.end <= len(index.document(span.doc_id).text)

    hold()


@pytest.mark.parametrize("name", sorted(mw.VIEWS))
def test_any_view_settings_round_trip_or_raise_a_usage_error(name: str) -> None:
    view = mw.VIEWS[name]
    hints = get_type_hints(view.settings, include_extras=True)

    @given(st.dictionaries(st.sampled_from(sorted(hints) or ["nothing"]), st.data(), max_size=3), st.data())
    @settings(max_examples=500 if LONG else 15, suppress_health_check=list(HealthCheck))
    def hold(keys: dict[str, Any], data: Any) -> None:
        chosen = {key: data.draw(values_around(hints.get(key, str))) for key in keys}
        try:
            made = view.settings(**chosen)
        except (UsageError, TypeError):
            return
        stored = view.without_files(made) if view.without_files else made
        assert view.load(json.loads(json.dumps(view.dump(made)))) == stored

    hold()


@pytest.mark.parametrize("mode", ["", "r&b(", "x" * 9999, "r&b(k=1)", "\x00", "closed book", "ful\u202el"])
def test_unknown_modes(mode: str, index: mw.Index) -> None:
    for call in (index.ask, lambda question, mode: index.ask_many([question], mode=mode)):
        with pytest.raises(UsageError) as caught:
            call("What did Ada write?", mode=mode)
        assert caught.value.hint


def test_unwritable_file_for_rows_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text("question,answer\nWhat do owls eat?,mice\n")
    (tmp_path / "folder").mkdir()
    for place in ("folder", "nowhere/rows.json"):
        done = command(tmp_path, "eval", "questions.csv", "--json", place)
        assert done.code == 2 and f"cannot write {place}" in done.err


# -- caches written by others


QUESTION = [Message("user", "What do owls eat?")]


def poison_cache(folder: Path, *statements: tuple[str, tuple[Any, ...]]) -> CachedChat:
    """Cache the answer to QUESTION, then run these statements on the cache file."""
    chat = CachedChat(ScriptedChat(["mice", "moths"]), folder)
    assert run(chat.complete(QUESTION)).text == "mice"
    with sqlite3.connect(folder / FILE) as database:
        for statement, values in statements:
            database.execute(statement, values)
    return chat


@pytest.mark.parametrize("text", [b"\xff\xfe", 5, 1.5, "", "  \n", b""])
def test_invalid_cached_answer_is_requested_again(text: Any, tmp_path: Path) -> None:
    value = "CAST(? AS BLOB)" if isinstance(text, bytes) else "?"
    chat = poison_cache(tmp_path, (f"UPDATE replies SET text = {value}", (text,)))
    asked = run(chat.complete(QUESTION)).text
    # SQLite turns numbers into texts, which are valid answers.
    assert asked in ("moths", str(text))
    assert run(chat.complete(QUESTION)).text == asked


def test_invalid_state_in_the_cache(tmp_path: Path) -> None:
    chat = poison_cache(tmp_path, ("UPDATE replies SET complete = ?", ("maybe",)))
    assert run(chat.complete(QUESTION)).text == "moths"


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE replies SET text = CAST(zeroblob(70000000) AS TEXT)"],
        [
            "DROP TABLE replies",
            "CREATE VIEW replies AS WITH RECURSIVE n(key, text, complete) AS "
            "(SELECT x'00', 'a', 1 UNION ALL SELECT key, text, complete FROM n) SELECT * FROM n",
        ],
        ["CREATE TRIGGER t AFTER INSERT ON replies BEGIN DELETE FROM replies; END"],
        ["ALTER TABLE replies ADD COLUMN more TEXT"],
        ["CREATE TABLE other (a)"],
    ],
    ids=["huge", "view", "trigger", "column", "table"],
)
def test_cache_with_a_foreign_schema_is_refused(statements: list[str], tmp_path: Path) -> None:
    chat = poison_cache(tmp_path, *((statement, ()) for statement in statements))
    with pytest.raises(UsageError, match="cache") as caught:
        run(chat.complete(QUESTION))
    assert "delete it" in caught.value.hint


@pytest.mark.parametrize("name", [FILE, f"{FILE}-journal"])
@pytest.mark.parametrize("kind", ["link", "nowhere", "pipe", "folder"])
def test_cache_files_do_not_lead_elsewhere(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "victim").write_bytes(b"untouched")
    place = tmp_path / "cache" / name
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / ("victim" if kind == "link" else "nothing"))
    with pytest.raises(UsageError):
        CachedChat(ScriptedChat(["mice"]), tmp_path / "cache")
    assert (tmp_path / "victim").read_bytes() == b"untouched" and not (tmp_path / "nothing").exists()


def test_sources_do_not_read_pickles() -> None:
    source = Path(mw.__file__).parent
    # Allowed: pipes between our own processes, and our own actors.
    own = {source / name for name in ("index/executors.py", "index/worker.py", "index/cluster.py")}
    own |= {source / "cluster/gatherer.py", source / "cluster/searcher.py"}
    for path in set(source.rglob("*.py")) - own:
        text = path.read_text(encoding="utf-8")
        assert not any(f"import {name}" in text for name in ("pickle", "marshal", "shelve", "dill", "joblib")), path
        assert "allow_pickle=True" not in text, path


# -- models with external data


@linux_only
@pytest.mark.parametrize(
    "place", ["../secret.bin", "absolute", "link.bin", "sub/../../secret.bin", "/dev/zero", "pipe"]
)
def test_model_with_data_outside_its_folder_is_refused(place: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.mkfifo(folder / "pipe")
    weights = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    named = str(tmp_path / "secret.bin") if place == "absolute" else place
    for key, value in (("location", named), ("offset", "0"), ("length", "16")):
        weights.external_data.add(key=key, value=value)
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "tokenizer.json").write_bytes((Path(mw.__file__).parent / "models/minilm/tokenizer.json").read_bytes())
    with pytest.raises(ModelError, match="cannot load"):
        load_cross_encoder(str(folder))


# -- writers


WRITER = """
import random, sys, pathlib
import mergewise as mw
place, name, seed = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rng = random.Random(seed)
with mw.open(place / "index", embedder="none") as index:
    while True:
        number, version = rng.randrange(8), rng.randrange(1000)
        doc = f"{name}{number}"
        if rng.random() < 0.6:
            print("begin", doc, version, flush=True)
            index.add(mw.Document(doc, f"Owl {doc} ate {version} mice. " * rng.randrange(1, 40)))
            print("end", doc, version, flush=True)
        elif rng.random() < 0.5:
            print("begin", doc, "gone", flush=True)
            index.remove([doc])
            print("end", doc, "gone", flush=True)
        else:
            folder = place / name
            (folder / "file.md").write_text(f"Barn {name} holds {version} owls.")
            print("begin", f"{name}/file.md", version, flush=True)
            index.sync(folder)
            print("end", f"{name}/file.md", version, flush=True)
"""


def start_writer(place: Path, name: str, seed: int) -> subprocess.Popen[bytes]:
    """Start a process that writes until it is killed. It logs its calls to NAME.log."""
    words = [sys.executable, "-c", WRITER, str(place), name, str(seed)]
    with (place / f"{name}.log").open("w") as log, (place / f"{name}.err").open("w") as errors:
        return subprocess.Popen(words, stdout=log, stderr=errors, env=environment())


@linux_only
def test_index_matches_reported_calls_after_killed_writers(tmp_path: Path) -> None:
    mw.open(tmp_path / "index", embedder="none").close()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stays.md").write_text("Barns stand.")
    may_stand: dict[str, set[str]] = {}
    rng = random.Random(1)
    for round_ in range(20 if LONG else 2):
        writers = {name: start_writer(tmp_path, name, round_) for name in ("a", "b")}
        try:
            # Wait until both have started to write, then continue for a while.
            until = time.monotonic() + SECONDS
            logs = [tmp_path / f"{name}.log" for name in writers]
            while time.monotonic() < until and any("\nend" not in log.read_text() for log in logs):
                time.sleep(0.05)
            assert all("\nend" in log.read_text() for log in logs), "both writers finish a call"
            time.sleep(rng.random() * (5 if LONG else 1))
        finally:
            for writer in writers.values():
                writer.send_signal(signal.SIGKILL)
                writer.wait()
        for name in writers:
            assert "Error" not in (tmp_path / f"{name}.err").read_text()
            for line in (tmp_path / f"{name}.log").read_text().splitlines():
                step, _, rest = line.partition(" ")
                doc, _, state = rest.rpartition(" ")
                if step == "end":
                    may_stand[doc] = {state}
                else:
                    may_stand[doc] = {*may_stand.get(doc, {"gone"}), state}
        with mw.open(tmp_path / "index", create=False) as index:
            assert index.check() == []
            standing = {info.id: index.document(info.id).text for info in index.documents()}
        for doc, states in may_stand.items():
            text = standing.get(doc)
            state = "gone" if text is None else next(word for word in text.split() if word.isdigit())
            assert state in states, (doc, state, states)
            may_stand[doc] = {state}


LOSING = """
import pathlib, sys
import mergewise as mw
place = pathlib.Path(sys.argv[1])
index = mw.open(place / "index", embedder="none")
index.add(mw.Document("a", "Owls eat mice."))
refused = 0
for part in ("leaf.lance", "mapped", "documents.lance", "index"):
    paths = [place / "index", *(place / "index").rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        if part in path.parts:
            path.chmod(0o555 if path.is_dir() else 0o444)
    for call in (
        lambda: index.add(mw.Document("b", f"Cats eat fish, not {part}.")),
        lambda: index.remove(["b"]),
        lambda: index.check(repair=True),
    ):
        try:
            call()
        except mw.MergewiseError as error:
            assert "ermission" in str(error) or "written" in str(error), error
            refused += 1
    for path in paths:
        if path.exists():
            path.chmod(modes[path])
    with mw.open(place / "index", create=False) as again:
        assert again.check() == [], again.check()
        assert again.ask("What do owls eat?").citations
    index.add(mw.Document("a", f"Owls eat mice, not {part}."))
print("refused", refused)
"""


@linux_only
def test_lost_permissions_during_writes(tmp_path: Path) -> None:
    """A call without permission reports it, and the index stays intact. Root runs without the override capability."""
    held: list[str] = []
    if os.geteuid() == 0:
        held = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if shutil.which(held[0]) is None or subprocess.run([*held, "true"], capture_output=True).returncode != 0:
            pytest.skip("root cannot be held to permissions here")
    done = script(LOSING, tmp_path, before=held)
    assert done.code == 0 and int(done.out.split()[-1]) >= 6, done
