"""The names of the processes; apart from what runs them, which takes long to load."""

from enum import StrEnum
from typing import Final

NICENESS_OF_FOLLOWERS: Final = 5


class Process(StrEnum):
    """Every process of an installation. The first two are steps, which end with their work."""

    PERMISSIONS = "permissions"
    SETUP = "setup"
    PROCESSOR = "processor"
    EXECUTOR = "executor"
    INQUIRER = "inquirer"
    RECONCILER = "reconciler"
    PROJECTOR = "projector"
    GATEWAY = "gateway"
    SIMULATED_PROVIDER = "simulated-provider"

    @property
    def module(self) -> str:
        """The module whose `run(settings, life)` is this process."""
        return f"gateway.wiring.run_{self.value.replace('-', '_')}"

    @property
    def niceness(self) -> int:
        """How much it gives way to the others where all share a machine: nobody who asks for an
        action waits for what follows the ledger. A webhook settles what somebody waits for, so the
        reconciler gives way to nobody: one that did waited for a processor longer than it worked.
        """
        follows = {Process.INQUIRER, Process.PROJECTOR}
        return NICENESS_OF_FOLLOWERS if self in follows else 0
