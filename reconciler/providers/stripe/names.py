"""The names that we write at Stripe and the version that we speak: what adapter and simulated
server agree on, as Stripe's documentation has it.

Holds no behaviour.
"""

from typing import Final

VERSION: Final = "2026-10-28.endive"
"""The version of the API that every request names, so that a change of the account's own default
changes nothing here (docs.stripe.com/api/versioning)."""

USER_AGENT: Final = "actionledger"
"""Who asks; of the machine it asks from nothing is told."""

KEY_HEADER: Final = "Idempotency-Key"
KEY_CHARS_MAX: Final = 255
"""docs.stripe.com/api/idempotent_requests"""

KEY_WINDOW_MS: Final = 24 * 3_600_000
"""Keys are kept for at least 24 hours (docs.stripe.com/api/idempotent_requests)."""

ACTION_KEY: Final = "actionledger_action_key"
REQUEST_HASH: Final = "actionledger_request_hash"
PROVIDER_KEY: Final = "actionledger_provider_key"
ACCOUNT: Final = "actionledger_account"
OPERATION: Final = "actionledger_operation"
OURS: Final = (ACTION_KEY, REQUEST_HASH, PROVIDER_KEY, ACCOUNT, OPERATION)
"""What we write into the metadata of every object, in the request that makes it. The action key
has at most 462 characters, and a value of metadata 500 (docs.stripe.com/api/metadata)."""

METADATA_ENTRIES_MAX: Final = 50
METADATA_NAME_CHARS_MAX: Final = 40
METADATA_VALUE_CHARS_MAX: Final = 500
"""docs.stripe.com/api/metadata"""

PAGE_MAX: Final = 100
"""Objects of one page of a list or search (docs.stripe.com/api/pagination)."""

PAYMENTS: Final = "/v1/payment_intents"
REFUNDS: Final = "/v1/refunds"
CHARGES: Final = "/v1/charges"
EVENTS: Final = "/v1/events"
