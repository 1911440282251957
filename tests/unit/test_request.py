"""The request: what counts for its identity, and what is refused before it can count."""

import json
import time
import unicodedata

import pytest
from pydantic import ValidationError

from ledger.core import strict_json
from ledger.core.canonical import canonicalize
from ledger.core.limits import (
    DIFFERENCES_MAX,
    EXCERPT_CHARS_MAX,
    INTEGER_MAX,
    INTENT_BYTES_MAX,
    PATH_CHARS_MAX,
    REQUEST_DEPTH_MAX,
)
from ledger.core.money import Money
from ledger.core.request import (
    Difference,
    Request,
    canonical_form,
    canonical_request,
    differences,
    hash_canonical,
    request_hash,
)

TOKEN = {"$token": "hmac-sha256:" + "0123456789abcdef" * 4}


def request(**changed: object) -> Request:
    """A charge, with some fields changed."""
    fields: dict[str, object] = {
        "operation": "charge",
        "version": 1,
        "target": "order:A-1842",
        "params": {"customer": "cus_812"},
        "money": {"minor": 4990, "currency": "EUR"},
        "principal": "agent:billing",
        "environment": "production",
    }
    return Request.model_validate(fields | changed)


def refusal(**changed: object) -> tuple[str, str]:
    """Code and sentence under which a changed charge is refused."""
    with pytest.raises(ValidationError) as refused:
        request(**changed)
    (error,) = refused.value.errors()
    return error["type"], error["msg"]


def nested(levels: int) -> object:
    """A value of so many lists within each other."""
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "changed",
    [
        {"operation": "refund"},
        {"version": 2},
        {"target": "order:A-1843"},
        {"target": None},
        {"params": {"customer": "cus_813"}},
        {"params": {}},
        {"params": {"customer": None}},
        {"money": {"minor": 49900, "currency": "EUR"}},
        {"money": {"minor": 4990, "currency": "USD"}},
        {"money": None},
        {"principal": "agent:other"},
        {"environment": "staging"},
    ],
)
def test_every_field_counts(changed: dict[str, object]) -> None:
    """A request that differs in any one field has another hash."""
    assert request_hash(request(**changed)) != request_hash(request())


def test_how_it_is_written_does_not_count() -> None:
    """Order of keys, null for absent, and where the request came from change nothing."""
    first = request(target=None, params={"a": 1, "b": {"c": 1, "d": 2}})
    text = first.model_dump_json()
    assert request_hash(Request.model_validate_json(text)) == request_hash(first)
    reordered = request(target=None, params={"b": {"d": 2, "c": 1}, "a": 1})
    assert canonical_request(reordered) == canonical_request(first)


@pytest.mark.case("C181")
def test_c181_the_hash_is_over_the_kept_bytes() -> None:
    """A store that reorders keys breaks nothing: kept bytes are hashed, never rebuilt ones."""
    kept = canonical_request(request(params={"b": 1, "a": {"z": 1, "y": 2}}))
    assert hash_canonical(kept) == request_hash(request(params={"a": {"y": 2, "z": 1}, "b": 1}))
    rebuilt = json.dumps(json.loads(kept), sort_keys=False, separators=(", ", ": ")).encode()
    assert hash_canonical(rebuilt) != hash_canonical(kept)
    assert canonicalize(json.loads(rebuilt)) == kept


@pytest.mark.case("C185")
def test_c185_free_text_has_one_form_and_identifiers_are_never_changed() -> None:
    """Composed and decomposed free text are one request; a decomposed identifier is refused."""
    composed, decomposed = "R\u00e9", "Re\u0301"
    assert request_hash(request(params={"payee": composed})) == request_hash(
        request(params={"payee": decomposed})
    )
    assert request_hash(request(params={composed: [decomposed]})) == request_hash(
        request(params={decomposed: [composed]})
    )
    assert canonical_form(request(params={"payee": decomposed}))["params"] == {"payee": composed}
    for field in ("target", "principal"):
        code, said = refusal(**{field: f"order:{decomposed}"})
        assert code == "malformed_identifier"
        assert "normal form" in said


@pytest.mark.case("C179")
@pytest.mark.parametrize("number", [1.5, 1.0, 1e6, float("inf"), float("nan")])
def test_c179_floats_have_no_hash(number: float) -> None:
    """A number that languages print differently is refused wherever it stands."""
    code, said = refusal(params={"items": [{"qty": number}]})
    assert code == "float_refused"
    assert "/params/items/0/qty" in said


@pytest.mark.case("C183")
def test_c183_half_a_character_has_no_hash() -> None:
    """A text cut in the middle of an emoji is refused also when it comes from our own code."""
    assert refusal(params={"text": "hi \ud83d"})[0] == "lone_surrogate"
    assert refusal(params={"\ude00": 1})[0] == "lone_surrogate"
    assert request_hash(request(params={"text": "hi \U0001f600"}))


@pytest.mark.case("C189")
def test_c189_the_literal_text_of_an_escape_is_kept() -> None:
    """A NUL is refused; the six characters that spell it come back exactly as they were sent."""
    assert refusal(params={"text": "\0"})[0] == "nul_character"
    literal = request(params={"text": "\\u0000"})
    read = Request.model_validate(strict_json.parse(canonical_request(literal)))
    assert read.params == {"text": "\\u0000"}
    assert request_hash(read) != request_hash(request(params={"text": "u0000"}))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"version": True}, "int_type"),
        ({"version": 1.0}, "int_type"),
        ({"version": "1"}, "int_type"),
        ({"version": 0}, "greater_than_equal"),
        ({"version": 10_000}, "less_than_equal"),
        ({"operation": "Charge"}, "malformed_identifier"),
        ({"operation": 1}, "string_type"),
        ({"environment": "a b"}, "malformed_identifier"),
        ({"principal": ""}, "malformed_identifier"),
        ({"params": None}, "dict_type"),
        ({"params": {"n": INTEGER_MAX + 1}}, "integer_too_large"),
        ({"params": {"a": [{"$ref": 1}]}}, "reserved_key"),
        ({"params": {"$token": TOKEN["$token"]}}, "reserved_key"),
        ({"params": {"to": {"$token": "hmac-sha256:00"}}}, "malformed_token"),
        ({"params": {"to": {"$token": 1}}}, "malformed_token"),
        ({"params": {"to": TOKEN | {"more": 1}}}, "malformed_token"),
        ({"params": {"to": {"$token": TOKEN["$token"].upper()}}}, "malformed_token"),
        ({"params": {"\u00e9": 1, "e\u0301": 2}}, "duplicate_key"),
        ({"params": {"a": nested(REQUEST_DEPTH_MAX - 1)}}, "too_deep"),
        ({"reason": "because"}, "extra_forbidden"),
    ],
)
def test_what_has_no_place_in_a_request_is_refused_by_name(
    changed: dict[str, object], code: str
) -> None:
    """Wrong types, reserved keys and unknown fields are refused, never coerced or dropped."""
    assert refusal(**changed)[0] == code


def test_the_deepest_request_has_a_hash() -> None:
    """A request at its limit of depth is accepted and has a canonical form."""
    assert request_hash(request(params={"a": nested(REQUEST_DEPTH_MAX - 2)}))


def test_a_token_stands_for_a_personal_value() -> None:
    """A personal field is hashed as its token, anywhere in the params."""
    assert request_hash(request(params={"to": TOKEN, "cc": [TOKEN]}))


def test_a_request_does_not_change() -> None:
    """What was hashed cannot be altered, nor reached through the value it was made from."""
    items = [1]
    made = request(params={"items": items})
    before = request_hash(made)
    items.append(2)
    with pytest.raises(ValidationError):
        made.version = 2  # type: ignore[misc]
    assert request_hash(made) == before


def test_marks_cannot_make_a_hash_expensive() -> None:
    """The text whose marks are slowest to put in order is refused at once; real ones are not."""
    marks = INTENT_BYTES_MAX // 4
    took: list[float] = []
    # The quickest counts: a virtual processor that is taken away goes on counting for us.
    for _ in range(3):
        began = time.process_time()
        code, _ = refusal(params={"text": "a" + "\u0315" * marks + "\u0300" * marks})
        took.append(time.process_time() - began)
        assert code == "too_many_marks"
    assert min(took) < 0.5
    vietnamese = "Ti\u00ea\u0301ng Vi\u00ea\u0323t"
    form = canonical_form(request(params={"text": vietnamese}))
    assert form["params"] == {"text": unicodedata.normalize("NFC", vietnamese)}


@pytest.mark.case("C017")
def test_c017_another_card_under_the_same_key_shows_as_a_difference() -> None:
    """What changed between two requests is named field by field, was and now."""
    old = request(money={"minor": 3000, "currency": "JPY"}, params={"card": "c1", "note": "x"})
    new = request(money={"minor": 3000, "currency": "EUR"}, params={"card": "c2", "tags": ["a"]})
    assert differences(old, new) == (
        Difference("/money/currency", '"JPY"', '"EUR"'),
        Difference("/params/card", '"c1"', '"c2"'),
        Difference("/params/note", '"x"', "(absent)"),
        Difference("/params/tags", "(absent)", '["a"]'),
    )


def test_differences_see_what_json_sees() -> None:
    """True is not 1, null is not absent, and one normal form of text is one text."""
    assert differences(request(params={"a": 1}), request(params={"a": True})) == (
        Difference("/params/a", "1", "true"),
    )
    assert differences(request(params={"a": None}), request(params={})) == (
        Difference("/params/a", "null", "(absent)"),
    )
    assert differences(request(params={"a": [1, 2]}), request(params={"a": [1, 3, 4]})) == (
        Difference("/params/a/1", "2", "3"),
        Difference("/params/a/2", "(absent)", "4"),
    )
    assert differences(request(params={"a": "R\u00e9"}), request(params={"a": "Re\u0301"})) == ()
    assert differences(request(), request()) == ()


def test_differences_of_canonical_forms_are_those_of_their_requests() -> None:
    """Kept canonical bytes can be compared without the requests they came from."""
    old, new = request(), request(money=Money(minor=1, currency="EUR"), target=None)
    kept = [json.loads(canonical_request(each)) for each in (old, new)]
    assert differences(*kept) == differences(old, new)


def test_differences_are_bounded_in_number_and_length() -> None:
    """A caller's values cannot flood the answer that names them."""
    many = request(params={f"p{n:03}": n for n in range(500)})
    assert len(differences(request(params={}), many)) == DIFFERENCES_MAX
    long = request(params={"k" * 2_000: "x\u202e" * 5_000})
    (difference,) = differences(request(params={}), long)
    assert len(difference.path) == PATH_CHARS_MAX
    assert len(difference.now) <= EXCERPT_CHARS_MAX
    assert difference.now.isprintable()
