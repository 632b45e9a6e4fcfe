"""What tests share: real files where they are at hand, a store and documents made up by Hypothesis."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.scripted_chat",)


def examples(count: int) -> int:
    """Return the number of examples of a property: all in its long form (`make attack`), a quarter otherwise."""
    return count if "MERGEWISE_ATTACK" in os.environ else count // 4


settings.register_profile(
    "mergewise", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# `make quick`: a twentieth of the examples, the same ones each time
settings.register_profile("quick", settings.get_profile("mergewise"), max_examples=5, derandomize=True, database=None)
QUICK = "MERGEWISE_QUICK" in os.environ
settings.load_profile("quick" if QUICK else "mergewise")

DATA = Path(__file__).parents[1] / "../shared/data"

# no test may meet the configuration of the person who runs it
CAMPAIGNS = {"MERGEWISE_KILLS", "MERGEWISE_DAMAGES", "MERGEWISE_ATTACK", "MERGEWISE_QUICK"}  # set by `make` alone
for name in [name for name in os.environ if name.startswith("MERGEWISE_") and name not in CAMPAIGNS]:
    del os.environ[name]
# nor write into what that person's programs remember
STATE = tempfile.TemporaryDirectory(prefix="mergewise-state-", ignore_cleanup_errors=True)
os.environ["XDG_STATE_HOME"] = STATE.name
# who starts the tests in the background of a script hands down that Ctrl-C is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)


# What a test module that starts processes has among its names, and the fixtures that start servers or lead to outside data.
PROCESS_NAMES = frozenset(
    {"Browser", "LiveServer", "Popen", "Proxy", "SandboxedReader", "WorkerPool", "command", "multiprocessing"}
    | {
        "reader_within",
        "run_text",
        "subprocess",
        "socket",
        "ChatServer",
        "Endpoint",
        "HTTPServer",
        "ThreadingHTTPServer",
    }
    | {"TestClient", "JobRunner"}
)
PROCESS_FIXTURES = frozenset({"browser", "formats", "live", "manuals", "pool", "serve", "server", "start_server"})


if QUICK:  # a test that opens a database is left out then
    from mergewise.store.lance import LanceStore

    LanceStore.__init__ = lambda *_, **__: pytest.skip("opens a database")  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes or servers, or needs outside data. What takes a minute comes last."""
    for item in items:
        assert isinstance(item, pytest.Function)
        fixtures = PROCESS_FIXTURES.intersection(item.fixturenames)
        if fixtures or not PROCESS_NAMES.isdisjoint(vars(item.module)):
            item.add_marker("process")
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture(scope="session")
def manuals() -> Path:
    return _data("files/manuals")


@pytest.fixture(scope="session")
def formats() -> Path:
    return _data("files/formats")


@pytest.fixture(scope="session")
def bench() -> Path:
    return _data("bench")


def _data(name: str) -> Path:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"the real files are not at {folder}")
    return folder
