"""What is counted, for Prometheus. Questions, ids and names of documents are no labels.

With PROMETHEUS_MULTIPROC_DIR in the environment, the workers of a server are added up, by prometheus_client's own means.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mergewise.server.state import State

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """The metrics of one worker."""

    def __init__(self, state: State, changed_at: Callable[[], Mapping[str, float]]) -> None:
        self._state, self._changed_at = state, changed_at
        self.registry = registry = CollectorRegistry()
        name = "mergewise_"
        self.requests = Counter(name + "requests_total", "requests", ["route", "status"], registry=registry)
        self.queue = Histogram(name + "queue_seconds", "waiting for a slot", buckets=_SECONDS, registry=registry)
        self.assembly = Histogram(
            name + "assemble_seconds", "assembling a context", ["strategy"], buckets=_SECONDS, registry=registry
        )
        self.first_token = Histogram(
            name + "first_token_seconds", "until a model begins", buckets=_SECONDS, registry=registry
        )
        self.rejected = Counter(name + "rejected_total", "requests that were refused", ["reason"], registry=registry)
        self.tokens = Counter(name + "model_tokens_total", "tokens of chat models", ["direction"], registry=registry)
        self.cache_hits = Counter(name + "cache_hits_total", "contexts that were there already", registry=registry)

    def text(self) -> bytes:
        """All metrics as text, those of the other workers too."""
        registry = self.registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        standing = CollectorRegistry()
        standing.register(_Gauges(self._state, self._changed_at))
        return generate_latest(registry) + generate_latest(standing)


class _Gauges(Collector):
    """What is the same for all processes: jobs by state, and the time since each collection was changed."""

    def __init__(self, state: State, changed_at: Callable[[], Mapping[str, float]]) -> None:
        self._state, self._changed_at = state, changed_at

    def collect(self) -> Iterator[GaugeMetricFamily]:
        jobs = GaugeMetricFamily("mergewise_jobs", "jobs of all collections", labels=["state"])
        for state, count in self._state.job_counts().items():
            jobs.add_metric([state], count)
        yield jobs
        ages = GaugeMetricFamily("mergewise_snapshot_age_seconds", "since the last change", labels=["collection"])
        for name, changed in self._changed_at().items():
            ages.add_metric([name], max(0.0, time.time() - changed))
        yield ages
