"""The names of the processes; apart from what runs them, which takes long to load."""

from enum import StrEnum


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
