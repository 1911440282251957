"""Webhooks of an API that is described: what their bytes mean; any bytes have an answer."""

from pathlib import Path

import orjson
import pytest

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
