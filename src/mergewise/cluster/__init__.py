"""Search on a Ray cluster: searchers hold the shards of an index, a coordinator places them, and questions gather from them.

searcher      an actor on each node. It holds shards of the last snapshots (`searcher`)
coordinator   an actor that watches the index, places shards and announces a snapshot that is ready (`coordinator`)
gatherer      the transport of `ShardedReader` in each process that asks (`gatherer`)

Object storage, or a folder that all nodes see, is the only truth: actors hold nothing that cannot be read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.extend import lazy_names

if TYPE_CHECKING:
    from mergewise.cluster.control import Control as Control
    from mergewise.cluster.gatherer import ClusterStore as ClusterStore

__getattr__ = lazy_names(__name__, {"control": "Control", "gatherer": "ClusterStore"})
