"""XML parsed without its dangers, and read by local names, which are the same in all namespaces of a format."""

from __future__ import annotations

from typing import Any

from mergewise.errors import ReadError


def parse_xml(data: bytes) -> Any:
    """The root element. No entity is expanded, nothing is fetched, libxml2's limits on depth and length hold."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ReadError(f"not well-formed XML: {error.msg}".partition("\n")[0]) from error


def local(element: Any) -> str:
    """The local name of an element; empty for None and for anything else, such as an entity that was not expanded."""
    tag = getattr(element, "tag", None)
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def children(element: Any, *names: str) -> list[Any]:
    """The children of these names, none of None."""
    return [] if element is None else list(element.iterchildren(*(f"{{*}}{name}" for name in names)))


def descendants(element: Any, *names: str) -> list[Any]:
    """The element, if it has one of these names, and all below it that do, in their order."""
    return [] if element is None else list(element.iter(*(f"{{*}}{name}" for name in names)))


def first(element: Any, *path: str) -> Any:
    """The first child of each name in turn; None as soon as there is none."""
    for name in path:
        element = None if element is None else element.find(f"{{*}}{name}")
    return element


def attribute(element: Any, name: str) -> str:
    """An attribute in any namespace; empty if missing."""
    return next((str(content) for key, content in element.attrib.items() if key.rpartition("}")[2] == name), "")


def value(element: Any, name: str) -> str:
    """The attribute `val` of the first child `name`, as Word writes most properties; empty if missing."""
    child = first(element, name)
    return "" if child is None else attribute(child, "val")
