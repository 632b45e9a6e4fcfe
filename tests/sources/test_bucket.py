"""Folders in buckets as sources: only changed objects are downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.store.places import objects_of
from mergewise.store.places.objects import Objects
from tests.object_store import KEY, Proxy, object_store

ADDRESS = "s3://indexes/manual"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with object_store() as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{proxy.port}")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        objects_of.cache_clear()
        yield proxy
        objects_of.cache_clear()


def test_changed_objects_only(proxy: Proxy, tmp_path: Path) -> None:
    objects = Objects(ADDRESS, proxy.storage)
    for name in ("a.md", "sub/b.md", "sub/c.txt", "d.png", ".hidden/e.md"):
        objects.put(name, f"# {name}\n\nText of {name}.\n".encode())
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add(ADDRESS + "/")
    assert (report.added, report.failed, dict(report.left_out)) == (3, (), {".png": 1})
    assert {one.id for one in index.documents()} == {"a.md", "sub/b.md", "sub/c.txt"}
    objects.put("a.md", b"# A\n\nNew.\n")
    objects.delete(["sub/c.txt"])
    with proxy.counting() as requests:
        report = index.sync(ADDRESS)
    assert (report.replaced, report.unchanged, report.removed) == (1, 1, 1)
    assert len(requests) == 2
    assert index.document("a.md").text.endswith("New.\n")
    # the store fails: nothing is lost
    proxy.fault = lambda request: "403"
    report = index.sync(ADDRESS)
    proxy.reset()
    assert report.failed[0].source == ADDRESS and len(index) == 2
