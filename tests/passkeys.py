"""A passkey in software: what a browser and an authenticator do together, without either.

It signs as the standard says, with flags, host and origin that a test may set wrong. Used by tests
of signatures, of the pages and of what an adversary can do; never shipped.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from ledger.core.people import PersonKey
from ledger.core.public_keys import encoded
from ledger.core.statement import (
    Signable,
    SignedByPasskey,
    statement_bytes,
    statement_hash,
)

RP_ID = "localhost"
ORIGIN = "http://localhost:8080"

USER_PRESENT = 0x01
USER_VERIFIED = 0x04
HAS_CREDENTIAL = 0x40


@dataclass(frozen=True)
class SoftwarePasskey:
    """One credential of one person for one host, ES256, without attestation.

    `seed` makes it: equal seeds are the same key.
    """

    private: ec.EllipticCurvePrivateKey
    credential_id: bytes
    rp_id: str = RP_ID
    origin: str = ORIGIN

    @classmethod
    def of(cls, seed: int, *, rp_id: str = RP_ID, origin: str = ORIGIN) -> Self:
        """The passkey of a seed from 1."""
        private = ec.derive_private_key(seed, ec.SECP256R1())
        return cls(private, hashlib.sha256(f"credential {seed}".encode()).digest(), rp_id, origin)

    @property
    def id(self) -> str:
        """The credential's id as it is registered and sent."""
        return encoded(self.credential_id)

    @property
    def cose(self) -> bytes:
        """The public half as an authenticator gives it."""
        numbers = self.private.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32), numbers.y.to_bytes(32)
        return bytes.fromhex("a5010203262001215820") + x + bytes.fromhex("225820") + y

    @property
    def public(self) -> str:
        """The public half as it is registered."""
        return encoded(self.cose)

    def registered(self) -> PersonKey:
        """The key as the document of people holds it."""
        return PersonKey(
            id=self.id, kind="passkey", public=self.public, rp_id=self.rp_id, origin=self.origin
        )

    def client_data(self, challenge: bytes, *, kind: str = "webauthn.get", **more: object) -> bytes:
        """What the browser says; `more` replaces or adds members."""
        said = {
            "type": kind,
            "challenge": encoded(challenge),
            "origin": self.origin,
            "crossOrigin": False,
        }
        return json.dumps(said | more, separators=(",", ":")).encode()

    def authenticator_data(
        self, *, flags: int = USER_PRESENT | USER_VERIFIED, counter: int = 0
    ) -> bytes:
        """What the authenticator says of itself: for which host, and who was there."""
        host = hashlib.sha256(self.rp_id.encode()).digest()
        return host + bytes([flags]) + counter.to_bytes(4)

    def signature(self, data: bytes, client_data: bytes) -> bytes:
        """The signature over both."""
        signed = data + hashlib.sha256(client_data).digest()
        return self.private.sign(signed, ec.ECDSA(SHA256()))

    def sign(self, statement: Signable) -> SignedByPasskey:
        """A decision as a browser sends it."""
        data = self.authenticator_data()
        client_data = self.client_data(statement_hash(statement))
        return SignedByPasskey(
            statement=statement_bytes(statement).decode(),
            credential_id=self.id,
            authenticator_data=encoded(data),
            client_data=encoded(client_data),
            signature=encoded(self.signature(data, client_data)),
        )

    def assertion_json(self, challenge: bytes) -> str:
        """What `PublicKeyCredential.toJSON()` gives after `navigator.credentials.get`."""
        data, client_data = self.authenticator_data(), self.client_data(challenge)
        response = {
            "clientDataJSON": encoded(client_data),
            "authenticatorData": encoded(data),
            "signature": encoded(self.signature(data, client_data)),
        }
        return self._credential(response)

    def registration_json(
        self, challenge: bytes, *, flags: int = USER_PRESENT | USER_VERIFIED
    ) -> str:
        """What `PublicKeyCredential.toJSON()` gives after `navigator.credentials.create`."""
        data = self.authenticator_data(flags=flags | HAS_CREDENTIAL)
        length = len(self.credential_id).to_bytes(2)
        data += bytes(16) + length + self.credential_id + self.cose
        # CBOR of three members: the format none, an empty statement, the authenticator's data.
        attestation = (
            b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58" + bytes([len(data)]) + data
        )
        response = {
            "clientDataJSON": encoded(self.client_data(challenge, kind="webauthn.create")),
            "attestationObject": encoded(attestation),
            "transports": ["internal"],
        }
        return self._credential(response)

    def _credential(self, response: Mapping[str, object]) -> str:
        return json.dumps(
            {
                "id": self.id,
                "rawId": self.id,
                "type": "public-key",
                "response": response,
                "clientExtensionResults": {},
            }
        )
