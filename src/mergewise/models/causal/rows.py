"""Rows of a batch: group rows by length, and split, join and select their keys and values.

Padding costs as much as text, and each run of the network has a fixed cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from mergewise.protocols import TokenRows


def alike(lengths: Sequence[int], price: int) -> list[list[int]]:
    """Group rows by length with the lowest total cost. Return the row numbers of each group, sorted.

    A group costs its longest row times its number of rows, plus `price` tokens. In an optimal partition each group is a run of
    the rows sorted by length, so dynamic programming finds the cuts in O(n^2).
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])

    @cache
    def best(first: int) -> tuple[int, int]:
        """Return the cost of the rows from `first` on, and the negative end of their first group."""
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


def common_beginning(rows: TokenRows) -> int:
    """Count the tokens that all rows begin with. Each row keeps at least one other token."""
    first, last = min(rows, key=list), max(rows, key=list)
    most = min(map(len, rows)) - 1
    return next((i for i in range(most) if first[i] != last[i]), max(0, most))


# -- keys and values


def layers_of(cache: Any) -> list[tuple[Any, Any]]:
    """Return keys and values of each layer, or an empty list unless every layer keeps them for every token."""
    layers = list(getattr(cache, "layers", ()))
    plain = {type(layer).__name__ for layer in layers} == {"DynamicLayer"}
    return [(layer.keys, layer.values) for layer in layers] if plain else []


def join_caches(rows: Sequence[Sequence[tuple[Any, Any]]], length: int) -> Any:
    """Join caches into one, each padded on the left to the same length."""
    import torch
    from torch.nn.functional import pad

    def concatenate(parts: Sequence[Any]) -> Any:
        return torch.cat([pad(part, (0, 0, length - part.shape[-2], 0)) for part in parts])

    return _cache_of(
        (concatenate(keys), concatenate(values))
        for keys, values in (zip(*of, strict=True) for of in zip(*rows, strict=True))
    )


def select_rows(cache: Any, rows: Any, cut: int) -> Any:
    """Return a new cache of these rows, without the first `cut` columns if its kind allows."""
    layers = layers_of(cache)
    if not layers:
        copy = deepcopy(cache)
        copy.batch_select_indices(rows)
        return copy
    return _cache_of((keys[rows][..., cut:, :], values[rows][..., cut:, :]) for keys, values in layers)


def repeat_row(layers: Sequence[tuple[Any, Any]], rows: int) -> Any:
    """Return a cache with `rows` copies of the single row of these layers."""
    return _cache_of(tuple(part.expand(rows, *part.shape[1:]) for part in pair) for pair in layers)


def _cache_of(layers: Iterable[Sequence[Any]]) -> Any:
    """Return a cache of the keys and values of each layer."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


def padding_first(cache: Any, padding: Any, shared: int) -> Any:
    """Reorder the columns of each row: move its padding from after the first `shared` columns to the front."""
    import torch

    layers = layers_of(cache)
    columns = torch.arange(layers[0][0].shape[-2], device=padding.device)[None, :]
    moved = torch.where(columns < padding, columns + shared, columns - padding)
    order = torch.where(columns >= padding + shared, columns, moved)[:, None, :, None]
    return _cache_of(tuple(part.gather(2, order.expand_as(part)) for part in pair) for pair in layers)
