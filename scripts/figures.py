"""The plots of the manual, drawn from `benchmarks/results`: run `make figures` after a new measurement.

A result file is CSV. Its first lines are comments: the meaning of its figures, and the commands that repeat them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

ROOT = Path(__file__).parents[1]
RESULTS, FOLDER = ROOT / "benchmarks/results", ROOT / "docs/figures"
SETS = {
    "hotpotqa-long": "HotpotQA, long",
    "2wiki": "2WikiMultihop",
    "musique-long": "MuSiQue, long",
    "squad": "SQuAD",
    "covidqa": "COVID-QA",
    "manuals": "Manuals",
}
STRATEGIES = ("weave", "sentence", "mergerag-sym", "macrag", "auto-merge", "topk", "bm25", "fixed")
BUDGETS = (128, 384, 640)
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mergewise",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
}


def read(name: str) -> list[dict[str, str]]:
    """Read the rows of a result file without its comments."""
    lines = (RESULTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def evidence() -> None:
    """Draw the share of questions with all evidence, by budget and strategy, a panel for each set."""
    shares: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in read("evidence"):
        shares[row["set"], row["strategy"]][int(row["budget"])] = float(row["all_evidence"])
    figure, panels = plt.subplots(2, 3, figsize=(9, 5.6), sharey=True)
    for panel, (name, title) in zip(panels.flat, SETS.items(), strict=True):
        for number, strategy in enumerate(STRATEGIES):
            line = shares[name, strategy]
            first = strategy == "weave"
            panel.plot(
                BUDGETS,
                [line[b] for b in BUDGETS],
                marker="o",
                markersize=3,
                label=strategy,
                color=f"C{number}",
                linewidth=2.5 if first else 1.2,
                zorder=3 if first else 2,
            )
        panel.set_title(title, fontsize=10)
        panel.set_xticks(BUDGETS)
        panel.set_ylim(0, 1)
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for panel in panels[1]:
        panel.set_xlabel("token budget")
    figure.supylabel("questions with all evidence")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    save("evidence")


def latency() -> None:
    """Draw the milliseconds of a question by index size."""
    series = by_leaves(
        "topk, median ms", "topk, p95 ms", "weave, median ms", "weave, p95 ms", "first question after open, ms"
    )
    panel = log_panel("milliseconds")
    for number, (name, points) in enumerate(series.items()):
        panel.plot(
            *zip(*points, strict=True),
            marker="o",
            label=name,
            linestyle="--" if "p95" in name else "-",
            color=f"C{number // 2}",
        )
    panel.set_ylim(1, 1000)
    panel.legend(frameon=False)
    save("latency")


def indexing() -> None:
    """Draw the leaves that are indexed per second by index size, without embedding."""
    panel = log_panel("leaves per second")
    for name, label in (("indexing, s", "by the clock"), ("indexing, CPU s", "per CPU second")):
        points = [(leaves, leaves / seconds) for leaves, seconds in by_leaves(name)[name]]
        panel.plot(*zip(*points, strict=True), marker="o", label=label)
    panel.set_ylim(100, 10_000)
    panel.legend(frameon=False)
    save("indexing")


def growth() -> None:
    """Draw memory and disk by index size."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for name, label in (("peak memory, GB", "peak while indexing"), ("of it its own, GB", "of it not file pages")):
        left.plot(*zip(*by_leaves(name)[name], strict=True), marker="o", label=label)
    for name, label in (("disk, bytes a leaf", "disk"), ("warm reader, bytes a leaf", "memory of a warm reader")):
        right.plot(*zip(*by_leaves(name)[name], strict=True), marker="o", label=label)
    left.set(xscale="log", xlabel="leaves", ylabel="GB", ylim=(0, 5))
    right.set(xscale="log", xlabel="leaves", ylabel="bytes per leaf", ylim=(0, 5000))
    for panel in (left, right):
        panel.legend(frameon=False)
    save("growth")


def embedder() -> None:
    """Draw the texts per second of the shipped embedder, next to sentence-transformers."""
    rows = read("embedder")
    places = range(len(rows))
    _, panel = plt.subplots(figsize=(6.5, 3.2))
    systems = (("mergewise", "mergewise"), ("sentence_transformers", "sentence-transformers"))
    for shift, (name, label) in zip((-0.2, 0.2), systems, strict=True):
        bars = panel.bar([place + shift for place in places], [float(row[name]) for row in rows], 0.4, label=label)
        panel.bar_label(bars, fontsize=8)
    panel.set_xticks(list(places), [row["tokens"] for row in rows])
    panel.set(xlabel="tokens of a text", ylabel="texts per second")
    panel.grid(axis="x")
    panel.legend(frameon=False)
    save("embedder")


def trace() -> None:
    """Draw the spans of one question as bars, each below the span that holds it."""
    rows = read("trace")
    _, panel = plt.subplots(figsize=(7.5, 0.3 * len(rows) + 0.9))
    for place, row in enumerate(rows):
        start, end, depth = float(row["start_ms"]), float(row["end_ms"]), int(row["depth"])
        panel.barh(place, end - start, left=start, color=f"C{depth}", height=0.6)
        panel.text(
            end + 3, place, f"{row['span'].removeprefix('mergewise.')}, {end - start:.0f} ms", va="center", fontsize=8
        )
    panel.set(xlabel="milliseconds", yticks=[], ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.3 * float(rows[0]["end_ms"])))
    panel.grid(axis="y")
    save("trace")


def by_leaves(*names: str) -> dict[str, list[tuple[int, float]]]:
    """Return the points of quantities in the growth results: leaves and value."""
    rows = read("growth")
    return {name: [(int(r["leaves"]), float(r["value"])) for r in rows if r["quantity"] == name] for name in names}


def log_panel(ylabel: str) -> Axes:
    _, panel = plt.subplots(figsize=(6.5, 3.6))
    panel.set(xscale="log", yscale="log", xlabel="leaves", ylabel=ylabel)
    return panel


def save(name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    plt.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close()


if __name__ == "__main__":
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for draw in (evidence, latency, indexing, growth, embedder, trace):
            draw()
