"""How a description declares the signature of webhooks, and what is said of one that proves less
than it seems to.
"""

import hashlib
import hmac
from pathlib import Path

import pytest

from reconciler.declared_signature import DeclaredHmac
from reconciler.providers import http
from reconciler.providers.http.description import Description
from reconciler.providers.http.mapping import HttpMapping
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.port import MappedWebhook
from reconciler.providers.registry import ProviderSettings, webhook_schemes
from reconciler.schemes import STANDARD, STRIPE, Scheme
from reconciler.webhook_meaning import mapping_hash
from reconciler.webhooks import Verified

TEXT = Path(http.__file__).with_name("example.toml").read_text(encoding="utf-8")
HMAC = 'scheme = "hmac"\nheader = "X-Sig"\nalgorithm = "sha256"\nencoding = "hex"\n'
NOW = 1_800_000_000_000


def described(signature: str) -> str:
    """The example with a table of its signature."""
    table = f"[webhook.signature]\n{signature}\n" if signature else ""
    return TEXT.replace("# Types without a row", f"{table}\n# Types without a row")


def scheme(text: str) -> Scheme:
    """The scheme of a description."""
    read = parse_description(text)
    assert isinstance(read, Description), read
    assert read.webhook is not None
    return read.webhook.scheme


def test_a_description_chooses_its_scheme() -> None:
    """Without a table it is Standard Webhooks; else the one that is named."""
    assert scheme(described("")) is STANDARD
    assert scheme(described('scheme = "standard"')) is STANDARD
    assert scheme(described('scheme = "stripe"')) is STRIPE
    declared = scheme(described(HMAC + 'signed = "{body}"\nprefix = "sha256="\nkeep = ["X-Id"]'))
    assert isinstance(declared, DeclaredHmac)
    assert declared.headers == ("x-sig", "x-id")
    raw = b'{"id":"1"}'
    made = "sha256=" + hmac.new(b"a secret of the bank", raw, hashlib.sha256).hexdigest()
    verdict = declared.verify(raw, {"x-sig": made}, ["a secret of the bank"], NOW)
    assert isinstance(verdict, Verified)


def test_every_key_of_the_table_reaches_the_scheme() -> None:
    """What is written is what is verified by."""
    declared = scheme(
        described(
            'scheme = "hmac"\nheader = "A"\nalgorithm = "sha512"\nencoding = "base64"\n'
            'signed = "{timestamp}:{id}:{body}"\nsecret = "hex"\ntimestamp_header = "B"\n'
            'timestamp_unit = "milliseconds"\ntolerance_seconds = 60\nid_header = "C"\n'
            'separator = " "'
        )
    )
    assert isinstance(declared, DeclaredHmac)
    assert (declared.algorithm, declared.encoding, declared.key_as) == ("sha512", "base64", "hex")
    assert (declared.timestamp_unit, declared.tolerance_ms) == ("milliseconds", 60_000)
    assert (declared.headers, declared.separator) == (("a", "b", "c"), " ")


@pytest.mark.parametrize(
    ("signature", "line", "said"),
    [
        ('scheme = "rsa"', 1, "must be 'standard'"),
        ('scheme = "stripe"\nheader = "X"', 2, "belongs to the scheme hmac"),
        ('scheme = "hmac"', 0, "is missing: the scheme hmac needs it"),
        (HMAC, 0, "is missing: the scheme hmac needs it"),
        (HMAC + 'signed = "{timestamp}.{body}"', 5, "there is no timestamp_header"),
        (HMAC + 'signed = "{body}"\ntimestamp_header = "T"', 6, "anybody could change it"),
        (HMAC + 'signed = "{body}"\nid_header = "T"', 6, "anybody could change it"),
        (HMAC + 'signed = "{timestamp}{body}"\ntimestamp_header = "T"', 5, "needs a character"),
        (HMAC + 'signed = "{b}"', 5, "known are {body}"),
        (HMAC + 'signed = "{body}"\ntolerance_seconds = 9', 6, "needs timestamp_header"),
        (HMAC + 'signed = "{body}"\nkeep = ["a b"]', 6, "must be the name of a header"),
        (HMAC + 'signed = "{id}.{body}"\nid_header = "x-sig"', 0, "one header for two things"),
        (HMAC + 'signed = "{body}"\nprefix = "a,"\nseparator = ","', 7, "stands in prefix too"),
        (HMAC + 'signed = "{body}"\nseparator = "1"', 6, "must be ','"),
        (HMAC + 'signed = "{body}"\nsecrets = "text"', 6, "is not a known key"),
    ],
)
def test_a_signature_that_proves_too_little_is_told_on_its_line(
    signature: str, line: int, said: str
) -> None:
    """Each mistake has its sentence and its line; 0 is the line of the table itself."""
    text = described(signature)
    table = text[: text.index("[webhook.signature]")].count("\n") + 1
    read = parse_description(text)
    assert isinstance(read, tuple)
    told = {one.message: one.line for one in read}
    lines = [at for message, at in told.items() if said in message]
    assert lines, told
    assert lines[0] == table + line


@pytest.mark.case("C069")
def test_c069_an_event_without_an_id_is_named_by_its_bytes(tmp_path: Path) -> None:
    """C069: where a body names no event, the hash of what was signed does."""
    text = described("").replace('event_id = "id"\n', "")
    read = parse_description(text)
    assert isinstance(read, Description)
    path = tmp_path / "bank.toml"
    path.write_text(text, encoding="utf-8")
    settings = [ProviderSettings("bank", "http", "http://127.0.0.1:1", adapter_file=path)]
    assert webhook_schemes(settings) == {"bank": STANDARD}
    mapping = HttpMapping(read.webhook)
    raw = b'{"type":"effect.settled","account":"main","created_at":1,"data":{"effect_id":"e"}}'
    mapped = mapping.map(raw)
    assert isinstance(mapped, MappedWebhook)
    assert mapped.event_id == f"sha256:{hashlib.sha256(raw).hexdigest()}"


def test_another_meaning_is_another_mapping() -> None:
    """Rows name what read them: another type, place or meaning has another hash; another signature
    or another path of the list has the same.
    """

    def hashed(text: str) -> str:
        read = parse_description(text)
        assert isinstance(read, Description), read
        return mapping_hash(HttpMapping(read.webhook))

    assert hashed(TEXT) == hashed(TEXT)
    assert hashed(TEXT) == hashed(described('scheme = "stripe"'))
    assert hashed(TEXT) == hashed(TEXT.replace("interval_seconds = 60", "interval_seconds = 61"))
    taught = TEXT.replace('"effect.refused" = {', '"effect.declined" = {')
    moved = TEXT.replace('reference = "data.effect_id"', 'reference = "data.reference"')
    assert len({hashed(TEXT), hashed(taught), hashed(moved)}) == 3
