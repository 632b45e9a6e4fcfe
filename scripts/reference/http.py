"""The page of the HTTP API, from the server's OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mergewise.server.app import create_api
from scripts.reference.markup import table, wrapped

METHODS = ("get", "post", "put", "patch", "delete")


def page() -> str:
    return "\n".join(_lines(create_api().openapi()))


def _lines(api: Mapping[str, Any]) -> Iterator[str]:
    yield "# HTTP\n"
    yield wrapped(
        "A running server describes this API at `/api/v1/openapi.json`. All requests except those of scope `none` carry "
        "`Authorization: Bearer TOKEN`. Errors of `/api` are `application/problem+json`. Errors of `/v1` and `/v2` have "
        "OpenAI's form."
    )
    routes = [
        (method, path, route)
        for path, item in api["paths"].items()
        for method, route in item.items()
        if method in METHODS
    ]
    yield table(
        ("route", "scope", "meaning"), ((f"`{m.upper()} {p}`", r["x-scope"], _meaning(r)) for m, p, r in routes)
    )
    yield "## Requests\n"
    for method, path, route in routes:
        parameters = route.get("parameters", ())
        body = route.get("requestBody", {}).get("content", {})
        if parameters or body:
            yield f"### {method.upper()} {path}\n"
            yield wrapped(_meaning(route))
            if parameters:
                yield table(("parameter", "in", "type"), (_parameter(one) for one in parameters))
            for kind, content in body.items():
                yield f"Body (`{kind}`): {_kind(content.get('schema', {}))}\n"
            yield f"Response: {_responses(route['responses'])}\n"
    yield "## Schemas\n"
    for name, schema in api["components"]["schemas"].items():
        yield f"### {name}\n"
        if schema.get("description"):
            yield wrapped(schema["description"])
        if schema.get("properties"):
            required = set(schema.get("required", ()))
            rows = (
                (f"`{key}`", _kind(one), "yes" if key in required else "", " ".join(one.get("description", "").split()))
                for key, one in schema["properties"].items()
            )
            yield table(("field", "type", "required", "meaning"), rows)


def _meaning(route: Mapping[str, Any]) -> str:
    return " ".join((route.get("description") or route["summary"]).split())


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"`{parameter['name']}`", parameter["in"], _kind(parameter["schema"])


def _responses(responses: Mapping[str, Any]) -> str:
    listed = []
    for status, response in responses.items():
        if status.startswith("2"):
            kinds = [
                f"`{kind}` {_kind(content.get('schema', {}))}".strip()
                for kind, content in response.get("content", {}).items()
            ]
            listed.append(f"{status}, {' or '.join(kinds)}" if kinds else status)
    return "; ".join(listed)


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in words, with links to schemas of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[key]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    bounds = ((word, schema.get(key)) for key, word in (("minimum", "from"), ("maximum", "to")))
    limits = "".join(f", {word} {bound:,.10g}" for word, bound in bounds if isinstance(bound, int | float))
    return f"{schema.get('type', 'any')}{limits}"
