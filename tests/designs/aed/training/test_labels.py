"""Labels: the candidates of a question, their perplexities, and resumption after a kill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.cli.training import label_source
from mergewise.designs.aed import units
from mergewise.designs.aed.training.candidates import (
    Example,
    LabelSource,
    TrainCandidate,
    passages_of,
    reader_prompt,
    triplets_of,
)
from mergewise.designs.aed.training.labels import LabelCounts, LabelSettings, LabelStore, label
from mergewise.errors import UsageError
from mergewise.models.cppl import cppl
from tests.designs.aed.training.towns import EXAMPLES, reader, towns_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> mw.Index:
    return towns_index(tmp_path_factory.mktemp("towns") / "index")


@pytest.fixture
def source(index: mw.Index) -> LabelSource:
    return label_source(index, EXAMPLES)


SETTINGS = LabelSettings(passages=3, triplets=3)


def test_every_candidate_gets_its_perplexity(tmp_path: Path, source: LabelSource) -> None:
    progress: list[tuple[int, int, str]] = []
    model, store = reader(), LabelStore(tmp_path)
    counts = label(store, [source], model, SETTINGS, lambda *args: progress.append(args))
    assert counts == LabelCounts(len(EXAMPLES))
    assert [done for done, _, _ in progress] == list(range(1, len(EXAMPLES) + 1))
    found = {one.example: one.candidates for one in store.read(["passages", "triplets", "generated"])}
    for labelled in store.read(["passages"]):  # without a context, the model is contrasted with itself
        question = model.prompt(reader_prompt(labelled.example.text, None))
        answers = labelled.example.answers
        assert labelled.alone == pytest.approx(cppl(model, question, [question], answers, alpha=0.5)[0])
    assert found.keys() == set(EXAMPLES)
    for example, candidates in found.items():
        kinds = [one.candidate.kind for one in candidates]
        assert set(kinds) == {"passages", "triplets", "generated"}
        question = model.prompt(reader_prompt(example.text, None))
        for one in candidates:
            context = model.prompt(reader_prompt(example.text, one.candidate))
            assert one.cppl == pytest.approx(cppl(model, question, [context], example.answers)[0])
        best = min(candidates, key=lambda one: one.cppl)
        assert best.candidate.span is not None and best.candidate.span.doc_id == example.id
        assert best.candidate.predictor_text.startswith(example.id) and best.cppl < 1.1 < max(
            one.cppl for one in candidates
        )
    (generated,) = [one.candidate for one in found[EXAMPLES[0]] if one.candidate.kind == "generated"]
    assert generated == TrainCandidate("generated", "", (), "x", 0.0)
    (unsure,) = [one.candidate.text for one in found[EXAMPLES[2]] if one.candidate.kind == "generated"]
    assert unsure == "N/A"


def test_interrupted_labelling_resumes(tmp_path: Path, source: LabelSource) -> None:
    whole, broken = LabelStore(tmp_path / "whole"), LabelStore(tmp_path / "broken")
    label(whole, [source], reader(), SETTINGS)

    def interrupt(done: int, total: int, item: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label(broken, [source], reader(), SETTINGS, interrupt)
    assert len(broken.read(["passages", "triplets", "generated"])) == 2
    assert label(broken, [source], reader(), SETTINGS).questions == len(EXAMPLES) - 2
    assert broken.read(["passages", "triplets", "generated"]) == whole.read(["passages", "triplets", "generated"])
    idle = reader()
    assert label(broken, [source], idle, SETTINGS) == LabelCounts() and idle.tokens_run == 0


def test_partial_file_is_not_a_label(tmp_path: Path, source: LabelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LabelStore(tmp_path)
    written = Path.write_text

    def killed(path: Path, text: str, encoding: str) -> None:
        written(path, text if "manifest" in path.name else text[:100], encoding)
        if "manifest" not in path.name:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        label(store, [source], reader(), SETTINGS)
    monkeypatch.undo()
    assert store.read(["generated"]) == []
    assert label(store, [source], reader(), SETTINGS).questions == len(EXAMPLES)


def test_kinds_can_be_added_later(tmp_path: Path, source: LabelSource) -> None:
    store = LabelStore(tmp_path)
    label(store, [source], reader(), LabelSettings(passages=3, triplets=0, generated=False))
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "passages").glob("[!_]*.json")}
    assert len(times) == len(EXAMPLES) and not (tmp_path / "triplets").exists()
    label(store, [source], reader(), SETTINGS)
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "passages").glob("[!_]*.json")}
    assert len(store.read(["passages", "triplets", "generated"])) == len(EXAMPLES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (LabelSettings(passages=2, triplets=3), "count 3, not 2"),
        (LabelSettings(passages=3, triplets=3, alpha=1), "alpha 0.5, not 1"),
        (LabelSettings(passages=3, triplets=3, longest=7), "longest 256, not 7"),
    ],
)
def test_labels_with_other_parameters_are_rejected(
    tmp_path: Path, source: LabelSource, changed: LabelSettings, message: str
) -> None:
    store = LabelStore(tmp_path)
    label(store, [source], reader(), SETTINGS)
    with pytest.raises(UsageError, match=message):
        label(store, [source], reader(), changed)


def test_labels_of_another_index_or_reader_are_rejected(tmp_path: Path, source: LabelSource) -> None:
    store = LabelStore(tmp_path)
    label(store, [source], reader(), SETTINGS)
    grown = LabelSource(source.examples, source.reader, {"passages": {**source.facts["passages"], "documents": 7}})
    with pytest.raises(UsageError, match="documents of towns 6, not 7"):
        label(store, [grown], reader(), LabelSettings(passages=3, triplets=0))
    other = reader()
    other.spec = "other"
    with pytest.raises(UsageError, match="chat scripted, not other"):
        label(store, [source], other, SETTINGS)
    more = LabelSource([Example("x", "Who founded Arden?", ("Brix",), "second")], source.reader, source.facts)
    assert label(store, [source, more], reader(), SETTINGS).questions == 1  # another set joins


def test_sets_take_turns(tmp_path: Path, source: LabelSource) -> None:
    second = LabelSource(
        [Example(e.id, e.text, e.answers, "second") for e in EXAMPLES[:2]], source.reader, source.facts
    )
    asked: list[str] = []
    settings = LabelSettings(passages=1, triplets=0, generated=False)
    label(LabelStore(tmp_path), [source, second], reader(), settings, lambda done, total, item: asked.append(item))
    order = [EXAMPLES[0], EXAMPLES[0], EXAMPLES[1], EXAMPLES[1], *EXAMPLES[2:]]
    assert asked == [example.text for example in order]


def long_source(folder: Path) -> LabelSource:
    """Return a question with three passages and triplets: a short one, one of many sentences, one of a long sentence."""
    index = mw.open(folder, embedder="none", views=("leaf", "triplet"))
    streets = [f"Arden has a street {n} by the river {n}" for n in range(12)]
    texts = {"a": "Arden: founded by Brix.", "b": ". ".join(streets) + ".", "c": " and ".join(streets)}
    index.add([mw.Document(id=name, title="Arden", text=text) for name, text in texts.items()])
    return label_source(index, EXAMPLES[:1])


def prompt_tokens(candidate: TrainCandidate | None = None) -> int:
    return len(reader().prompt(reader_prompt(EXAMPLES[0].text, candidate)))


def test_long_candidates_are_cut(tmp_path: Path) -> None:
    source, small = long_source(tmp_path / "index"), reader(window=prompt_tokens() + 500)
    whole, store = LabelStore(tmp_path / "whole"), LabelStore(tmp_path / "labels")
    settings = LabelSettings(generated=False)
    assert label(whole, [source], reader(), settings) == LabelCounts(1)
    counts = label(store, [source], small, settings)
    for kind in settings.kinds():
        ((before,), (after,)) = (one.read([kind]) for one in (whole, store))
        assert len(after.candidates) == len(before.candidates)  # no candidate is lost
        for long, short in zip(before.candidates, after.candidates, strict=True):
            assert short.candidate.cut == (short.candidate.text != long.candidate.text)
            assert long.candidate.text.startswith(short.candidate.text) and not long.candidate.cut
            assert prompt_tokens(short.candidate) + len("Brix") <= small.window
            question, prompt = (small.prompt(reader_prompt(EXAMPLES[0].text, one)) for one in (None, short.candidate))
            assert short.cppl == pytest.approx(cppl(small, question, [prompt], ["Brix"])[0])
    (passages,), (sets,) = store.read(["passages"]), store.read(["triplets"])
    texts = {one.candidate.span.doc_id: one.candidate for one in passages.candidates if one.candidate.span is not None}
    assert [texts[name].cut for name in "abc"] == [False, True, True]
    assert (
        texts["b"].text.endswith(".") and texts["c"].text.split()[-1] in "Arden has a street by the river and".split()
    )
    lines = {line for one in whole.read(["triplets"])[0].candidates for line in one.candidate.text.split("\n")}
    assert all(set(one.candidate.text.split("\n")) <= lines for one in sets.candidates)
    assert counts.questions == 1 and counts.cut == sum(
        one.candidate.cut for question in (passages, sets) for one in question.candidates
    ) >= 3  # fmt: skip


@pytest.mark.parametrize(("room", "left_out"), [(500, 0), (3, 1)])
def test_question_without_room_is_skipped_and_retried(tmp_path: Path, room: int, left_out: int) -> None:
    """A question gets no label if not a word of a candidate fits. A larger window labels it later."""
    source, settings = long_source(tmp_path / "index"), LabelSettings(triplets=0, generated=False)
    store, tight = LabelStore(tmp_path / "labels"), reader(window=prompt_tokens() + len("Brix") + room)
    assert label(store, [source], tight, settings).left_out == left_out
    assert len(store.read(["passages"])) == 1 - left_out
    assert label(store, [source], reader(), settings).questions == left_out


def test_labels_of_another_version_are_rejected(tmp_path: Path, source: LabelSource) -> None:
    store, settings = LabelStore(tmp_path), LabelSettings(passages=1, triplets=0, generated=False)
    label(store, [source], reader(), settings)
    path = tmp_path / "passages/_manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 1}))
    for refused in (lambda: store.read(["passages"]), lambda: label(store, [source], reader(), settings)):
        with pytest.raises(UsageError, match="another version"):
            refused()


@pytest.mark.parametrize("answers", [[], ["", " "]])
def test_questions_without_answers_are_rejected(tmp_path: Path, source: LabelSource, answers: Sequence[str]) -> None:
    asked = LabelSource([Example("1", "Who?", tuple(answers))], source.reader, source.facts)
    with pytest.raises(UsageError, match="no question with an answer"):
        label(LabelStore(tmp_path), [asked], reader(), SETTINGS)


def test_index_without_triplets_is_rejected(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add([mw.Document(id="a", title="Arden", text="Arden was founded by Brix.")])
    with pytest.raises(UsageError, match="triplet"):
        label(LabelStore(tmp_path / "labels"), [label_source(index, EXAMPLES[:1])], reader(), SETTINGS)


def test_error_names_a_damaged_file(tmp_path: Path, source: LabelSource) -> None:
    store = LabelStore(tmp_path)
    label(store, [source], reader(), LabelSettings(passages=1, triplets=0, generated=False))
    path = next((tmp_path / "passages").glob("[!_]*.json"))
    path.write_bytes(b"nothing")
    with pytest.raises(UsageError, match=path.stem):
        store.read(["passages"])
    (tmp_path / "passages/_manifest.json").write_text("[]")
    with pytest.raises(UsageError, match="manifest"):
        label(store, [source], reader(), LabelSettings(passages=1, triplets=0, generated=False))


def test_candidates_match_the_units_of_the_strategy(index: mw.Index, source: LabelSource) -> None:
    """The predictor is trained on the same texts that it scores later."""
    asked = EXAMPLES[0].text
    retrieved = units.retrieve(asked, source.reader, 3)
    assert [one.predictor_text for one in passages_of(asked, source.reader, 3, 256)] == [
        unit.text for unit in retrieved
    ]
    sets = [unit.text for unit in units.map_triplets(retrieved, source.reader)]
    assert sets and [one.predictor_text for one in triplets_of(asked, source.reader, 3, 256)] == sets
