from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.raptor.clusters import MOST_TOKENS, Clustering, clustering_by, clusters
from mergewise.protocols import DoubleArray

PCA = clustering_by("pca")


def grouped(groups: int, each: int, seed: int = 0) -> DoubleArray:
    """Return unit vectors in groups that are far apart."""
    random = np.random.default_rng(seed)
    vectors = np.eye(groups, 24).repeat(each, 0) + 0.05 * random.normal(size=(groups * each, 24))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float64)


def test_groups_are_found() -> None:
    vectors = grouped(4, 20)
    found = clusters(vectors, [10] * 80, PCA)
    # No cluster mixes two groups.
    assert all(len({i // 20 for i in members}) == 1 for members in found)
    assert {i for members in found for i in members} == set(range(80))


def test_few_nodes_are_one_cluster() -> None:
    assert clusters(grouped(1, 11), [10] * 11, PCA) == [list(range(11))]


def test_a_node_belongs_to_each_component_above_a_tenth_and_to_its_likeliest() -> None:
    shares = np.full((20, 11), 1e-3)
    shares[:10, 0] = shares[10:, 1] = 0.8
    shares[3, :2] = 0.45, 0.55
    # All are below a tenth.
    shares[15] = 1 / 11
    shares[15, 2] += 0.001
    by = Clustering(lambda vectors, to, near: vectors[:, :to], lambda points: shares[: len(points)], "script")
    found = clusters(grouped(1, 20), [1] * 20, by)
    # The clusters of the whole layer have at most eleven nodes, and are not divided.
    assert found == [list(range(10)), [3, 10, 11, 12, 13, 14, 16, 17, 18, 19], [15]]


def test_projections_of_the_layer_and_its_clusters() -> None:
    asked: list[tuple[int, int, int]] = []

    def project(vectors: DoubleArray, to: int, near: int) -> DoubleArray:
        asked.append((len(vectors), to, near))
        return vectors[:, :to]

    one = Clustering(project, lambda points: np.ones((len(points), 1)), "script")
    assert clusters(grouped(1, 37), [1] * 37, one) == [list(range(37))]
    # int(sqrt(36)) neighbours for the layer, ten within its only cluster.
    assert asked == [(37, 10, 6), (37, 10, 10)]


@given(st.integers(12, 60), st.integers(1, 1500), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_no_cluster_of_several_nodes_is_too_large_and_no_node_is_lost(count: int, tokens: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, 12))
    # A cluster that the mixture cannot divide is halved.
    one = Clustering(PCA.project, lambda points: np.ones((len(points), 1)), "script")
    for by in (one, PCA) if count < 25 else (one,):
        found = clusters(vectors, [tokens] * count, by)
        assert {i for members in found for i in members} == set(range(count))
        assert all(len(members) == 1 or tokens * len(members) <= MOST_TOKENS for members in found)
        assert found == clusters(vectors, [tokens] * count, by)
        assert len(set(map(tuple, found))) == len(found)
