"""The size, speed and cost of a cluster, computed from measured figures: a check of the plan to a billion leaves.

python -m benchmarks.plan [--leaves 1e9] [--shards 64] [--nodes 32] ...

Measured figures are those of `benchmarks.growth`, `benchmarks.million` and `benchmarks.shards`. Prices are assumptions.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields

from benchmarks.cells import markdown
from mergewise.store.lance_search import NPROBES, PROBED_ROWS

MILLION, DAY, MONTH_HOURS = 1_000_000, 24, 730


@dataclass(frozen=True)
class Plan:
    """What is chosen, measured and assumed. Times are of the processor."""

    # chosen
    leaves: float = 1e9
    shards: float = 64
    replicas: float = 2
    nodes: float = 32
    cores: float = 16
    load: float = 0.4
    # measured: bytes of a leaf on disk, and of it in the search indexes that must stay in memory
    disk_bytes: float = 4_200
    warm_bytes: float = 374
    # measured: milliseconds of a text search of 10^6 leaves, and the exponent by which they grow
    text_ms: float = 2.3
    text_growth: float = 0.14
    # measured: milliseconds of a vector search, and of each partition of it. The partitions grow as in `store.lance_search`
    vector_ms: float = 6.7
    partition_ms: float = 0.064
    partition_growth: float = 2 / 3
    # measured: milliseconds of a question beside its searches, and of each shard beside them
    question_ms: float = 25.0
    shard_ms: float = 1.2
    # measured: leaves embedded a second and core, milliseconds of indexing a leaf, and at least of building the vector index
    embedded: float = 100
    indexing_ms: float = 1.03
    vector_index_ms: float = 0.14
    # the limit of LanceDB's cache of one shard (`store.lance_import`)
    cache_bytes: float = 6 * 2**30
    # assumed: dollars
    node_hour: float = 0.78
    terabyte_month: float = 23.0

    @property
    def shard_leaves(self) -> float:
        return self.leaves / self.shards

    @property
    def partitions(self) -> float:
        return NPROBES * max(1.0, self.shard_leaves / PROBED_ROWS) ** self.partition_growth

    @property
    def search_ms(self) -> float:
        text = self.text_ms * (self.shard_leaves / MILLION) ** self.text_growth
        return text + self.vector_ms + self.partition_ms * self.partitions + self.shard_ms

    @property
    def cpu_ms(self) -> float:
        return self.question_ms + self.shards * self.search_ms

    def rows(self) -> list[tuple[str, str]]:
        disk, warm = self.leaves * self.disk_bytes, self.leaves * self.warm_bytes
        rate = 1000 * self.nodes * self.cores * self.load / self.cpu_ms
        embedding = self.leaves / self.embedded / 3600
        indexing = self.leaves * (self.indexing_ms + self.vector_index_ms) / 3.6e6
        dollars = self.nodes * MONTH_HOURS * self.node_hour
        return [
            ("leaves of a shard, millions", f"{self.shard_leaves / MILLION:.1f}"),
            ("most that one shard's cache holds, millions", f"{self.cache_bytes / self.warm_bytes / MILLION:.1f}"),
            ("index, TB", f"{disk / 1e12:.1f}"),
            ("shards of a node", f"{self.shards * self.replicas / self.nodes:.1f}"),
            ("disk of a node, GB", f"{disk * self.replicas / self.nodes / 1e9:.0f}"),
            ("warm search indexes of a node, GB", f"{warm * self.replicas / self.nodes / 1e9:.0f}"),
            ("partitions that a search reads in a shard", f"{self.partitions:.0f}"),
            ("a search of one shard, CPU ms", f"{self.search_ms:.0f}"),
            ("a question, CPU s", f"{self.cpu_ms / 1000:.2f}"),
            (f"questions a second at {self.load:.0%} load", f"{rate:.0f}"),
            ("with a node away", f"{rate * (1 - 1 / self.nodes):.0f}"),
            ("embedding, core hours", f"{embedding:,.0f}"),
            ("other indexing, core hours", f"{indexing:,.0f}"),
            ("days of indexing on these nodes", f"{(embedding + indexing) / (self.nodes * self.cores) / DAY:.1f}"),
            ("nodes, dollars a month", f"{dollars:,.0f}"),
            ("bucket, dollars a month", f"{disk / 1e12 * self.terabyte_month:,.0f}"),
            ("dollars for a million questions", f"{dollars / (rate * MONTH_HOURS * 3600) * MILLION:.0f}"),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in fields(Plan):
        parser.add_argument("--" + field.name.replace("_", "-"), type=float, default=field.default)
    print(markdown(["", "value"], [[*row] for row in Plan(**vars(parser.parse_args())).rows()]))


if __name__ == "__main__":
    main()
