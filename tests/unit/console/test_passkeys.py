"""What a link to register a passkey may bring: a passkey of these pages, and nothing else."""

import pytest

from gateway.passkeys import fingerprint, made_here
from ledger.core.people import PersonKey
from tests import asking
from tests.passkeys import ORIGIN, SoftwarePasskey

MADE = SoftwarePasskey.of(1).registered()


def test_a_passkey_of_these_pages_is_registered_bare() -> None:
    """Whatever else was put beside it is left out."""
    known = MADE.model_copy(update={"not_after": 5, "revoked": True})
    assert made_here(known, ORIGIN) == MADE


@pytest.mark.parametrize(
    "key",
    [
        PersonKey(id=asking.KEYS["ada"].id, kind="ed25519", public=asking.KEYS["ada"].public),
        SoftwarePasskey.of(1, origin="https://evil.example").registered(),
        SoftwarePasskey.of(1, rp_id="evil.example").registered(),
        MADE.model_copy(update={"kind": "ed25519"}),
    ],
)
def test_anything_else_is_none(key: PersonKey) -> None:
    """Not a key that signs elsewhere, nor one that signs without a browser."""
    assert made_here(key, ORIGIN) is None


def test_two_keys_have_two_fingerprints() -> None:
    """It follows from the public half, in eight groups that two people can read out."""
    other = SoftwarePasskey.of(2).registered()
    assert fingerprint(MADE) != fingerprint(other)
    assert [len(group) for group in fingerprint(MADE)] == [4] * 8
