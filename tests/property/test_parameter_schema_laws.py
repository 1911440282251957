"""Laws of parameters as schemas and as TOML: what is written is read back, and nothing raises."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.limits import INTEGER_MAX
from ledger.core.parameters import Parameter
from ledger.core.schema_reading import NoObjectSchemaError, parameters_from
from ledger.core.schema_writing import parameters_toml, schema_of
from tests.policies import operation

names = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
lengths = st.none() | st.integers(0, 65_536)
bounds = st.none() | st.integers(-INTEGER_MAX, INTEGER_MAX)
common = {"required": st.booleans(), "description": st.none() | texts.filter(bool)}
parameters = st.one_of(
    st.builds(
        Parameter,
        type=st.sampled_from(["string", "identifier"]),
        length_min=st.none() | st.integers(1, 9),
        length_max=lengths,
        values=st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple),
        **common,
    ),
    st.builds(Parameter, type=st.just("integer"), minimum=bounds, maximum=bounds, **common),
    st.builds(Parameter, type=st.just("boolean"), **common),
    st.builds(Parameter, type=st.just("object"), length_max=lengths, **common),
    st.builds(
        Parameter,
        type=st.just("list"),
        length_max=lengths,
        items=st.none() | st.sampled_from(["string", "integer", "identifier", "list", "object"]),
        **common,
    ),
)
some = st.dictionaries(names, parameters, max_size=4)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "enum",
                    "anyOf",
                    "$ref",
                    "minimum",
                    "maxLength",
                    "x",
                ]
            ),
            inner
            | st.sampled_from(["string", "array", "object", "integer", "#", "#/properties/x"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(some)
def test_a_schema_that_was_written_is_read_back(given_: dict[str, Parameter]) -> None:
    """With nothing lost on the way."""
    assert parameters_from(schema_of(operation(parameters=given_))) == (given_, ())


@given(some)
def test_toml_that_was_written_is_read_back(given_: dict[str, Parameter]) -> None:
    """Whatever stands in the texts."""
    read = tomllib.loads(parameters_toml(given_))
    tables = read.get("operation", {}).get("parameters", {})
    assert {name: Parameter.model_validate(one) for name, one in tables.items()} == given_


@given(st.dictionaries(st.sampled_from(["x", "y"]), json))
def test_any_schema_is_read_or_named(properties: dict[str, Any]) -> None:
    """No schema raises or runs for ever, and each property is there or told of."""
    try:
        found, lost = parameters_from({"properties": properties})
    except NoObjectSchemaError:
        return
    for name in properties:
        assert name in found or any(one.path.startswith(f"/properties/{name}") for one in lost)
