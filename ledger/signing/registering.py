"""What a browser is asked for a passkey and what it answers: registering one, and its assertions.

Guarantees that a registered passkey can sign here: an ES256 key, made for this challenge, host and
origin, by an authenticator that verified its person. Attestation is neither asked for nor believed:
who somebody is, is said by whoever hands out the one-time link. Called by the pages.
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_registration_response,
)
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from ledger.core.people import PersonKey
from ledger.core.public_keys import decoded, encoded, passkey_problem
from ledger.core.statement import (
    SIGNED_CHARS_MAX,
    Signable,
    SignedByPasskey,
    statement_bytes,
)
from ledger.signing.passkeys import Assertion

CREDENTIAL_CHARS_MAX: Final = 64 * 1_024
"""What a browser answers, as JSON."""

_ALGORITHMS: Final = [COSEAlgorithmIdentifier.ECDSA_SHA_256]
_USER_DOMAIN: Final = "actionledger.user.v1\n"
_Encoded = Annotated[str, Field(max_length=SIGNED_CHARS_MAX)]


class NotRegistered(StrEnum):
    """Why an answer makes no passkey."""

    REGISTRATION_INVALID = "registration_invalid"
    PASSKEY_UNSUPPORTED = "passkey_unsupported"


class _Browsers(BaseModel):
    """A part of what a browser says; it may say more, and later versions of it will."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Response(_Browsers):
    client_data: _Encoded = Field(alias="clientDataJSON")
    authenticator_data: _Encoded = Field(alias="authenticatorData")
    signature: _Encoded


class _Credential(_Browsers):
    id: _Encoded
    response: _Response


def registration_options(
    *, ledger: str, rp_id: str, person: str, challenge: bytes, known: tuple[PersonKey, ...]
) -> str:
    """The JSON for `PublicKeyCredential.parseCreationOptionsFromJSON`.

    `known` are the person's passkeys: an authenticator that has one of them makes no second.
    """
    user = hashlib.sha256(f"{_USER_DOMAIN}{ledger}\n{person}".encode()).digest()
    return options_to_json(
        generate_registration_options(
            rp_id=rp_id,
            rp_name="Action Ledger",
            user_name=person,
            user_id=user,
            challenge=challenge,
            exclude_credentials=_descriptors(known),
            supported_pub_key_algs=_ALGORITHMS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
        )
    )


def authentication_options(
    *, rp_id: str, challenge: bytes, known: tuple[PersonKey, ...] = ()
) -> str:
    """The JSON for `PublicKeyCredential.parseRequestOptionsFromJSON`; without `known` the person
    chooses among the passkeys that the browser has for this host.
    """
    return options_to_json(
        generate_authentication_options(
            rp_id=rp_id,
            challenge=challenge,
            allow_credentials=_descriptors(known),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
    )


def read_registration(
    text: str, *, challenge: bytes, rp_id: str, origin: str
) -> PersonKey | NotRegistered:
    """The key to register, from what `PublicKeyCredential.toJSON()` gave. Any text has an
    answer.
    """
    if len(text) > CREDENTIAL_CHARS_MAX:
        return NotRegistered.REGISTRATION_INVALID
    try:
        verified = verify_registration_response(
            credential=text,
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=origin,
            require_user_verification=True,
            supported_pub_key_algs=_ALGORITHMS,
        )
    # The library names what it thought of; the rest are complaints of its parsers about bytes.
    except (WebAuthnException, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return NotRegistered.REGISTRATION_INVALID
    public = encoded(verified.credential_public_key)
    if passkey_problem(public) is not None:
        return NotRegistered.PASSKEY_UNSUPPORTED
    key_id = encoded(verified.credential_id)
    return PersonKey(id=key_id, kind="passkey", public=public, rp_id=rp_id, origin=origin)


def read_assertion(text: str) -> Assertion | None:
    """What a passkey signed, from what `PublicKeyCredential.toJSON()` gave; None for other text."""
    if len(text) > CREDENTIAL_CHARS_MAX:
        return None
    try:
        said = _Credential.model_validate_json(text)
    except ValidationError:
        return None
    answer = said.response
    return Assertion(said.id, answer.authenticator_data, answer.client_data, answer.signature)


def signed_by(assertion: Assertion, statement: Signable) -> SignedByPasskey:
    """An assertion beside the statement it was asked for; `read_signed` says what it proves."""
    return SignedByPasskey(
        statement=statement_bytes(statement).decode(),
        credential_id=assertion.credential_id,
        authenticator_data=assertion.authenticator_data,
        client_data=assertion.client_data,
        signature=assertion.signature,
    )


def _descriptors(keys: tuple[PersonKey, ...]) -> list[PublicKeyCredentialDescriptor]:
    raw = (decoded(key.id) for key in keys if key.kind == "passkey")
    return [PublicKeyCredentialDescriptor(id=one) for one in raw if one is not None]
