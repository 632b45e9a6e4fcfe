"""Documents from elsewhere: Git repositories, sites and folders in buckets.

Each kind is a function from the address of a source to its entries. `fetch` keeps the contents of new and changed entries in a
temporary folder and returns them as inputs, so the rest of indexing treats them as files. An entry has a version that changes
with its content, and the index keeps it as the digest of the document. The name of an entry in the index is `ADDRESS//ID`.

Addresses of this machine and of private networks are refused, also if a name leads there or a redirect, unless the environment
variable `MERGEWISE_PRIVATE_SOURCES` has their networks: "127.0.0.0/8 10.1.0.0/16".
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from mergewise.errors import MergewiseError, ReadError
from mergewise.files import BETWEEN
from mergewise.inputs import Input, split_digest
from mergewise.protocols import StoreReader
from mergewise.readers import FolderSearch
from mergewise.types import Failure, File, Metadata


class SourceFile(NamedTuple):
    """A file of a source.

    Attributes:
        id: Id of its document, if no other document has it.
        version: Text that changes with the content.
        content: Bytes, or None if the index has this version.
        label: Name to read the file as. Default: the last part of the id.
        modified: Time of the last change, in seconds since 1970, if known.
        metadata: Metadata of the document.
    """

    id: str
    version: str
    content: bytes | None
    label: str = ""
    modified: float | None = None
    metadata: Metadata | None = None


Kind: TypeAlias = Callable[[str, Mapping[str, str], Callable[[str], bool]], Iterator[SourceFile | Failure]]
"""A kind of source: a function from an address, the versions of the index by id, and a selection of paths, to files.

A failure names an id, whose document stays. An error ends the source, and all documents stay.
"""


def fetch(address: str, search: FolderSearch, reader: StoreReader, folder: Path, template: Input) -> Iterator[Input]:
    """Yield the files of a source as inputs, like `template`, with copies of new and changed files in `folder`.

    `search` selects files, and notes those found and the failures. A source that fails is such a failure.
    """
    below = address + BETWEEN
    indexed = {one.origin.source: one for one in reader.known_documents(below=[below]) if one.origin is not None}
    versions = {name: split_digest(one.digest)[0] for name, one in indexed.items()}
    same = {name: version for name, version in versions.items() if template.is_same(indexed[name].digest, version)}
    known = {name.removeprefix(below): version for name, version in same.items()}
    found: set[str] = set()
    try:
        if "@" in urlsplit(address).netloc:
            raise ReadError("the address contains a user: give credentials to git, or to the environment")
        for entry in _kind_of(address)(address, known, search.takes):
            if isinstance(entry, Failure):
                search.failed.append(entry)
                found.add(below + entry.source)
                continue
            path = folder / secrets.token_hex(8)
            if entry.content is not None:
                path.write_bytes(entry.content)
                if entry.modified is not None:
                    os.utime(path, (entry.modified, entry.modified))
            found.add(below + entry.id)
            label = entry.label or PurePosixPath(entry.id).name
            file = File(path, id=entry.id, name=label, metadata={**(entry.metadata or {}), "source": address})
            yield replace(template, name=below + entry.id, source=file, version=entry.version)
        if indexed and not found:
            raise ReadError("no files: nothing was removed")
        search.lost += [one for name, one in indexed.items() if name not in found]
    except Exception as error:
        # answers of others make parsers raise anything; such a source must not stop the others
        reason = error.message if isinstance(error, MergewiseError) else f"{type(error).__name__}: {error}"
        search.failed.append(Failure(address, reason))


def _kind_of(address: str) -> Kind:
    if address.startswith("git+"):
        from mergewise.sources.git import entries
    elif address.startswith("http"):
        from mergewise.sources.site import entries
    else:
        from mergewise.sources.bucket import entries
    return entries


def addresses_of(host: str, port: int) -> list[str]:
    """Return the network addresses of a host that may be asked. Raises ReadError if it has none."""
    allowed = [ip_network(one) for one in os.environ.get("MERGEWISE_PRIVATE_SOURCES", "").split()]
    found: dict[str, None] = {}
    for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = ip_address(str(place[0]).partition("%")[0])
        real = getattr(address, "ipv4_mapped", None) or address
        if (real.is_global and not real.is_multicast) or any(real in network for network in allowed):
            found[str(place[0])] = None
    if not found:
        raise ReadError(
            f"{host} has a private address: set MERGEWISE_PRIVATE_SOURCES to its network, such as 10.1.0.0/16"
        )
    return list(found)
