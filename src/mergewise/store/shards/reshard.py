"""Another number of shards for an index. All rows are copied with their vectors, so nothing is embedded.

The steps:

1. An empty index in shards is created in the folder of the next generation.
2. Documents that differ between the two are copied, in batches. Readers and writers use the present generation meanwhile.
3. Under the writer's lock, documents that were changed since are copied, and the state is swapped.
4. An hour later, cleaning deletes the generation before.

An index without shards is copied into shards in the same way, at another place, and stays as it is.

After a kill, the same call goes on with the documents that still differ. Rows that were rebuilt for an unchanged document during
the copy are not copied again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, zip_longest
from typing import TypeAlias

from mergewise.errors import IndexBusy, StoreError, UsageError
from mergewise.store.damage import after_change
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import Manifest, ShardedManifest, ViewState
from mergewise.store.places.place import Place
from mergewise.store.shards.store import ShardedStore, in_threads
from mergewise.store.tables import with_own_ids
from mergewise.types import DocumentInfo, RowId, frozen

# characters of the documents in one change, with some for each document
CHARACTERS, OF_EACH = 2_000_000, 1_000
# Ids of the new rows begin this far above the old ones, so that vectors which another process writes late find no row.
DISTANCE = 1 << 32


@frozen
class _RowOfDocument:
    id: RowId
    document: int


_DocumentState: TypeAlias = tuple[DocumentInfo, str, frozenset[str]]
"""What is compared to find changed documents: with the digest, and the views and vectors that come later."""


def reshard(store: ShardedStore, shards: int) -> None:
    """Change the number of shards.

    Raises:
        UsageError: if an interrupted call had another number of shards.
        IndexBusy: if another process has changed the number meanwhile.
    """
    place, before = store.place, store.manifest
    if len(before.shards) == shards:
        return
    goal = _next_generation(store, place, before.folders[1], shards)
    _copy_changes(store, goal)
    with place.writer(store.lock_wait) as writer:
        state = place.manifest()
        if state is None or store.manifest.generation != before.generation:
            raise IndexBusy(f"another process has changed the number of shards of {place}", "look at the index again")
        _copy_changes(store, goal)
        with goal.place.writer(store.lock_wait):
            place.swap(replace(goal.manifest, generation=before.generation + 1), state.tag, writer)
            goal.place.drop_state()
        after_change(lambda: place.clean(store.manifest), f"cannot clean {place}")


def copy_into_shards(store: LanceStore | ShardedStore, place: Place, shards: int) -> None:
    """Copy an index to a new place in shards. Changes since the call began may be missing there.

    Raises:
        UsageError: if the place has an index, or an interrupted call had another number of shards.
    """
    if place.known() is not None:
        raise UsageError(f"index already exists: {place}", "copy to another place")
    first = ShardedManifest.of([store.manifest], None)
    goal = _next_generation(store, place, first.folders[1], shards)
    _copy_changes(store, goal)
    place.create(replace(goal.manifest, generation=first.generation + 1), store.lock_wait)
    goal.place.drop_state()


def _next_generation(store: LanceStore | ShardedStore, place: Place, folder: str, shards: int) -> ShardedStore:
    """Open or create the index in the folder of the next generation."""
    goal, before = ShardedStore(place.below(folder), store.registry, store.lock_wait), store.manifest
    if goal.place.known() is None:
        views = {name: ViewState(view.settings, (), view.offered) for name, view in before.views.items()}
        next_id = max(own.next_id for own in before.parts.values()) + DISTANCE
        empty = Manifest(before.embedder, before.dimension, views, next_id=next_id)
        goal.place.create(ShardedManifest.of([empty] * shards, None), store.lock_wait)
    if (standing := len(goal.manifest.shards)) != shards:
        raise UsageError(f"unfinished change to {standing} shards: {place}", f"finish it: --shards {standing}")
    return goal


def _copy_changes(store: LanceStore | ShardedStore, goal: ShardedStore) -> None:
    """Copy changed documents, and remove deleted ones."""
    source = store.reader()
    views = source.manifest.views
    # removed since the last call, and maybe there again with other settings
    for name in [name for name, own in goal.settings.items() if name not in views or views[name].settings != own]:
        goal.remove_view(name)
    for name, view in views.items():
        if name not in goal.settings:
            goal.begin_view(name, view.settings)
    goal.declare_metadata(source.metadata_kinds())
    standing, wanted = _states(goal), _states(store)
    goal.remove([doc_id for doc_id in standing if doc_id not in wanted])
    changed = [doc_id for doc_id, state in wanted.items() if standing.get(doc_id) != state]
    ends = accumulate(wanted[doc_id][0].characters + OF_EACH for doc_id in changed)
    for _, batch in groupby(zip(changed, ends, strict=True), lambda pair: pair[1] // CHARACTERS):
        # each batch reads the present state, because the files of a long copy's first state may be dropped
        _copy_documents(store, [doc_id for doc_id, _ in batch], goal)
    for name, view in goal.manifest.views.items():
        if view.missing:
            goal.finish_view(name)
    goal.finish_vectors()
    goal.optimize()


def _copy_documents(source: LanceStore | ShardedStore, doc_ids: Sequence[str], goal: ShardedStore) -> None:
    views = [goal.registry[name].tables_of(settings) for name, settings in goal.settings.items()]
    found = in_threads(lambda reader: reader.document_rows(doc_ids), source.shard_readers())
    by_id = {rows.document.id: with_own_ids(rows, views) for own in found for rows in own}
    for failure in goal.write([by_id[doc_id] for doc_id in doc_ids if doc_id in by_id], force=True).failed:
        raise StoreError(f"cannot copy {failure.source}: {failure.reason}", "check the index")


def _states(source: LanceStore | ShardedStore) -> dict[str, _DocumentState]:
    """Return the states of all documents by id. The shards take turns, so that a batch has documents of each."""
    readers = source.shard_readers()
    digests = {known.id: known.digest for reader in readers for known in reader.known_documents()}
    lacking: dict[str, frozenset[str]] = defaultdict(frozenset)
    for reader in readers:
        runs = {name: view.missing for name, view in reader.manifest.views.items()}
        for table in reader.manifest.unembedded:
            waiting = reader.rows(table, _RowOfDocument, reader.unembedded(table).tolist()).values()
            runs[f"vectors of {table}"] = tuple((n, n + 1) for n in sorted({row.document for row in waiting}))
        for name, numbers in runs.items():
            for doc_id in reader.numbered_in(numbers):
                lacking[doc_id] |= {name}
    found = filter(None, chain.from_iterable(zip_longest(*(reader.documents() for reader in readers))))
    return {info.id: (info, digests[info.id], lacking[info.id]) for info in found}
