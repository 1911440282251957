"""Identities: what is one, what is refused by name, and what never changes."""

import re

import pytest

from ledger.core.ids import (
    ActionId,
    ActionKey,
    KeyAlphabet,
    MalformedId,
    ProviderKeyRule,
    check_identifier,
    event_id,
    provider_key,
    stream_key,
    stream_key_of,
)
from ledger.core.limits import (
    ACTION_KEY_CHARS_MAX,
    COMPONENT_CHARS_MAX,
    IDENTIFIER_CHARS_MAX,
    OPERATION_CHARS_MAX,
    TEXT_CHARS_MAX,
)

KEY = "charge:v1:acme:renewal-2026-08-28-01#receipt~2"
LONGEST_KEY = (
    f"{'o' * OPERATION_CHARS_MAX}:v9999:{'t' * COMPONENT_CHARS_MAX}:"
    f"{'e' * COMPONENT_CHARS_MAX}#{'i' * COMPONENT_CHARS_MAX}~9999"
)


def test_key_says_operation_version_tenant_and_act() -> None:
    """Every part of an action key is read from its text."""
    key = ActionKey.parse(KEY)
    assert key == ActionKey("charge", 1, "acme", ActionId("renewal-2026-08-28-01", "receipt", 2))
    assert str(key) == KEY
    assert key.stream_key == "acme/renewal-2026-08-28-01"


def test_actions_of_one_business_event_share_a_stream() -> None:
    """The charge, its refund, its receipt and a revision are ordered together."""
    keys = [
        "charge:v1:acme:renewal-01",
        "refund:v1:acme:renewal-01",
        "email:v2:acme:renewal-01#receipt",
        "charge:v1:acme:renewal-01~2",
    ]
    assert {stream_key_of(key) for key in keys} == {stream_key("acme", "renewal-01")}
    assert stream_key_of("charge:v1:other:renewal-01") == "other/renewal-01"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "key"),
        ("charge", "key"),
        ("charge:v1:acme", "key"),
        ("charge:v1:acme:a:b", "key"),
        ("x" * (ACTION_KEY_CHARS_MAX + 1), "key"),
        ("Charge:v1:acme:a", "operation"),
        (":v1:acme:a", "operation"),
        ("1charge:v1:acme:a", "operation"),
        ("charge.:v1:acme:a", "operation"),
        ("card..charge:v1:acme:a", "operation"),
        (f"{'c' * (OPERATION_CHARS_MAX + 1)}:v1:acme:a", "operation"),
        ("charge:1:acme:a", "version"),
        ("charge:v0:acme:a", "version"),
        ("charge:v01:acme:a", "version"),
        ("charge:v10000:acme:a", "version"),
        ("charge:v\u0661:acme:a", "version"),
        ("charge:v1::a", "tenant"),
        ("charge:v1:ac me:a", "tenant"),
        ("charge:v1:ac/me:a", "tenant"),
        (f"charge:v1:{'t' * (COMPONENT_CHARS_MAX + 1)}:a", "tenant"),
        ("charge:v1:acme:", "business_event"),
        ("charge:v1:acme:#x", "business_event"),
        ("charge:v1:acme:renewal 1", "business_event"),
        ("charge:v1:acme:renew\u202eal", "business_event"),
        ("charge:v1:acme:renewal\0", "business_event"),
        ("charge:v1:acme:Ré", "business_event"),
        ("charge:v1:acme:a\n", "business_event"),
        ("charge:v1:acme:a#", "item"),
        ("charge:v1:acme:a#b#c", "item"),
        ("charge:v1:acme:a~1", "revision"),
        ("charge:v1:acme:a~02", "revision"),
        ("charge:v1:acme:a~", "revision"),
        ("charge:v1:acme:a~2~3", "revision"),
        ("charge:v1:acme:a~2#x", "revision"),
        ("charge:v1:acme:a~10000", "revision"),
    ],
)
def test_malformed_keys_are_refused_by_the_part_that_is_wrong(text: str, field: str) -> None:
    """A caller learns which part of a key to mend, in a sentence of bounded length."""
    with pytest.raises(MalformedId) as refused:
        ActionKey.parse(text)
    assert refused.value.field == field
    assert refused.value.hint
    assert len(str(refused.value)) < 300
    with pytest.raises(MalformedId, match=field):
        stream_key_of(text)


def test_parts_are_checked_however_a_key_is_made() -> None:
    """A key built from parts keeps the same rules as one read from a text."""
    with pytest.raises(MalformedId, match="tenant"):
        ActionKey("charge", 1, "ac:me", ActionId("a"))
    with pytest.raises(MalformedId, match="revision"):
        ActionId("a", None, 1)
    with pytest.raises(MalformedId, match="business_event"):
        stream_key("acme", "a/b")


def test_the_longest_key_fits_every_place_for_a_text() -> None:
    """The declared maximum is the real one, and every wire field holds it."""
    assert len(LONGEST_KEY) == ACTION_KEY_CHARS_MAX < TEXT_CHARS_MAX
    assert str(ActionKey.parse(LONGEST_KEY)) == LONGEST_KEY


@pytest.mark.parametrize(
    "text",
    ["order:A-1842", "agent:billing", "anna@example.com", "order:A 1842", "order:東京-1", "Ré"],
)
def test_free_identifiers_stay_as_they_are(text: str) -> None:
    """An identifier is returned unchanged, whatever its language."""
    assert check_identifier(text, "target") == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("x" * (IDENTIFIER_CHARS_MAX + 1), "257 characters"),
        (" order:A", "blank"),
        ("order:A ", "blank"),
        ("order:A\0", "NUL"),
        ("order:\u202e2481", "reading direction"),
        ("order:\u2067A", "reading direction"),
        ("order:A\n", "control"),
        ("order:\u0085A", "control"),
        ("order:\u200bA", "invisible"),
        ("order:\u00a0A", "invisible"),
        ("order:\ud83d", "surrogate"),
        ("Re\u0301", "normal form"),
        ("\u212b", "normal form"),
    ],
)
def test_free_identifiers_that_deceive_the_eye_are_refused(text: str, why: str) -> None:
    """What a person cannot see or tell apart is refused, with the reason and the place."""
    with pytest.raises(MalformedId, match=why) as refused:
        check_identifier(text, "target")
    assert refused.value.field == "target"


def test_event_ids_are_golden() -> None:
    """The id of a fact never changes: readers of the log have kept it."""
    first = event_id("acme", KEY, 3, "attempt.started", "intents", 2, 12345, 0)
    assert first == "7596264e2933c4a96c48dfe8c9069fed"
    assert re.fullmatch(r"[0-9a-f]{32}", first)


def test_event_ids_differ_in_every_part() -> None:
    """Facts that differ in action, version, type, cause or place have different ids."""
    parts = ("acme", KEY, 3, "attempt.started", "intents", 2, 12345, 0)
    others = [
        ("acme2", *parts[1:]),
        (*parts[:1], "charge:v1:acme:other", *parts[2:]),
        (*parts[:2], 4, *parts[3:]),
        (*parts[:3], "attempt.declined", *parts[4:]),
        (*parts[:4], "attempts", *parts[5:]),
        (*parts[:5], 3, *parts[6:]),
        (*parts[:6], 12346, *parts[7:]),
        (*parts[:7], 1),
    ]
    ids = {event_id(*each) for each in (parts, *others)}
    assert len(ids) == 1 + len(others)


def test_provider_key_is_the_action_key_where_it_fits() -> None:
    """A provider that allows it gets the very key that people see."""
    assert provider_key(KEY, ProviderKeyRule()) == KEY


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            ProviderKeyRule(alphabet=KeyAlphabet.URL_SAFE),
            "charge-v1-acme-renewal-2026-08-28-01-receipt-2-474fd406882ddd70b22eb271880090c9",
        ),
        (
            ProviderKeyRule(alphabet=KeyAlphabet.ALPHANUMERIC, length_max=64),
            "chargev1acmerenewal2026082801re474fd406882ddd70b22eb271880090c9",
        ),
        (ProviderKeyRule(alphabet=KeyAlphabet.HEXADECIMAL), "474fd406882ddd70b22eb271880090c9"),
        (ProviderKeyRule(length_max=45), "charge-v1-ac-474fd406882ddd70b22eb271880090c9"),
        (ProviderKeyRule(length_max=32), "474fd406882ddd70b22eb271880090c9"),
    ],
)
def test_mapped_provider_keys_are_golden(rule: ProviderKeyRule, expected: str) -> None:
    """A mapped key never changes: a provider that saw another would make a second effect."""
    assert provider_key(KEY, rule) == expected
    assert len(expected) <= rule.length_max


def test_a_shortened_key_is_no_other_actions_key() -> None:
    """Nobody can choose a business event whose own key equals another action's shortened one."""
    rule = ProviderKeyRule(length_max=64)
    mapped = provider_key(LONGEST_KEY, rule)
    with pytest.raises(MalformedId):
        ActionKey.parse(mapped)
