"""EPUB: the chapters in reading order, each read as HTML; title and metadata from the package file.

A chapter without a heading gets its name from the table of contents. Left out: the cover, the table of contents itself, and
files outside the reading order. Protected books are refused.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from mergewise.errors import ReadError
from mergewise.readers.archive import dublin_core, member, open_archive, part, spare_part
from mergewise.readers.builder import Builder, Parsed, one_line
from mergewise.readers.html import read_html
from mergewise.readers.xml import children, descendants, first, local

_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_MAX_CHAPTERS = 5_000


def read_epub(data: bytes) -> Parsed:
    with open_archive(data, "EPUB") as archive:
        roots = (
            element.get("full-path") for element in descendants(part(archive, "META-INF/container.xml"), "rootfile")
        )
        name = next(filter(None, roots), None)
        if name is None:
            raise ReadError("a ZIP archive, but not an EPUB")
        package = part(archive, name)
        if package is None:
            raise ReadError("damaged EPUB: its package file is missing")
        folder = posixpath.dirname(name)
        # each only once: a reading order may be circular
        chapters = list(dict.fromkeys(_chapters(package, folder)))
        # chapters may be encrypted; scrambled fonts do no harm
        references = descendants(part(archive, "META-INF/encryption.xml"), "CipherReference")
        if not {unquote(reference.get("URI") or "") for reference in references}.isdisjoint(chapters):
            raise ReadError("protected against copying (DRM)")
        names = _contents(archive, package, folder)
        builder = Builder()
        for chapter in chapters:
            content = member(archive, chapter)
            # a page of pictures has no text
            with suppress(ReadError):
                parsed = read_html(content, of_book=True) if content and content.strip() else Parsed("")
                if parsed.text.strip():
                    if not parsed.outline:
                        builder.heading(1, names.get(chapter, ""))
                    builder.part(parsed)
    title, metadata = dublin_core(first(package, "metadata"))
    return builder.build(title, metadata)


def _chapters(package: Any, folder: str) -> Iterator[str]:
    """Yield the files of the reading order, without the table of contents."""
    items = {item.get("id"): item for item in children(first(package, "manifest"), "item")}
    order = [items.get(entry.get("idref")) for entry in children(first(package, "spine"), "itemref")]
    for item in order[:_MAX_CHAPTERS]:
        if item is not None and item.get("media-type") in _PAGES and not _is_nav(item):
            yield _path(folder, item.get("href") or "")


def _is_nav(item: Any) -> bool:
    return "nav" in (item.get("properties") or "").split()


def _path(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _contents(archive: zipfile.ZipFile, package: Any, folder: str) -> dict[str, str]:
    """Map files to chapter names of the table of contents (EPUB 3, else EPUB 2)."""
    items = children(first(package, "manifest"), "item")
    tables = (item for item in items if _is_nav(item) or item.get("media-type") == "application/x-dtbncx+xml")
    names: dict[str, str] = {}
    for path in dict.fromkeys(_path(folder, item.get("href") or "") for item in tables):
        for element in descendants(spare_part(archive, path), "a", "navPoint"):
            target, label = element, element
            if local(element) == "navPoint":
                target, label = first(element, "content"), first(element, "navLabel")
            href = "" if target is None or label is None else target.get("href") or target.get("src")
            if href:
                names.setdefault(_path(posixpath.dirname(path), href), one_line("".join(label.itertext())))
    return names
