"""Indexes made by somebody else: hostile manifests, links and pipes, wrong numbers, and senseless folders."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_type_hints
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mergewise as mw
from mergewise.cli import main
from mergewise.errors import MergewiseError, MissingExtra, StoreError, UsageError
from mergewise.models import load_causal, load_embedder, load_reranker
from mergewise.models.scripted import ScriptedChat
from mergewise.store import lance_versions
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import NAME
from tests.attack.support import COMMAND, LONG, Done, environment, posix_only, script
from tests.command import run_text
from tests.support import manifest_record

pytestmark = posix_only

QUESTION = "What do owls eat?"
DOCUMENTS = [mw.Document(f"note{i}", f"# Note {i}\n\nOwl {i} eats {i} mice. It sleeps by day.\n") for i in range(3)]
CALLS = ("info --documents", "show note1", "check", "check --repair", "index new.md", "remove note0")
EVERY = [["ask", QUESTION], ["context", QUESTION], *(words.split() for words in CALLS)]
USES = EVERY if LONG else [["ask", QUESTION], ["check", "--repair"], ["index", "new.md"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index and a new document, as after cloning."""
    folder = tmp_path_factory.mktemp("somebody")
    with mw.open(folder / "mergewise.index", embedder="none") as index:
        index.add(DOCUMENTS)
    (folder / "new.md").write_text("New owls eat moths.\n")
    return folder


@pytest.fixture
def clone(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "clone"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user who has not used an index yet."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder


def command(cwd: Path, *words: str, **more: str) -> Done:
    """Run a command, in the short form within this process (a tenth of the time)."""
    if LONG:
        done = run_text(words, cwd, environment(**more))
        return Done(done.returncode, done.stdout, done.stderr).checked()
    out, err, log = io.StringIO(), io.StringIO(), logging.getLogger("mergewise")
    handlers = list(log.handlers)
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment(**more)),
        patch.object(sys, "argv", ["mergewise", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main.run()
    log.handlers[:] = handlers
    return Done(code, out.getvalue(), err.getvalue()).checked()


def edit(folder: Path, **fields: object) -> None:
    file = folder / "mergewise.index" / NAME
    file.write_text(json.dumps({**manifest_record(file), **fields}))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- what a manifest names


@pytest.mark.parametrize("spec", ["st:./model", "openai:text-embedding-3-small"] if LONG else ["st:./model"])
def test_embedder_of_a_foreign_index_is_not_loaded(clone: Path, home: Path, spec: str) -> None:
    edit(clone, embedder=spec, dimension=384)
    for words in (["ask", QUESTION], ["compare", QUESTION], ["index", "new.md"], ["check", "--repair"]):
        done = command(clone, *words)
        assert done.code == 2 and "untrusted embedder" in done.err, words
        assert f"'{spec}'" in done.err and f"MERGEWISE_EMBEDDER={spec}" in done.err, words
    with mw.open(clone / "mergewise.index") as index, pytest.raises(UsageError, match="untrusted embedder"):
        index.ask(QUESTION)
    # Commands that need no embedder work.
    for words in (["info"], ["show", "note1"], ["remove", "note0"]):
        assert command(clone, *words).code == 0, words


LACKING = "st:./model"


def is_loaded(folder: Path, *words: str, **more: str) -> bool:
    """Check that the command would load the index's embedder, whose package is not installed here."""
    done = command(folder, *(words or ("ask", QUESTION)), **more)
    refused = "untrusted embedder" in done.err or "was built with the embedder" in done.err
    assert refused or "is not installed" in done.err, done.err
    return not refused


@pytest.fixture
def foreign(clone: Path, home: Path) -> Path:
    """A clone with a manifest that names a model in its folder."""
    if "sentence_transformers" in sys.modules or shutil.which("sentence-transformers"):
        pytest.skip("sentence-transformers is installed")
    edit(clone, embedder=LACKING, dimension=384)
    assert not is_loaded(clone)
    return clone


def test_embedder_is_trusted_once_per_index(foreign: Path, home: Path) -> None:
    assert is_loaded(foreign, "ask", QUESTION, MERGEWISE_EMBEDDER=LACKING)
    assert is_loaded(foreign) and is_loaded(foreign, "index", "new.md")
    edit(foreign, embedder="st:./other")
    assert not is_loaded(foreign), "another embedder was trusted"
    edit(foreign, embedder=LACKING)
    moved = foreign.rename(foreign.parent / "elsewhere")
    assert not is_loaded(moved), "another index was trusted"
    assert is_loaded(moved, "check", "--repair", MERGEWISE_EMBEDDER=LACKING) and is_loaded(moved)
    assert not is_loaded(moved, XDG_STATE_HOME=str(home / "other")), "another user trusted it"


def test_user_configuration_can_trust_an_embedder_but_folder_configuration_cannot(foreign: Path, home: Path) -> None:
    (foreign / "mergewise.toml").write_text(f'embedder = "{LACKING}"\n')
    assert not is_loaded(foreign)
    (foreign / "mergewise.toml").unlink()
    assert not is_loaded(foreign, MERGEWISE_EMBEDDER="st:./other")
    own = home / "config/mergewise/mergewise.toml"
    own.parent.mkdir(parents=True)
    own.write_text('trust = ["/somewhere/else"]\n')
    assert not is_loaded(foreign)
    (foreign / "asked.csv").write_text(f"question,answer\n{QUESTION},x\n")
    measuring = (
        ["eval", "asked.csv"],
        ["train", "utility", "asked.csv", "-o", "labels", "--labels-only", "--split", "all"],
    )
    assert not any(is_loaded(foreign, *words) for words in measuring)
    own.write_text(f'trust = ["{foreign}"]\n')
    state = str(home / "states")
    # The first command records the embedder, so each command has its own state.
    assert all(is_loaded(foreign, *words, XDG_STATE_HOME=f"{state}{i}") for i, words in enumerate(measuring))
    assert is_loaded(foreign)


def test_ways_to_trust_an_embedder(foreign: Path, home: Path) -> None:
    assert is_loaded(foreign, MERGEWISE_EMBEDDER=LACKING, XDG_STATE_HOME=str(home / "other"))
    own = home / "config/mergewise/mergewise.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'embedder = "{LACKING}"\n')
    assert is_loaded(foreign)


class Library(ModuleType):
    """A fake sentence-transformers module that records how models are loaded."""

    __version__ = "6.0.0"

    def __init__(self) -> None:
        super().__init__("sentence_transformers")
        self.loaded: list[dict[str, Any]] = []

    def _load(self, name: str, **options: Any) -> SimpleNamespace:
        self.loaded.append({"name": name, **options})

        def encode(texts: str | list[str], **_: object) -> np.ndarray:
            return np.full(2 if isinstance(texts, str) else (len(texts), 2), 0.5**0.5)

        return SimpleNamespace(encode=encode, prompts={}, predict=lambda texts: 0)

    SentenceTransformer = CrossEncoder = _load


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    return library


def test_embedder_of_an_own_index_is_trusted(tmp_path: Path, home: Path, library: Library) -> None:
    with mw.open(tmp_path / "index", embedder=LACKING) as index:
        index.add(DOCUMENTS)
    with mw.open(tmp_path / "index") as index:
        assert index.ask(QUESTION).citations
    assert {loaded["trust_remote_code"] for loaded in library.loaded} == {False}
    (record,) = (home / "state/mergewise/embedders").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    record.unlink()
    with mw.open(tmp_path / "index") as index, pytest.raises(UsageError, match="name it once"):
        index.add(mw.Document("more", "More owls."))
    # Without a writable state folder, the embedder must be named each time.
    shutil.rmtree(home / "state")
    (home / "state").write_text("")
    for _ in range(2):
        with mw.open(tmp_path / "index", embedder=LACKING) as index, pytest.raises(UsageError):
            index.ask(QUESTION)


# -- models


@pytest.mark.parametrize("kind", ["embedder", "reranker"])
def test_custom_code_of_a_model_is_never_run(library: Library, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load: Callable[[str], object] = load_embedder if kind == "embedder" else load_reranker
    spec = "st:./model" if kind == "embedder" else "cross-encoder:./model"
    load(spec)
    assert library.loaded[-1]["trust_remote_code"] is False
    # This version runs a folder's code regardless of trust_remote_code.
    monkeypatch.setattr(library, "__version__", "5.9.1", raising=False)
    with pytest.raises(MissingExtra, match=r"5\.9\.1 runs code"):
        load(spec)
    assert len(library.loaded) == 1


def test_transformers_does_not_prompt_on_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def from_pretrained(name: str, **options: Any) -> None:
        asked.append(options)
        raise ValueError("contains custom code")

    auto = SimpleNamespace(from_pretrained=from_pretrained)
    kinds = ("AutoConfig", "AutoTokenizer", "AutoModelForCausalLM", "AutoModelForSequenceClassification")
    bar = SimpleNamespace(is_progress_bar_enabled=bool, disable_progress_bar=bool)
    for name, module in {
        "torch": SimpleNamespace(float32=None, manual_seed=int, cuda=SimpleNamespace(is_available=bool)),
        "transformers": SimpleNamespace(**dict.fromkeys(kinds, auto)),
        "transformers.utils": SimpleNamespace(logging=bar),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(UsageError, match="contains custom code"):
        load_causal(f"hf:{tmp_path}")
    from mergewise.designs.aed.training.bases import load_base

    with pytest.raises(UsageError, match="contains custom code"):
        load_base(f"cross-encoder:{tmp_path}", 0)
    assert [options["trust_remote_code"] for options in asked] == [False] * len(asked) and len(asked) == 2


BROKEN: dict[str, Callable[[], object]] = {
    "sentence_transformers": lambda: load_embedder("st:x"),
    "torch": lambda: load_causal("hf:x"),
    "openai": lambda: load_embedder("openai:x"),
}


@pytest.mark.parametrize("package", BROKEN)
def test_broken_installation_is_not_reported_as_missing(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("import what_it_needs\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match="is installed, but cannot be imported: No module named 'what_it_needs'"):
        BROKEN[package]()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="is not installed"):
        BROKEN[package]()


# -- settings of views


def test_no_setting_of_a_manifest_names_a_file_to_read(tmp_path: Path, home: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps([{"key": "Which code?", "value": "The code is 4711.", "paragraphs": [0]}]))
    path = tmp_path / "mergewise.index"
    chosen = mw.MarkerSettings(made="model")
    with mw.open(path, embedder="none", settings={"marker": chosen}, chat=ScriptedChat([])) as index:
        views = json.loads((path / NAME).read_text())["views"]
        views["marker"]["settings"]["examples"] = str(secret)
        edit(tmp_path, views=views)
    chat = ScriptedChat(lambda messages: "{}")
    with mw.open(path, chat=chat) as index:
        with pytest.raises(UsageError, match="not in the index: its settings name a file") as refused:
            index.add(DOCUMENTS)
        assert "--set marker.examples=FILE" in str(refused.value.hint)
        assert not any("4711" in asked.text for asked in chat.asked)
        assert len(index) == 0 and index.check() == []
    # free texts are the examples and the hash of a prompt, which is only compared
    kinds = {name: get_type_hints(view.settings) for name, view in mw.VIEWS.items()}
    texts = {(view, name) for view, own in kinds.items() for name, kind in own.items() if kind is str}
    assert {name for _, name in texts} == {"examples", "prompt"}


# -- links and pipes

PLACES = [
    NAME,
    ".lock",
    ".summaries",
    f".{NAME}.1",
    "mapped",
    "documents.lance",
    "leaf.lance/data",
    "leaf.lance/_versions",
    "mapped/leaf-rows-1.arrow",
    "leaf.lance/_deletions",
]


def plant(index: Path, place: str, make: Callable[[Path, Path | None], None]) -> None:
    """Move the existing file away and call `make` with its path and its new place."""
    path = index / place
    real = None
    if path.exists():
        real = path.rename(index.parent / "moved")
    make(path, real)


@pytest.mark.parametrize("place", PLACES if LONG else PLACES[:6])
def test_links_in_an_index_are_refused(clone: Path, tmp_path: Path, home: Path, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old.arrow").write_text("mine")
    (elsewhere / "precious").write_text("mine")
    os.utime(elsewhere / "old.arrow", (0, 0))

    def link(path: Path, real: Path | None) -> None:
        target = elsewhere if real is None or real.is_dir() else elsewhere / "precious"
        if real is not None and real.is_dir():
            shutil.copytree(real, elsewhere, dirs_exist_ok=True)
        elif real is not None:
            shutil.copy(real, elsewhere / "precious")
        path.symlink_to(target if path.suffix != ".1" and path.name != ".lock" else elsewhere / "precious")

    plant(clone / "mergewise.index", place, link)
    before = snapshot(elsewhere)
    for words in USES:
        done = command(clone, *words)
        assert done.code in (1, 2) and "a link" in done.err + done.out, (words, done)
    assert snapshot(elsewhere) == before


@pytest.mark.parametrize("place", PLACES if LONG else [NAME, "mapped/leaf-rows-1.arrow", ".lock", "leaf.lance/data"])
@pytest.mark.parametrize("kind", ["pipe", "socket"] if LONG else ["pipe"])
def test_pipes_in_an_index_are_refused(
    clone: Path, home: Path, place: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(path: Path, real: Path | None) -> None:
        if kind == "pipe":
            os.mkfifo(path)
            return
        monkeypatch.chdir(path.parent)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)

    plant(clone / "mergewise.index", place, make)
    for words in USES:
        done = command(clone, *words)
        assert done.code in (1, 2) and "regular file" in done.err + done.out, (words, done)


def test_user_may_link_to_an_index(clone: Path, home: Path) -> None:
    (clone / "link").symlink_to("mergewise.index")
    assert command(clone, "ask", QUESTION, "-i", "link").code == 0
    assert command(clone, "index", "new.md", "-i", "link").code == 0


def test_default_index_linked_out_of_its_folder_is_refused(clone: Path, home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.index"
    (clone / "mergewise.index").rename(mine)
    (clone / "mergewise.index").symlink_to(mine)
    before = snapshot(mine)
    for words in (["ask", QUESTION], ["index", "new.md"], ["check", "--repair"]):
        done = command(clone, *words)
        assert done.code == 2 and f"-i {mine}" in done.err, done
    assert snapshot(mine) == before
    assert command(clone, "ask", QUESTION, "-i", str(mine)).code == 0


@pytest.mark.parametrize("name", ["replies.sqlite3", "replies.sqlite3-journal"] if LONG else ["replies.sqlite3"])
def test_links_in_a_cache_are_refused(clone: Path, home: Path, name: str) -> None:
    (clone / "mergewise.toml").write_text('cache = "answers"\n')
    (clone / "answers").mkdir()
    (clone / "precious").write_text("")
    (clone / "answers" / name).symlink_to(clone / "precious")
    done = command(clone, "ask", QUESTION, "-c", "openai:x", OPENAI_API_KEY="x", OPENAI_BASE_URL="http://127.0.0.1:9")
    assert done.code == 2 and "expected a regular file" in done.err and (clone / "precious").read_text() == ""


# -- false numbers and names


def use_all(folder: Path, *, changing: bool = True) -> None:
    """Use and change the index. Only mergewise errors may occur."""
    uses: list[Callable[[mw.Index], object]] = [
        lambda index: (len(index), index.documents(), index.duplicates(), repr(index)),
        lambda index: index.ask(QUESTION),
        lambda index: index.check(),
    ]
    changes: list[Callable[[mw.Index], object]] = [
        lambda index: index.add(mw.Document("new", "New owls eat moths.")),
        lambda index: index.check(repair=True),
    ]
    for use in uses + changes * changing:
        try:
            with mw.open(folder, create=False) as index:
                use(index)
        except MergewiseError as error:
            assert len(str(error)) < 10_000


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, 2**31, 2**53, 2**61, 2**62, 2**64, float("nan"), float("inf"), -1, 1e308])
    | st.floats()
    | st.sampled_from(["", "none", "minilm", "..", "../../precious", "/etc/passwd", "leaf", "slice", "documents", "\0"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Yield the paths to all values inside a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


# The position of the value to replace, as a share of all values, and its replacement.
LIE = st.tuples(st.floats(0, 1, exclude_max=True), VALUES)


def with_false_value(manifest: dict[str, Any], share: float, value: object) -> str:
    ways = list(places(manifest))
    whole: Any = {"manifest": manifest}
    *outer, last = ("manifest", *ways[int(share * len(ways))])
    inner = whole
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return json.dumps(whole["manifest"])


@settings(max_examples=400 if LONG else 8, suppress_health_check=list(HealthCheck), deadline=None)
@given(LIE)
def test_manifest_with_a_random_value(
    made: Path, tmp_path_factory: pytest.TempPathFactory, what: tuple[float, object]
) -> None:
    folder = tmp_path_factory.mktemp("lying")
    (folder / "precious.lance/_versions").mkdir(parents=True)
    for version in (18446744073709551614, 18446744073709551613):
        (folder / f"precious.lance/_versions/{version}.manifest").write_text("mine")
    index = Path(shutil.copytree(made / "mergewise.index", folder / "index"))
    manifest = manifest_record(index / NAME)
    (index / NAME).write_text(with_false_value(manifest, *what))
    use_all(index)
    assert {path.name for path in folder.iterdir()} == {"precious.lance", "index"}
    assert set(snapshot(folder / "precious.lance").values()) == {b"mine"}
    assert len(snapshot(folder / "precious.lance")) == 2
    shutil.rmtree(folder)


# -- shards


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded") / "index"
    with mw.open(folder, embedder="none", shards=2) as index:
        index.add(DOCUMENTS)
    return folder


@settings(max_examples=400 if LONG else 8, suppress_health_check=list(HealthCheck), deadline=None)
@given(LIE, st.booleans())
def test_shards_with_a_random_value(
    sharded: Path, tmp_path_factory: pytest.TempPathFactory, what: tuple[float, object], of_one: bool
) -> None:
    index = Path(shutil.copytree(sharded, tmp_path_factory.mktemp("lying") / "index"))
    file = index / ("shard-0001/shard.json" if of_one else "shards.json")
    file.write_text(with_false_value(manifest_record(file), *what))
    use_all(index)
    shutil.rmtree(index)


@pytest.mark.parametrize(
    "content", ["null", "[" * 100_000, '{"format": 1, "shards": [null]}', '{"format": 1, "shards": [{}]}']
)
def test_damaged_list_of_shards_is_reported(sharded: Path, tmp_path: Path, content: str) -> None:
    index = Path(shutil.copytree(sharded, tmp_path / "mergewise.index"))
    (index / "shards.json").write_text(content)
    for words in USES:
        done = command(tmp_path, *words)
        assert done.code in (1, 2) and "restore it from a copy" in done.err, (words, done)


def swap(index: Path) -> None:
    (index / "shard-0000").rename(index / "moved")
    (index / "shard-0001").rename(index / "shard-0000")
    (index / "moved").rename(index / "shard-0001")


def link(index: Path) -> None:
    (index / "shard-0001").rename(index.parent / "elsewhere")
    (index / "shard-0001").symlink_to(index.parent / "elsewhere")


def replace_by_foreign(index: Path) -> None:
    with mw.open(index.parent / "other", embedder="none", shards=2) as other:
        other.add(DOCUMENTS)
    shutil.rmtree(index / "shard-0001")
    shutil.copytree(index.parent / "other/shard-0001", index / "shard-0001")


@pytest.mark.parametrize("change", [swap, link, replace_by_foreign, lambda index: shutil.rmtree(index / "shard-0001")])
def test_wrong_shards_are_refused(sharded: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    index = Path(shutil.copytree(sharded, tmp_path / "mergewise.index"))
    (tmp_path / "new.md").write_text("New owls eat moths.\n")
    change(index)
    for words in (*USES, ["check"], ["info"]):
        done = command(tmp_path, *words)
        assert done.code in (1, 2) and "missing or wrong shard" in done.err + done.out, (words, done)


def test_shards_of_older_versions_get_ids_by_a_repair(sharded: Path, tmp_path: Path) -> None:
    index = Path(shutil.copytree(sharded, tmp_path / "mergewise.index"))
    state = manifest_record(index / "shards.json")
    del state["id"]
    (index / "shards.json").write_text(json.dumps(state))
    for own in index.glob("*/shard.json"):
        own.unlink()
    assert command(tmp_path, "ask", QUESTION).code == 0
    assert "no ids in the shards" in command(tmp_path, "check").out
    assert command(tmp_path, "check", "--repair").code == 0 and command(tmp_path, "check").code == 0
    swap(index)
    assert "missing or wrong shard" in command(tmp_path, "ask", QUESTION).err


# With a filter condition per run, the database's parser would crash the process.
RUNS = 100_000 if LONG else 2_000

LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "ids that never end": lambda raw: raw.update(next_id=2**61),
    "ids far away": lambda raw: raw.update(next_id=2**53),
    "numbers far away": lambda raw: raw.update(next_number=2**53),
    "ids that are taken": lambda raw: raw.update(next_id=0, mapped={}),
    "numbers that are taken": lambda raw: raw.update(next_number=0),
    "a table elsewhere": lambda raw: raw["tables"].update({"../precious": 1}),
    "a table from the root": lambda raw: raw["tables"].update({"/precious": 1}),
    "a file elsewhere": lambda raw: raw["mapped"]["leaf"].update(segments=[["../../precious.arrow", 3]]),
    "files of nothing": lambda raw: raw["mapped"]["leaf"].update(segments=[["x.arrow", 2**52]] * 1000),
    "rows that are mapped far away": lambda raw: raw["mapped"]["leaf"].update(end=raw["next_id"] + 1),
    "a wide vector": lambda raw: raw.update(dimension=2**40, embedder="minilm"),
    "vectors without an embedder": lambda raw: raw.update(dimension=384),
    "an embedder without vectors": lambda raw: raw.update(embedder="minilm"),
    "rows that wait for nothing": lambda raw: raw.update(
        unembedded={"leaf": [[0, raw["next_id"]]], "section": [[0, 5]], "zebra": [[0, 1]]}
    ),
    "no leaves": lambda raw: raw.update(views={"slice": {"settings": {}, "missing": []}}),
    "an unknown view": lambda raw: raw["views"].update(zebra={"settings": {}, "missing": []}),
    "settings out of range": lambda raw: raw["views"]["leaf"]["settings"].update(leaf_tokens=10**15),
    "settings of another type": lambda raw: raw["views"]["leaf"].update(settings={"leaf_tokens": [[[]]]}),
    "many runs": lambda raw: raw.update(
        next_number=2 * RUNS,
        views={**raw["views"], "slice": {"settings": {}, "missing": [[i, i + 1] for i in range(0, 2 * RUNS, 2)]}},
    ),
    "a version of the future": lambda raw: raw["tables"].update(leaf=2**52),
    "a version of nothing": lambda raw: raw["tables"].update(leaf=0),
    "trained on nothing": lambda raw: raw.update(trained={"leaf.vector": 0, "../x": 1}),
    "an infinite format": lambda raw: raw.update(format=float("inf")),
}


@pytest.mark.parametrize("name", LIES)
def test_false_values_in_a_manifest(clone: Path, home: Path, name: str) -> None:
    index = clone / "mergewise.index"
    raw = manifest_record(index / NAME)
    LIES[name](raw)
    (index / NAME).write_text(json.dumps(raw))
    use_all(index, changing=LONG or name in ("ids far away", "a table elsewhere", "vectors without an embedder"))


def test_reused_numbers_are_found_and_repaired(clone: Path, home: Path) -> None:
    edit(clone, next_id=1, next_number=1, mapped={})
    done = command(clone, "check")
    assert done.code == 1 and "already in use" in done.out
    assert command(clone, "check", "--repair").code == 0
    assert command(clone, "index", "new.md").code == 0 and command(clone, "check").code == 0


@pytest.mark.parametrize(
    "content",
    ["[" * 200_000, '{"format": ' * 50_000, '{"format": 1e999}', '{"format": ' + "9" * 5000 + "}", "\ufffe", '"3"'],
)
def test_invalid_manifests(clone: Path, home: Path, content: str) -> None:
    (clone / "mergewise.index" / NAME).write_text(content, encoding="utf-16" if content == "\ufffe" else "utf-8")
    assert command(clone, "ask", QUESTION).code in (1, 2)
    done = command(clone, "check", "--repair")
    assert done.code == 0 and "rebuilt from the tables" in done.err
    assert command(clone, "ask", QUESTION).code == 0


def test_endless_manifest(clone: Path, home: Path) -> None:
    os.truncate(clone / "mergewise.index" / NAME, 1 << 40)
    done = command(clone, "ask", QUESTION)
    assert done.code == 2 and "larger than" in done.err


# -- false files


def segments(index: Path) -> list[Path]:
    return sorted((index / "mapped").glob("*-rows-*.arrow"))


def rewrite_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace the table of a file."""
    table = change(pa.ipc.open_file(path.read_bytes()).read_all())
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def with_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def outside(table: pa.Table, column: str) -> pa.Table:
    """Replace a column by a dictionary array with indices out of range."""
    numbers = pa.array([2**30] * len(table), pa.int32())
    lying = pa.DictionaryArray.from_arrays(numbers, pa.array(["x"]), safe=False)
    return with_column(table, column, lying)


def nested(table: pa.Table, column: str) -> pa.Table:
    """Replace a column by lists of texts with offsets out of range, except the first and the last."""
    offsets = np.array([0, *[2**30] * (len(table) - 1), 1], np.int32)
    texts = pa.StringArray.from_buffers(len(table), pa.py_buffer(offsets), pa.py_buffer(b"x"))
    lists = pa.ListArray.from_arrays(pa.array(range(len(table) + 1), pa.int32()), texts)
    return with_column(table, column, lists)


FILES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "dictionary": lambda table: outside(table, table.column_names[-1]),
    "offsets": lambda table: nested(table, table.column_names[-1]),
    "no ids": lambda table: table.drop_columns(["id"]),
    "ids of another type": lambda table: with_column(table, "id", pa.array(map(str, range(len(table))))),
    "ids without order": lambda table: with_column(table, "id", pa.array([2**60] + [0] * (len(table) - 1))),
    "ids that are null": lambda table: with_column(table, "id", pa.array([None] * len(table), pa.int64())),
    "no rows": lambda table: table.slice(0, 0),
    "nulls": lambda table: with_column(table, table.column_names[-1], pa.nulls(len(table), table.schema[-1].type)),
}


@pytest.mark.parametrize("name", FILES)
def test_false_values_in_mapped_files(clone: Path, home: Path, name: str) -> None:
    index = clone / "mergewise.index"
    for path in segments(index):
        rewrite_table(path, FILES[name])
    for words in (["ask", QUESTION], ["check"]):
        assert command(clone, *words).code in (0, 1)
    if LONG or name == "dictionary":
        assert command(clone, "check", "--repair").code == command(clone, "check").code == 0


def test_tables_with_files_elsewhere_are_refused(clone: Path, home: Path) -> None:
    index = clone / "mergewise.index"
    version = json.loads((index / NAME).read_text())["tables"]["leaf"]
    file = index / "leaf.lance" / lance_versions.version_name(version)
    content = file.read_bytes()
    place = int.from_bytes(content[-16:-8], "little")
    length = int.from_bytes(content[place : place + 4], "little")
    path = str(clone).encode()
    base = b"\x08\x01\x22" + bytes([len(path)]) + path
    message = content[place + 4 : place + 4 + length] + b"\x92\x01" + bytes([len(base)]) + base
    file.write_bytes(content[:place] + len(message).to_bytes(4, "little") + message + content[-16:])
    for words in (["ask", QUESTION], ["index", "new.md"]):
        done = command(clone, *words)
        assert done.code == 1 and "files outside of the index" in done.err, done
    assert command(clone, "check").code == 1


# -- configurations


def config_case(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.touch()
        os.truncate(path, 1 << 40)
    elif kind == "link to nowhere":
        path.symlink_to("nowhere")
    else:
        contents = {
            "nested": b"a = " + b"[" * 100_000,
            "tables": b"[" + b"a." * 500_000 + b"a]\n",
            "bytes": b"\xff\xfe\x00",
            "number": b"budget = " + b"9" * 10_000,
        }
        path.write_bytes(contents[kind])


@pytest.mark.parametrize("line", ['cache = "a\\u0000b"', 'index = "loop"', 'tokenizer = "pipe"', 'index = "\\ud800"'])
def test_invalid_paths_in_a_folder_configuration(clone: Path, home: Path, line: str) -> None:
    (clone / "loop").symlink_to("loop")
    os.mkfifo(clone / "pipe")
    (clone / "mergewise.toml").write_text(line + "\n")
    assert command(clone, "ask", QUESTION).code in (0, 2)


def test_suggested_embedder_is_quoted_for_the_shell(clone: Path, home: Path) -> None:
    edit(clone, embedder="st:x; rm -rf ~", dimension=384)
    assert "MERGEWISE_EMBEDDER='st:x; rm -rf ~'" in command(clone, "ask", QUESTION).err


KINDS = ["nested", "tables", "pipe", "folder", "huge", "bytes", "number", "link to nowhere"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", ["folder", "user"])
def test_unreadable_configurations(clone: Path, home: Path, kind: str, whose: str) -> None:
    folder = clone if whose == "folder" else home / "config/mergewise"
    config_case(folder / "mergewise.toml", kind)
    done = command(clone, "info")
    assert done.code == 2 and "mergewise.toml" in done.err, done


def test_deleted_working_directory(clone: Path, home: Path) -> None:
    every = ["info"], ["-v", "info"], ["index", clone / "new.md", "-i", clone / "mergewise.index"]
    removing = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh"]
    for arguments in every if LONG else every[:1]:
        (clone / "gone").mkdir()
        done = script(COMMAND[-1], *arguments, before=removing, cwd=clone / "gone")
        assert done.code == 2 and "working directory not found" in done.err, done


GONE = """
import os, sys
import mergewise as mw
with mw.open(sys.argv[1], create=False) as index:
    os.mkdir(sys.argv[2]); os.chdir(sys.argv[2]); os.rmdir(sys.argv[2])
    print(index.add(sys.argv[3]).added, len(index.ask("What do owls eat?").citations))
    try:
        mw.open("relative", create=False)
    except mw.MergewiseError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(not LONG, reason="a process of its own")
def test_working_directory_deleted_while_an_index_is_open(clone: Path, home: Path) -> None:
    done = script(GONE, clone / "mergewise.index", clone / "gone", clone / "new.md")
    assert done.code == 0 and done.out.split()[0] == "1" and "UsageError" in done.out, done


# -- open indexes in changing folders


def other_index(folder: Path) -> Path:
    with mw.open(folder, embedder="none") as index:
        index.add(mw.Document("other", "Foxes eat berries."))
    return folder


@pytest.mark.parametrize("how", ["replaced", "renamed", "deleted"])
def test_index_replaced_while_it_is_open(clone: Path, tmp_path: Path, how: str) -> None:
    path = clone / "mergewise.index"
    other = other_index(tmp_path / "other") if how == "replaced" else None
    index = mw.open(path)
    assert index.ask(QUESTION).citations
    shutil.rmtree(path) if how == "deleted" else path.rename(clone / "away")
    if other is not None:
        other.rename(path)
        before = snapshot(path)
    for use in (
        lambda: index.ask(QUESTION),
        lambda: index.add(mw.Document("new", "New owls.")),
        lambda: index.remove(["note1"]),
        lambda: index.check(repair=True),
        lambda: len(index),
    ):
        with pytest.raises(StoreError, match="was moved, replaced or deleted since it was opened"):
            use()
    assert "StoreError" in repr(index)
    if how == "replaced":
        assert snapshot(path) == before
    if how == "renamed":
        (clone / "away").rename(path)
        assert index.ask(QUESTION).citations and index.add(mw.Document("new", "New owls.")).added == 1
        assert index.check() == []


def test_pending_change_is_not_committed_to_another_index(clone: Path, tmp_path: Path) -> None:
    path = clone / "mergewise.index"
    other = other_index(tmp_path / "other")
    index = mw.open(path)
    assert isinstance(index.store, LanceStore)
    manifest = (other / NAME).read_bytes()
    with pytest.raises(StoreError, match="was moved, replaced or deleted since"), index.store._writing() as change:
        path.rename(clone / "away")
        other.rename(path)
        change.tables.manifest = replace(change.tables.manifest, next_id=change.tables.manifest.next_id + 1)
        change.tables.commit()
    assert (path / NAME).read_bytes() == manifest
    with mw.open(path) as standing:
        assert standing.check() == [] and [info.id for info in standing.documents()] == ["other"]


LOST = """
import os, sys
import mergewise as mw

def use(name, call):
    try:
        print(name, "done", call())
    except mw.MergewiseError as error:
        print(name, type(error).__name__, error)

# import everything first
with mw.open(sys.argv[2], embedder="none") as other:
    other.add(mw.Document("other", "Foxes eat berries."))
    other.check(repair=True)
index = mw.open(sys.argv[1])
index.ask("What do owls eat?")
os.setuid(65534)
use("ask", lambda: len(index.ask("What do owls eat?").citations))
use("add", lambda: index.add(mw.Document("new", "New owls.")).added)
use("check", lambda: len(index.check()))
use("repair", lambda: len(index.check(repair=True)))
use("open", lambda: len(mw.open(sys.argv[1])))
"""


@pytest.mark.parametrize("lost", ["writing", "reading"] if LONG else ["writing"])
def test_permissions_lost_while_an_index_is_open(made: Path, lost: str, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    # Other users may not enter pytest's temporary folders.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        index = Path(shutil.copytree(made / "mergewise.index", Path(folder) / "index"))
        index.chmod(0o755 if lost == "writing" else 0o700)
        done = script(LOST, index, tmp_path / "other")
    assert done.code == 0, done
    said = {line.partition(" ")[0]: line for line in done.out.splitlines()}
    assert set(said) == {"ask", "add", "check", "repair", "open"}, done.out
    assert "Error" in said["add"], said
    if lost == "writing":
        assert "ask done" in said["ask"] and "open done 3" in said["open"], said
    else:
        assert "Permission denied" in said["open"] and "Permission denied" in said["ask"], said


# -- the last answer of a user


@pytest.mark.parametrize("kind", ["pipe", "nested", "link", "huge", "spans", "folder", "types"])
def test_planted_last_answers_are_ignored(clone: Path, home: Path, kind: str) -> None:
    assert command(clone, "ask", QUESTION).code == 0 and command(clone, "show", "1").code == 0
    (file,) = (home / "state/mergewise/last").iterdir()
    kept = json.loads(file.read_text())
    file.unlink()
    contents = {
        "nested": "[" * 200_000,
        "spans": json.dumps({**kept, "numbers": {"1": [["note1", -(10**9), 10**30, None]]}}),
        "types": json.dumps({"question": [], "numbers": {"1": [["note1", "0", {}, None]], "x": 3}}),
        "link": "mine",
    }
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "huge":
        file.touch()
        os.truncate(file, 1 << 40)
    elif kind == "link":
        (home / "precious").write_text("mine")
        file.symlink_to(home / "precious")
    else:
        file.write_text(contents[kind])
    done = command(clone, "show", "1")
    assert done.code == 2 and "no last answer of this index" in done.err, done
    assert command(clone, "ask", QUESTION).code == 0
    if kind == "link":
        assert (home / "precious").read_text() == "mine" and not file.is_symlink()
    assert command(clone, "show", "1").code == (2 if kind == "folder" else 0)
