"""The configuration that a decision may depend on: only what has been adopted in the partition's
own log.

`Config` is immutable and built once a version. `AUTOMATIC` is the named bootstrap policy: every
declared operation goes ahead by itself.
"""

import hashlib
from dataclasses import dataclass

from ledger.core.catalogue import Catalogue, Operation, Timing

AUTOMATIC_POLICY = "automatic"
AUTOMATIC_POLICY_HASH = (
    "sha256:"
    + hashlib.sha256(b"actionledger.policy.v1\nautomatic: every declared operation").hexdigest()
)


@dataclass(frozen=True, slots=True)
class Config:
    """The operation catalogue in force and the hash of its source text."""

    catalogue: Catalogue
    content_hash: str

    @property
    def timing(self) -> Timing:
        """The bounds on clocks and waits that hold in this installation."""
        return self.catalogue.timing

    def operation(self, name: str, version: int) -> Operation | None:
        """The declaration in force, or None when it was withdrawn or never there."""
        return self.catalogue.operation(name, version)
