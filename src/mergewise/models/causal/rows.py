"""Rows of a batch: which are read together, and their keys and values taken apart, joined, and cut down to those that go on.

Padding is worked through like text, and every run of the network has a price of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any


def alike(lengths: Sequence[int], price: int) -> list[list[int]]:
    """The places of the rows, each group in order, so that the whole costs least.

    A group costs its longest row times the number of its rows, and `price` tokens. In some best partition the rows of each group
    stand next to each other by length, so the cuts between them are found by dynamic programming, in O(n^2).
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])

    @cache
    def best(first: int) -> tuple[int, int]:
        """What the rows from here on cost, and where their first group ends."""
        if first == len(order):
            return 0, first
        ends = range(first + 1, len(order) + 1)
        return min((price + lengths[order[first]] * (end - first) + best(end)[0], -end) for end in ends)

    for start in reversed(range(len(order))):
        best(start)
    groups, first = [], 0
    while first < len(order):
        end = -best(first)[1]
        groups.append(sorted(order[first:end]))
        first = end
    return groups


def common_beginning(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with; each keeps one token at least of its own."""
    first, last = min(rows, key=list), max(rows, key=list)
    most = min(map(len, rows)) - 1
    return next((i for i in range(most) if first[i] != last[i]), max(0, most))


# -- keys and values


def layers_of(cache: Any) -> list[tuple[Any, Any]]:
    """Keys and values of each layer; none unless every layer keeps them for every token."""
    layers = list(getattr(cache, "layers", ()))
    plain = {type(layer).__name__ for layer in layers} == {"DynamicLayer"}
    return [(layer.keys, layer.values) for layer in layers] if plain else []


def join_caches(rows: Sequence[Sequence[tuple[Any, Any]]], length: int) -> Any:
    """One cache of many, each padded on the left to the same length."""
    import torch
    from torch.nn.functional import pad

    def concatenate(parts: Sequence[Any]) -> Any:
        return torch.cat([pad(part, (0, 0, length - part.shape[-2], 0)) for part in parts])

    return _cache_of(
        (concatenate(keys), concatenate(values))
        for keys, values in (zip(*of, strict=True) for of in zip(*rows, strict=True))
    )


def select_rows(cache: Any, rows: Any, cut: int) -> Any:
    """A cache of these rows, without the first `cut` columns where that can be; the old one stays as it is."""
    layers = layers_of(cache)
    if not layers:
        copy = deepcopy(cache)
        copy.batch_select_indices(rows)
        return copy
    return _cache_of((keys[rows][..., cut:, :], values[rows][..., cut:, :]) for keys, values in layers)


def repeat_row(layers: Sequence[tuple[Any, Any]], rows: int) -> Any:
    """A cache in which each of so many rows has read what the one row of these layers has."""
    return _cache_of(tuple(part.expand(rows, *part.shape[1:]) for part in pair) for pair in layers)


def _cache_of(layers: Iterable[Sequence[Any]]) -> Any:
    """Keys and values of each layer as a cache."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


def padding_first(cache: Any, padding: Any, shared: int) -> Any:
    """The columns of each row in another order: its padding, which stands behind the first `shared` columns, comes first."""
    import torch

    layers = layers_of(cache)
    columns = torch.arange(layers[0][0].shape[-2], device=padding.device)[None, :]
    moved = torch.where(columns < padding, columns + shared, columns - padding)
    order = torch.where(columns >= padding + shared, columns, moved)[:, None, :, None]
    return _cache_of(tuple(part.gather(2, order.expand_as(part)) for part in pair) for pair in layers)
