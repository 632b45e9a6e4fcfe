"""Storage of an index: tables, manifests, places, shards and their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.store.damage import machine_advice as machine_advice
    from mergewise.store.filters import check_filter as check_filter
    from mergewise.store.filters import condition_text as condition_text
    from mergewise.store.lance import LOCK_SECONDS as LOCK_SECONDS
    from mergewise.store.manifest import NAME as NAME
    from mergewise.store.manifest import Manifest as Manifest
    from mergewise.store.manifest import state_file as state_file
    from mergewise.store.places import copy_index as copy_index
    from mergewise.store.places import is_url as is_url
    from mergewise.store.places import objects_of as objects_of
    from mergewise.store.places import place_of as place_of
    from mergewise.store.places import root_of as root_of
    from mergewise.store.restoring import MOVED as MOVED
    from mergewise.store.restoring import restore_manifest as restore_manifest
    from mergewise.store.views import Estimate as Estimate
    from mergewise.store.views import Progress as Progress
    from mergewise.store.views import Registry as Registry
    from mergewise.store.views import views_of as views_of

__getattr__ = lazy_names(
    __name__,
    {
        "damage": "machine_advice",
        "filters": "check_filter condition_text",
        "lance": "LOCK_SECONDS",
        "manifest": "Manifest NAME state_file",
        "places": "copy_index is_url objects_of place_of root_of",
        "restoring": "MOVED restore_manifest",
        "views": "Estimate Progress Registry views_of",
    },
)
