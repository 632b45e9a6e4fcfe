"""An object store that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.object_store import Proxy, object_store


@pytest.fixture(scope="session")
def server() -> Iterator[Proxy]:
    with object_store() as proxy:
        yield proxy


@pytest.fixture
def proxy(server: Proxy) -> Iterator[Proxy]:
    yield server
    server.reset()
