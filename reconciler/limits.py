"""Bounds of finding out: webhooks that wait, and what one source may say.

Called by matching, evidence, parking and the processes that run them.
"""

from typing import Final

SOURCE_PART_CHARS_MAX: Final = 128
"""One part of a source id; a longer one is replaced by its SHA-256. Four fit the ledger's texts."""

FURTHER_REFERENCES_MAX: Final = 8
"""Effects under one key that are reported beside the first; two already are a case for a person."""

PARKED_DAYS: Final = 30
PARKED_MS: Final = PARKED_DAYS * 24 * 3_600_000
"""How long a webhook waits for its action. Providers redeliver for days, not weeks."""

SWEEP_ROWS_MAX: Final = 200
"""Parked webhooks matched in one transaction: a sweep goes on until one comes back short."""

ACQUIRE_SECONDS: Final = 5.0
"""How long a connection to Postgres may take to be had before the database counts as away."""

LINE_ID_CHARS_MAX: Final = 200
"""The id of a line of a statement; the way it came is put before it, the hash of a changed line
behind it, and all of it fits an event id."""

CHANGED_HASH_CHARS: Final = 16
"""How much of its hash tells a changed line from the one that bore its id before."""

NOTE_CHARS_MAX: Final = 500
"""An operator's word on an effect that is nobody's."""

FILE_LINE_BYTES_MAX: Final = 64 * 1_024
"""One line of a settlement file; a CSV record with line ends in its quotes counts as one."""

PULL_FIRST_MS: Final = 24 * 3_600_000
"""How far back a provider's list of events is read at the first time."""

PULL_PAGE_MS: Final = 10_000
"""For one page of such a list."""

PULLED_REMEMBERED_MAX: Final = 10_000
"""Events that were brought and may have no row yet. One that is forgotten is a duplicate."""

COMPOSITE_AFTER_MS: Final = 60_000
"""How long a webhook without a mark waits for its reference before a declared composite is asked,
counted from when the tables are known to show all of the ledger: so also how far the clocks of the
broker and of the inquirer may be apart."""

COMPOSITE_BACK_MS: Final = 3 * 24 * 3_600_000
"""How long before its effect an attempt of the action may have begun that a composite names."""

SUGGESTIONS_MAX: Final = 5
"""Actions named to a person as those that a webhook may be about."""

UNMATCHED_ALARM_MS: Final = 3_600_000
"""How long a webhook may be nobody's before that is told: longer than any reference takes."""

UNMATCHED_LOOK_MS: Final = 600_000
"""How often it is looked for."""

COMPARED_AT_ONCE: Final = 500
"""Effects of a provider's list that are asked about in one statement."""

COMPARED_MAX: Final = 1_000_000
"""Effects that one comparison remembers, by a short hash each; more are compared in parts."""

DIFFERENCES_MAX: Final = 1_000
"""Differences that a comparison names one by one; all of them are counted and brought."""

CLOCKS_APART_MS: Final = 60_000
"""How far the provider's clock may be from ours where both tell when an effect was made."""

COMPARE_EVERY_MS: Final = 3_600_000
COMPARE_BACK_MS: Final = 24 * 3_600_000
"""How often a running installation compares by itself, and how far back each time."""

COMPARE_BEHIND_MS: Final = 300_000
"""What is younger is left out then: it may be at work, or not in the tables yet."""

LISTING_PAGE_MS: Final = 30_000
"""For one page of a provider's list."""

WHOLE_LOOK_MS: Final = 10_000
"""How often is looked whether the rows of webhooks are as far as what was handled: they are not
where Postgres was restored."""

MADE_AGAIN_AT_ONCE_MAX: Final = 200
"""Webhooks whose rows are made again as one batch."""
