"""Safe XML parsing, and access by local names, which are the same in all namespaces of a format."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from mergewise.errors import ReadError


def parse_xml(data: bytes) -> Any:
    """Parse XML into its root element. No entity is expanded, nothing is fetched, libxml2's limits on depth and length hold."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ReadError(f"invalid XML: {error.msg}".partition("\n")[0]) from error


def local(element: Any) -> str:
    """Return the local name of an element. Empty for None and for other nodes, such as an unexpanded entity."""
    tag = getattr(element, "tag", None)
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def children(element: Any, *names: str) -> list[Any]:
    """Return the children with these names. Empty for None."""
    return [] if element is None else list(element.iterchildren(*(f"{{*}}{name}" for name in names)))


def descendants(element: Any, *names: str) -> list[Any]:
    """Return the element and its descendants that have one of these names, in document order."""
    return [] if element is None else list(element.iter(*(f"{{*}}{name}" for name in names)))


def outermost(element: Any, *names: str, without: Collection[str] = ()) -> Iterator[Any]:
    """Yield the elements of these names below `element` that are not nested in each other, nor in elements `without`."""
    for child in element:
        name = local(child)
        if name in names:
            yield child
        elif name not in without:
            yield from outermost(child, *names, without=without)


def first(element: Any, *path: str) -> Any:
    """Follow a path of first children by name. Return None if one is missing."""
    for name in path:
        element = None if element is None else element.find(f"{{*}}{name}")
    return element


def attribute(element: Any, name: str) -> str:
    """Return an attribute of any namespace, or an empty string."""
    return next((str(content) for key, content in element.attrib.items() if key.rpartition("}")[2] == name), "")


def value(element: Any, name: str) -> str:
    """Return the attribute `val` of the first child `name`, the form of most Word properties. Empty if missing."""
    child = first(element, name)
    return "" if child is None else attribute(child, "val")
