"""How long tests wait for what must come.

Only a fault lasts so long, however busy the machine is: no test depends on it, and none takes
longer by it. A wait that is itself the case, such as a deadline that shall pass, has a figure of
its own.
"""

from typing import Final

PATIENCE_SECONDS: Final = 120.0
"""Less than half of what a whole test may take."""

PATIENCE_MS: Final = int(PATIENCE_SECONDS * 1_000)

CAMPAIGN_SECONDS: Final = 900.0
"""What a test may take that starts, strikes or measures whole installations."""
