"""The right to write to a bucket: an object that one writer holds, renews, and frees.

`writer.json` holds the epoch, which counts the holders, and who holds it. A holder that stops renewing is given up after
`LEASE` seconds by the clock of the object store, whatever the clocks of the writers say. The lease gives peace, not
safety: a writer that was given up may go on. What it can still do is undone or refused by the others, see `Change`.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic, sleep

from mergewise.errors import IndexBusy, StoreError
from mergewise.store.places.objects import Objects, Superseded

log = logging.getLogger("mergewise")

NAME, CLOCK = "writer.json", "writer.clock"
# seconds without renewal after which others give a holder up, and it gives itself up somewhat earlier
LEASE, HELD = 30.0, 25.0
# seconds between two renewals, and between two looks at another's lease
RENEWAL, LOOK = 10.0, 1.0


class LeaseHolder:
    """Who holds the lease now, until it is freed or lost."""

    def __init__(
        self, objects: Objects, epoch: int, tag: str, holder: str, *, took_over: bool = False, alone: bool = False
    ) -> None:
        self.epoch = epoch
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

    def renewing(self) -> None:
        """To be run in a thread until the lease is freed."""
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
                log.info("the lease of %s is not renewed: %s", self._objects.url, error)

    def free(self) -> str | None:
        """Let others write at once; the tag of the lease that is free. What goes wrong then is theirs to wait for."""
        self._freed.set()
        try:
            return self._objects.swap(NAME, _content(self.epoch, "", secrets.randbits(64)), self.tag)
        except (Superseded, StoreError) as error:
            log.info("the lease of %s is not freed: %s", self._objects.url, error)
            return None


class Lease:
    """The lease of one index, as one process knows it."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._one_thread = Lock()
        # of the lease as it was freed here last: the next time it is taken without a look
        self._free: tuple[int, str] | None = None

    @contextmanager
    def hold(self, wait: float) -> Iterator[LeaseHolder]:
        """Raises IndexBusy where others hold it for longer than so many seconds."""
        until = monotonic() + wait
        if not self._one_thread.acquire(timeout=min(wait, 1e6)):
            raise IndexBusy(f"another thread is writing to {self._objects.url}", "try again later")
        try:
            holder = self._take(until)
            renewal = Thread(target=holder.renewing, name="mergewise-lease", daemon=True)
            renewal.start()
            try:
                yield holder
            finally:
                holder._freed.set()
                # a renewal under way has the newer tag
                renewal.join()
                tag = holder.free()
                self._free = None if tag is None else (holder.epoch, tag)
        finally:
            self._one_thread.release()

    def _take(self, until: float) -> LeaseHolder:
        has_warned = False
        while True:
            try:
                if (holder := self._try_to_take()) is not None:
                    return holder
            except Superseded:
                self._free = None
                continue
            if monotonic() > until:
                raise IndexBusy(f"another writer holds {self._objects.url}", "try again later")
            if not has_warned:
                log.warning("another process is writing to %s; waiting for it", self._objects.url)
                has_warned = True
            sleep(LOOK)

    def _try_to_take(self) -> LeaseHolder | None:
        """The lease where it is free or given up. Raises Superseded where another one was quicker."""
        if self._free is not None:
            return self._swap(self._free[0], self._free[1], alone=True)
        found = self._objects.get(NAME)
        if found is None:
            return self._swap(0, None)
        try:
            raw = json.loads(found.content)
            epoch, holder = int(raw["epoch"]), str(raw["holder"])
        except (ValueError, TypeError, KeyError):
            raise StoreError(f"{self._objects.url}/{NAME} is no lease", "delete it once nobody writes") from None
        if not holder:
            return self._swap(epoch, found.tag)
        # both times are those of the object store
        if (self._objects.now(CLOCK) - found.put_at).total_seconds() > LEASE:
            log.warning(
                "a writer to %s was given up: it has not been heard of for %d seconds", self._objects.url, LEASE
            )
            return self._swap(epoch, found.tag, took_over=True)
        return None

    def _swap(self, epoch: int, tag: str | None, *, took_over: bool = False, alone: bool = False) -> LeaseHolder:
        holder = secrets.token_hex(8)
        taken = self._objects.swap(NAME, _content(epoch + 1, holder, 0), tag)
        return LeaseHolder(self._objects, epoch + 1, taken, holder, took_over=took_over, alone=alone)


def _content(epoch: int, holder: str, beat: int) -> bytes:
    return json.dumps({"epoch": epoch, "holder": holder, "beat": beat}).encode()
