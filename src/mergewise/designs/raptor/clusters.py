"""RAPTOR's clusters (Sarthi et al. 2024, section 3): soft clusters of all nodes of a layer, then of each of these clusters.

As in the paper's code, vectors are projected to min(10, n - 2) dimensions, with int(sqrt(n - 1)) neighbours for the whole layer
and 10 within a cluster. They are fitted by a mixture of Gaussians whose number of components has the least BIC. A node belongs
to every component with a share above 0.1. A cluster of more than 3,500 tokens is clustered again.

Where we differ, and why:
- Without the extra `raptor`, the projection is PCA instead of UMAP, and the mixture is our own (`reduce=pca`).
- UMAP is seeded and runs in one thread. It still differs between systems, so the tree is stored.
- A node whose shares are all below 0.1 belongs to its likeliest component. Otherwise it would be lost.
- A cluster that is too large and indivisible is halved along its first principal direction. The paper's code never ends there.
- Clusters with the same members count once.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from mergewise.designs.raptor.mixture import MOST_CLUSTERS, SEED_OF_COUNT, SEED_OF_FIT, principal, soft_shares
from mergewise.errors import MissingExtra
from mergewise.protocols import DoubleArray

Reduce: TypeAlias = Literal["pca", "umap"]

DIMENSIONS = 10
FEW = DIMENSIONS + 1
"""Up to this number of nodes are one cluster, and a layer with no more nodes is the last."""
SHARE = 0.1
MOST_TOKENS = 3500
_NEIGHBOURS = 10


class Clustering(NamedTuple):
    """The functions `project(vectors, dimensions, neighbours)` and `shares(points)`, and a description of both for people."""

    project: Callable[[DoubleArray, int, int], DoubleArray]
    shares: Callable[[DoubleArray], DoubleArray]
    made_by: str


def clustering_by(reduce: Reduce) -> Clustering:
    """Return the functions for a projection. Raises MissingExtra for `umap` if its packages are not installed."""
    return Clustering(lambda vectors, to, _: principal(vectors, to), soft_shares, "pca") if reduce == "pca" else _umap()


def _umap() -> Clustering:
    try:
        from sklearn.mixture import GaussianMixture
        from umap import UMAP
    except ImportError as error:
        raise MissingExtra("umap-learn", "raptor", error) from error

    def project(vectors: DoubleArray, dimensions: int, neighbours: int) -> DoubleArray:
        found = UMAP(
            n_neighbors=neighbours, n_components=dimensions, metric="cosine", random_state=SEED_OF_COUNT, n_jobs=1
        ).fit_transform(vectors)
        return np.asarray(found, np.float64)

    def shares(points: DoubleArray) -> DoubleArray:
        counts = range(1, max(2, min(MOST_CLUSTERS + 1, len(points))))
        fits = (GaussianMixture(k, random_state=SEED_OF_COUNT).fit(points).bic(points) for k in counts)
        best = 1 + int(np.argmin(list(fits)))
        return np.asarray(GaussianMixture(best, random_state=SEED_OF_FIT).fit(points).predict_proba(points), np.float64)

    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("umap-learn", "scikit-learn"))
    return Clustering(project, shares, f"umap ({', '.join(versions)})")


def clusters(vectors: DoubleArray, tokens: Sequence[int], by: Clustering) -> list[list[int]]:
    """Cluster a layer's nodes by their unit `vectors`, (n, dimension), into sorted lists of node numbers.

    Each node is in at least one cluster.
    """
    every = list(range(len(vectors)))
    return [list(members) for members in dict.fromkeys(map(tuple, _smaller_clusters(every, vectors, tokens, by)))]


def _smaller_clusters(
    members: Sequence[int], vectors: DoubleArray, tokens: Sequence[int], by: Clustering
) -> Iterator[list[int]]:
    for cluster in _soft_clusters(members, vectors, by):
        if len(cluster) == 1 or sum(tokens[i] for i in cluster) <= MOST_TOKENS:
            yield cluster
        elif len(cluster) < len(members):
            yield from _smaller_clusters(cluster, vectors, tokens, by)
        else:
            along = principal(vectors[list(cluster)], 1)[:, 0].tolist()
            order = sorted(range(len(cluster)), key=lambda i: along[i])
            first = {cluster[i] for i in order[: len(cluster) // 2]}
            for half in ([i for i in cluster if i in first], [i for i in cluster if i not in first]):
                if sum(tokens[i] for i in half) <= MOST_TOKENS or len(half) == 1:
                    yield half
                else:
                    yield from _smaller_clusters(half, vectors, tokens, by)


def _soft_clusters(members: Sequence[int], vectors: DoubleArray, by: Clustering) -> Iterator[list[int]]:
    if len(members) <= FEW:
        yield list(members)
        return
    for around in _components(members, vectors, int(sqrt(len(members) - 1)), by):
        if len(around) <= FEW:
            yield around
        else:
            yield from _components(around, vectors, _NEIGHBOURS, by)


def _components(members: Sequence[int], vectors: DoubleArray, neighbours: int, by: Clustering) -> Iterator[list[int]]:
    """Yield the members of each component of the mixture. Empty components are skipped."""
    shares = by.shares(by.project(vectors[list(members)], min(DIMENSIONS, len(members) - 2), max(2, neighbours)))
    belongs = shares > SHARE
    belongs[np.arange(len(members)), shares.argmax(1)] = True
    for component in belongs.T:
        if component.any():
            yield [members[i] for i in np.flatnonzero(component).tolist()]
