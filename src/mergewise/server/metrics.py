"""What is counted, for Prometheus. Questions, ids and names of documents are no labels.

With PROMETHEUS_MULTIPROC_DIR in the environment, the workers of a server are added up, by prometheus_client's own means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mergewise.server.state import State

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """The metrics of one worker."""

    def __init__(self, state: State) -> None:
        self._state = state
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
        self.snapshot_age = Gauge(
            name + "snapshot_age_seconds",
            "since the index was last changed",
            ["collection"],
            registry=registry,
            multiprocess_mode="mostrecent",
        )

    def text(self) -> bytes:
        """All metrics as text, those of the other workers too."""
        registry = self.registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        jobs = CollectorRegistry()
        jobs.register(_Jobs(self._state))
        return generate_latest(registry) + generate_latest(jobs)


class _Jobs(Collector):
    """The jobs by state, as they are now: all processes see the same."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("mergewise_jobs", "jobs of all collections", labels=["state"])
        for state, count in self._state.job_counts().items():
            family.add_metric([state], count)
        yield family
