"""The shards of documents. A shard is an index in its own folder, but without a manifest: `shards.json` holds all manifests.

So a change of several shards becomes visible at once. The incomplete change of a killed writer is undone as in any index: the
next change goes back to the versions in the manifests.
"""

from __future__ import annotations

import zlib


def shard_of(doc_id: str, shards: int) -> int:
    """Return the shard of a document. The result must never change between versions."""
    return zlib.crc32(doc_id.encode("utf-8", "surrogatepass")) % shards
