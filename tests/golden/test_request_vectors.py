"""The published vectors of the request hash, computed again by our code and by the oracle."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
import rfc8785
from pydantic import ValidationError

from ledger.core import strict_json
from ledger.core.request import Request, canonical_request, hash_canonical, request_hash

VECTORS = json.loads(Path(__file__).with_name("request_vectors.json").read_text(encoding="utf-8"))
ACCEPTED: list[dict[str, str]] = VECTORS["accepted"]
REFUSED: list[dict[str, str]] = VECTORS["refused"]
FILE_SHA256 = "74ae49a07bdb2f3f725d04da5f25ffa5a807a7dd5b37680dd3b0c1d8952f5a36"


def name(vector: dict[str, str]) -> str:
    """What a vector is about, as the id of its test."""
    return vector["name"]


def refusal(raw: bytes) -> str | None:
    """The code under which a text is refused, or None."""
    try:
        Request.model_validate(strict_json.parse(raw))
    except strict_json.MalformedJson as malformed:
        return malformed.code
    except ValidationError as refused:
        (error,) = refused.errors()
        return error["type"]
    return None


@pytest.mark.parametrize("vector", ACCEPTED, ids=name)
def test_accepted_vectors_keep_their_bytes_and_hash(vector: dict[str, str]) -> None:
    """An input once accepted has the same canonical bytes and the same hash for ever."""
    request = Request.model_validate(strict_json.parse(vector["input"].encode()))
    assert canonical_request(request).decode() == vector["canonical"]
    assert request_hash(request) == vector["hash"]


@pytest.mark.parametrize("vector", ACCEPTED, ids=name)
def test_vectors_hold_without_our_code(vector: dict[str, str]) -> None:
    """The oracle and three lines of hashing confirm a vector from its canonical text alone."""
    form = vector["canonical"].encode()
    assert rfc8785.dumps(json.loads(form)) == form
    digest = hashlib.sha256(VECTORS["domain"].encode() + form).hexdigest()
    assert vector["hash"] == f"sha256:{digest}" == hash_canonical(form)


@pytest.mark.parametrize("vector", ACCEPTED, ids=name)
def test_canonical_form_is_its_own_canonical_form(vector: dict[str, str]) -> None:
    """Reading the kept bytes gives the same request, so the log alone proves a hash."""
    form = vector["canonical"].encode()
    assert canonical_request(Request.model_validate(strict_json.parse(form))) == form


@pytest.mark.parametrize("vector", REFUSED, ids=name)
def test_refused_vectors_keep_their_code(vector: dict[str, str]) -> None:
    """An input without a hash is refused under its published name."""
    raw = (
        base64.b64decode(vector["input_base64"])
        if "input_base64" in vector
        else vector["input"].encode()
    )
    assert refusal(raw) == vector["code"]


def test_vectors_are_many_and_distinct() -> None:
    """The file holds enough cases, and equal hashes only where the canonical forms are equal."""
    assert len(ACCEPTED) >= 25
    assert len(REFUSED) >= 20
    by_hash = {vector["hash"]: vector["canonical"] for vector in ACCEPTED}
    assert len(by_hash) == len(set(by_hash.values()))


def test_vectors_were_not_edited() -> None:
    """The published file is frozen: a new vector goes into a new file."""
    raw = Path(__file__).with_name("request_vectors.json").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == FILE_SHA256
