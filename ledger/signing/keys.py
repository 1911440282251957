"""A person's own key: made, kept encrypted under a passphrase, used to sign.

Guarantees that the private half leaves this module only encrypted: PKCS #8 under scrypt, slow and
costly enough that a stolen file with a fair passphrase is not an open one. Must never log or show
it. Called by the command line; verifying needs none of this.
"""

import secrets
import unicodedata
from base64 import b64encode
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from ledger.core.errors import LedgerError
from ledger.core.public_keys import encoded, thumbprint
from ledger.core.statement import Resolution, Signable, SignedByKey, statement_bytes
from ledger.signing import jws

PASSPHRASE_CHARS_MIN: Final = 12
_DRAWS_MAX: Final = 64
_SCRYPT_N: Final = 2**17
_SCRYPT_R: Final = 8
_BLOCK_BITS: Final = 128
_LINE_CHARS: Final = 64

# The object identifiers of RFC 8018 (PBES2), RFC 7914 (scrypt) and AES-256 in CBC mode.
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
_AES_256_CBC: Final = bytes.fromhex("060960864801650304012a")
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_SHORT_LENGTH_MAX: Final = 0x7F


class UnusableKeyError(LedgerError):
    """A file is no private key of a person, or the passphrase is not the one of this file."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private half of a person's key. `public` is what an operator registers, `id` names it."""

    _private: Ed25519PrivateKey = field(repr=False)
    public: str
    id: str

    @classmethod
    def of(cls, private: Ed25519PrivateKey) -> Self:
        """The key with its public half and its name."""
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        public = encoded(raw)
        return cls(private, public, thumbprint(public))

    def token(self, payload: bytes, typ: str) -> str:
        """A compact JWS of a type over a payload."""
        return jws.signed(payload, typ, self._private, self.id)


def sign(statement: Signable, key: SigningKey) -> SignedByKey:
    """A decision, or what settles a case, as the person's key proves it. Equal statements give
    equal texts.
    """
    typ = jws.RESOLUTION if isinstance(statement, Resolution) else jws.APPROVAL
    return SignedByKey(jws=key.token(statement_bytes(statement), typ))


def new_key(passphrase: str) -> tuple[bytes, SigningKey]:
    """A new key: its file, encrypted, and itself. Takes part of a second and 128 MiB for a moment,
    as each guess does.

    Raises UnusableKeyError for a passphrase of fewer than PASSPHRASE_CHARS_MIN characters.
    """
    if len(passphrase) < PASSPHRASE_CHARS_MIN:
        raise UnusableKeyError(
            "The passphrase is too short.",
            hint=f"Use at least {PASSPHRASE_CHARS_MIN} characters; a few words are good.",
        )
    private = _drawn()
    return _encrypted(private, passphrase), SigningKey.of(private)


def _drawn() -> Ed25519PrivateKey:
    """A key at random, whose public half and name no command line takes for an option."""
    for _ in range(_DRAWS_MAX):
        private = Ed25519PrivateKey.generate()
        key = SigningKey.of(private)
        if not key.public.startswith("-") and not key.id.startswith("-"):
            return private
    raise UnusableKeyError("No key was drawn.", hint="Run the command again.")


def load_key(pem: bytes, passphrase: str) -> SigningKey:
    """The key of a file that `new_key` made. Raises UnusableKeyError."""
    try:
        private = load_pem_private_key(pem, _as_bytes(passphrase))
    except TypeError:
        raise UnusableKeyError(
            "The key is not encrypted.",
            hint="Whoever read this file can decide in this name: have the key revoked, and make "
            "another with `actionledger people key new`.",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableKeyError(
            "The passphrase is wrong, or the file is no key.",
            hint="Try again. A forgotten passphrase cannot be found out: make another key, and "
            "have the old one revoked.",
        ) from None
    if not isinstance(private, Ed25519PrivateKey):
        raise UnusableKeyError(
            "The key is of another kind than Ed25519.",
            hint="Make one with `actionledger people key new`.",
        )
    return SigningKey.of(private)


def _as_bytes(passphrase: str) -> bytes:
    """The same bytes for what looks the same, whichever keyboard wrote it."""
    return unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")


def _encrypted(private: Ed25519PrivateKey, passphrase: str) -> bytes:
    """The key as encrypted PKCS #8 in PEM.

    Written here and not by `cryptography`, which stretches a passphrase by 2,048 rounds of PBKDF2
    and takes no other number (decision 0019); it reads what this writes.
    """
    plain = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    salt, iv = secrets.token_bytes(16), secrets.token_bytes(16)
    key = Scrypt(salt=salt, length=32, n=_SCRYPT_N, r=_SCRYPT_R, p=1).derive(_as_bytes(passphrase))
    padder = PKCS7(_BLOCK_BITS).padder()
    encryptor = Cipher(AES(key), CBC(iv)).encryptor()
    secret = encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()
    stretching = _der(
        _SEQUENCE,
        _SCRYPT,
        _der(
            _SEQUENCE,
            _der(_OCTETS, salt),
            *(_der(_INTEGER, _integer(number)) for number in (_SCRYPT_N, _SCRYPT_R, 1)),
        ),
    )
    cipher = _der(_SEQUENCE, _AES_256_CBC, _der(_OCTETS, iv))
    scheme = _der(_SEQUENCE, _PBES2, _der(_SEQUENCE, stretching, cipher))
    document = b64encode(_der(_SEQUENCE, scheme, _der(_OCTETS, secret))).decode()
    name = "ENCRYPTED PRIVATE KEY"
    lines = [f"-----BEGIN {name}-----", *wrap(document, _LINE_CHARS), f"-----END {name}-----", ""]
    return "\n".join(lines).encode()


def _der(tag: int, *parts: bytes) -> bytes:
    """A DER value; all that a key needs is shorter than 256 bytes."""
    content = b"".join(parts)
    length = len(content)
    return bytes([tag, length] if length <= _SHORT_LENGTH_MAX else [tag, 0x81, length]) + content


def _integer(number: int) -> bytes:
    """A positive integer, with room for its sign."""
    return number.to_bytes(number.bit_length() // 8 + 1)
