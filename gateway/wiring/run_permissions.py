"""The permissions step: the broker learns who may log in, and who may do what.

It runs as the broker's super user, before anything else: until then nobody else may do anything.
Guarantees that running it again changes nothing that is as declared. Ends by itself.
"""

import logging

from gateway.settings import Settings
from gateway.wiring.life import Life
from ledger.log.permissions import Permissions

logger = logging.getLogger("actionledger.process")


async def run(settings: Settings, life: Life) -> None:
    """Bring the broker to what is declared. Raises what `Permissions.apply` does, NoLoginError."""
    permissions = Permissions(
        settings.kafka_bootstrap, settings.kafka.administrator(), "actionledger-permissions"
    )
    before = await permissions.apply(settings.kafka.declared(settings.topic_prefix))
    logger.info(
        "permissions_applied", extra={"added": len(before.missing), "removed": len(before.surplus)}
    )
    life.beat()
