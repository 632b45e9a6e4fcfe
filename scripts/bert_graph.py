"""The BERT network (Devlin et al., arXiv:1810.04805) as an int8 ONNX graph, written down node by node.

An exported graph, optimised and quantised by the stock tools, was slower by a sixth on a CPU (`SkipLayerNormalization` and
`QAttention` lose to plain nodes there) and followed the original less closely.

How the integers are chosen:

* Weights: symmetric, one scale per output channel, 7 bits. With 7 bits a pair of products stays below 2^15, so
  processors without VNNI, whose `vpmaddubsw` saturates there, give the same answer as all others.
* Activations: 8 bits, one fixed range per matrix product, measured on calibration texts. Fixed ranges, rather than
  the range of whatever shares the batch, make a text's vector depend on the text alone.
* Outliers: a few activation channels are ten times as large as the rest and would take the range for themselves. They
  are divided by a constant which the weights take back (SmoothQuant, Xiao et al., arXiv:2211.10438); only channels
  above `OUTLIER` times the median channel are touched.

The same weights and the same versions of the libraries give the same bytes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

MASKED = 1e9
MICROSOFT = "com.microsoft"
WEIGHT_MAX = 63
OUTLIER = 2.0
HEADROOM = 1.1
LARGE = 100_000

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]
Matmul = Callable[["Graph", str, str, Array, Array], str]
Words = Callable[["Graph"], str]
Ranges = dict[str, tuple[Array, Array]]

SENTENCES = (
    "How long does the ferry from the harbour to the northern islands take in winter?",
    "Ada Lovelace published the first algorithm intended for a machine in 1843, a century before one could run it.",
    "The committee rejected the proposal; its chair, who had drafted it, abstained.",
    "In 2019 the plant produced 4,250 tonnes of cement, 12.5 % less than in 2018 (see Table 3).",
    "No.",
    "Mitochondria",
    "def mean(xs): return sum(xs) / len(xs)  # raises ZeroDivisionError for an empty list",
    "SELECT name, COUNT(*) FROM orders WHERE price > 9.99 GROUP BY name HAVING COUNT(*) >= 2;",
    "<div class='note'><a href=\"https://example.org/a?b=1&c=2\">Read more...</a></div>",
    "1234 5678 9012 3456 7890 +49 30 1234567 0x7fff 3.14159 1e-12",
    "!!! ??? ... --- ### $$$ %%% &&& *** ((( ))) [[[ ]]] {{{ }}} <<< >>>",
    "Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller staatlichen Gewalt.",
    "L'été dernier, nous avons traversé les Pyrénées à pied ; c'était magnifique, mais épuisant.",
    "東京は日本の首都です。人口は約一千四百万人です。",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Patients with type 2 diabetes who received metformin showed a reduction in HbA1c of 1.1 percentage points after "
    "24 weeks, "
    "whereas those in the placebo group showed no significant change; gastrointestinal complaints were the most "
    "frequent adverse event.",
    "The river rises in the hills above the old mining town, passes three villages and a mill that has ground flour "
    "since 1721, "
    "and joins the estuary where herons nest. Every spring its banks flood. The villagers have learned to build on "
    "stilts, "
    "to keep their boats tied to the porch, and to read the colour of the water two days ahead.",
    "To reset the device, hold the power button for ten seconds until the light blinks red. Release it. Wait for the "
    "light to turn "
    "green before you reconnect the cable. If the light stays red, replace the battery or call support.",
)
"""Every kind of text that an index meets: for the calibration, and for the tests' reference vectors."""


class Graph:
    """An ONNX graph under construction. Every method appends a node and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.probes: dict[str, str] = {}
        self._names = (f"v{i}" for i in itertools.count())

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        name = next(self._names)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(np.asarray(value, dtype=dtype)), name))
        return name

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        names = [next(self._names) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def model(self, bert: Bert, output: str) -> onnx.ModelProto:
        """From `input_ids` and `attention_mask`, (batch, sequence), to `token_vectors`, (batch, sequence, width)."""
        shape = ["batch", "sequence"]
        last = helper.make_node("Identity", [output], ["token_vectors"])
        graph = helper.make_graph(
            [*self.nodes, last],
            bert.name,
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("token_vectors", TensorProto.FLOAT, [*shape, bert.width])]
            + [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.probes.values()],
            self.constants,
        )
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=9, producer_name="mergewise")


@dataclass(frozen=True)
class Bert:
    """A BERT encoder: its sizes, its weights by their published names, and `words`, which adds rows of the word table."""

    name: str
    layers: int
    heads: int
    width: int
    epsilon: float
    weights: Weights
    words: Words


def quantise_rows(matrix: Array, largest: int) -> tuple[npt.NDArray[np.int8], Array]:
    """Symmetric integers in [-largest, largest] and one scale a row."""
    scale = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-12) / largest
    return np.round(matrix / scale).astype(np.int8), scale.astype(np.float32)


def build(bert: Bert, matmul: Matmul) -> tuple[Graph, str]:
    """The whole encoder and the name of its output; `matmul` decides how a linear layer is computed."""
    graph, weights = Graph(), bert.weights
    bias = attention_bias(graph)
    x = embed(graph, bert)
    for layer in range(bert.layers):
        prefix = f"encoder.layer.{layer}."

        def linear(x: str, *names: str, prefix: str = prefix) -> str:
            kernel = np.concatenate([weights[f"{prefix}{name}.weight"] for name in names]).T
            offset = np.concatenate([weights[f"{prefix}{name}.bias"] for name in names])
            return matmul(graph, prefix + names[0], x, kernel, offset)

        def add_and_norm(x: str, y: str, name: str, prefix: str = prefix) -> str:
            return normalise(graph, graph.op("Add", x, y), bert, prefix + name)

        projected = linear(x, "attention.self.query", "attention.self.key", "attention.self.value")
        attended = linear(attend(graph, bert, projected, bias), "attention.output.dense")
        x = add_and_norm(attended, x, "attention.output.LayerNorm")
        hidden = graph.op("Gelu", linear(x, "intermediate.dense"), domain=MICROSOFT)
        x = add_and_norm(linear(hidden, "output.dense"), x, "output.LayerNorm")
    return graph, x


def attention_bias(graph: Graph) -> str:
    """0 where there is a token, a large negative number where there is padding; shape (batch, 1, 1, sequence)."""
    present = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    scaled = graph.op("Mul", graph.op("Sub", present, graph.constant(1.0)), graph.constant(MASKED))
    return graph.op("Unsqueeze", scaled, graph.constant([1, 2], np.int64))


def embed(graph: Graph, bert: Bert) -> str:
    """Words, plus positions, plus the type of a first sentence, which all of ours are."""
    rows = bert.words(graph)
    weights = bert.weights
    table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    length = graph.op("Shape", "input_ids", start=1, end=2)
    positions = graph.op("Slice", graph.constant(table), graph.constant([0], np.int64), length)
    return normalise(graph, graph.op("Add", rows, positions), bert, "embeddings.LayerNorm")


def normalise(graph: Graph, x: str, bert: Bert, name: str) -> str:
    gain, offset = graph.constant(bert.weights[f"{name}.weight"]), graph.constant(bert.weights[f"{name}.bias"])
    return graph.op("LayerNormalization", x, gain, offset, axis=-1, epsilon=bert.epsilon)


def attend(graph: Graph, bert: Bert, projected: str, bias: str) -> str:
    """softmax(Q K^T / sqrt(d) + bias) V over all heads; `projected` holds Q, K and V side by side."""
    size = bert.width // bert.heads
    split = graph.op("Reshape", projected, graph.constant([0, 0, 3 * bert.heads, size], np.int64))
    queries, keys, values = graph.ops(
        "Split", 3, graph.op("Transpose", split, perm=[0, 2, 1, 3]), axis=1, num_outputs=3
    )
    scores = graph.op("FusedMatMul", queries, keys, domain=MICROSOFT, transB=1, alpha=size**-0.5)
    shares = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
    heads = graph.op("Transpose", graph.op("MatMul", shares, values), perm=[0, 2, 1, 3])
    return graph.op("Reshape", heads, graph.constant([0, 0, bert.width], np.int64))


def float_matmul(graph: Graph, name: str, x: str, kernel: Array, offset: Array) -> str:
    """Full precision, and remembers `x` under the layer's name for the calibration."""
    graph.probes[name] = x
    return graph.op("Add", graph.op("MatMul", x, graph.constant(kernel)), graph.constant(offset))


def integer_matmul(ranges: Ranges) -> Matmul:
    """`ranges`: the least and greatest value of each input channel of each linear layer."""

    def matmul(graph: Graph, name: str, x: str, kernel: Array, offset: Array) -> str:
        low, high = ranges[name]
        divisor = outlier_divisor(low, high)
        if divisor.max() > 1:
            x = graph.op("Mul", x, graph.constant(1 / divisor))
        scale, zero = activation_range(low / divisor, high / divisor)
        columns, scales = quantise_rows((kernel * divisor[:, None]).T, WEIGHT_MAX)
        a_scale, a_zero = graph.constant(scale), graph.constant(zero, np.uint8)
        return graph.op(
            "MatMulIntegerToFloat",
            graph.op("QuantizeLinear", x, a_scale, a_zero),
            graph.constant(columns.T, np.int8),
            a_scale,
            graph.constant(scales[:, 0]),
            a_zero,
            "",
            graph.constant(offset),
            domain=MICROSOFT,
        )

    return matmul


def outlier_divisor(low: Array, high: Array) -> Array:
    """By how much each channel exceeds `OUTLIER` times the median channel; 1 for all that do not."""
    size: Array = np.maximum(np.abs(low), np.abs(high))
    divisor: Array = np.maximum(size / np.float32(OUTLIER * np.median(size)), np.float32(1))
    return divisor


def activation_range(low: Array, high: Array) -> tuple[float, int]:
    """Scale and zero point of uint8 for this range, with some headroom for texts that the calibration did not see."""
    bottom, top = min(float(low.min()), 0.0) * HEADROOM, max(float(high.max()), 0.0) * HEADROOM
    scale = (top - bottom) / 255
    return scale, round(-bottom / scale)


def calibrate(bert: Bert, texts: Sequence[Sequence[int]]) -> Ranges:
    """Measure the range of each input channel of each linear layer, over texts given as numbers of tokens."""
    graph, output = build(bert, float_matmul)
    session = ort.InferenceSession(graph.model(bert, output).SerializeToString(), providers=["CPUExecutionProvider"])
    names = list(graph.probes)
    lows, highs = [], []
    for text in texts:
        ids = np.array([text[:512]], dtype=np.int64)
        values = session.run([graph.probes[name] for name in names], {"input_ids": ids, "attention_mask": ids**0})
        lows.append([value.min(axis=(0, 1)) for value in values])
        highs.append([value.max(axis=(0, 1)) for value in values])
    return {
        name: (np.min([low[i] for low in lows], axis=0), np.max([high[i] for high in highs], axis=0))
        for i, name in enumerate(names)
    }


def export(bert: Bert, texts: Sequence[Sequence[int]], target: Path, parts: Sequence[str] = ()) -> list[str]:
    """Write `model.onnx`, calibrated on texts. Return a line with the SHA-256 of each file.

    With `parts`, the names of two files, the word table is written to the first, and other large constants to the second. So the
    system reads only the rows of the words that occur.
    """
    graph, output = build(bert, integer_matmul(calibrate(bert, texts)))
    model = graph.model(bert, output)
    onnx.checker.check_model(model)
    target.mkdir(parents=True, exist_ok=True)
    if parts:
        large = [constant for constant in model.graph.initializer if len(constant.raw_data) >= LARGE]
        table = max(large, key=lambda constant: len(constant.raw_data))
        for name in parts:
            (target / name).unlink(missing_ok=True)
        for constant in large:
            set_external_data(constant, parts[constant.dims[0] != table.dims[0]])
    onnx.save(model, target / "model.onnx")
    names = ["model.onnx", *parts]
    print(", ".join(f"{name}: {(target / name).stat().st_size / 1e6:.1f} MB" for name in names))
    return [f"{name:18} sha256 {hashlib.sha256((target / name).read_bytes()).hexdigest()}" for name in names]
