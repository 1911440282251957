"""Laws of the request hash: it sees every field, and nothing that is not one."""

import json
import unicodedata
from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue

from ledger.core import strict_json
from ledger.core.limits import INTEGER_MAX
from ledger.core.request import (
    Request,
    canonical_form,
    canonical_request,
    differences,
    request_hash,
)

texts = st.text(max_size=12).filter(lambda text: "\0" not in text)
keys = texts.filter(lambda text: not text.startswith("$"))
scalars = (
    st.none() | st.booleans() | st.integers(min_value=-INTEGER_MAX, max_value=INTEGER_MAX) | texts
)


def _distinct(members: Mapping[str, object]) -> bool:
    return len({unicodedata.normalize("NFC", key) for key in members}) == len(members)


params = st.dictionaries(
    keys,
    st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4).filter(_distinct)
        ),
        max_leaves=10,
    ),
    max_size=5,
).filter(_distinct)
identifiers = st.text("AZaz09:@._/-", min_size=1, max_size=30)
amounts = st.fixed_dictionaries(
    {
        "minor": st.integers(min_value=0, max_value=INTEGER_MAX),
        "currency": st.sampled_from(["EUR", "JPY", "KWD"]),
    }
)
fields = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(["charge", "refund", "card.charge"]),
        "version": st.integers(min_value=1, max_value=9),
        "target": st.none() | identifiers,
        "params": params,
        "money": st.none() | amounts,
        "principal": identifiers,
        "environment": st.sampled_from(["production", "staging"]),
    }
)


def request(given_fields: object) -> Request:
    """A request of these fields."""
    return Request.model_validate(given_fields)


def shuffled(value: JsonValue, data: st.DataObject) -> JsonValue:
    """The same value with the members of every object in another order."""
    if isinstance(value, dict):
        order = data.draw(st.permutations(list(value)))
        return {key: shuffled(value[key], data) for key in order}
    if isinstance(value, list):
        return [shuffled(item, data) for item in value]
    return value


@given(fields, st.data())
def test_the_order_of_keys_does_not_count(
    given_fields: dict[str, JsonValue], data: st.DataObject
) -> None:
    """However the members of every object are ordered, the hash is the same."""
    other = shuffled(given_fields, data)
    assert request_hash(request(other)) == request_hash(request(given_fields))


@given(fields, fields)
def test_hashes_are_equal_exactly_when_nothing_differs(
    one: dict[str, JsonValue], other: dict[str, JsonValue]
) -> None:
    """Any change of any hashed field changes the hash, and is shown as a difference."""
    first, second = request(one), request(other)
    same = request_hash(first) == request_hash(second)
    assert same == (differences(first, second) == ())
    assert same == (canonical_request(first) == canonical_request(second))


@given(fields, st.sampled_from(["operation", "version", "target", "params", "money", "principal"]))
def test_one_changed_field_changes_the_hash(given_fields: dict[str, JsonValue], field: str) -> None:
    """Exchanging a single field for another value gives another hash and names that field."""
    replacement = {
        "operation": "email",
        "version": 10,
        "target": "order:other",
        "params": {"one more": given_fields["params"]},
        "money": {"minor": 1, "currency": "CLF"},
        "principal": "agent:other",
    }[field]
    assume(given_fields[field] != replacement)
    first, second = request(given_fields), request(given_fields | {field: replacement})
    assert request_hash(first) != request_hash(second)
    assert {difference.path.split("/")[1] for difference in differences(first, second)} == {field}


@given(fields)
def test_a_request_can_be_read_back_from_its_canonical_bytes(
    given_fields: dict[str, JsonValue],
) -> None:
    """The kept bytes are enough to rebuild the request and its hash, for ever."""
    made = request(given_fields)
    form = canonical_request(made)
    read = Request.model_validate(strict_json.parse(form))
    assert canonical_request(read) == form
    assert json.loads(form) == canonical_form(made)
    assert differences(made, read) == ()


@given(fields)
def test_both_models_of_a_request_agree(given_fields: dict[str, JsonValue]) -> None:
    """A request read from JSON by pydantic and one made from values are the same."""
    made = request(given_fields)
    assert Request.model_validate_json(made.model_dump_json()) == made


@given(fields)
def test_normal_forms_of_free_text_share_a_hash(given_fields: dict[str, JsonValue]) -> None:
    """Decomposing every text inside params changes nothing."""
    decomposed = json.loads(
        unicodedata.normalize("NFD", json.dumps(given_fields["params"], ensure_ascii=False))
    )
    # Normal form D may write a character that JSON escapes only when it stands alone.
    other = request(given_fields | {"params": decomposed})
    assert request_hash(other) == request_hash(request(given_fields))
