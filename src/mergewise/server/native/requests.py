"""Request bodies of the native API. Unknown fields are errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, get_args

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, create_model

from mergewise import AnswerQuery, Query
from mergewise.extend import Option, options_of
from mergewise.server.collection_query import Include
from mergewise.server.records import OnConflict, Scope
from mergewise.types import JsonDict


def _number(value: object) -> object:
    """Reject booleans and strings, which pydantic would convert to numbers."""
    if isinstance(value, bool | str):
        raise ValueError("expected a number")
    return value


Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_number)]
Parameters = dict[str, str | int | float | bool | None]
# repeated values are allowed
REPEATED: JsonDict = {"uniqueItems": False}
Includes = Annotated[set[Include], Field(json_schema_extra=REPEATED)]
Title = Annotated[str, Field(max_length=200)]
Phrase = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[str, Field(min_length=1, max_length=8000)]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
DocumentId = Annotated[str, Field(min_length=1, max_length=1000)]
Metadata = dict[Title, str | int | float | bool]
Filter = JsonDict


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


FormT = TypeVar("FormT", bound=Form)


class TurnForm(Form):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(max_length=100_000)]


def with_options_of(record: type[Query]) -> Callable[[type[FormT]], type[FormT]]:
    """Add the options of a question to a body. None means the collection's default, else the record's."""
    fields: JsonDict = {
        option.name: (body_type(option) | None, Field(None, description=option.description))
        for option in options_of(record)
    }
    return lambda base: create_model(base.__name__, __base__=base, **fields)


def body_type(option: Option) -> Any:
    """Return the type of an option in a body: numbers in their range, texts of limited length, JSON."""
    kinds = [kind for kind in (get_args(option.type) or (option.type,)) if kind is not type(None)]
    types = []
    for kind in kinds:
        if kind is int and option.range is not None:
            bounds = Field(ge=int(option.range.low), le=int(option.range.high))
            kind = Annotated[int, bounds, BeforeValidator(_number)]
        types.append(_BODY_TYPES.get(option.name) or (Phrase if kind is str else kind))
    return reduce(or_, types)


Condition = Words | Filter
_BODY_TYPES: JsonDict = {
    "where": Condition | Annotated[list[Condition], Field(max_length=50)],
    "parameters": Parameters,
}


@with_options_of(Query)
class ContextFields(Form): ...


@with_options_of(AnswerQuery)
class AnswerFields(Form): ...


class ContextForm(ContextFields):
    """Options of a context. Missing options take the collection's default.

    The index must have the `snapshot` or a later one, such as that of a job's report. A server waits for it for some seconds.
    """

    question: Words
    history: Annotated[list[TurnForm], Field(max_length=50)] = Field(default_factory=list)
    chat: str | None = None
    include: Includes = Field(default_factory=set)
    snapshot: Id | None = None


@with_options_of(AnswerQuery)
class AskForm(ContextForm):
    """`conversation` keeps the answer in the conversation of this id, or in a new one for "new" or an unknown id."""

    stream: StrictBool = False
    conversation: Id | None = None


class ConversationForm(Form):
    title: Phrase | None = None
    is_shared: StrictBool | None = None


class WordsForm(Form):
    words: Phrase
    limit: Annotated[Whole, Field(ge=1, le=200)] = 50


class RatingForm(Form):
    """A rating of an answer. `good` is null to withdraw it."""

    good: StrictBool | None
    note: Annotated[str, Field(max_length=2000)] = ""


class CompareForm(ContextForm):
    """Two to four variants of a question. Each of `runs` overrides options of the form."""

    runs: Annotated[list[ContextFields], Field(min_length=2, max_length=4)]


class CollectionForm(Form):
    """A new collection. The embedder and the views are names from the configuration, never paths or specs."""

    name: Name
    title: Title = ""
    embedder: str | None = None
    views: Annotated[list[str], Field(max_length=20)] | None = None
    settings: dict[str, JsonDict] = {}


class CollectionChangeForm(Form):
    title: Title | None = None
    defaults: JsonDict | None = None


class DocumentForm(Form):
    """A document as text. `units` are the caller's own pieces of the text: [{start, end}] or texts."""

    id: DocumentId
    text: str
    title: Annotated[str, Field(max_length=1000)] | None = None
    metadata: Metadata = {}
    units: list[Any] | None = None


class DocumentsForm(Form):
    documents: Annotated[list[DocumentForm], Field(min_length=1, max_length=200)]
    on_conflict: OnConflict = "replace"


class UploadOptions(Form):
    """The part `options` of a multipart upload: ids and metadata in the order of the files."""

    ids: list[DocumentId | None] | None = None
    metadata: Metadata | list[Metadata] = {}
    on_conflict: OnConflict = "replace"


class MetadataForm(Form):
    metadata: Metadata


class RemoveForm(Form):
    """Documents to remove: exactly one of `ids`, `prefix` and `filter`. `dry_run` only counts them."""

    ids: Annotated[list[DocumentId], Field(max_length=10_000)] | None = None
    prefix: Annotated[str, Field(min_length=1)] | None = None
    filter: Filter | None = None
    dry_run: StrictBool = False


class JobForm(Form):
    """A job on a collection. `request` has the arguments of its kind: {folders}, {view, settings}, {questions, ...}.

    `add_view` and `remove_view` need the scope `admin`.
    """

    kind: Literal["sync", "add_view", "remove_view", "embed", "evaluate", "check", "repair", "optimize"]
    request: JsonDict = {}
    dry_run: StrictBool = False


class TokenForm(Form):
    scopes: Annotated[set[Scope], Field(min_length=1, json_schema_extra=REPEATED)]
    title: Title = ""
    collections: list[Name] | None = None
    filter: Filter | None = None
    expires: Number | None = None
    rate: Annotated[Number, Field(ge=0.01, le=1000)] | None = None


class EndpointForm(Form):
    """A model at an endpoint. `base_url` is the address of a reranker, or of an OpenAI-compatible API; by default, OpenAI's.

    The key is never returned. A model without a new one keeps its key if its address is the same.
    """

    model: Title = ""
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s@?#]+$", max_length=500)] | None = None
    window: Annotated[Whole, Field(ge=1, le=10**8)] | None = None
    key: Annotated[str, Field(pattern=r"^\S+$", max_length=2000)] | None = None


class SessionForm(Form):
    token: Title


def validated(form: type[FormT], given: Any, within: tuple[str, ...] = ()) -> FormT:
    """Validate the part `within` of a body, given as JSON bytes or a value. Raises RequestValidationError, as FastAPI does."""
    try:
        return form.model_validate_json(given) if isinstance(given, bytes) else form.model_validate(given)
    except ValidationError as error:
        errors = [{**one, "loc": ("body", *within, *one["loc"])} for one in error.errors(include_url=False)]
        body = given
        if isinstance(given, bytes):
            try:
                body = json.loads(given)
            except (ValueError, RecursionError):
                body = None
        for name in reversed(within):
            body = {name: body}
        raise RequestValidationError(errors, body=body) from None
