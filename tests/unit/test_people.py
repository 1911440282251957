"""Who may decide: what a document of people says, and every mistake with its line."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ledger.core.people import (
    NOBODY,
    NotReplacing,
    People,
    Person,
    objection_to_people,
    parse_people,
    people_hash,
)
from ledger.core.public_keys import encoded, thumbprint


def _ed25519(seed: int) -> str:
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).public_key()
    return encoded(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _es256(secret: int) -> str:
    numbers = ec.derive_private_key(secret, ec.SECP256R1()).public_key().public_numbers()
    x, y = numbers.x.to_bytes(32), numbers.y.to_bytes(32)
    return encoded(bytes.fromhex("a5010203262001215820") + x + bytes.fromhex("225820") + y)


ADA, BEN = _ed25519(1), _ed25519(2)
PASSKEY = _es256(7)
DOCUMENT = f"""\
[[person]]
name = "ada"
groups = ["finance", "on-call"]
tenants = ["acme"]
principals = ["user:ada"]

[[person.keys]]
id = "{thumbprint(ADA)}"
kind = "ed25519"
public = "{ADA}"

[[person.keys]]
id = "Y3JlZGVudGlhbA"
kind = "passkey"
public = "{PASSKEY}"
rp_id = "ledger.example"
origin = "https://console.ledger.example:8443"
not_after = 1800000000000
revoked = true

[[person]]
name = "ben"
tenants = ["*"]
revoked = true
"""


def read(text: str) -> People:
    """The people of a text that has no mistake."""
    people = parse_people(text)
    assert isinstance(people, People), people
    return people


def mistakes(text: str) -> list[str]:
    """What is wrong with a text, as it is told."""
    found = parse_people(text)
    assert not isinstance(found, People)
    return [str(one) for one in found]


def test_a_document_says_who_may_decide() -> None:
    """People, what they may decide for, and their keys are read as they are written."""
    people = read(DOCUMENT)
    found = people.person_of(thumbprint(ADA))
    assert found is not None
    person, key = found
    assert (person.name, key.kind, key.public) == ("ada", "ed25519", ADA)
    assert person.may_decide_for("acme")
    assert not person.may_decide_for("other")
    assert person.is_in_one_of(())
    assert person.is_in_one_of(("legal", "finance"))
    assert not person.is_in_one_of(("legal",))
    assert person.asks_as("ada")
    assert person.asks_as("user:ada")
    assert not person.asks_as("user:ben")
    assert people.person_of("nobody's") is None
    assert people.content_hash == people_hash(DOCUMENT)
    passkey = people.person_of("Y3JlZGVudGlhbA")
    assert passkey is not None
    assert passkey[1].revoked
    assert passkey[1].not_after == 1_800_000_000_000


def test_a_revoked_person_may_decide_for_nobody() -> None:
    """Who was revoked stays known by name and may decide nothing, whatever the tenants say."""
    ben = read(DOCUMENT).person("ben")
    assert ben is not None
    assert not ben.may_decide_for("acme")
    assert ben.model_copy(update={"revoked": False}).may_decide_for("acme")


def test_two_people_have_two_names() -> None:
    """Family appr: two that one reads as the same would be one person's two of four eyes. Who was
    revoked may come back under another spelling.
    """
    two = DOCUMENT.replace('name = "ben"', 'name = "Ada"')
    assert read(two).person("Ada") is not None
    (told,) = mistakes(two.removesuffix("revoked = true\n"))
    assert told.startswith("line 22: person[1].name differs from ada by large and small letters")


def test_a_text_without_people_lets_nobody_decide() -> None:
    """Before anybody was registered there is nobody, and an empty text says the same."""
    assert read("") == NOBODY


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "ada"', 'nome = "ada"', "line 2: person[0].nome is not a known key here; did you"),
        ('name = "ben"', 'name = "ada"', "line 22: person[1].name ada is there twice"),
        ('name = "ben"', 'name = "b n"', "line 22: person[1].name is refused: it is not a comp"),
        ('["finance", "on-call"]', '["finance", "finance"]', "line 3: person[0].groups names one"),
        ('["acme"]', "[]", "line 4: person[0].tenants must name tenants"),
        ('["acme"]', '["*", "acme"]', "line 4: person[0].tenants holds *, which is all of them"),
        ('["acme"]', '["a/b"]', "line 4: person[0].tenants[0] is refused: it is not a component"),
        ('["user:ada"]', '[" "]', "line 5: person[0].principals[0] is refused: it begins or ends"),
        ('id = "Y3JlZGVudGlhbA"', 'id = "Y3JlZGVudGlhbB"', "line 13: person[0].keys[1].id must be"),
        (ADA, ADA[:-1], "line 10: person[0].keys[0].public must be 32 bytes"),
        (ADA, BEN, "line 8: person[0].keys[0].id must be the thumbprint of the key"),
        (ADA, "A" * 43, "line 10: person[0].keys[0].public is no Ed25519 public key"),
        (PASSKEY, PASSKEY[:-2] + "AA", "line 15: person[0].keys[1].public is no ES256 public key"),
        (PASSKEY, ADA, "line 15: person[0].keys[1].public must be 77 bytes of COSE"),
        ('rp_id = "ledger.example"\n', "", "line 12: person[0].keys[1].rp_id must be the name"),
        ("https://console", "http://console", "line 17: person[0].keys[1].origin must be https"),
        ("console.ledger.example", "evilledger.example", "line 17: person[0].keys[1].origin is no"),
        ('"passkey"', '"rsa"', "line 14: person[0].keys[1].kind must be 'ed25519' or 'passkey'"),
        ("revoked = true\n\n", 'revoked = "yes"\n\n', "line 19: person[0].keys[1].revoked must be"),
        ('[[person]]\nname = "ada', '[person]\nname = "ada', "line 21: This is not TOML"),
    ],
)  # fmt: skip
def test_every_mistake_has_its_line(old: str, new: str, said: str) -> None:
    """A document with a mistake is refused whole, and the mistake is named where it stands."""
    changed = DOCUMENT.replace(old, new, 1)
    assert changed != DOCUMENT
    assert any(one.startswith(said) for one in mistakes(changed)), mistakes(changed)


def test_a_key_belongs_to_one_person() -> None:
    """The same key under two people would let one of them decide as two."""
    twice = f"""
[[person.keys]]
id = "{thumbprint(ADA)}"
kind = "ed25519"
public = "{ADA}"
"""
    assert mistakes(DOCUMENT + twice) == [
        "line 27: person[1].keys[0].id is that of another key of ada",
        "line 29: person[1].keys[0].public is that of another key of ada",
    ]


def test_a_document_says_which_one_it_replaces() -> None:
    """Of two operators who edit the same document at once the second one is told."""
    first = read(DOCUMENT)
    assert objection_to_people(first, NOBODY) is None
    assert objection_to_people(first, first) is None
    second = read(f'replaces = "{first.content_hash}"\n{DOCUMENT}')
    assert objection_to_people(second, first) is None
    assert objection_to_people(second, second) is None
    other = read(f'replaces = "{first.content_hash}"\n# another operator\n{DOCUMENT}')
    assert objection_to_people(other, second) is NotReplacing.REPLACES_ANOTHER
    assert objection_to_people(first, second) is NotReplacing.REPLACES_NOTHING
    assert objection_to_people(second, NOBODY) is NotReplacing.REPLACES_ANOTHER
    assert mistakes('replaces = "1"\n') == [
        "line 1: replaces must be the hash of the document before: sha256:…"
    ]


@pytest.mark.parametrize("text", ["", "*", "\x00", "a\x00", "a/b", "a" * 4_000])
def test_what_names_no_tenant_is_nobodys(text: str) -> None:
    """Also where somebody decides for every tenant."""
    assert not Person(name="cy", tenants=("*",)).may_decide_for(text)
