"""Bounds of everything that goes to a provider or comes back from one, and how they relate.

An answer is read whole before it is judged, so `ANSWER_BYTES_MAX` is also what one call can cost in
memory; times `CONNECTIONS_MAX` it bounds a client. Called by the exchange, the adapters and the
webhook verification.
"""

from typing import Final

REQUEST_BYTES_MAX: Final = 128 * 1024
"""Twice the largest intent: its parameters, our metadata and the JSON around both."""

ANSWER_BYTES_MAX: Final = 256 * 1024
ANSWER_HEADER_BYTES_MAX: Final = 32 * 1024
INTERIM_ANSWERS_MAX: Final = 8
"""1xx answers before the real one; more is a provider that never answers."""

RECIPIENTS_MAX: Final = 100
"""Of one e-mail: every server has to take as many (RFC 5321, 4.5.3.1.8)."""
MAIL_CONNECTIONS_MAX: Final = 16
"""Each has a thread of its own."""

ROWS_MAX: Final = 1_000
"""That one action may change in a database: more is a migration, not an action."""
RESULT_MEMBERS_MAX: Final = 32
DATABASE_CONNECTIONS_MAX: Final = 16

CONNECTIONS_MAX: Final = 64
IDLE_CONNECTIONS_MAX: Final = 32
IDLE_MS_MAX: Final = 4_000
"""Shorter than common servers keep a quiet connection (5 s and more), so that a call rarely meets
one that is just being closed: after the first byte that is an unresolved outcome."""

RETRY_AFTER_MS_MAX: Final = 3_600_000
CODE_CHARS_MAX: Final = 64
REFERENCE_CHARS_MAX: Final = 255
FURTHER_REFERENCES_MAX: Final = 20

LIST_PAGE_EFFECTS_MAX: Final = 100
LIST_PAGES_MAX: Final = 10_000

WEBHOOK_ID_CHARS_MAX: Final = 256
WEBHOOK_SIGNATURES_MAX: Final = 16
"""Signatures in one header: two during a rotation; the rest is room."""

DESCRIPTION_BYTES_MAX: Final = 128 * 1024
DESCRIPTION_ENTRIES_MAX: Final = 128
"""Entries of one table in a described adapter: operations, headers, rows, event types."""
DESCRIBED_BODY_DEPTH_MAX: Final = 16
CURSOR_CHARS_MAX: Final = 4_096
"""What names the next page of a list. Some hold all that was asked for, signed or packed."""
LOOKUP_EFFECTS_MAX: Final = 1_000
"""Effects in one answer of a search or page; more cannot be an answer about one action."""

CREDENTIAL_BYTES_MAX: Final = 8 * 1_024
"""A credential of one account; tokens of two kilobytes are common."""
