"""The cases of who decides: what the decision table costs where nobody is asked, and what an action
takes that waits for a person.

Guarantees that both sides of a comparison run in one installation, in turn and more than once, so
that what the machine does meanwhile falls on both. Called by `benchmarks.cases`.
"""

from statistics import median
from typing import Final

from benchmarks import approving
from benchmarks.figures import Figures, rate
from benchmarks.installation import PROCESSES, Installation
from benchmarks.load import Order
from benchmarks.usage import cpu_seconds
from gateway.wiring.publishing import default_policy, publish_document
from ledger.core.policy import policy_hash

IN_FLIGHT: Final = 128
ROUNDS: Final = 3
APPROVED_IN_FLIGHT: Final = 32
_EVERYTHING: Final = """\
[[row]]
name = "everything"
outcome = "automatic"
reason = "As before any table was adopted: every declared operation goes ahead."
"""
_OF_POLICY: Final = (
    "select count(*) from actionledger.projection_offsets where policy->>'content_hash' = $1"
)
_OF_PEOPLE: Final = "select count(*) from actionledger.projection_offsets where people is not null"


async def approved(one: Installation, seconds: float) -> Figures:
    """Propose, sign, decided, completed: p50 with one caller, per second with many."""
    await adopt_policy(one, default_policy())
    await _adopt_people(one)
    order = Order(what="approve", tenant="approved-1", in_flight=1, seconds=seconds)
    alone = await one.load.carry_out(order)
    crowd = {"tenant": "approved-many", "in_flight": APPROVED_IN_FLIGHT}
    together = await one.load.carry_out(order.model_copy(update=crowd))
    await one.caught_up()
    return {
        "n": alone.n,
        "p50_ms": alone.p50_ms,
        "p99_ms": alone.p99_ms,
        "per_s": rate(together),
    }


async def ruled(one: Installation, seconds: float) -> Figures:
    """The CPU time of an action under the default policy where nobody is asked, in times of one
    under a table whose only row lets everything pass.
    """
    plain_us: list[float] = []
    ruled_us: list[float] = []
    n = 0
    for number in range(ROUNDS):
        for policy, used_us in ((_EVERYTHING, plain_us), (default_policy(), ruled_us)):
            await adopt_policy(one, policy)
            tenant = f"{'plain' if used_us is plain_us else 'ruled'}-{number}"
            count, used = await cost_us(one, tenant, seconds)
            used_us.append(used)
            n += count
    times = (after / before for before, after in zip(plain_us, ruled_us, strict=True))
    return {
        "n": n,
        "plain_us": round(median(plain_us)),
        "ruled_us": round(median(ruled_us)),
        "times": round(median(times), 3),
    }


async def cost_us(one: Installation, tenant: str, seconds: float) -> tuple[int, float]:
    """How many actions there were, and what each took of our processes, projection included."""
    before_s = _own_cpu_s(one)
    order = Order(what="act", tenant=tenant, in_flight=IN_FLIGHT, seconds=seconds)
    measured = await one.load.carry_out(order)
    await one.completed_visible(tenant, measured.n)
    await one.caught_up()
    return measured.n, (_own_cpu_s(one) - before_s) / measured.n * 1e6


def _own_cpu_s(one: Installation) -> float:
    one.check_running()
    identities = [one.workers[process].identity for process in PROCESSES]
    return sum(cpu_seconds(identity.pid) for identity in identities if identity is not None)


async def adopt_policy(one: Installation, text: str) -> None:
    """Publish a table, and wait until every partition decides by it."""
    await publish_document(one.log, "policy", text)
    await one.until(_OF_POLICY, one.place.partitions, policy_hash(text))


async def _adopt_people(one: Installation) -> None:
    await publish_document(one.log, "people", approving.people())
    await one.until(_OF_PEOPLE, one.place.partitions)
