"""Growth of an index: seconds, memory, bytes, latency and recall at 10^4, 10^5 and 10^6 leaves, on artificial documents.

python -m benchmarks.growth --keep DIR [--sizes 10000,100000,1000000] [--questions 200] [--draw FILE.svg] [--profile]

One index grows from size to size. Finished results are stored in DIR/growth.jsonl, one line per size, and are not measured again.
A run that was killed during indexing resumes, and its row says so. Each part runs in a separate process: indexing, for its own
peak of memory; questions, for the memory of a reader; and the exact scan, which needs much memory.

Words follow Zipf's law over a million words, so the vocabulary grows. A third of a document's words belong to its topic. A vector
is the sum of the vectors of a text's words, rare words first: texts on one topic form a cluster, and a question lies near the
documents it asks about. The time to compute these vectors is subtracted. Latencies are single-threaded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from cProfile import Profile
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np

import mergewise
from benchmarks.cells import markdown
from mergewise.models.tokens import VOCABULARY as SHIPPED_TOKENS
from mergewise.protocols import FloatArray
from mergewise.store import lance_search
from mergewise.store.lance_reader import LanceReader

SIZES = "10000,100000,1000000"
DIMENSION = 384
VOCABULARY, TOPICS, TOPIC_WORDS = 1_000_000, 2_000, 300
TOPIC_SHARE = 0.3
# Size of a document, for about 65 leaves of 218 characters.
LEAVES, SECTIONS, PARAGRAPHS, SENTENCES = 65, 11, 4, 3
SENTENCE_WORDS = (8, 22)
FILTERS = (100, 1_000, 10_000, 100_000)
STRATEGIES = ("topk", "weave")
# Partitions of the vector index to search.
PARTITIONS = (20, 40, 80, 160)
BUDGET = 640
_WORD = re.compile(r"\w+")


# -- artificial documents


class Drawing:
    """Documents by number. The same number gives the same document."""

    def __init__(self) -> None:
        shares = 1 / np.arange(3, VOCABULARY + 3) ** 1.05
        self._ends = np.cumsum(shares / shares.sum())
        shares = 1 / np.arange(3, TOPIC_WORDS + 3)
        self._topic_ends = np.cumsum(shares / shares.sum())
        # Frequent words first, so that texts have about as many tokens as English texts of their length.
        vocabulary = json.loads(SHIPPED_TOKENS.read_text())["model"]["vocab"]
        known = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
        self._words = known + [word_of_rank(rank) for rank in range(len(known), VOCABULARY)]

    def title(self, number: int) -> str:
        draw = np.random.default_rng([number, 1])
        return " ".join(word_of_rank(rank).capitalize() for rank in draw.integers(20_000, VOCABULARY, 2).tolist())

    def topic_words(self, number: int) -> list[int]:
        """Return the ranks of the words of a document's topic."""
        topic = int(TOPICS * np.random.default_rng([number, 2]).random() ** 2)
        return np.random.default_rng([topic, 3]).integers(100, 30_000, TOPIC_WORDS).tolist()  # type: ignore[no-any-return]

    def words(self, draw: np.random.Generator, count: int, topic: Sequence[int]) -> list[str]:
        ranks = self._ends.searchsorted(draw.random(count)).tolist()
        own = self._topic_ends.searchsorted(draw.random(count)).tolist()
        is_own = (draw.random(count) < TOPIC_SHARE).tolist()
        words = self._words
        return [words[topic[b] if c else a] for a, b, c in zip(ranks, own, is_own, strict=True)]

    def document(self, number: int) -> str:
        """Return a document as Markdown. Some sentences name another document."""
        draw, topic = np.random.default_rng([number, 0]), self.topic_words(number)
        lengths = draw.integers(*SENTENCE_WORDS, SECTIONS * PARAGRAPHS * SENTENCES).tolist()
        words = iter(self.words(draw, sum(lengths) + 2 * SECTIONS, topic))
        others = draw.integers(0, max(1, number), len(lengths)).tolist()
        names = (draw.random(len(lengths)) < 0.08).tolist()
        place = np.random.default_rng([number, 4]).integers(1 << 40)
        lines = [f"---\ntitle: {self.title(number)}\nplace: {place}\n---\n"]
        at = 0
        for _ in range(SECTIONS):
            lines.append(f"## {next(words).capitalize()} {next(words).capitalize()}\n")
            for _ in range(PARAGRAPHS):
                sentences = []
                for _ in range(SENTENCES):
                    own = [next(words) for _ in range(lengths[at])]
                    if names[at]:
                        own[len(own) // 2] = self.title(others[at])
                    own[0] = own[0].capitalize()
                    sentences.append(" ".join(own) + ".")
                    at += 1
                lines.append(" ".join(sentences) + "\n")
        return "\n".join(lines)

    def question(self, number: int, documents: int) -> str:
        """Ask about one of the documents, by its title or by words of its topic."""
        draw = np.random.default_rng([number, 5])
        asked = int(draw.integers(documents))
        words = " ".join(self.words(draw, 5, self.topic_words(asked)))
        return f"Which {words} of {self.title(asked)}?" if number % 2 else f"When was the {words} first?"


_SYLLABLES = [first + vowel for first in "b d f g k l m n p r s t v z".split() for vowel in "aeiou"]


def word_of_rank(rank: int) -> str:
    """Return a word for a rank. Rare words are longer."""
    syllables = []
    rank += len(_SYLLABLES)
    while rank:
        rank, at = divmod(rank, len(_SYLLABLES))
        syllables.append(_SYLLABLES[at])
    return "".join(syllables)


class WordEmbedder:
    """An embedder that sums vectors of words. It counts the processor time and the seconds it takes."""

    spec, dimension = "made-up", DIMENSION

    def __init__(self) -> None:
        self._rows = np.random.default_rng(7).normal(size=(1 << 14, DIMENSION)).astype(np.float32)
        self.seconds = self.cpu = 0.0

    def _sums(self, texts: Sequence[str]) -> FloatArray:
        sums = np.zeros((len(texts), DIMENSION), np.float32)
        for at, text in enumerate(texts):
            words = [word.encode() for word in _WORD.findall(text.lower())]
            if words:
                rows = np.array([zlib.crc32(word) for word in words]) % len(self._rows)
                # Rare words weigh more.
                sums[at] = np.array([len(word) ** 2 for word in words], np.float32) @ self._rows[rows]
        return sums

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return _unit(self._sums(texts))

    embed_queries = embed_documents

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        began, used = perf_counter(), process_time()
        rows = []
        of_parts = []
        for text, spans in zip(texts, parts, strict=True):
            heading = text[: spans[0][0]] if spans else text
            sums = self._sums([heading, *(text[start:end] for start, end in spans)])
            rows.append(sums.sum(0))
            of_parts.append(_unit(sums[1:] + 0.3 * rows[-1]))
        vectors = _unit(np.array(rows, np.float32).reshape(-1, DIMENSION))
        self.seconds += perf_counter() - began
        self.cpu += process_time() - used
        return vectors, of_parts


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = rows / np.maximum(lengths, 1e-9)
    return unit


def write_documents(folder: Path, first: int, end: int) -> None:
    """Write the documents in folders of 1,000 files. Existing files are left unchanged."""
    missing = [number for number in range(first, end) if not _file(folder, number).exists()]
    drawing = Drawing() if missing else None
    for number in missing:
        file = _file(folder, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        assert drawing is not None
        part.write_text(drawing.document(number), encoding="utf-8")
        part.replace(file)


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number // 1000:05}" / f"{number:08}.md"


# -- the parts, each in a separate process


def index_documents(keep: Path, size: int, count: int, profile: bool) -> dict[str, Any]:
    """Add the missing documents of the first `count`. The peak memory is that of this process."""
    embedder = WordEmbedder()
    index = mergewise.open(keep / "index", embedder=embedder)
    files = [_file(keep / "documents", number) for number in range(-(-size // LEAVES))]
    resumed = bool(len(index.store.reader().unembedded()))
    profiler = Profile(process_time)
    if profile:
        profiler.enable()
    began, used = perf_counter(), process_time()
    with watch_memory() as most:
        report = index.add(files)
    seconds, cpu = perf_counter() - began, process_time() - used
    if profile:
        profiler.disable()
        profiler.dump_stats(keep / f"indexing-{size}.prof")
    # Old versions, which are kept ten minutes for readers.
    index.store.place.clean(index.manifest, all_of_it=True)
    return {
        "documents": len(index),
        "leaves": index.store.reader().row_counts()["leaf"],
        "added": report.added,
        "resumed": resumed,
        "seconds": seconds - embedder.seconds,
        "cpu": cpu - embedder.cpu,
        "embedding_cpu": embedder.cpu,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "peak_own_gb": max(most) / 1e9,
        "bytes": folder_bytes(keep / "index"),
    }


def folder_bytes(folder: Path) -> dict[str, int]:
    """Return bytes by table. `mapped`: files mapped for rows; `_indices`: search indexes."""
    sizes: dict[str, int] = {}
    for file in folder.rglob("*"):
        if file.is_file():
            parts = file.relative_to(folder).parts
            kind = "search indexes" if "_indices" in parts else parts[0]
            sizes[kind] = sizes.get(kind, 0) + file.stat().st_size
    return sizes


def resident_bytes() -> int:
    """Return the memory of this process in bytes, without pages of files."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


@contextmanager
def watch_memory() -> Iterator[list[int]]:
    """Sample the memory of this process, without pages of files, every half second."""
    seen, over = [resident_bytes()], Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen.append(resident_bytes())

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def timed_call(call: Callable[[], object]) -> tuple[float, float]:
    """Return the wall-clock milliseconds of a call, and its processor milliseconds over all threads."""
    cpu, began = process_time(), perf_counter()
    call()
    return 1000 * (perf_counter() - began), 1000 * (process_time() - cpu)


def summary(times: Sequence[tuple[float, float]]) -> dict[str, float]:
    clock = [ms for ms, _ in times]
    return {"median_ms": median(clock), "p95_ms": quantiles(clock, n=20)[-1], "cpu_ms": median(cpu for _, cpu in times)}


def ask_questions(keep: Path, size: int, count: int, profile: bool) -> dict[str, Any]:
    drawing, embedder = Drawing(), WordEmbedder()
    documents = -(-size // LEAVES)
    asked = [drawing.question(number, documents) for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        # Warm up, so that imports and one-time work count neither for time nor for memory.
        small = mergewise.open(folder, embedder=embedder)
        small.add([mergewise.Document(id="d", title="d", text=drawing.document(0))])
        for strategy in STRATEGIES:
            small.context(asked[0], strategy=strategy, budget=BUDGET)
        small.close()
    before = resident_bytes()
    index = mergewise.open(keep / "index", embedder=embedder, create=False)
    row: dict[str, Any] = {
        "first_question_ms": timed_call(partial(index.context, asked[0], strategy="weave", budget=BUDGET))
    }
    for strategy in STRATEGIES:
        # The first questions warm up the caches.
        for question in asked[:20]:
            index.context(question, strategy=strategy, budget=BUDGET)
        profiler = Profile(process_time)
        if profile:
            profiler.enable()
        times = [timed_call(partial(index.context, question, strategy=strategy, budget=BUDGET)) for question in asked]
        if profile:
            profiler.disable()
            profiler.dump_stats(keep / f"{strategy}-{size}.prof")
        row[strategy] = summary(times)
    row["warm_bytes"] = resident_bytes() - before
    row["filters"] = filtered_searches(index.store.reader(), asked[:30], embedder.embed_queries(asked[:30]))
    adds, firsts, seconds = [], [], []
    ask = partial(index.context, asked[1], strategy="weave", budget=BUDGET)
    for number in range(3):
        one = mergewise.Document(id=f"one-{number}", title="One", text=drawing.document(10**9 + number))
        adds.append(timed_call(partial(index.add, [one])))
        firsts.append(timed_call(ask))
        seconds.append(timed_call(ask))
    row["small_add"] = {"ms": median(ms for ms, _ in adds), "cpu_ms": median(cpu for _, cpu in adds)}
    row["question_after_add"] = {
        "first_cpu_ms": median(cpu for _, cpu in firsts),
        "next_cpu_ms": median(c for _, c in seconds),
    }
    row["small_remove_cpu_ms"] = timed_call(lambda: index.store.remove([f"one-{number}" for number in range(3)]))[1]
    return row


def filtered_searches(reader: Any, questions: Sequence[str], vectors: FloatArray) -> dict[str, float]:
    """Return processor milliseconds of searches over all documents and over scattered subsets. The filters are cached."""
    places = sorted(info.metadata["place"] for info in reader.documents())
    conditions = {str(size): f"place < {places[size - 1] + 1}" for size in FILTERS if size <= len(places)}
    costs = {}
    for name, where in {"all": None, **conditions}.items():
        text = [partial(reader.text_search, question, 100, where) for question in questions]
        near = [partial(reader.vector_search, vector, 100, where) for vector in vectors]
        for kind, searches in (("text", text), ("vectors", near)):
            searches[0]().result()
            costs[f"{kind} {name}"] = median(timed_call(lambda s=search: s().result())[1] for search in searches)
    return costs


def measure_recall(keep: Path, size: int, count: int, profile: bool) -> dict[str, Any]:
    """Return the share of the 10 and 100 exact nearest rows in a search for 100.

    Also repeat it with more partitions searched, with processor milliseconds.
    """
    drawing, embedder = Drawing(), WordEmbedder()
    reader = mergewise.open(keep / "index", embedder=embedder, create=False).store.reader()
    vectors = embedder.embed_queries([drawing.question(number, -(-size // LEAVES)) for number in range(count)])
    nearest: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for ids, rows in all_vectors(reader):
        cosines = vectors @ rows.T
        best = np.argpartition(-cosines, min(100, len(ids) - 1), axis=1)[:, :100]
        for at, places in enumerate(best):
            nearest[at] = sorted(
                nearest[at] + list(zip((-cosines[at, places]).tolist(), ids[places].tolist(), strict=True))
            )[:100]
    standing = lance_search.NPROBES, lance_search.PROBED_ROWS
    by_partitions = {}
    # The default of questions first, then fixed numbers of partitions at every size.
    for partitions in ("standing", *PARTITIONS):
        if isinstance(partitions, int):
            lance_search.NPROBES, lance_search.PROBED_ROWS = partitions, size
        reader.vector_search(vectors[0], 100).result()
        began = process_time()
        found = [[row for row, _ in reader.vector_search(vector, 100).result()] for vector in vectors]
        milliseconds = 1000 * (process_time() - began) / count
        shares = [
            float(np.mean([len({*a[:k]} & {row for _, row in b[:k]}) / k for a, b in zip(found, nearest, strict=True)]))
            for k in (10, 100)
        ]
        by_partitions[partitions] = (*shares, milliseconds)
    lance_search.NPROBES, lance_search.PROBED_ROWS = standing
    first, hundred, _ = by_partitions["standing"]
    return {"recall@10": first, "recall@100": hundred, "by_partitions": by_partitions}


def all_vectors(reader: LanceReader) -> Iterator[tuple[Any, FloatArray]]:
    mapped = reader.state.mapped_rows("leaf")
    ids = mapped.ids_from(0)
    for first in range(0, len(ids), 20_000):
        some = ids[first : first + 20_000]
        rows = np.empty((len(some), DIMENSION), np.float32)
        for at, vectors in mapped.vectors(some, "vector"):
            rows[at] = vectors
        yield some, rows


# -- one size after another


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    file = options.keep / "growth.jsonl"
    done = {}
    if file.exists():
        done = {row["size"]: row for row in map(json.loads, file.read_text().splitlines())}
    first = 0
    for size in map(int, options.sizes.split(",")):
        end = -(-size // LEAVES)
        if size not in done:
            write_documents(options.keep / "documents", first, end)
            row = {"size": size, "load": os.getloadavg()[0]}
            for part in ("indexing", "questions", "recall"):
                row |= {part: part_of(options, part, size)}
            with file.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            done[size] = row
        first = end
    return [done[size] for size in sorted(done)]


def part_of(options: argparse.Namespace, part: str, size: int) -> Any:
    """Return the result of one part, measured in a separate process. Results are stored, so a resumed run skips them."""
    kept = options.keep / f"{part}-{size}.json"
    if not kept.exists():
        command = [sys.executable, "-m", "benchmarks.growth", *sys.argv[1:], "--part", part, "--sizes", str(size)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept.write_text(answer)
        print(f"{size:,} {part}: {answer}", flush=True)
    return json.loads(kept.read_text())


# -- the report

FIGURES: Mapping[str, Callable[[dict[str, Any]], float]] = {
    "indexing, s": lambda row: row["cumulated"]["seconds"],
    "indexing, CPU s": lambda row: row["cumulated"]["cpu"],
    "peak memory, GB": lambda row: row["indexing"]["peak_gb"],
    "of it its own, GB": lambda row: row["indexing"]["peak_own_gb"],
    "disk, bytes a leaf": lambda row: sum(row["indexing"]["bytes"].values()) / row["indexing"]["leaves"],
    "warm reader, bytes a leaf": lambda row: row["questions"]["warm_bytes"] / row["indexing"]["leaves"],
    "topk, CPU ms": lambda row: row["questions"]["topk"]["cpu_ms"],
    "topk, median ms": lambda row: row["questions"]["topk"]["median_ms"],
    "topk, p95 ms": lambda row: row["questions"]["topk"]["p95_ms"],
    "weave, CPU ms": lambda row: row["questions"]["weave"]["cpu_ms"],
    "weave, median ms": lambda row: row["questions"]["weave"]["median_ms"],
    "weave, p95 ms": lambda row: row["questions"]["weave"]["p95_ms"],
    "text search alone, CPU ms": lambda row: row["questions"]["filters"]["text all"],
    "vector search alone, CPU ms": lambda row: row["questions"]["filters"]["vectors all"],
    "first question after open, ms": lambda row: row["questions"]["first_question_ms"][0],
    "one document added, CPU ms": lambda row: row["questions"]["small_add"]["cpu_ms"],
    "first question after that, CPU ms": lambda row: row["questions"]["question_after_add"]["first_cpu_ms"],
    "recall@10": lambda row: row["recall"]["recall@10"],
    "recall@100": lambda row: row["recall"]["recall@100"],
}
DRAWN = (
    "indexing, CPU s",
    "peak memory, GB",
    "disk, bytes a leaf",
    "warm reader, bytes a leaf",
    "topk, CPU ms",
    "weave, CPU ms",
)


def report(rows: list[dict[str, Any]]) -> str:
    """Return a table with one column per size. The last column is the slope of the logarithms: 1 is linear, 0 constant."""
    cumulated = dict.fromkeys(("seconds", "cpu"), 0.0)
    for row in rows:
        cumulated = {name: total + row["indexing"][name] for name, total in cumulated.items()}
        row["cumulated"] = cumulated
    header = ["", *(f"{row['indexing']['leaves']:,} leaves" for row in rows), "slope"]
    leaves = [row["indexing"]["leaves"] for row in rows]
    lines = []
    for name, figure in FIGURES.items():
        values = [figure(row) for row in rows]
        cells = [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values]
        lines.append([name, *cells, slope_of(leaves, values)])
    filters = dict.fromkeys(name for row in rows for name in row["questions"]["filters"] if not name.endswith("all"))
    for name in filters:
        kind, documents = name.split()
        found = [row["questions"]["filters"].get(name) for row in rows]
        cells = ["" if value is None else f"{value:.1f}" for value in found]
        lines.append([f"{kind} search in {int(documents):,} scattered documents, CPU ms", *cells, ""])
    return markdown(header, lines)


def slope_of(leaves: Sequence[float] | FloatArray, values: Sequence[float]) -> str:
    return f"{np.polyfit(np.log(leaves), np.log(values), 1)[0]:.2f}" if len(leaves) > 1 and min(values) > 0 else ""


def drawing_of(rows: Sequence[dict[str, Any]]) -> str:
    """Draw panels with logarithmic axes: points, the fitted line, and its slope."""
    leaves = np.array([row["indexing"]["leaves"] for row in rows], float)
    panels = [panel(name, leaves, [FIGURES[name](row) for row in rows], at) for at, name in enumerate(DRAWN)]
    style = "text{font:11px sans-serif;fill:#444}.l{fill:none;stroke:#1f5f9e;stroke-width:1.5}.d{fill:#1f5f9e}.g{stroke:#ddd}"
    size = 'width="660" height="380" viewBox="0 0 660 380"'
    ground = '<rect width="660" height="380" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{ground}{"".join(panels)}</svg>\n'


def panel(name: str, leaves: FloatArray, values: Sequence[float], at: int) -> str:
    left, top, width, height = 50 + 215 * (at % 3), 30 + 185 * (at // 3), 150, 120
    x, y = np.log10(leaves), np.log10(values)
    low, high = np.floor(y.min() - 0.1), np.ceil(y.max() + 0.1)

    def place(a: float, b: float) -> tuple[float, float]:
        return left + width * (a - 3.8) / 2.4, top + height * (high - b) / (high - low)

    parts = [f'<text x="{left - 30}" y="{top - 12}">{name}: slope {slope_of(leaves, values)}</text>']
    for power in range(int(low), int(high) + 1):
        _, level = place(4, power)
        parts.append(f'<line class="g" x1="{left}" x2="{left + width}" y1="{level:.1f}" y2="{level:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for power in (4, 5, 6):
        parts.append(
            f'<text x="{place(power, low)[0]:.1f}" y="{top + height + 15}" text-anchor="middle">10^{power}</text>'
        )
    parts += [
        '<circle class="d" cx="{:.1f}" cy="{:.1f}" r="3"/>'.format(*place(a, b)) for a, b in zip(x, y, strict=True)
    ]
    if len(x) > 1:
        steep, base = np.polyfit(x, y, 1)
        ends = " ".join("{:.1f},{:.1f}".format(*place(a, base + steep * a)) for a in (x.min(), x.max()))
        parts.append(f'<polyline class="l" points="{ends}"/>')
    return "".join(parts)


PARTS: Mapping[str, Callable[[Path, int, int, bool], dict[str, Any]]] = {
    "indexing": index_documents,
    "questions": ask_questions,
    "recall": measure_recall,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--draw", type=Path)
    parser.add_argument(
        "--profile", action="store_true", help="Write profiles by processor time to DIR, which costs some time"
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](options.keep, int(options.sizes), options.questions, options.profile)))
        return
    rows = measure(options)
    print(report(rows))
    if options.draw:
        options.draw.write_text(drawing_of(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
