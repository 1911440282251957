"""`python -m reconciler.providers.stripe.simulated`: one simulated Stripe until it is told to stop.

Guarantees nothing of its own: `running` runs it.
"""

import sys
from pathlib import Path
from typing import Final

from reconciler.providers.simulated.running import main
from reconciler.providers.simulated.server import ServerSettings
from reconciler.providers.stripe.simulated.server import SimulatedStripe

_PROG: Final = "python -m reconciler.providers.stripe.simulated"
_DESCRIPTION: Final = "A Stripe with a book on disk and faults on demand."


def _build(folder: Path, seed: int, webhook_retry_ms: int) -> SimulatedStripe:
    return SimulatedStripe(ServerSettings(folder, seed, webhook_retry_ms))


if __name__ == "__main__":
    sys.exit(main(_PROG, _DESCRIPTION, _build))
