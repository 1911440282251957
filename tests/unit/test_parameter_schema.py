"""Parameters from a JSON Schema and back: what a catalogue can say is kept, the rest is named."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.limits import INTENT_BYTES_MAX, PARAMETERS_MAX
from ledger.core.parameters import Parameter
from ledger.core.schema_reading import NoObjectSchemaError, parameters_from
from ledger.core.schema_writing import parameters_toml, schema_of
from tests.policies import operation
from tests.unit.test_catalogue import SMALL


def read(schema: dict[str, Any], **more: Any) -> tuple[Parameter | None, list[str]]:  # noqa: ANN401
    """The parameter `x` of that schema, and the places of what was lost."""
    found, lost = parameters_from({"type": "object", "properties": {"x": schema}, **more})
    return found.get("x"), [one.path for one in lost]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, Parameter(type="string", required=False)),
        (
            {"type": "string", "minLength": 1, "maxLength": 9, "description": "d", "title": "t"},
            Parameter(type="string", required=False, length_min=1, length_max=9, description="d"),
        ),
        ({"enum": ["a", "b"]}, Parameter(type="string", required=False, values=("a", "b"))),
        ({"const": "a"}, Parameter(type="string", required=False, values=("a",))),
        (
            {"type": "integer", "minimum": 0, "exclusiveMaximum": 10},
            Parameter(type="integer", required=False, minimum=0, maximum=9),
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0.5, "maximum": 9.5},
            Parameter(type="integer", required=False, minimum=1, maximum=9),
        ),
        (
            {"type": "integer", "const": 4},
            Parameter(type="integer", required=False, minimum=4, maximum=4),
        ),
        ({"type": "boolean"}, Parameter(type="boolean", required=False)),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": False},
            Parameter(type="list", items="string", required=False, length_min=1),
        ),
        ({"type": "array"}, Parameter(type="list", required=False)),
        (
            {"type": "object", "maxProperties": 3},
            Parameter(type="object", required=False, length_max=3),
        ),
        (
            {"type": "string", "format": "actionledger-identifier"},
            Parameter(type="identifier", required=False),
        ),
        ({"allOf": [{"type": "integer"}]}, Parameter(type="integer", required=False)),
        ({"$ref": "#/$defs/a~1b"}, Parameter(type="boolean", required=False)),
    ],
)
def test_what_a_catalogue_can_say_is_carried_over(
    schema: dict[str, Any], expected: Parameter
) -> None:
    """Nothing of these is lost."""
    assert read(schema, **{"$defs": {"a/b": {"type": "boolean"}}}) == (expected, [])


@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [
        ({"type": "string", "pattern": "^a"}, "string", ["/pattern"]),
        ({"type": "string", "format": "email"}, "string", ["/format"]),
        ({"type": "string", "default": "a"}, "string", ["/default"]),
        ({"type": "string", "enum": ["a", 1]}, "string", ["/enum"]),
        ({"type": "string", "enum": list("ab") * 40}, "string", ["/enum"]),
        ({"type": "string", "maxLength": INTENT_BYTES_MAX + 1}, "string", ["/maxLength"]),
        ({"type": "string", "description": "d" * 1_025}, "string", ["/description"]),
        ({"type": "integer", "multipleOf": 5}, "integer", ["/multipleOf"]),
        ({"type": "integer", "enum": [1, 2]}, "integer", ["/enum"]),
        ({"type": "integer", "maximum": 2**60}, "integer", ["/maximum"]),
        ({"type": "boolean", "const": True}, "boolean", ["/const"]),
        ({"type": "array", "uniqueItems": True}, "list", ["/uniqueItems"]),
        ({"type": "array", "items": {"type": "number"}}, "list", ["/items/type"]),
        (
            {"type": "array", "items": {"type": "string", "minLength": 1}},
            "list",
            ["/items/minLength"],
        ),
        ({"type": "array", "items": {"$ref": "#"}}, "list", ["/items/properties"]),
        ({"type": "object", "properties": {"a": {}}}, "object", ["/properties"]),
        ({"type": ["string", "null"]}, "string", ["/type"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer", ["/anyOf/1"]),
        # Lost with their parameter.
        ({"type": "number"}, None, ["/type"]),
        ({"type": ["string", "integer"]}, None, ["/type"]),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, None, ["/anyOf"]),
        ({}, None, ["/type"]),
        (True, None, [""]),
        ({"$ref": "https://example.com/a"}, None, ["/$ref"]),
        ({"$ref": "#/nowhere"}, None, ["/$ref"]),
        ({"$ref": "#/properties/x"}, None, [""]),
    ],
)
def test_what_a_catalogue_cannot_say_is_named_with_its_place(
    schema: Any,  # noqa: ANN401 - any schema
    kept: str | None,
    lost: list[str],
) -> None:
    """The parameter stays where its type can be kept; every construct that is gone is told."""
    parameter, places = read(schema)
    assert (None if parameter is None else parameter.type) == kept
    assert places == [f"/properties/x{place}" for place in lost]


def test_what_may_be_null_may_be_left_out() -> None:
    """A required parameter that takes null is optional; another is as it was."""
    schema = {"type": ["string", "null"]}
    assert read(schema, required=["x"])[0] == Parameter(type="string", required=False)
    assert read({"type": "string"}, required=["x"])[0] == Parameter(type="string")


def test_the_schema_as_a_whole() -> None:
    """Names that no parameter can bear, other parameters, and rules between parameters."""
    properties = {"a b": {"type": "string"}, "ok": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "dependentRequired": {}}
    found, lost = parameters_from({**schema, "additionalProperties": True})
    assert list(found) == ["ok"]
    assert [one.path for one in lost] == [
        "/additionalProperties",
        "/dependentRequired",
        "/properties/a b",
    ]
    many = {f"p{number}": {"type": "string"} for number in range(PARAMETERS_MAX + 1)}
    found, lost = parameters_from({"type": "object", "properties": many})
    assert (len(found), [one.path for one in lost]) == (64, ["/properties/p64"])


@pytest.mark.parametrize(
    "schema",
    [{}, {"type": "string"}, {"type": "object"}, {"properties": []}, {"$ref": "#"}],
)
def test_what_describes_no_object_has_no_parameters(schema: dict[str, Any]) -> None:
    """It is refused in a sentence."""
    with pytest.raises(NoObjectSchemaError):
        parameters_from(schema)


class Reason(StrEnum):
    """Why."""

    DUPLICATE = "duplicate"
    FRAUD = "fraud"


class Refund(BaseModel):
    """A model as somebody has it."""

    charge: Annotated[str, Field(max_length=64, description="The charge.")]
    reason: Reason | None = None
    parts: list[str] = Field(max_length=5)
    days: Annotated[int, Field(ge=1, le=30)] = 7
    mode: Literal["fast"] = "fast"
    share: float = 0.5


def test_a_model_of_pydantic_becomes_tables_of_a_catalogue() -> None:
    """Written into an operation, they are read as a catalogue."""
    found, lost = parameters_from(Refund.model_json_schema())
    assert [one.path for one in lost] == [
        "/properties/reason/anyOf/1",
        "/properties/days/default",
        "/properties/mode/default",
        "/properties/share/type",
    ]
    assert found["reason"].values == ("duplicate", "fraud")
    text = parameters_toml(found)
    begin, _, rest = SMALL.partition("[operation.parameters.note]")
    _, _, behind = rest.partition("[operation.risk]")
    parsed = parse_catalogue(f"{begin}{text}\n[operation.risk]{behind}")
    assert isinstance(parsed, Catalogue), parsed
    assert parsed.operations[0].parameters == found


def test_an_operation_has_a_schema() -> None:
    """Closed, with what is required, and with the types of items."""
    declared = operation(
        description="Send.",
        parameters={
            "to": Parameter(type="list", items="identifier", length_max=5),
            "n.o": Parameter(type="integer", required=False, minimum=10_000),
        },
    )
    schema = schema_of(declared)
    assert schema["title"] == "act v1"
    assert schema["description"] == "Send."
    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["to"]["maxItems"] == 5
    assert parameters_from(schema) == (declared.parameters, ())
    assert '[operation.parameters."n.o"]' in parameters_toml(declared.parameters)
    assert "minimum = 10_000" in parameters_toml(declared.parameters)
