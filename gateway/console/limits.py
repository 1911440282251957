"""Every maximum of the pages, and how they relate.

What a person signs is shown whole or not signed at all: the limits of a sheet say what one person
can still read, far below what the log can hold. Everything that is handed out to be handed back
(a login's challenge, a statement's, a link) lapses by itself.
"""

from typing import Final

SESSION_MS: Final = 15 * 60_000
"""From a log-in to its end, whatever is done meanwhile: a session only reads."""

CHALLENGE_MS: Final = 2 * 60_000
"""From a challenge to its answer, for a log-in and for a decision: longer than any prompt stays."""

LINK_MS: Final = 10 * 60_000
"""A link to register a passkey: as long as it takes to send it to somebody who waits for it."""

FORM_BYTES_MAX: Final = 64 * 1_024
"""One form: an assertion, a statement and a comment."""

FORM_FIELDS_MAX: Final = 16
FORM_MS_MAX: Final = 10_000

COMMENT_CHARS_MAX: Final = 500
"""A person's own words to a decision; a statement holds 1,024."""

REFERENCE_CHARS_MAX: Final = 255
"""What a provider calls an effect; the longest that any is known to use."""

SHEET_ROWS_MAX: Final = 400
"""Values of one payload that a person can be asked to read."""

SHEET_CHARS_MAX: Final = 20_000
"""And characters of it: some eight pages."""

WAITING_ROWS_MAX: Final = 200
"""Entries of one list, the oldest; whoever works them off sees the next."""

EVENTS_MAX: Final = 1_000
"""Facts of one action that a page reads, as the timeline of the HTTP door."""

NOTES_MAX: Final = 12
"""Characters of one text that are named below it; all of them are marked in it."""

READ_MS_MAX: Final = 3_000
"""One page's questions to the read model."""

DECIDED_MS_MAX: Final = 8_000
"""From a signed decision in the log to the ledger's; without one by then the page says so."""

SPENT_KEPT_MS: Final = 60 * 60_000
"""How long it is remembered that a one-time value was spent, or a session ended: above the time of
any of them.
"""

DEVICE_CHARS_MAX: Final = 60
"""What a person calls the device whose passkey they register."""
