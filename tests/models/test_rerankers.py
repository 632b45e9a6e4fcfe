"""Rerankers: an endpoint over real HTTP in both shapes, and tiny random cross-encoders."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.models.http_endpoint import HTTPEndpoint, Reply, Script

from mergewise.errors import MissingExtra, ModelError, UsageError, install_command
from mergewise.models import load_reranker, release
from mergewise.models.cross_encoder import SentenceTransformersCrossEncoder
from mergewise.models.record import utilities_of
from mergewise.protocols import CountsCut

pytest.importorskip("openai")
from mergewise.models.rerank_http import PROBE, HTTPReranker

QUESTION, TEXTS = "What do cats eat?", [f"Text {i} about fish." for i in range(5)]


def mark(text: str) -> float:
    return int(text.split()[1]) / 10


def cohere(body: dict[str, Any]) -> Reply:
    rows = [{"index": i, "relevance_score": mark(text)} for i, text in enumerate(body["documents"])]
    return 200, {"results": rows[::-1]}, {}


def tei(body: dict[str, Any]) -> Reply:
    if "texts" not in body:
        return 422, {"error": "missing field `texts`"}, {}
    return 200, [{"index": i, "score": mark(text)} for i, text in enumerate(body["texts"])][::-1], {}


Serve = Callable[..., tuple[HTTPEndpoint, HTTPReranker]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*script: Script, suffix: str = "", **options: Any) -> tuple[HTTPEndpoint, HTTPReranker]:
            endpoint = stack.enter_context(HTTPEndpoint(*script))
            options = {"retries": 2, "scale": "shares", **options}
            reranker = HTTPReranker(f"{endpoint.url}/v1/rerank{suffix}", **options)
            stack.callback(release, reranker)
            return endpoint, reranker

        yield start


def test_batches_give_scores_in_the_order_of_the_texts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_API_KEY", "secret")
    endpoint, reranker = serve(cohere, suffix="#small", batch_texts=2)
    assert reranker.score(QUESTION, TEXTS) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [len(body["documents"]) for body in endpoint.requests] == [2, 2, 1], "the remainder of the batches too"
    assert endpoint.requests[0] == {"model": "small", "query": QUESTION, "documents": TEXTS[:2], "top_n": 2}
    assert endpoint.keys[0] == "Bearer secret"
    assert reranker.score(QUESTION, []).shape == (0,)


def test_the_key_for_openai_is_not_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RERANK_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    endpoint, reranker = serve(cohere)
    reranker.score(QUESTION, TEXTS)
    assert "secret" not in "".join(endpoint.keys)


def test_the_other_shape_is_tried_and_remembered(serve: Serve) -> None:
    endpoint, reranker = serve(tei, batch_texts=3)
    assert reranker.score(QUESTION, TEXTS) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert ["texts" in body for body in endpoint.requests] == [False, True, True]


def test_logits_become_shares_in_the_same_order(serve: Serve) -> None:
    results = [{"index": 0, "relevance_score": -8.0}, {"index": 1, "relevance_score": 3.0}]
    _, reranker = serve(lambda body: (200, {"results": results}, {}), scale="logits")
    low, high = reranker.score(QUESTION, TEXTS[:2])
    assert 0 < low < 0.01 and 0.9 < high < 1


class Judge:
    """An endpoint with fixed scores of the probe. The score of another text is its second word."""

    def __init__(self, fits: float, does_not: float) -> None:
        self.fits, self.does_not = fits, does_not

    def __call__(self, body: dict[str, Any]) -> Reply:
        texts = body.get("documents") or body["texts"]
        known = {PROBE[1][0]: self.fits, **dict.fromkeys(PROBE[1][1:], self.does_not)}
        rows = [{"index": i, "relevance_score": known.get(t) or float(t.split()[1])} for i, t in enumerate(texts)]
        return 200, {"results": rows}, {}


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize(
    ("judge", "expected"),
    [(Judge(8.1, -11.2), [sigmoid(0.2), sigmoid(0.9), sigmoid(3)]), (Judge(0.9, 1e-5), [0.2, 0.9])],
)
def test_the_scale_is_a_property_of_the_endpoint(serve: Serve, judge: Judge, expected: list[float]) -> None:
    """0.2 and 0.9 alone look like shares. At an endpoint that also returns 3 they are logits, in any call."""
    endpoint, reranker = serve(judge, scale=None)
    texts = ["is 0.2", "is 0.9", "is 3"][: len(expected)]
    alone = [float(reranker.score(QUESTION, [text])[0]) for text in texts]
    assert alone == pytest.approx(expected)
    assert reranker.score(QUESTION, texts) == pytest.approx(expected)
    assert len(endpoint.requests) == 1 + len(texts) + 1, "the scale is found out once"
    assert reranker.score(QUESTION, []).shape == (0,)


def test_an_endpoint_that_changes_its_scale_is_refused(serve: Serve) -> None:
    _, reranker = serve(Judge(0.9, 1e-5), scale=None)
    with pytest.raises(ModelError, match="outside") as caught:
        reranker.score(QUESTION, ["is 0.5", "is 3"])
    assert "normalise" in caught.value.hint
    assert reranker.score(QUESTION, ["is 1.0001"]) == pytest.approx([1.0], abs=1e-9)


@pytest.mark.parametrize("status", [429, 503, 0])
def test_temporary_failures_are_retried(serve: Serve, status: int) -> None:
    def fail(body: dict[str, Any]) -> Reply:
        return status, {}, {"Retry-After": "0"}

    endpoint, reranker = serve(fail, fail, cohere)
    assert len(reranker.score(QUESTION, TEXTS)) == 5
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ((429, {}, {"Retry-After": "0"}), "quota"),
        ((400, {}, {}), "shorten"),
        ((401, {}, {}), "RERANK_API_KEY"),
        ((404, {}, {}), "serves reranking"),
        ((0, {}, {}), "is running"),
        ((200, b"<html>", {}), "serves reranking"),
        ((200, {"results": [{"index": 0}]}, {}), "serves reranking"),
        ((200, {"results": [{"index": 0, "relevance_score": 1}]}, {}), "serves reranking"),
        ((422, {"error": "no"}, {}), "shorten"),
    ],
)
def test_other_failures_are_model_errors_with_a_hint(serve: Serve, answer: Reply, hint: str) -> None:
    _, reranker = serve(lambda body: answer)
    with pytest.raises(ModelError) as caught:
        reranker.score(QUESTION, TEXTS)
    assert hint in caught.value.hint


def test_specs(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, _ = serve(Judge(8.0, -8.0))
    url = f"{endpoint.url}/v1/rerank"
    for spec in (f"http:{url}", url):
        reranker = load_reranker(spec)
        assert isinstance(reranker, HTTPReranker)
        assert len(reranker.score(QUESTION, TEXTS)) == 5
        assert endpoint.requests[-2]["query"] == PROBE[0]
        release(reranker)
    assert load_reranker("none") is None
    with pytest.raises(UsageError, match="invalid address of a reranker"):
        load_reranker("http:host/rerank")
    with pytest.raises(UsageError, match="cross-encoder:PATH_OR_NAME"):
        load_reranker("nonsense")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=re.escape(install_command("openai"))):
        load_reranker("http:http://127.0.0.1:1/rerank")


# -- cross-encoders


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cats", "eat", "fish", "what", "do", "dogs", "bark"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("labels", [1, 2])
def test_an_onnx_model_from_a_folder(tmp_path: Path, labels: int) -> None:
    """The model counts the word "fish" in the second text: logit = 2 * count - 1, for the second label if there are two."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    write_tokenizer(tmp_path)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "t"])
    types = helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["b", "t"])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", labels])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [1, labels], [2.0] if labels == 1 else [0.0, 2.0])
    shift = helper.make_tensor("shift", TensorProto.FLOAT, [1, labels], [-1.0] if labels == 1 else [0.0, -1.0])
    nodes = [
        helper.make_node("Equal", ["input_ids", "fish"], ["is_fish"]),
        helper.make_node("Cast", ["is_fish"], ["one"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["one", "second"], ["both"]),
        helper.make_node("ReduceSum", ["both", "axes"], ["count"], keepdims=1),
        helper.make_node("Mul", ["count", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["logits"]),
    ]
    fish = helper.make_tensor("fish", TensorProto.INT64, [1], [6])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "g", [ids, types], [out], [scale, shift, fish, axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")

    reranker = load_reranker(f"cross-encoder:{tmp_path}")
    assert reranker is not None
    texts = ["cats eat fish", "dogs bark", "fish fish"] * 15
    expected = [1 / (1 + np.exp(-x)) for x in (1.0, -1.0, 3.0)] * 15
    assert reranker.score("what do fish eat", texts) == pytest.approx(expected, abs=1e-5)
    assert reranker.score("q", []).shape == (0,)
    for damaged in ('{"model_max_length": Infinity}', '{"model_max_length": ' + "[" * 100_000, "[]"):
        (tmp_path / "tokenizer_config.json").write_text(damaged)
        again = load_reranker(f"cross-encoder:{tmp_path}")
        assert again is not None and again.score("q", ["fish"]).shape == (1,)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 8}))
    predictor = utilities_of(load_reranker(f"cross-encoder:{tmp_path}"), None)
    assert isinstance(predictor, CountsCut)  # after three marks there is room for five words
    assert predictor.count_cut("what do", ["cats eat fish", "cats eat fish fish", "fish"]) == 1
    assert predictor.count_cut("q", []) == 0
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot load"):
        load_reranker(f"cross-encoder:{tmp_path}")


class Predicting:
    """A fake CrossEncoder whose own activation function is the identity, as for models of MS MARCO."""

    logits: ClassVar = {"little": 0.2, "some": 0.9, "much": 4.0}

    def predict(
        self, pairs: Any, batch_size: int = 1, show_progress_bar: bool = True, activation_fn: Any = None
    ) -> Any:
        return np.array([self.logits[text] for _, text in pairs])


class PredictingTwo(Predicting):
    """A fake CrossEncoder with two labels, and a softmax by default."""

    def predict(
        self, pairs: Any, batch_size: int = 1, show_progress_bar: bool = True, activation_fn: Any = None
    ) -> Any:
        values = np.array([[1.0, 1.0 + self.logits[text]] for _, text in pairs])
        if activation_fn is None:
            values = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
        return values if activation_fn is None else activation_fn(values)


@pytest.mark.parametrize("model", [Predicting(), PredictingTwo()])
def test_scores_of_a_cross_encoder_do_not_depend_on_the_batch(
    model: Predicting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.models.cross_encoder.load", lambda name, kind, max_length: model)
    reranker = SentenceTransformersCrossEncoder("any")
    together = reranker.score("q", list(model.logits))
    alone = [float(reranker.score("q", [text])[0]) for text in model.logits]
    assert together.tolist() == pytest.approx(alone)
    assert alone == pytest.approx([sigmoid(x) for x in model.logits.values()])


def test_a_model_of_sentence_transformers(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cats", "eat", "fish", "dogs"]))
    tokenizer = transformers.BertTokenizerFast(str(vocabulary))
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=1
    )
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    reranker = load_reranker(f"cross-encoder:{tmp_path}")
    assert reranker is not None
    scores = reranker.score("cats eat", ["fish", "dogs", "cats eat fish", "fish"])
    assert scores.shape == (4,) and ((scores >= 0) & (scores <= 1)).all()
    assert scores[0] == pytest.approx(scores[3]) and len(set(scores.tolist())) > 1
    alone = [float(reranker.score("cats eat", [text])[0]) for text in ("fish", "dogs", "cats eat fish")]
    assert scores[:3] == pytest.approx(alone, abs=1e-5)
    assert isinstance(reranker, CountsCut) and reranker.count_cut("q", []) == 0
    assert reranker.count_cut("cats eat", ["fish", "fish " * 600]) == 1
    assert reranker.score("q", []).shape == (0,)


def test_a_missing_cross_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if "sentence_transformers" in sys.modules or find_spec("sentence_transformers") is not None:
        with pytest.raises(ModelError, match="cannot load"):
            load_reranker(f"cross-encoder:{tmp_path / 'absent'}")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=re.escape(install_command("st"))):
        load_reranker("cross-encoder:some/name")
