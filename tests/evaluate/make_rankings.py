"""Write rankings.json: random rankings with ties, and the metrics on which ranx and ir_measures (trec_eval) agree.

The metrics with the names of ir_measures are its own alone.

    pip install ranx ir_measures && python tests/evaluate/make_rankings.py

trec_eval breaks ties by the greater id. ranx depends on its sorting, so it gets scores without ties, in the same order.
"""

import json
import random
from importlib import import_module
from pathlib import Path


def main() -> None:
    ir_measures, ranx = import_module("ir_measures"), import_module("ranx")
    draw = random.Random(26)
    runs, gold = {}, {}
    for number in range(40):
        documents = [f"d{i}" for i in range(draw.randint(1, 40))]
        ranked = draw.sample(documents, draw.randint(1, len(documents)))
        wanted = draw.sample([*documents, "gone"], draw.randint(1, min(5, len(documents))))
        runs[f"q{number}"] = {one: float(draw.randint(0, 8)) for one in ranked}
        gold[f"q{number}"] = {one: draw.randint(1, 3) for one in wanted}
    measures = {f"recall@{k}": ir_measures.R @ k for k in (1, 2, 5, 10, 20)}
    measures |= {"ndcg@10": ir_measures.nDCG @ 10, "mrr": ir_measures.RR}
    own = [f"{name}@{k}" for name in ("P", "R", "AP", "RR", "nDCG", "Success") for k in (1, 3, 7, 20, 100)]
    named = {**measures, **{name: ir_measures.parse_measure(name) for name in (*own, "AP", "RR", "nDCG", "Rprec")}}
    values: dict[str, dict[str, float]] = {query: {} for query in runs}
    untied = {query: without_ties(run) for query, run in runs.items()}
    for name, measure in named.items():
        # some of them are computed by other tools, which break ties differently
        for one in ir_measures.iter_calc([measure], gold, runs if name in measures else untied):
            values[one.query_id][name] = one.value
    theirs = ranx.Run(untied)
    ranx.evaluate(ranx.Qrels(gold), theirs, list(measures), make_comparable=True)
    for query, expected in values.items():
        for name, value in ((name, expected[name]) for name in measures):
            assert abs(value - theirs.scores[name][query]) < 1e-9, (query, name)
    rows = [json.dumps({"run": runs[query], "gold": gold[query], "values": values[query]}) for query in runs]
    Path(__file__).with_name("rankings.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


def without_ties(run: dict[str, float]) -> dict[str, float]:
    ranked = sorted(run, key=lambda one: (run[one], one), reverse=True)
    return {document: float(-rank) for rank, document in enumerate(ranked)}


if __name__ == "__main__":
    main()
