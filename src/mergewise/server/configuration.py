"""The server's configuration. Flags override the environment (`MERGEWISE_SERVE_*`), which overrides `serve.toml`.

    [server]
    host = "127.0.0.1"                      # MERGEWISE_SERVE_HOST, --host
    port = 8077
    workers = 2
    public_url = "https://docs.example.org"
    allowed_hosts = ["docs.example.org"]

    [chats.local]
    spec = "openai:qwen3"
    base_url = "http://127.0.0.1:8000/v1"
    key_env = "LOCAL_KEY"                   # the key itself is in this environment variable, or in the file key_file

    [collections.manual]
    folders = ["/srv/manual"]

An unknown key is an error. Relative paths count from the folder of the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from ipaddress import ip_address, ip_network
from itertools import count
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

from mergewise import AnswerQuery
from mergewise.errors import UsageError
from mergewise.extend import (
    OUTPUT,
    ROUNDS,
    Range,
    as_list,
    check_filter,
    hints_of,
    is_address,
    is_url,
    load_toml,
    options_of,
    place_of,
    ranges,
    short_repr,
    text,
    value_of,
)
from mergewise.server.models import GROUPS, ModelTable
from mergewise.server.models import ModelConfig as ModelConfig
from mergewise.server.records import checked_scopes
from mergewise.types import AnyPath, Json, JsonDict, frozen

if TYPE_CHECKING:
    from mergewise.protocols import Embedder

NAME = "serve.toml"
PORT = 8077
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ENVIRONMENT = "MERGEWISE_SERVE_"
DEFAULTS = frozenset({option.name for option in options_of(AnswerQuery, ["where"])} | {"chat"})
"""Options of a question for which a collection or a profile may set a default."""
USER = "{user}"
"""The place of the user in filters of `IdentityConfig` and `GrantConfig`."""
_MB = 1_000_000
_COUNT, _SECONDS, _BYTES = Range(1, 1_000_000), Range(0, 86_400, above=True), Range(1, 10**12)


@frozen
class ServeLimits:
    """Limits of requests: bytes, counts, seconds. Queues, streams and caches are per worker."""

    body_bytes: Annotated[int, _BYTES, "Size of an upload request in bytes"] = 100 * _MB
    json_bytes: Annotated[int, _BYTES, "Size of a JSON body in bytes"] = 2 * _MB
    files: Annotated[int, _COUNT, "Number of files in one upload"] = 200
    part_bytes: Annotated[int, _BYTES, "Size of a form field of an upload in bytes"] = 64_000
    header_bytes: Annotated[int, Range(1024, 1_000_000), "Size of all headers in bytes"] = 32_000
    head_seconds: Annotated[float, _SECONDS, "Time to receive the headers"] = 10.0
    body_seconds: Annotated[float, _SECONDS, "Time to receive the body"] = 300.0
    idle_seconds: Annotated[float, _SECONDS, "Longest pause within the body"] = 30.0
    queue_seconds: Annotated[float, _SECONDS, "Longest expected wait in the queue for a new question"] = 0.8
    queue_again_seconds: Annotated[float, _SECONDS, "Longest expected wait in the queue for a retry"] = 2.0
    queue_least: Annotated[int, _COUNT, "Number of questions that may always wait"] = 2
    queue_most: Annotated[int, _COUNT, "Largest number of waiting questions"] = 32
    streams: Annotated[int, _COUNT, "Number of answers that wait for a model"] = 64
    context_seconds: Annotated[float, _SECONDS, "Time to assemble a context"] = 10.0
    first_token_seconds: Annotated[float, _SECONDS, "Time until the first token of a model"] = 120.0
    slow_seconds: Annotated[float, _SECONDS, "Time after which the log names a question as slow"] = 10.0
    answer_seconds: Annotated[float, _SECONDS, "Time for a whole answer"] = 600.0
    k: Annotated[int, _COUNT, "Largest k of a strategy"] = 500
    candidates: Annotated[int, _COUNT, "Largest number of candidates of a search"] = 2000
    budget: Annotated[int, ranges.BUDGET, "Largest token budget of a context"] = 32_768
    rounds: Annotated[int, ROUNDS, "Largest number of search rounds"] = 4
    max_tokens: Annotated[int, OUTPUT, "Largest number of tokens of an answer"] = 4096
    rate: Annotated[float, Range(0, 1e6, above=True), "Requests per second and token, over all workers"] = 20.0
    cached_contexts: Annotated[int, Range(0, 10**6), "Number of cached contexts"] = 256
    cached_bytes: Annotated[int, Range(0, 10**12), "Size of all cached contexts in bytes"] = 64 * _MB
    conversations: Annotated[int, Range(0, 10**6), "Number of conversations kept for a token, or 0 to keep none"] = 500
    conversation_bytes: Annotated[int, _BYTES, "Size of all conversations of a token in bytes"] = 50 * _MB
    conversation_days: Annotated[float, Range(0, 36_500, above=True), "Days to keep an unused conversation"] = 365.0


@frozen
class CollectionConfig:
    """A collection of the configuration.

    Attributes:
        path: Directory of the index, or the URL of a bucket. Default: within the server's data.
        read_only: Serve the index without changing it. Default: true for an index in a bucket.
        title: Title on the page.
        folders: Folders that `sync` jobs keep in step with the index.
        sources: Addresses of sites, Git repositories and folders in buckets that `sync` jobs keep in step with the index.
        follow_links: Also follow links that lead out of the folders.
        strategies: Strategies that clients may use. Empty: all.
        defaults: Options of a question for which the client gives no value.
        embedder: Name or spec of the embedder.
        views: Views of the index.
        chat: Name of the chat model that writes rows for the views.
        search: Search settings, as `mergewise tune` writes them.
        weights: File with the weights of `weave`, as `mergewise tune` writes it.
    """

    path: Path | None = None
    read_only: bool | None = None
    title: str = ""
    folders: tuple[Path, ...] = ()
    sources: tuple[str, ...] = ()
    follow_links: bool = False
    strategies: tuple[str, ...] = ()
    defaults: Json = field(default_factory=dict)
    embedder: str | None = None
    views: tuple[str, ...] = ()
    chat: str | None = None
    search: str = ""
    weights: Path | None = None

    @property
    def synced(self) -> list[str]:
        """All folders and sources."""
        return [*map(str, self.folders), *self.sources]

    def folders_of(self, request: Json) -> list[str]:
        """Return all folders and sources, or those in the request of a `sync` job. Raises UsageError for others, or none."""
        own, given = self.synced, request.get("folders")
        wanted = own if given is None else as_list("folders", given, "send a list of folders")
        if not wanted or any(one not in own for one in wanted):
            raise UsageError("folder not in the configuration", "add folders = [...] to serve.toml")
        return [folder for folder in own if folder in wanted]

    @property
    def is_in_bucket(self) -> bool:
        return self.path is not None and is_url(self.path)

    @property
    def is_read_only(self) -> bool:
        return self.is_in_bucket if self.read_only is None else self.read_only


@frozen
class ProfileConfig:
    """A model name for clients of the OpenAI-compatible API: a collection with options.

    `defaults` are options of a question for which the client gives no value. Documents must always match `filter`. `footer`
    appends the sources as text: never, always, or only for clients that do not read annotations ("auto"). `remark` appends a
    remark that quotes unsupported sentences. With `markup = "text"`, images and HTML are not escaped, for clients that show
    plain text. `tasks` passes the tasks of chat programs, such as titles, to the chat model. `store` keeps responses for
    `previous_response_id`.
    """

    collection: str
    chat: str | None = None
    defaults: Json = field(default_factory=dict)
    filter: Json | None = None
    title: str = ""
    footer: Literal["never", "always", "auto"] = "never"
    open_webui: bool = False
    remark: bool = True
    markup: Literal["markdown", "text"] = "markdown"
    tasks: bool = False
    store: bool = True


@frozen
class IdentityConfig:
    """A front end that names its users in a header. Each user sees only the documents that match the filter.

    Attributes:
        header: Header with the name or the address of the user.
        filter: Filter as JSON. `{user}` in its values stands for the value of the header.
        peers: Addresses or networks of the front end.
        tokens: Ids of the front end's tokens. With `peers` too, these tokens are valid only from there.
    """

    header: str
    filter: Json
    peers: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()

    def is_peer(self, address: str) -> bool:
        """Check if an address belongs to the front end."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        # a socket of both families reports IPv4 addresses in this form
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in ip_network(peer) for peer in self.peers)


@frozen
class GrantConfig:
    """Rights of users whose access or identity token has a claim.

    Attributes:
        value: Value of the claim, one value of a list, or one word of a text.
        claim: Name of the claim.
        scopes: Scopes of these users.
        collections: Collections that they see. Empty: all.
        filter: Filter as JSON. `{user}` in its values stands for the user. Such users only read.
    """

    value: str
    claim: str = "scope"
    scopes: tuple[str, ...] = ("read",)
    collections: tuple[str, ...] = ()
    filter: Json | None = None


@frozen
class IssuerConfig:
    """An issuer of tokens (OAuth 2.1 and OpenID Connect), whose users use the API, MCP and the page.

    Attributes:
        url: Address of the issuer, as its tokens name it.
        grants: Rights of users. The first one that fits counts.
        audience: Audience of access tokens. Default: the address of `/mcp`.
        user: Claim with the name of the user.
        client_id: Id of the page at the issuer, which lets users sign in there.
        key_env: Environment variable with the secret of the client, if it has one.
        key_file: File with the secret of the client on its first line.
    """

    url: str
    grants: tuple[GrantConfig, ...]
    audience: str | None = None
    user: str = "sub"
    client_id: str | None = None
    key_env: str | None = None
    key_file: Path | None = None

    def key(self) -> str | None:
        """Return the secret of the client, or None without one. Raises UsageError if it is missing."""
        return ModelConfig(self.url, key_env=self.key_env, key_file=self.key_file).key()


@frozen
class ServerConfig:
    """The configuration of a server. `data` is the directory of its state.

    Several servers share the Postgres `database`, a URL such as postgresql://USER@HOST/NAME, and the `storage`, a bucket or a
    folder with collections and uploads. Those of the `role` web answer questions, those of the role writer run jobs.
    """

    data: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535), "Port, or 0 for a free port"] = PORT
    workers: Annotated[int, Range(1, 64), "Number of worker processes"] = 1
    role: Literal["all", "web", "writer"] = "all"
    database: str | None = None
    storage: Path | None = None
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    needs_token: bool = True
    allow_writes_by_mcp: bool = False
    search_and_fetch_by_mcp: bool = False
    watch: bool = False
    ray: str | None = None
    chats: Mapping[str, ModelConfig] = field(default_factory=dict)
    embedders: Mapping[str, ModelConfig] = field(default_factory=dict)
    rerankers: Mapping[str, ModelConfig] = field(default_factory=dict)
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)
    profiles: Mapping[str, ProfileConfig] = field(default_factory=dict)
    limits: ServeLimits = ServeLimits()
    identity: IdentityConfig | None = None
    issuer: IssuerConfig | None = None

    def __post_init__(self) -> None:
        for group in GROUPS:
            if not isinstance(configured := getattr(self, group), ModelTable):
                object.__setattr__(self, group, ModelTable(configured, self.data, group))

    @property
    def shared(self) -> Path:
        """The directory or bucket of collections and received files."""
        return self.storage or self.data

    def home_of(self, collection: str) -> Path:
        """Return the directory or the prefix of a collection, with its originals and usually its index."""
        return self.shared / "collections" / collection

    @property
    def spool(self) -> Path:
        """The directory of uploads in progress, on the disk of the blobs if they are not in a bucket."""
        return (self.data if is_url(self.shared) else self.shared) / "spool"

    @property
    def cache(self) -> Path:
        """The directory of copies of indexes and uploads in buckets."""
        return self.data / "cache"

    @property
    def read_only(self) -> frozenset[str]:
        """The collections whose index the server must not change."""
        return frozenset(name for name, own in self.collections.items() if own.is_read_only)

    @property
    def url(self) -> str:
        """The URL of the server for people: `public_url`, else host and port."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        # a wildcard address is reachable from this machine by the loopback
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(self.host, self.host)
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The accepted values of the Host header, in lower case, without ports."""
        wildcards, public = {"0.0.0.0", "::"}, urlsplit(self.public_url or "").hostname
        local = LOOPBACK | {"[::1]"} if self.host in LOOPBACK | wildcards else set()
        names = {public, *local, *self.allowed_hosts, *({self.host} - wildcards)}
        return frozenset(name.lower() for name in names if name)

    @property
    def default_chat(self) -> str | None:
        """The first chat model, which answers if a client names none, or None without chat models."""
        return next(iter(self.chats), None)

    def embedder(self, name: str | None) -> str | Embedder | None:
        """Return an embedder of the configuration as `mergewise.open` takes it, or the name itself if it is a spec."""
        return self.embedders[name].embedder() if name is not None and name in self.embedders else name

    def collection(self, name: str) -> CollectionConfig:
        """Return the table of a collection, or an empty one."""
        return self.collections.get(name, CollectionConfig())


def load_config(
    data: Path, file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Json | None = None
) -> ServerConfig:
    """Load the configuration of the server whose state is in `data`.

    `file` replaces `data/serve.toml` and must exist. `flags` are fields of `ServerConfig` and override all other sources; a value
    of None means "not given". Raises UsageError with the key for an unknown or invalid setting.
    """
    environment = os.environ if environment is None else environment
    path = file or data / NAME
    tables = load_toml(path) if file is not None or path.exists() else {}
    unknown = tables.keys() - {*_KNOWN_TABLES}
    if unknown:
        raise UsageError(
            f"unknown table in {path}: {', '.join(sorted(unknown))}", f"use one of: {', '.join(_KNOWN_TABLES)}"
        )
    server = dict(_check_table(f"{path}: server", tables.get("server", {})))
    if isinstance(tls := server.get("tls"), dict):
        # `tls = {certificate, key}` stands for the fields `tls_certificate` and `tls_key`
        del server["tls"]
        server |= {f"tls_{name}": value for name, value in tls.items()}
    wanted = {name: value for name, value in (flags or {}).items() if value is not None}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options: dict[str, Any] = {"workers": min(cores, 4)}
    hints = hints_of(ServerConfig)
    variables: dict[str, object] = {}
    for name in _SERVER:
        if (given := environment.get(f"{_ENVIRONMENT}{name.upper()}")) is not None:
            # commas separate the values of a list
            is_list = get_origin(hints[name]) is tuple
            variables[name] = [part.strip() for part in given.split(",") if part.strip()] if is_list else given
    for where, values in ((f"{path}: server.", server), (_ENVIRONMENT, variables), ("", wanted)):
        options |= _fields(ServerConfig, where, values, path.parent, among=_SERVER if where else None)
    for name in (name for name in _TABLES if name in tables):
        value, first = _value(f"{path}: {name}", tables[name], hints[name], path.parent), options.get(name, {})
        options[name] = {**first, **value, **first} if isinstance(value, dict) else value
    return _valid_config(ServerConfig(data=data, **options))


_TABLES = ("chats", "embedders", "rerankers", "collections", "profiles", "limits", "identity", "issuer")
_KNOWN_TABLES = ("server", *_TABLES)
_SERVER = [f.name for f in fields(ServerConfig) if f.name not in ("data", "needs_token", *_TABLES)]


def _valid_config(config: ServerConfig) -> ServerConfig:
    """Return the configuration if its settings fit together. Raises UsageError if not."""
    from mergewise.extend import search_settings, weights_of

    if not config.needs_token and (config.host not in LOOPBACK or config.allowed_hosts or config.public_url):
        raise UsageError(
            "--no-auth requires a loopback address, without allowed_hosts and public_url",
            "remove --no-auth and hand out tokens: without them anybody could read and delete everything",
        )
    if None in (config.database, config.storage) and (config.database or config.storage or config.role != "all"):
        raise UsageError("several servers need a database and a storage", "set database and storage")
    if (config.tls_certificate is None) != (config.tls_key is None):
        raise UsageError(
            "tls requires a certificate and a key", 'write tls = { certificate = "cert.pem", key = "key.pem" }'
        )
    for name, collection in config.collections.items():
        if not COLLECTION_NAME.fullmatch(name):
            raise UsageError(f"invalid collection name: {name!r}", "use up to 63 lower-case letters, digits and -")
        where = f"collections.{name}"
        _check_asking(where, collection, config.chats)
        if collection.path is not None and collection.is_in_bucket:
            # fails for an invalid URL, or without the client of object stores
            place_of(collection.path)
        if collection.is_read_only and collection.synced:
            hint = "remove folders and sources, or set read_only = false"
            raise UsageError(f"{where}: the collection is read-only", hint)
        for source in collection.sources:
            if not is_address(source):
                raise UsageError(
                    f"invalid {where}.sources: {source!r}", "expected an address such as https://HOST/docs"
                )
        search_settings(collection.search, f"{where}.search")
        weights_of(collection.weights)
    for name, profile in config.profiles.items():
        _check_asking(f"profiles.{name}", profile, config.chats)
        if profile.filter is not None:
            check_filter(profile.filter)
    if (identity := config.identity) is not None:
        if not identity.peers and not identity.tokens:
            hint = "name the addresses of the front end"
            raise UsageError("missing setting: identity.peers or identity.tokens", hint)
        for peer in identity.peers:
            try:
                ip_network(peer)
            except ValueError:
                raise UsageError(f"invalid identity.peers: {peer!r}", "expected an address such as 10.0.0.5") from None
        check_filter(identity.filter)
        if filter_of(identity.filter, "a") == filter_of(identity.filter, "b"):
            raise UsageError(f"identity.filter has no {USER}", 'write { type = "eq", key = "owner", value = "{user}" }')
    if (issuer := config.issuer) is not None:
        same = issuer.client_id is not None and issuer.client_id == issuer.audience
        if not config.public_url or not issuer.grants or same:
            hint = "set public_url and grants, and an audience that is not the client_id"
            raise UsageError(f"incomplete settings of the issuer {issuer.url}", hint)
        for grant in issuer.grants:
            checked_scopes(grant.scopes, grant.filter)
    return config


def filter_of(filter: Json, user: str) -> JsonDict:
    """Return a filter with a user in the place of `{user}`."""
    filled: JsonDict = json.loads(json.dumps(filter).replace(USER, json.dumps(user)[1:-1]))
    return filled


def missing_parts(config: ServerConfig) -> list[str]:
    """Describe the missing folders, files and API keys of the configuration. Without them, the server starts all the same."""
    problems = [
        f"folder not found: {folder} (collections.{name}.folders)"
        for name, collection in config.collections.items()
        for folder in collection.folders
        if not folder.is_dir()
    ]
    for table in GROUPS:
        for name, model in getattr(config, table).items():
            try:
                model.key()
            except UsageError as error:
                problems.append(f"{error.message} ({table}.{name})")
    return problems


def _check_asking(where: str, own: CollectionConfig | ProfileConfig, chats: Collection[str]) -> None:
    """Check the chat model and the default options of questions. Raises UsageError for an unknown or invalid one."""
    if own.chat is not None and own.chat not in chats:
        raise UsageError(f"{where}.chat: unknown chat model {own.chat!r}", f"one of: {', '.join(chats)}")
    if unknown := sorted(own.defaults.keys() - DEFAULTS):
        raise UsageError(f"{where}.defaults: unknown default {unknown[0]!r}", f"one of: {', '.join(sorted(DEFAULTS))}")
    AnswerQuery("?", **{name: value for name, value in own.defaults.items() if name != "chat"})


def _check_table(where: str, given: object) -> JsonDict:
    if not isinstance(given, dict):
        raise UsageError(f"{where} is {short_repr(given)}", f"write a table [{where.rpartition(': ')[2]}]")
    return given


def _fields(kind: type, where: str, given: Json, base: Path, among: Collection[str] | None = None) -> JsonDict:
    """Convert the values to the types of the dataclass's fields. `where` is the prefix of names in errors."""
    hints = hints_of(kind)
    known = among or hints.keys()
    unknown = given.keys() - set(known)
    if unknown:
        raise UsageError(f"unknown setting: {where}{min(unknown)}", f"one of: {', '.join(known)}")
    # environment variables are in upper case
    spelled = {name: name.upper() if where == _ENVIRONMENT else name for name in given}
    return {name: _value(f"{where}{spelled[name]}", value, hints[name], base) for name, value in given.items()}


def _value(what: str, given: object, hint: Any, base: Path) -> Any:
    """Convert a value to the type of the hint. Relative paths count from `base`."""
    if isinstance(hint, UnionType):
        # every union here is a type or None, and a value that is given has the type
        hint = get_args(hint)[0]
    kind, members = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        assert isinstance(hint, type)
        values = _fields(hint, f"{what}.", _check_table(what, given), base)
        for f in fields(hint):
            if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
                raise UsageError(f"missing setting: {what}.{f.name}", f"write {f.name} = ... there")
        return hint(**values)
    if hint is Path:
        path = text(what, str(given) if isinstance(given, Path) else given)
        if what.lower().endswith((".path", "storage")) and is_url(path):
            return Path(path)
        check_directory(what, path)
        return base / path
    if kind is tuple:
        if not isinstance(given, list | tuple):
            raise UsageError(f"invalid {what}: {short_repr(given)}", "expected a list")
        return tuple(_value(what, one, members[0], base) for one in given)
    if kind is Mapping and is_dataclass(members[1]):
        tables = _check_table(what, given).items()
        return {
            name: one if is_dataclass(one) else _value(f"{what}.{name}", one, members[1], base) for name, one in tables
        }
    if kind is Mapping:
        if not isinstance(given, Mapping):
            raise UsageError(f"invalid {what}: {short_repr(given)}", "expected a table")
        return dict(given)
    return value_of(what, given, hint)


def folder_roots(index: AnyPath, folders: Sequence[Path]) -> Mapping[str, Path] | None:
    """Return the folders that ids of their files are relative to, by the beginning of the ids.

    One folder needs no beginning. Several folders have their names, with as many folders above as make the names differ. None
    means the folder that contains the index, as for `mergewise index`, if it also contains the documents.
    """
    real = list(dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders))
    home = Path(os.path.realpath(index)).parent
    if not real or (not is_url(index) and all(folder.is_relative_to(home) for folder in real)):
        return None
    if len(real) == 1:
        return {"": real[0]}
    depth = next(n for n in count(1) if len({folder.parts[-n:] for folder in real}) == len(real))
    return {"/".join(folder.relative_to(folder.anchor).parts[-depth:]): folder for folder in real}


def check_directory(what: str, path: AnyPath) -> None:
    """Check that the path is a local one. Raises UsageError for a bucket."""
    if is_url(path):
        raise UsageError(
            f"{what} is in a bucket (expected a local directory)",
            'only an index may be in a bucket: mergewise serve s3://BUCKET/PREFIX, or path = "s3://BUCKET/PREFIX"',
        )
