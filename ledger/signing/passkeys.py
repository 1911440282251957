"""Passkeys: what an authenticator signed, checked against the registered key, host and origin.

Guarantees that an assertion counts only for the challenge it was made for, where its person was
present and verified by the authenticator. Relies on no counter: synced passkeys have none. Must
never ask anything but its arguments. Called when decisions are read, and by the pages' log-in.

The library is loaded with the first assertion: most processes never meet one, and each would start
a tenth later.
"""

from dataclasses import dataclass
from typing import Final

from ledger.core.people import PersonKey
from ledger.core.public_keys import decoded

# The hash of the host, a byte of flags, four of a counter. An assertion asks for no extension, so
# whatever followed would be bytes that nobody looks at.
_AUTHENTICATOR_DATA_BYTES: Final = 32 + 1 + 4


@dataclass(frozen=True, slots=True)
class Assertion:
    """What `navigator.credentials.get` gives, each part in base64url without padding."""

    credential_id: str
    authenticator_data: str
    client_data: str
    signature: str


def asserts(assertion: Assertion, challenge: bytes, key: PersonKey) -> bool:
    """Whether a passkey signed exactly this challenge, at its own host and origin, for a person who
    was verified.
    """
    credential_id, data, client_data, signature = map(
        decoded,
        (
            assertion.credential_id,
            assertion.authenticator_data,
            assertion.client_data,
            assertion.signature,
        ),
    )
    public = decoded(key.public)
    if not (credential_id and data and client_data and signature and public):
        return False
    if key.rp_id is None or key.origin is None or assertion.credential_id != key.id:
        return False
    if len(data) != _AUTHENTICATOR_DATA_BYTES or not _is_of_its_own_page(client_data):
        return False
    from webauthn import verify_authentication_response  # noqa: PLC0415 - see the module
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415
    from webauthn.helpers.structs import (  # noqa: PLC0415
        AuthenticationCredential,
        AuthenticatorAssertionResponse,
    )

    try:
        verify_authentication_response(
            credential=AuthenticationCredential(
                id=assertion.credential_id,
                raw_id=credential_id,
                response=AuthenticatorAssertionResponse(client_data, data, signature),
            ),
            expected_challenge=challenge,
            expected_rp_id=key.rp_id,
            expected_origin=key.origin,
            credential_public_key=public,
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except WebAuthnException:
        return False
    return True


def _is_of_its_own_page(client_data: bytes) -> bool:
    """Whether the browser says that the page which asked was not framed by a foreign one."""
    from webauthn.helpers import parse_client_data_json  # noqa: PLC0415 - see the module
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415

    try:
        return not parse_client_data_json(client_data).cross_origin
    # The reader leaves what is no JSON of the right shape to the interpreter's own complaints.
    except (WebAuthnException, ValueError, TypeError, AttributeError, RecursionError):
        return False
