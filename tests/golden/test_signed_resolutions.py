"""What settled a case once is proven for ever, byte for byte."""

import json
from pathlib import Path

from ledger.core.statement import Resolution, SignedByKey, statement_bytes, statement_hash
from ledger.signing.keys import sign
from ledger.signing.reading import Read, read_signed
from tests.unit.signing.decisions import ADA_KEY, PEOPLE

KEPT: dict[str, str] = json.loads(
    Path(__file__).with_name("signed_resolutions.json").read_text(encoding="utf-8")
)
RESOLUTION = Resolution.model_validate_json(KEPT["resolution"])


def test_a_kept_resolution_is_proven() -> None:
    """The bytes in the log settle the same case as on the day they were signed."""
    read = read_signed(SignedByKey(jws=KEPT["jws"]), PEOPLE)
    assert read == Read(RESOLUTION, "ada", ADA_KEY.id)


def test_the_same_is_signed_today() -> None:
    """Text, hash and token come out as they were kept."""
    assert statement_bytes(RESOLUTION).decode() == KEPT["resolution"]
    assert statement_hash(RESOLUTION).hex() == KEPT["resolution_hash"]
    assert sign(RESOLUTION, ADA_KEY).jws == KEPT["jws"]
