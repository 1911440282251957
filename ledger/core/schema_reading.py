"""Parameters of an operation from a JSON Schema.

Guarantees that whatever a schema says and a catalogue cannot say is named with its place: nothing
is dropped in silence, and nothing is made stricter or laxer than it is named. Reads the keywords of
draft 2020-12 that describe one flat object; annotations carry nothing and are left out. Called by
the command line.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from ledger.core.excerpt import excerpt
from ledger.core.ids import COMPONENT
from ledger.core.limits import (
    CHOICES_MAX,
    INTEGER_MAX,
    INTENT_BYTES_MAX,
    PARAMETERS_MAX,
    TEXT_CHARS_MAX,
)
from ledger.core.parameters import Parameter, ParameterType
from ledger.core.schema_writing import IDENTIFIER_FORMAT, LENGTHS
from ledger.core.strict_json import pointer

_REFERENCES_MAX: Final = 16
_ANNOTATIONS: Final = frozenset(
    {
        *("title", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
        *("$schema", "$id", "$anchor", "$defs", "definitions"),
    }
)
_TYPES: Final[dict[str, ParameterType]] = {
    "string": "string",
    "integer": "integer",
    "boolean": "boolean",
    "array": "list",
    "object": "object",
}
_Path = tuple[str | int, ...]
_Schema = Mapping[str, Any]


class NoObjectSchemaError(ValueError):
    """The schema does not describe an object, so it has no parameters."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that a schema says and a catalogue cannot: JSON Pointer into the schema, and why as
    a sentence that reads on from it.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path} {self.message}"


@dataclass(slots=True)
class _Reading:
    """One pass over a schema: its definitions, and what has been lost so far."""

    root: _Schema
    lost: list[Lost] = field(default_factory=list)

    def lose(self, path: _Path, message: str) -> None:
        self.lost.append(Lost(excerpt(pointer(path)), message))


def parameters_from(schema: _Schema) -> tuple[dict[str, Parameter], tuple[Lost, ...]]:
    """The parameters that an object schema declares, and what of it was lost. Raises
    NoObjectSchemaError.
    """
    reading = _Reading(schema)
    root = _resolved(reading, schema, ())
    if root is None or root.get("type", "object") != "object" or "properties" not in root:
        raise NoObjectSchemaError("the schema must describe an object with properties")
    properties, required = root["properties"], root.get("required", ())
    if not isinstance(properties, Mapping):
        raise NoObjectSchemaError("the properties of the schema must be an object")
    if root.get("additionalProperties", False) is not False:
        reading.lose(
            ("additionalProperties",), "is lost: parameters that are not declared are refused"
        )
    known = {"type", "properties", "required", "additionalProperties"} | _ANNOTATIONS
    _lose_rest(reading, root, (), known)
    found: dict[str, Parameter] = {}
    for name, one in properties.items():
        place: _Path = ("properties", name)
        if COMPONENT.fullmatch(name) is None:
            reading.lose(place, "is lost: a parameter's name has letters, digits, . _ and - only")
        elif len(found) >= PARAMETERS_MAX:
            reading.lose(place, f"is lost: an operation has at most {PARAMETERS_MAX} parameters")
        elif (parameter := _parameter(reading, one, place)) is not None:
            is_required = parameter.required and name in required
            found[name] = parameter.model_copy(update={"required": is_required})
    return found, tuple(reading.lost)


def _parameter(
    reading: _Reading,
    schema: object,
    path: _Path,
) -> Parameter | None:
    one = _resolved(reading, schema, path)
    if one is None:
        return None
    one, is_nullable = _without_null(reading, one, path)
    kind = _kind(reading, one, path)
    if kind is None:
        return None
    declared: dict[str, Any] = {"type": _TYPES[kind], "required": not is_nullable}
    known = {"type"} | _ANNOTATIONS
    known |= _described(reading, one, path, declared)
    known |= _bounded(reading, one, path, kind, declared)
    match kind:
        case "string":
            known |= _string(reading, one, path, declared)
        case "array":
            known |= _array(reading, one, path, declared)
        case _:
            pass
    _lose_rest(reading, one, path, known)
    try:
        return Parameter.model_validate(declared)
    except ValidationError as refused:
        said = refused.errors(include_url=False)[0]
        reading.lose(path, f"is lost: {excerpt(said['msg'])}")
        return None


def _resolved(
    reading: _Reading,
    schema: object,
    path: _Path,
) -> _Schema | None:
    """A schema with its references followed, and single members of allOf, anyOf and oneOf."""
    for _ in range(_REFERENCES_MAX):
        if not isinstance(schema, Mapping):
            reading.lose(path, "is lost: it says nothing about a type")
            return None
        if "$ref" in schema:
            target = _target(reading.root, schema["$ref"])
            if target is None:
                reading.lose(
                    (*path, "$ref"), "is lost: only what stands in the schema itself is followed"
                )
                return None
            schema = {**target, **{key: schema[key] for key in schema if key != "$ref"}}
            continue
        branch = next((key for key in ("allOf", "anyOf", "oneOf") if key in schema), None)
        members = schema.get(branch) if branch else None
        if branch is None or not isinstance(members, list) or len(members) != 1:
            return schema
        only = members[0] if isinstance(members[0], Mapping) else {}
        schema = {**only, **{key: schema[key] for key in schema if key != branch}}
    reading.lose(path, "is lost: its references lead in a circle, or too far")
    return None


def _target(root: _Schema, reference: object) -> _Schema | None:
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found if isinstance(found, Mapping) else None


def _without_null(reading: _Reading, one: _Schema, path: _Path) -> tuple[_Schema, bool]:
    """A schema that also takes null, without it: such a parameter is left out instead."""
    said = "is lost: leave the parameter out instead of sending null"
    kinds = one.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        reading.lose((*path, "type"), said)
        left = [kind for kind in kinds if kind != "null"]
        return {**one, "type": left[0] if len(left) == 1 else left}, True
    for branch in ("anyOf", "oneOf"):
        members = one.get(branch)
        if not isinstance(members, list):
            continue
        place = next((at for at, it in enumerate(members) if it == {"type": "null"}), None)
        if place is None:
            continue
        reading.lose((*path, branch, place), said)
        rest = [it for it in members if it != {"type": "null"}]
        merged = _resolved(reading, {**one, branch: rest}, path)
        return merged or {}, True
    return one, False


def _kind(reading: _Reading, one: _Schema, path: _Path) -> str | None:
    """The one JSON type that a parameter can have, or None after saying why there is none."""
    for branch in ("anyOf", "oneOf", "allOf"):
        if branch in one:
            reading.lose((*path, branch), "is lost with its parameter: it has to be of one type")
            return None
    kind = one.get("type")
    choices = one.get("enum", [one["const"]] if "const" in one else [])
    if kind is None and choices and all(isinstance(choice, str) for choice in choices):
        return "string"
    if kind == "number":
        reading.lose(
            (*path, "type"),
            "is lost with its parameter: numbers with a point have no exact form; declare an "
            "integer, such as an amount in minor units, or a string",
        )
        return None
    if not isinstance(kind, str) or kind not in _TYPES:
        reading.lose((*path, "type"), "is lost with its parameter: it has to be of one type")
        return None
    return kind


def _described(reading: _Reading, one: _Schema, path: _Path, declared: dict[str, Any]) -> set[str]:
    text = one.get("description")
    if isinstance(text, str) and text:
        if len(text) > TEXT_CHARS_MAX:
            reading.lose((*path, "description"), f"is cut after {TEXT_CHARS_MAX} characters")
        declared["description"] = text[:TEXT_CHARS_MAX]
    if "default" in one:
        if one["default"] is not None:
            reading.lose(
                (*path, "default"), "is lost: what is left out stays out; the caller sends it"
            )
        return {"default"}
    return set()


def _bounded(
    reading: _Reading, one: _Schema, path: _Path, kind: str, declared: dict[str, Any]
) -> set[str]:
    """Lengths, or the range of an integer."""
    if kind == "integer":
        return _ranged(reading, one, path, declared)
    names = LENGTHS.get(kind)
    if names is None:
        return set()
    for name, key in zip(names, ("length_min", "length_max"), strict=True):
        bound = one.get(name)
        if bound is None or (key == "length_min" and bound == 0):
            continue
        if isinstance(bound, int) and 0 <= bound <= INTENT_BYTES_MAX:
            declared[key] = int(bound)
        else:
            reading.lose(
                (*path, name), f"is lost: a length is at most {INTENT_BYTES_MAX}, as an intent is"
            )
    return set(names)


def _ranged(reading: _Reading, one: _Schema, path: _Path, declared: dict[str, Any]) -> set[str]:
    lows: dict[str, int] = {}
    highs: dict[str, int] = {}
    for name, bounds, whole in (
        ("minimum", lows, math.ceil),
        ("exclusiveMinimum", lows, lambda value: math.floor(value) + 1),
        ("maximum", highs, math.floor),
        ("exclusiveMaximum", highs, lambda value: math.ceil(value) - 1),
        ("const", lows, int),
        ("const", highs, int),
    ):
        value = one.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        bound = whole(value)
        if abs(bound) <= INTEGER_MAX:
            bounds[name] = bound
        else:
            reading.lose((*path, name), "is lost: integers are within 2^53-1 of zero")
    if lows:
        declared["minimum"] = max(lows.values())
    if highs:
        declared["maximum"] = min(highs.values())
    return {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "const"}


def _string(reading: _Reading, one: _Schema, path: _Path, declared: dict[str, Any]) -> set[str]:
    known: set[str] = set()
    if one.get("format") == IDENTIFIER_FORMAT:
        declared["type"] = "identifier"
        known.add("format")
    name = "const" if "const" in one else "enum"
    if name in one:
        choices = [one["const"]] if name == "const" else one["enum"]
        is_text = isinstance(choices, list) and all(isinstance(it, str) for it in choices)
        if is_text and 0 < len(choices) <= CHOICES_MAX:
            declared["values"] = tuple(choices)
        else:
            reading.lose((*path, name), f"is lost: choices are 1 to {CHOICES_MAX} strings")
        known.add(name)
    return known


def _array(reading: _Reading, one: _Schema, path: _Path, declared: dict[str, Any]) -> set[str]:
    """The type of a list's items. Items of lists within lists are not looked at."""
    given = one.get("items")
    if given in (None, True, {}):
        return {"items"}
    place = (*path, "items")
    item = _resolved(reading, given, place)
    kind = None if item is None else _kind(reading, item, place)
    if item is None or kind is None:
        return {"items"}
    known = {"type"} | _ANNOTATIONS
    declared["items"] = _TYPES[kind]
    if kind == "string" and item.get("format") == IDENTIFIER_FORMAT:
        declared["items"] = "identifier"
        known |= {"format"}
    for key in item:
        if key not in known:
            reading.lose((*place, key), "is lost: of an item only its type is checked")
    return {"items"}


def _lose_rest(
    reading: _Reading, one: _Schema, path: _Path, known: set[str] | frozenset[str]
) -> None:
    for key in one:
        if key not in known and not (key == "uniqueItems" and one[key] is False):
            reading.lose((*path, key), "is lost: a catalogue does not check it")
