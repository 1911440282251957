"""What takes a process to a point where traffic alone does not: the other half of a crash point.

Each provocation is something that happens to an installation anyway: a member joins, an operator
publishes a configuration, bytes that are no event arrive, a process is asked to stop or is paused,
a webhook is faster than the answer it speaks of. Called by the runner until the point is reached.
"""

import contextlib
import itertools
import signal
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping

import httpx

from gateway.wiring.publishing import publish_catalogue
from ledger.log.port import Outgoing
from reconciler.providers.simulated.api import Event, EventData, Metadata
from reconciler.providers.simulated.webhooks import signed_headers
from tests.crash.gathering import whole_lines
from tests.crash.machine import CATALOGUE, FREEZE_SECONDS, Machine, twin_of

TICKET = "ti_"
Provocation = Callable[[Machine], Awaitable[None]]

_EDITION = itertools.count(1)
_EVENT = itertools.count(1)


async def restart(_machine: Machine) -> None:
    """Nothing more: the point lies on the way from a start to the first decision."""


async def write_poison(machine: Machine) -> None:
    """Write bytes that are no event between those that are."""
    appender = await machine.log.appender()
    try:
        for partition in range(machine.partitions):
            await appender.append("intents", partition, [Outgoing(b"acme/poison", b"{no json")])
    finally:
        await appender.close()


async def publish_edition(machine: Machine) -> None:
    """Publish the same catalogue under another hash; everybody who acts on it starts anew."""
    text = CATALOGUE.read_text(encoding="utf-8")
    await publish_catalogue(machine.log, f"{text}\n# edition {next(_EDITION)}\n")


async def let_a_member_join(machine: Machine) -> None:
    """A second processor joins the group, so that the first is asked for its partitions."""
    twin = twin_of("processor")
    if twin in machine.supervised:
        await machine.end(twin, signal.SIGTERM)
    else:
        await machine.start_twin("processor")


async def ask_to_stop(machine: Machine) -> None:
    """Ask the executor to stop in the middle of its work."""
    machine.supervised["executor"].signal(signal.SIGTERM)


async def pause_executor(machine: Machine) -> None:
    """Pause the executor until the leases of what is started meanwhile are over."""
    await machine.pause("executor", FREEZE_SECONDS)


async def tell_of_the_next_ticket(machine: Machine) -> None:
    """Tell of the next ticket by its reference alone, before the provider has made it: nobody can
    know whose it is until its action is completed.
    """
    event = _settled(_next_ticket(machine), number=next(_EVENT))
    secrets = tomllib.loads(machine.secrets_file.read_text(encoding="utf-8"))
    (secret,) = secrets["simulated"]["desk"]["secrets"]
    body = event.model_dump_json()
    async with httpx.AsyncClient(trust_env=False) as client:
        with contextlib.suppress(httpx.TransportError):  # the door may be down just now
            await client.post(
                f"{machine.url}/v1/webhooks/simulated?account=desk",
                content=body,
                headers=signed_headers(event.id, body, secret),
            )


def _next_ticket(machine: Machine) -> str:
    """The id that the provider will give to the next ticket that it opens."""
    made = (line["effect_id"] or "" for line in whole_lines(machine.book_file))
    tickets = [effect for effect in made if effect.startswith(TICKET)]
    last = max((int(effect.removeprefix(TICKET)) for effect in tickets), default=0)
    return f"{TICKET}{last + 1}"


def _settled(effect_id: str, *, number: int) -> Event:
    """An event about an effect that bears none of our marks."""
    data = EventData(
        effect_id=effect_id,
        operation="ticket",
        target=None,
        description=None,
        amount=None,
        key=None,
        reference=None,
        metadata=Metadata(),
    )
    return Event(
        id=f"evt_ahead_{number}",
        type="effect.settled",
        account="desk",
        created_at=round(time.time() * 1_000),
        data=data,
    )


PROVOCATIONS: Mapping[str, Provocation] = {
    "partitions_assigned": restart,
    "checkpoint_read": restart,
    "ledger_half_read": restart,
    "barrier_sent": restart,
    "barrier_acked": restart,
    "positions_shown": restart,
    "revoke_in_batch": let_a_member_join,
    "partitions_revoked": let_a_member_join,
    "config_read": publish_edition,
    "config_adopted": publish_edition,
    "quarantine_acked": write_poison,
    "start_declined": pause_executor,
    "offers_withdrawn": ask_to_stop,
    "sweep_evidence_acked": tell_of_the_next_ticket,
}
"""What each point needs beside agents at work; those that are not here need nothing else."""
