"""Metrics for Prometheus. Labels never contain questions, ids or names of documents.

If PROMETHEUS_MULTIPROC_DIR is set, prometheus_client adds up the values of all workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mergewise.server.state import State

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics(Collector):
    """The metrics of one worker, and gauges with the same value in all processes."""

    def __init__(self, state: State, changed_at: Callable[[], Mapping[str, float]]) -> None:
        self._state, self._changed_at = state, changed_at
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "mergewise", "registry": self.registry}
        self.requests = Counter("requests_total", "Requests", ["route", "status"], **own)
        self.queue = Histogram("queue_seconds", "Time waiting for a slot", buckets=_SECONDS, **own)
        self.assembly = Histogram(
            "assemble_seconds", "Time assembling a context", ["strategy"], buckets=_SECONDS, **own
        )
        self.first_token = Histogram("first_token_seconds", "Time to a model's first token", buckets=_SECONDS, **own)
        self.rejected = Counter("rejected_total", "Refused requests", ["reason"], **own)
        self.tokens = Counter("model_tokens_total", "Tokens of chat models", ["direction"], **own)
        self.cache_hits = Counter("cache_hits_total", "Contexts served from the cache", **own)

    def text(self) -> bytes:
        """Return the metrics of all workers in Prometheus text format."""
        registry = self.registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        gauges = CollectorRegistry()
        gauges.register(self)
        return generate_latest(registry) + generate_latest(gauges)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges: jobs by state, and the time since each collection's last change."""
        jobs = GaugeMetricFamily("mergewise_jobs", "Jobs of all collections", labels=["state"])
        for state, count in self._state.jobs.counts().items():
            jobs.add_metric([state], count)
        yield jobs
        ages = GaugeMetricFamily("mergewise_snapshot_age_seconds", "Time since the last change", labels=["collection"])
        for name, changed in self._changed_at().items():
            ages.add_metric([name], max(0.0, time.time() - changed))
        yield ages
