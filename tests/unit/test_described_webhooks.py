"""Webhooks of an API that is described: what their bytes mean; any bytes have an answer."""

from pathlib import Path

import orjson
import pytest

from ledger.core.money import Money
from reconciler.matching import Matched, MatchedBy, match_webhook
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.port import About, MappedWebhook, Unrecognised
from reconciler.providers.registry import webhook_mappings
from tests.unit.test_described_api import DESCRIPTION, settings


def read(folder: Path, raw: bytes) -> MappedWebhook | Unrecognised:
    """What the description of the shop makes of the bytes."""
    return webhook_mappings([settings(folder, "http://127.0.0.1:1")])["shop"].map(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "not_json"),
        (b"\xff", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"kind": "charge.paid", "kind": "charge.opened"}', "not_json"),
        (b" " * 1_048_577, "too_large"),
        (b"[]", "no_event_type"),
        (b'{"kind": {}}', "no_event_type"),
        (b'{"kind": "charge.lost"}', "unknown_event_type"),
        (b'{"kind": "charge.paid"}', "malformed_event"),
        (b'{"kind": "charge.paid", "id": "e", "at": "now"}', "malformed_event"),
        (b'{"kind": "charge.paid", "id": true, "at": 1}', "malformed_event"),
    ],
)
def test_a_webhook_without_a_meaning_is_unrecognised(tmp_path: Path, raw: bytes, code: str) -> None:
    """Any bytes have an answer, and a guess is none."""
    mapped = read(tmp_path, raw)
    assert isinstance(mapped, Unrecognised)
    assert mapped.code == code


@pytest.mark.parametrize(
    ("kind", "meaning", "effect"),
    [("charge.paid", "final", "exists"), ("charge.opened", "irrelevant", "pending")],
)
def test_a_webhook_means_what_its_type_says(
    tmp_path: Path, kind: str, meaning: str, effect: str
) -> None:
    """References inside are taken along, and the account may be the description's word."""
    raw = orjson.dumps({"kind": kind, "id": 5, "at": 1_700_000_000, "charge": {"ref": "C-1"}})
    mapped = read(tmp_path, raw)
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.meaning, mapped.effect, mapped.event_id) == (meaning, effect, "5")
    assert (mapped.account, mapped.reference, mapped.action_key) == ("main", "C-1", None)
    assert mapped.occurred_at == 1_700_000_000_000


def test_a_webhook_of_several_events_is_not_taken_for_its_first(tmp_path: Path) -> None:
    """Some providers send what happened in lists. Of one event it is that; of more a person hears,
    and not of the first alone.
    """
    text = DESCRIPTION
    for name in ("kind", "id", "at", "charge.ref"):
        text = text.replace(f' = "{name}"', f' = "items.0.{name}"').replace(
            f'at = "{name}"', f'at = "items.0.{name}"'
        )
    shop = settings(tmp_path, "http://127.0.0.1:1")
    assert shop.adapter_file is not None
    shop.adapter_file.write_text(text, encoding="utf-8")
    mapping = webhook_mappings([shop])["shop"]
    one = {"kind": "charge.paid", "id": 5, "at": 1_700_000_000, "charge": {"ref": "C-1"}}
    mapped = mapping.map(orjson.dumps({"items": [one]}))
    assert isinstance(mapped, MappedWebhook)
    assert mapped.reference == "C-1"
    both = [one, {**one, "id": 6, "charge": {"ref": "C-2"}}]
    assert mapping.map(orjson.dumps({"items": both})) == Unrecognised("several_events")
    assert mapping.map(orjson.dumps({"items": []})) == Unrecognised("no_event_type")


COMPOSITE = """
money = { minor = "total", currency = "=EUR" }
composite = { operation = "=charge", target = "charge.order", target_prefix = "order:" }
"""


@pytest.mark.parametrize(
    ("charge", "about"),
    [
        ({"ref": "C-1", "order": "A-1842"}, About("charge", "order:A-1842")),
        ({"ref": "C-1", "order": 1842}, About("charge", "order:1842")),
        ({"ref": "C-1"}, None),
        ({"ref": "C-1", "order": None}, None),
        ({"ref": "C-1", "order": ""}, None),
        ({"ref": "C-1", "order": {}}, None),
        ({"ref": "C-1", "order": ["A-1842"]}, None),
        ({"ref": "C-1", "order": 18.42}, None),
        ({"ref": "C-1", "order": True}, None),
        ({"ref": "C-1", "order": "A" * 1_018}, About("charge", "order:" + "A" * 1_018)),
        ({"ref": "C-1", "order": "A" * 1_019}, None),
    ],
)
def test_a_declared_composite_says_what_a_webhook_is_about(
    tmp_path: Path, charge: dict[str, object], about: About | None
) -> None:
    """All of it or nothing: a part names no action, and what is no name costs the rest nothing."""
    shop = settings(tmp_path, "http://127.0.0.1:1")
    assert shop.adapter_file is not None
    text = DESCRIPTION.replace('reference = "charge.ref"\n', COMPOSITE)
    shop.adapter_file.write_text(text, encoding="utf-8")
    mapping = webhook_mappings([shop])["shop"]
    raw = orjson.dumps(
        {"kind": "charge.paid", "id": 5, "at": 1_700_000_000, "charge": charge, "total": 4_990}
    )
    mapped = mapping.map(raw)
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.about, mapped.reference) == (about, None)


STATES = """
reverses = "charge.of"
money = { minor = "total", currency = "=EUR", sign = "ignored" }

[webhook.type]
"charge.opened" = { meaning = "irrelevant", effect = "pending" }
"charge.refunded" = { meaning = "final", effect = "reversed" }
"charge.updated" = [
    { equals = { "charge.state" = "paid", live = true }, meaning = "final", effect = "exists" },
    { equals = { "charge.state" = "failed" }, meaning = "final", effect = "none" },
    { equals = { "charge.state" = "disputed" }, meaning = "final", effect = "reversed" },
    { equals = { "charge.state" = "won" }, meaning = "final", effect = "none", of_reversal = true },
    { equals = { "charge.state" = "sent" }, meaning = "progress", effect = "pending" },
]
"""
TYPES = DESCRIPTION[DESCRIPTION.index("\n[webhook.type]") :]


def told(folder: Path, kind: str, **fields: object) -> MappedWebhook | Unrecognised:
    """What a description that judges by a state within the body makes of an event."""
    shop = settings(folder, "http://127.0.0.1:1")
    assert shop.adapter_file is not None
    shop.adapter_file.write_text(DESCRIPTION.replace(TYPES, STATES), encoding="utf-8")
    raw = orjson.dumps({"kind": kind, "id": 5, "at": 1_700_000_000, "total": 990, **fields})
    return webhook_mappings([shop])["shop"].map(raw)


@pytest.mark.parametrize(
    ("state", "live", "meaning", "effect"),
    [
        ("paid", True, "final", "exists"),
        ("failed", True, "final", "none"),
        ("failed", None, "final", "none"),
        ("sent", False, "progress", "pending"),
    ],
)
def test_one_type_means_what_the_state_in_its_body_says(
    tmp_path: Path, state: str, live: object, meaning: str, effect: str
) -> None:
    """The first row that fits decides, and nothing of it is a reversal."""
    mapped = told(tmp_path, "charge.updated", charge={"ref": "C-1", "state": state}, live=live)
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.meaning, mapped.effect, mapped.reverses) == (meaning, effect, None)


@pytest.mark.parametrize("charge", [{"state": "held"}, {"state": "paid"}, {"state": 1}, {}, None])
def test_a_state_without_a_row_is_unrecognised(tmp_path: Path, charge: object) -> None:
    """A state of next year means nothing yet, and is kept and counted."""
    found = told(tmp_path, "charge.updated", charge=charge, live=1)
    assert found == Unrecognised("unknown_event_state", "charge.updated")


@pytest.mark.parametrize(
    ("kind", "state"), [("charge.refunded", "x"), ("charge.updated", "disputed")]
)
def test_what_was_given_back_names_what_it_was_taken_from(
    tmp_path: Path, kind: str, state: str
) -> None:
    """A reversal has its own name, that of the effect, and what was given back."""
    mapped = told(tmp_path, kind, charge={"ref": "R-1", "of": "C-1", "state": state}, total=-990)
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.meaning, mapped.effect) == ("final", "reversed")
    assert (mapped.reference, mapped.reverses, mapped.names) == ("R-1", "C-1", "C-1")
    assert mapped.money == Money(minor=990, currency="EUR")
    match = match_webhook(mapped, account="main", known=["charge:v1:acme:e1"])
    assert match == Matched("charge:v1:acme:e1", MatchedBy.REFERENCE)


def test_a_giving_back_that_came_to_nothing_denies_no_effect(tmp_path: Path) -> None:
    """It names what it was to be taken from, or it means nothing: the effect itself stays."""
    mapped = told(tmp_path, "charge.updated", charge={"ref": "R-1", "of": "C-1", "state": "won"})
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.effect, mapped.reference, mapped.reverses) == ("none", "R-1", "C-1")
    nameless = told(tmp_path, "charge.updated", charge={"ref": "R-1", "state": "won"})
    assert nameless == Unrecognised("malformed_event", "charge.updated")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('effect = "none", of_reversal', 'effect = "exists", of_reversal', "effect is reversed"),
        ('reverses = "charge.of"\n', "", "webhook.reverses says not what was given back"),
        ('"final", effect = "none"', '"progress", effect = "none"', "exists, none or reversed"),
        ('"progress", effect = "pending"', '"final", effect = "pending"', "else pending"),
        ('equals = { "charge.state" = "failed" }, ', "", "are never looked at"),
        ('"charge.updated" = [', '"charge.odd" = []\n"charge.updated" = [', "at least 1"),
        ('effect = "exists"', 'effect = "is there"', "must be 'exists'"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(old: str, new: str, said: str) -> None:
    """Each is told with its reason."""
    text = DESCRIPTION.replace(TYPES, STATES)
    assert not isinstance(parse_description(text), tuple)
    mistakes = parse_description(text.replace(old, new, 1))
    assert isinstance(mistakes, tuple)
    assert any(said in one.message for one in mistakes), mistakes
