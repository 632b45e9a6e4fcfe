"""The lease of a bucket: an object that one writer takes, renews and frees.

`writer.json` holds the epoch, which counts the holders, and the current holder. A lease expires after `LEASE` seconds without
renewal, by the clock of the object store. The clocks of the writers do not matter. A lease prevents most conflicts, but not
all: a writer that lost its lease may still write. Others undo or refuse such writes, see `lance_tables`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic, sleep

from mergewise.errors import IndexBusy, StoreError
from mergewise.log import log
from mergewise.store.places.objects import Objects, Superseded

NAME, CLOCK = "writer.json", "writer.clock"
# seconds without renewal after which others take the lease, and after which its holder gives up, a little earlier
LEASE, HELD = 30.0, 25.0
# seconds between two renewals, and between two checks of a lease that another writer holds
RENEWAL, LOOK = 10.0, 1.0


class LeaseHolder:
    """The holder of a lease, until the lease is freed or lost."""

    def __init__(self, objects: Objects, epoch: int, tag: str, holder: str, *, took_over: bool, alone: bool) -> None:
        self.epoch = epoch
        # true if the previous writer lost its lease: it may still be writing, so its tables must be fenced off
        self.took_over, self.alone = took_over, alone
        self.holder = holder
        self.tag = tag
        self._objects = objects
        self._renewed = monotonic()
        self._lost = False
        self._freed = Event()
        self._beats = 0

    def check(self) -> None:
        if self._lost or monotonic() - self._renewed > HELD:
            raise IndexBusy(f"another writer has taken over {self._objects.url}", "try again")

    def renew(self) -> None:
        """Renew the lease until it is freed. This runs in a thread."""
        while not self._freed.wait(RENEWAL):
            asked = monotonic()
            try:
                self._beats += 1
                self.tag = self._objects.swap(NAME, _content(self.epoch, self.holder, self._beats), self.tag)
                self._renewed = asked
            except Superseded:
                self._lost = True
                return
            except StoreError as error:
                log.info("cannot renew the lease of %s: %s", self._objects.url, error)

    def free(self) -> str | None:
        """Free the lease. Return its new tag, or None on failure; other writers then wait until the lease expires."""
        try:
            return self._objects.swap(NAME, _content(self.epoch, "", secrets.randbits(64)), self.tag)
        except (Superseded, StoreError) as error:
            log.info("cannot free the lease of %s: %s", self._objects.url, error)
            return None


class Lease:
    """One process's access to the lease of an index."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._one_thread = Lock()
        # epoch and tag of the lease when this process last freed it, so that it can be taken without reading it
        self._free: tuple[int, str] | None = None

    @contextmanager
    def hold(self, wait: float) -> Iterator[LeaseHolder]:
        """Hold the lease. Raise IndexBusy if others still hold it after `wait` seconds."""
        until = monotonic() + wait
        if not self._one_thread.acquire(timeout=min(wait, 1e6)):
            raise IndexBusy(f"another thread is writing to {self._objects.url}", "try again later")
        try:
            holder = self._take(until)
            renewal = Thread(target=holder.renew, name="mergewise-lease", daemon=True)
            renewal.start()
            try:
                yield holder
            finally:
                holder._freed.set()
                # wait for a renewal in progress, which changes the tag
                renewal.join()
                tag = holder.free()
                self._free = None if tag is None else (holder.epoch, tag)
        finally:
            self._one_thread.release()

    def _take(self, until: float) -> LeaseHolder:
        """Take the lease once it is free or expired. Raise IndexBusy after this time."""
        has_warned = False
        while True:
            try:
                if self._free is not None:
                    return self._swap(*self._free, alone=True)
                found = self._objects.get(NAME)
                if found is None:
                    return self._swap(0, None)
                try:
                    raw = json.loads(found.content)
                    epoch, holder = int(raw["epoch"]), str(raw["holder"])
                except (ValueError, TypeError, KeyError):
                    wrong = f"invalid lease: {self._objects.url}/{NAME}"
                    raise StoreError(wrong, "delete it once nobody writes") from None
                if not holder:
                    return self._swap(epoch, found.tag)
                # both times come from the object store's clock
                if (self._objects.now(CLOCK) - found.put_at).total_seconds() > LEASE:
                    log.warning(
                        "the lease of %s has expired: no renewal for %d seconds, taking over", self._objects.url, LEASE
                    )
                    return self._swap(epoch, found.tag, took_over=True)
            except Superseded:
                # another writer was faster
                self._free = None
                continue
            if monotonic() > until:
                raise IndexBusy(f"another writer holds {self._objects.url}", "try again later")
            if not has_warned:
                log.warning("another process is writing to %s; waiting for it", self._objects.url)
                has_warned = True
            sleep(LOOK)

    def _swap(self, epoch: int, tag: str | None, *, took_over: bool = False, alone: bool = False) -> LeaseHolder:
        holder = secrets.token_hex(8)
        taken = self._objects.swap(NAME, _content(epoch + 1, holder, 0), tag)
        return LeaseHolder(self._objects, epoch + 1, taken, holder, took_over=took_over, alone=alone)


def _content(epoch: int, holder: str, beat: int) -> bytes:
    return json.dumps({"epoch": epoch, "holder": holder, "beat": beat}).encode()
