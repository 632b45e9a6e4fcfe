"""Documents of LangChain, LlamaIndex and Haystack as ours, known by their fields: none of these packages is imported."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from mergewise.types import Document, FileMetadata

# the text, the metadata and the id: LangChain, Haystack, LlamaIndex
_FIELDS = (("page_content", "metadata", "id"), ("content", "meta", "id"), ("text", "metadata", "node_id"))
_NAMES = ("source", "file_path", "file_name")


def document_of(foreign: object) -> Document | None:
    """The document; None for an object that is none of these frameworks'.

    Its id is the object's own. An object without one is called by the file that its metadata name, with the page, if any, and a
    digest of its text, so that the pieces of a file are apart. Metadata that an index cannot hold are left out.
    """
    for text_field, metadata_field, id_field in _FIELDS:
        text, metadata = getattr(foreign, text_field, None), getattr(foreign, metadata_field, None)
        if isinstance(text, str) and isinstance(metadata, Mapping) and hasattr(foreign, id_field):
            title = metadata.get("title")
            return Document(
                id=getattr(foreign, id_field) or _name(text, metadata),
                text=text,
                title=title if isinstance(title, str) else "",
                metadata=FileMetadata({key: value for key, value in metadata.items() if key != "title"}),
            )
    return None


def _name(text: str, metadata: Mapping[str, object]) -> str:
    file = next((str(metadata[name]) for name in _NAMES if metadata.get(name)), "text")
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return "#".join([file, *(str(metadata[key]) for key in ("page",) if key in metadata), digest])
