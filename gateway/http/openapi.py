"""The description of the HTTP door: what the code cannot say by itself, and the whole document.

Bodies are read as raw bytes, so their schemas are named here; everything else comes from the
routes. `python -m gateway.http.openapi` prints the document that docs/openapi.json holds.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway.http.codes import KINDS, REJECTED
from gateway.http.problems import MEDIA_TYPE, Problem

Described: TypeAlias = dict[int | str, dict[str, Any]]
"""What FastAPI takes as `responses`: by status."""

_SCHEMAS: Final = "#/components/schemas/"
_NEVER_SENT: Final = frozenset({"HTTPValidationError", "ValidationError"})


def query(name: str, description: str) -> dict[str, Any]:
    """A parameter of the query, as the routes read it by themselves."""
    kind = "string" if name == "account" else "integer"
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": kind} | ({"minimum": 0} if kind == "integer" else {}),
    }


def header(name: str, description: str) -> dict[str, Any]:
    """A header that a route reads by itself."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string"},
    }


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A JSON body that the route reads strictly by itself."""
    schema = {"$ref": _SCHEMAS + model.__name__}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def optional_json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A JSON body that may be left out."""
    described = json_body(model)
    described["requestBody"]["required"] = False
    return described


def raw_body() -> dict[str, Any]:
    """A body of any kind, kept byte for byte."""
    schema = {"type": "string", "format": "binary"}
    return {"requestBody": {"required": True, "content": {"*/*": {"schema": schema}}}}


def answer(
    status: int, model: type[BaseModel], description: str
) -> dict[int | str, dict[str, Any]]:
    """What a route answers with when all is well."""
    return {status: {"model": model, "description": description}}


def problems(*statuses: int) -> Described:
    """The problems that a route answers with, by status, each with its codes."""
    described: Described = {}
    for status in statuses:
        codes = sorted(
            code.value
            for code, kind in [*KINDS.items(), *REJECTED.items()]
            if kind.status == status
        )
        described[status] = {
            "description": f"A problem, by its code: {', '.join(codes)}.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": _SCHEMAS + Problem.__name__}}},
        }
    return described


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The OpenAPI document of an app, with the models that its routes read by themselves."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    every: list[type[BaseModel]] = [*bodies, Problem]
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in every
    ]
    _, schemas = models_json_schema(models, ref_template=_SCHEMAS + "{model}")
    components = document.setdefault("components", {})
    found = components.get("schemas", {}) | schemas["$defs"]
    components["schemas"] = {
        name: schema for name, schema in sorted(found.items()) if name not in _NEVER_SENT
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            _drop_own_validation(operation["responses"])
    components["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer"},
        "login": {
            "type": "http",
            "scheme": "login",
            "description": "A token that a person's own key has signed for this one request.",
        },
    }
    document["security"] = [{"apiKey": []}]
    return document


def _drop_own_validation(responses: dict[str, Any]) -> None:
    """FastAPI announces its own 422 for every parameter; here each is refused as a problem."""
    content = responses.get("422", {}).get("content", {})
    if "application/json" in content:
        del responses["422"]


def main() -> None:
    """Print the document."""
    from gateway.http.app import bare_app  # noqa: PLC0415 - the app is made of these helpers

    json.dump(bare_app().openapi(), sys.stdout, indent=2, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
