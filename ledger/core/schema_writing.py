"""Parameters of an operation as a JSON Schema, and as the TOML that declares them.

Guarantees that what is written is read back as the same parameters, with nothing lost. Called by
the command line.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.core.operation import Operation
from ledger.core.parameters import Parameter, ParameterType

IDENTIFIER_FORMAT: Final = "actionledger-identifier"
"""Marks a string that is an identifier: in normal form, without spaces or invisible characters."""

LENGTHS: Final[dict[str, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
"""The keywords that bound the length of a JSON type."""

_SCHEMA_TYPES: Final[dict[ParameterType, str]] = {
    "string": "string",
    "identifier": "string",
    "integer": "integer",
    "boolean": "boolean",
    "list": "array",
    "object": "object",
}
_GROUPED_FROM: Final = 10_000


def schema_of(operation: Operation) -> dict[str, Any]:
    """The JSON Schema of an operation's parameters: what a caller may write in `params`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{operation.name} v{operation.version}",
        **({"description": operation.description} if operation.description else {}),
        "type": "object",
        "properties": {name: _schema(one) for name, one in operation.parameters.items()},
        "required": [name for name, one in operation.parameters.items() if one.required],
        "additionalProperties": False,
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    kind = _SCHEMA_TYPES[parameter.type]
    schema: dict[str, Any] = {"type": kind}
    if parameter.type == "identifier":
        schema["format"] = IDENTIFIER_FORMAT
    if parameter.description:
        schema["description"] = parameter.description
    names = LENGTHS.get(kind, ("", ""))
    bounds = (
        (names[0], parameter.length_min),
        (names[1], parameter.length_max),
        ("minimum", parameter.minimum),
        ("maximum", parameter.maximum),
        ("enum", None if parameter.values is None else list(parameter.values)),
        ("items", None if parameter.items is None else _schema(Parameter(type=parameter.items))),
    )
    return schema | {name: bound for name, bound in bounds if bound is not None}


def parameters_toml(parameters: Mapping[str, Parameter]) -> str:
    """The tables `[operation.parameters.NAME]` that declare these parameters."""
    return "\n".join("".join(_table(name, one)) for name, one in parameters.items())


def _table(name: str, parameter: Parameter) -> Iterator[str]:
    key = f'"{name}"' if "." in name else name
    yield f"[operation.parameters.{key}]\n"
    for field_name, value in parameter.model_dump(exclude_defaults=True).items():
        yield f"{field_name} = {_toml(value)}\n"


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if abs(value) >= _GROUPED_FROM else str(value)
        case str():
            # A JSON string is a basic string of TOML, but for DEL, which must be escaped there.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _ if isinstance(value, list | tuple):
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            raise TypeError(f"{value!r} has no form in TOML")
