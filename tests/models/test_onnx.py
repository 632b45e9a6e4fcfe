"""The shipped embedder against vectors of the original model, which `scripts/export_minilm.py` stored, and models of folders."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.support import token_vectors
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

import mergewise as mw
from mergewise.models import load_embedder, onnx
from mergewise.models.onnx import OnnxEmbedder, OnnxPartEmbedder, Settings, minilm, plan_batches, truncate
from mergewise.models.tokens import count_tokens
from mergewise.models.unigram import vocabulary

MIXED = [
    "A river.",
    "",
    "The committee rejected the proposal. " * 40,
    "Mitochondria",
    "How long does the ferry take?",
    "x " * 90,
]


@pytest.fixture(scope="module")
def embedder() -> OnnxPartEmbedder:
    return minilm()


def test_vectors_match_the_original_model(embedder: OnnxPartEmbedder) -> None:
    reference = np.load(Path(__file__).parent / "minilm_reference.npz")
    texts = reference["texts"].tolist()
    cosines = (embedder.embed_documents(texts) * reference["vectors"]).sum(axis=1)
    assert cosines.mean() >= 0.99
    assert min(c for c, tokens in zip(cosines, count_tokens(texts), strict=True) if tokens >= 10) >= 0.98
    assert cosines.min() >= 0.95


def test_rows_are_unit_float32(embedder: OnnxPartEmbedder) -> None:
    vectors = embedder.embed_documents(MIXED)
    assert vectors.shape == (len(MIXED), embedder.dimension) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_the_vector_of_a_text_does_not_depend_on_its_batch(embedder: OnnxPartEmbedder) -> None:
    alone = np.concatenate([embedder.embed_queries([text]) for text in MIXED])
    np.testing.assert_allclose(embedder.embed_documents(MIXED), alone, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_documents(MIXED[::-1])[::-1], alone, atol=1e-5)


def test_order_is_restored_across_slabs_and_batches(
    embedder: OnnxPartEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "SLAB", 7)
    monkeypatch.setattr(onnx, "BATCH_TOKENS", 40)
    monkeypatch.setattr(onnx, "cores", lambda: 3)
    texts = [f"{'word ' * (i * 7 % 11)}number {i}" for i in range(30)]
    many = embedder.embed_documents(texts)
    np.testing.assert_allclose(many, np.concatenate([embedder.embed_documents([t]) for t in texts]), atol=1e-5)


def test_no_texts(embedder: OnnxPartEmbedder) -> None:
    assert embedder.embed_documents([]).shape == embedder.embed_queries([]).shape == (0, 384)
    rows, parts = embedder.embed_parts([], [])
    assert rows.shape == (0, 384) and parts == []


@pytest.mark.parametrize("text", ["", " \n", "\0", "\ud800", "[SEP][PAD][CLS]", "x" * 5000, "🚀" * 600])
def test_odd_texts_have_finite_unit_vectors(embedder: OnnxPartEmbedder, text: str) -> None:
    (vector,) = embedder.embed_documents([text])
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_long_text_is_truncated(embedder: OnnxPartEmbedder) -> None:
    start = "river " * (256 - 2)
    np.testing.assert_array_equal(embedder.embed_documents([start]), embedder.embed_documents([start + "city"]))
    assert truncate([101, 5, 6, 7, 102], 4) == [101, 5, 6, 102]
    assert truncate([101, 5, 102], 3) == [101, 5, 102]


def test_a_vector_is_the_mean_of_the_vectors_of_its_word_pieces(embedder: OnnxPartEmbedder) -> None:
    alone = [slow_mean(token_vectors(text)[0]) for text in MIXED]
    np.testing.assert_allclose(embedder.embed_documents(MIXED), alone, atol=1e-5)
    one_by_one = [embedder.embed_queries([text])[0] for text in MIXED]
    np.testing.assert_allclose(one_by_one, alone, atol=1e-6)


PARTS = [
    [(0, 2), (2, 8), (0, 8), (8, 8)],
    [(0, 0), (0, 40)],
    [(0, 36), (36, 73), (5000, 6000), (0, 1480)],
    [],
    [(4, 8)],  # inside a word
    [(0, 180), (178, 180)],
]


@pytest.mark.parametrize("slab", [1, 4, 2048])
def test_the_vector_of_a_part_is_the_mean_of_the_pieces_that_start_in_it(
    embedder: OnnxPartEmbedder, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "SLAB", slab)
    rows, part_rows = embedder.embed_parts(MIXED, PARTS)
    np.testing.assert_allclose(rows, embedder.embed_documents(MIXED), atol=1e-5)
    for text, row, parts, own in zip(MIXED, rows, PARTS, part_rows, strict=True):
        assert own.shape == (len(parts), 384) and own.dtype == np.float32
        vectors, offsets = token_vectors(text)
        for (start, end), found in zip(parts, own, strict=True):
            inside = [i for i, (at, to) in enumerate(offsets) if start <= at < end and at < to]
            expected = slow_mean(vectors[inside]) if inside else row
            np.testing.assert_allclose(found, expected, atol=1e-5)


def slow_mean(vectors: np.ndarray) -> np.ndarray:
    mean = vectors.astype(np.float64).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def test_threads_share_one_embedder() -> None:
    embedder = minilm()
    expected = minilm().embed_documents(MIXED)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: embedder.embed_documents(MIXED), range(24)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


@given(st.lists(st.integers(2, 256), max_size=60), st.integers(1, 8))
@settings(deadline=None)
def test_batches_hold_every_text_once_and_keep_the_budget(lengths: list[int], workers: int) -> None:
    batches = list(plan_batches(lengths, workers))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= onnx.BATCH_TOKENS
    in_turn = [lengths[i] for batch in batches for i in batch]
    assert in_turn == sorted(lengths, reverse=True), "the longest first, and similar ones together"


def test_importing_loads_no_runtime() -> None:
    code = "import sys, mergewise.models.onnx; print({'onnxruntime', 'tokenizers', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_truncated_texts_are_counted() -> None:
    whole, longer = "rain " * (256 - 2), "rain " * (256 - 1)
    model = minilm()
    assert model.count_cut("q", [whole, longer, "rain", longer + "snow"]) == 2


class Folder:
    """A folder with a tiny model: token vectors are rows of a table, by the token's number."""

    def __init__(
        self, path: Path, output: str = "tokens", inputs: Sequence[str] = ("input_ids", "attention_mask")
    ) -> None:
        self.path = path
        path.mkdir()
        words = {
            word: i
            for i, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "query", "text", ":", "cat", "dog", "eats"])
        }
        tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = Whitespace()
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
        tokenizer.enable_truncation(3)
        tokenizer.save(str(path / "tokenizer.json"))
        self.words = words
        self.table = np.random.default_rng(7).normal(size=(len(words), 8)).astype(np.float32)
        nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
        shapes: dict[str, list[str | int]] = {"tokens": ["texts", "length", 8], "sentence": ["texts", 8]}
        if output != "tokens":
            nodes.append(helper.make_node("ReduceMax", ["tokens"], ["sentence"], axes=[1], keepdims=0))
        graph = helper.make_graph(
            nodes,
            "tiny",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "length"]) for name in inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in output.split()],
            [numpy_helper.from_array(self.table, "table")],
        )
        (path / "onnx").mkdir()
        onnx_format.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9),
            path / "onnx/model.onnx",
        )

    def write(self, **files: object) -> Folder:
        for name, value in files.items():
            path = self.path / {"pooling": "1_Pooling/config.json"}.get(name, f"{name}.json")
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(value))
        return self

    def rows(self, *words: str) -> np.ndarray:
        return self.table[[self.words[word] for word in words]]


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "own").write(embedder={"query": "query: ", "passage": "text: ", "longest": 8})
    embedder = load_embedder(f"onnx:{folder.path}")
    assert isinstance(embedder, OnnxPartEmbedder) and embedder.dimension == 8 and embedder.languages is None
    (question,) = embedder.embed_queries(["cat eats dog"])
    np.testing.assert_allclose(
        question, slow_mean(folder.rows("[CLS]", "query", ":", "cat", "eats", "dog", "[SEP]")), atol=1e-6
    )
    # the prefix and the marks leave room for four words; parts are places in the text without the prefix
    rows, parts = embedder.embed_parts(["cat eats dog eats cat"], [[(0, 3), (4, 12), (18, 21)]])
    whole = slow_mean(folder.rows("[CLS]", "text", ":", "cat", "eats", "dog", "eats", "[SEP]"))
    np.testing.assert_allclose(rows, embedder.embed_documents(["cat eats dog eats"]), atol=1e-6)
    np.testing.assert_allclose(rows[0], whole, atol=1e-6)
    np.testing.assert_allclose(
        parts[0], [slow_mean(folder.rows("cat")), slow_mean(folder.rows("eats", "dog")), whole], atol=1e-6
    )
    assert embedder.count_cut("?", ["cat eats dog eats", "cat eats dog eats cat"]) == 1


def test_a_folder_of_sentence_transformers(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "st", inputs=("input_ids", "attention_mask", "token_type_ids")).write(
        pooling={"word_embedding_dimension": 8, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        config_sentence_transformers={
            "prompts": {"query": "query: ", "document": "text: "},
            "default_prompt_name": None,
        },
        sentence_bert_config={"max_seq_length": 16, "do_lower_case": False},
    )
    embedder = load_embedder(f"onnx:{folder.path}")
    assert type(embedder) is OnnxEmbedder, (
        "the vector of a text is that of its first token, so parts have none of their own"
    )
    assert embedder.settings == Settings(query="query: ", passage="text: ", pooling="cls", longest=16)
    np.testing.assert_allclose(embedder.embed_documents(["cat"])[0], slow_mean(folder.rows("[CLS]")), atol=1e-6)


def test_a_model_that_pools_itself(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "pooled", output="sentence").write(embedder={})
    embedder = load_embedder(f"onnx:{folder.path}")
    assert type(embedder) is OnnxEmbedder and embedder.dimension == 8
    expected = folder.rows("[CLS]", "cat", "eats", "[SEP]").max(axis=0)
    np.testing.assert_allclose(
        embedder.embed_documents(["cat eats"])[0], expected / np.linalg.norm(expected), atol=1e-6
    )
    both = Folder(tmp_path / "both", output="sentence tokens").write(embedder={})
    assert isinstance(load_embedder(f"onnx:{both.path}"), OnnxPartEmbedder), "token vectors, if there are any"


def test_an_index_with_a_folder_of_ones_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "own")
    index = mw.open(tmp_path / "index", embedder=f"onnx:{folder.path}")
    index.add([mw.Document("cats", "A cat eats."), mw.Document("dogs", "A dog eats.")])
    assert index.context("cat", strategy="dense(k=1)").text.endswith("A cat eats.")
    assert mw.open(tmp_path / "index").embedder is index.embedder, "indexes share a model"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"embedder": {"pooling": "max"}}, "invalid pooling of Settings: 'max'"),
        ({"embedder": {"prefix": "query: "}}, "unknown in .*embedder.json: prefix"),
        ({"embedder": []}, "invalid .*embedder.json"),
        ({"pooling": {"pooling_mode_lasttoken": True}}, "unknown pooling of .*: lasttoken"),
    ],
)
def test_wrong_settings(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    folder = Folder(tmp_path / "own").write(**files)
    with pytest.raises(mw.UsageError, match=message):
        load_embedder(f"onnx:{folder.path}")


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(mw.UsageError, match="tokenizer"):
        load_embedder(f"onnx:{tmp_path / 'nowhere'}")
    folder = Folder(tmp_path / "own", inputs=("input_ids", "attention_mask", "pixel_values"))
    with pytest.raises(mw.ModelError, match=r"cannot load onnx:.*pixel_values"):
        load_embedder(f"onnx:{folder.path}")
    (folder.path / "onnx/model.onnx").write_bytes(b"no model")
    with pytest.raises(mw.ModelError, match="cannot load onnx:"):
        load_embedder(f"onnx:{folder.path}")
    (folder.path / "onnx/model.onnx").unlink()
    with pytest.raises(mw.UsageError, match=r"no model.onnx or onnx/model.onnx in"):
        load_embedder(f"onnx:{folder.path}")


# -- multilingual-e5-small

E5_FILES = {
    "layers.bin": "1a785d0bdd2de33000f5c00d1ded057ae5c0ba5e1f06bc60d14a8fa9a563818f",
    "model.onnx": "1acc8c2bd50a8a6e9177a1d6865a6d7cdd73ea6e640ee794a965c6653c191ed9",
    "pieces.txt": "f257de6efdf4795996c0d4f590c9cadf22a9625d107ab055f8fb5aa58e3056e5",
    "scores.bin": "706aee0d448aee7529ed6f1b10c9844769fbfb909777dc544612439bf8ba6a18",
    "words.bin": "5ce3179555136cbad6a43625d7591cdaf6b3a3f75997267939990291041b074a",
}


@pytest.mark.parametrize("name", E5_FILES)
def test_the_files_are_those_of_the_script(name: str) -> None:
    assert hashlib.sha256((onnx.E5 / name).read_bytes()).hexdigest() == E5_FILES[name]


def test_vectors_and_pieces_match_the_package_that_the_weights_come_from() -> None:
    reference = np.load(Path(__file__).parent / "e5_reference.npz")
    texts = reference["texts"].tolist()
    embedder = load_embedder("e5")
    assert isinstance(embedder, OnnxPartEmbedder) and embedder.dimension == 384 and embedder.languages is None
    cosines = (embedder.embed_documents(texts) * reference["vectors"].astype(np.float32)).sum(axis=1)
    assert cosines.min() >= 0.994
    pieces = (onnx.E5 / "pieces.txt").read_text(encoding="utf-8").split("\n")
    found = vocabulary(onnx.E5).encode([f"passage: {text}" for text in texts])
    assert [" ".join(pieces[i] for i in one.ids[1:-1]) for one in found] == reference["pieces"].tolist()
    questions = embedder.embed_queries(["Wann wurde die Brücke aus Stein errichtet?", "How do owls hear?"])
    near, far = questions @ embedder.embed_documents(texts).T
    assert (near > far).all(), "a question in German is near to texts in all languages"
