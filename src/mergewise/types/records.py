"""JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = Mapping[str, Any]
"""A JSON object."""
JsonDict: TypeAlias = dict[str, Any]
"""A JSON object that its receiver may change, such as the body of a response."""
