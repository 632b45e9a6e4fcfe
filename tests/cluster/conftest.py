"""The object store of `tests/store`."""

from __future__ import annotations

from tests.store.conftest import proxy as proxy
from tests.store.conftest import server as server
