"""Bounds of telling people, and how they relate.

A message is tried for about an hour, longer than most services are away; what it says may be over
by then, which is looked at before every try. Called by what sends and what reads the settings.
"""

from typing import Final

DESTINATIONS_MAX: Final = 256
DOCUMENT_BYTES_MAX: Final = 128 * 1_024
NAMES_MAX: Final = 64
SECRET_BYTES_MAX: Final = 8 * 1_024
ADDRESS_CHARS_MAX: Final = 254

QUIET_MS: Final = 60_000
"""Between two messages to one destination: what comes meanwhile goes into the next, together."""

LOOK_MS: Final = 1_000
"""How often what waits is looked at when nothing says that something came."""

SHOWN_MAX: Final = 20
"""Actions that one message names; of more it says how many there are."""

MESSAGE_ROWS_MAX: Final = 500
"""Notices that one message answers for. What is beyond goes into the next."""

SEND_MS: Final = 15_000
"""How long one try may take in all."""

LEASE_MS: Final = 60_000
"""For how long a try is one process's own: well beyond SEND_MS. If it dies, another tries then."""

TRIES_MAX: Final = 10
TRY_AGAIN_FIRST_MS: Final = 5_000
TRY_AGAIN_MAX_MS: Final = 900_000
"""Doubled from try to try: ten of them span about an hour."""

KEPT_MS: Final = 30 * 24 * 3_600_000
"""How long what was told, or given up, is kept for whoever asks."""

PEOPLE_READ_MS: Final = 10_000
"""How old the document of people may be by which is decided whom to tell."""
