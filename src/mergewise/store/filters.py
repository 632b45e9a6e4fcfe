"""Filters as JSON: a dictionary in the form of OpenAI's vector stores, made into a condition on documents.

{"type": "eq", "key": "lang", "value": "en"}          eq ne gt gte lt lte; in and nin with a list of values
{"type": "and", "filters": [...]}                     and, or
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

OneCondition: TypeAlias = str | Mapping[str, Any]
Where: TypeAlias = OneCondition | Sequence[OneCondition | None]
"""A condition in SQL, a filter, or a list of both, all of which have to be met."""
