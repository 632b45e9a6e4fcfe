"""The form of records, and JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, dataclass_transform

Record = TypeVar("Record")

Json: TypeAlias = Mapping[str, Any]
"""A JSON object."""
JsonDict: TypeAlias = dict[str, Any]
"""A JSON object that its receiver may change, such as the body of a response."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[Record]) -> type[Record]:
    """Make a class a frozen dataclass with slots."""
    return dataclass(frozen=True, slots=True)(kind)
