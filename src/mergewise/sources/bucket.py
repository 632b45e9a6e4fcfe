"""Objects below a prefix of a bucket: `s3://BUCKET/PREFIX`, `gs://` and `az://`, with the client that indexes there use.

The version of an object is its ETag, so only changed objects are downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mergewise.readers import MAX_BYTES
from mergewise.sources import SourceFile
from mergewise.store.places import objects_of
from mergewise.types import Failure


def entries(address: str, known: Mapping[str, str], takes: Callable[[str], bool]) -> Iterator[SourceFile | Failure]:
    """Yield the objects below the prefix."""
    objects = objects_of(address)
    for one in objects.entries():
        if not takes(one.name):
            continue
        if one.bytes > MAX_BYTES:
            yield Failure(one.name, f"larger than {MAX_BYTES // 1_000_000} MB")
            continue
        content = None
        if known.get(one.name) != one.tag:
            found = objects.get(one.name)
            if found is None:
                # deleted since it was listed
                continue
            content = found.content
        yield SourceFile(one.name, one.tag, content, modified=one.put_at.timestamp())
