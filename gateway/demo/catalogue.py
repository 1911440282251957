"""The chapter of the catalogue: a request outside the declaration, and one by who may not ask.

Guarantees that both are refused before any policy is asked and before anything reaches a provider,
and that who may ask is carried out once.
"""

from typing import Any, Final

from gateway.demo.agent import REFUSED
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.scene import Scene, effects
from gateway.demo.stage import PRINCIPAL
from gateway.wiring.publishing import default_catalogue

SUPPORT: Final = "agent:support"
PATIENCE_MS: Final = 60_000
EVENT: Final = "return-2026-09-02-05"


async def _tell(scene: Scene) -> None:
    await _outside_the_declaration(scene)
    await _who_may_ask(scene)
    await _proof(scene)
    await scene.claim_tables()


async def _outside_the_declaration(scene: Scene) -> None:
    scene.telling.step("An agent asks for what the operation does not declare")
    scene.telling.say(
        "A charge is for an order, of a customer the provider knows by an id, in money. The agent "
        "asks for one of a card, with a parameter of its own and no amount."
    )
    told = await scene.ask(
        {
            "operation": "charge",
            "business_event": "renewal-2026-09-02-01",
            "target": "card:4242",
            "params": {"customer": "cus_7f", "url": "http://203.0.113.7/"},
            "environment": "production",
        }
    )
    scene.show(await scene.until_answer("refused"))
    for one in told["problems"]:
        scene.telling.say(f"{one['path']}: {one['message']}")
    paths = sorted(one["path"] for one in told["problems"])
    scene.claim(
        Claim(
            "outside_refused",
            "A request outside the declaration is refused, with everything that is wrong",
            (told["result"], told.get("code")) == (REFUSED, "invalid_request")
            and paths == ["/money", "/params/url", "/target"],
            f"{told.get('code')} {paths}",
        )
    )


async def _who_may_ask(scene: Scene) -> None:
    scene.telling.step(f"An operator declares that only {SUPPORT} may ask for refunds")
    adopted = await scene.stage.publish("catalogue", _narrowed())
    scene.telling.say(f"Adopted in the log by {adopted} partitions, with the hash of the text.")
    scene.telling.step("Two agents ask for the same refund")
    refund = {
        "operation": "refund",
        "business_event": EVENT,
        "target": "order:A-1842",
        "params": {"charge": "ch_1"},
        "money": {"minor": 2_000, "currency": "EUR"},
        "environment": "production",
    }
    told = await scene.ask(refund)
    scene.show(await _refusal(scene, "not_allowed"))
    scene.telling.say(f"{PRINCIPAL} is told:")
    scene.telling.quote(told["text"])
    scene.claim(
        Claim(
            "not_allowed",
            f"{PRINCIPAL} may not ask for it, whatever a policy would say",
            told.get("code") == "not_allowed",
            str(told.get("code")),
        )
    )
    support = await scene.stage.new_agent_key(SUPPORT)
    done = await scene.ask(refund, patience_ms=PATIENCE_MS, api_key=support)
    key = scene.key("refund", EVENT)
    scene.show(await scene.until_fact("the completion of the refund", "action.completed", key))
    scene.claim(
        Claim(
            "allowed",
            f"{SUPPORT} may, and under the same key: what was refused left nothing behind",
            done["result"] == "Succeeded",
            str(done["result"]),
        )
    )


async def _proof(scene: Scene) -> None:
    scene.telling.step("The proof")
    lines = await scene.lines()
    scene.telling.book(lines)
    made = effects(lines)
    scene.claim(
        Claim("one_refund", "The book shows one refund and nothing else", len(made) == 1, f"{made}")
    )
    principals = {
        one["data"]["request"]["principal"]
        for one in scene.witness.seen
        if one["topic"] == "intents"
    }
    scene.claim(
        Claim(
            "principals_recorded",
            "Who asked stands in the log with each intent",
            principals == {PRINCIPAL, SUPPORT},
            f"{sorted(principals)}",
        )
    )


async def _refusal(scene: Scene, code: str) -> dict[str, Any]:
    return await scene.witness.until(
        f"the refusal {code}",
        lambda one: (
            one["topic"] == "ledger" and (one["data"].get("refused") or {}).get("code") == code
        ),
    )


def _narrowed() -> str:
    """The shipped catalogue with one line changed: who may ask for a refund."""
    before, refund, after = default_catalogue().partition('name = "refund"')
    return before + refund + after.replace('principals = ["*"]', f'principals = ["{SUPPORT}"]', 1)


CHAPTER: Final = Chapter(
    name="catalogue",
    line="what an operation declares: a request outside it, a principal that may not ask",
    title="The catalogue: what may be asked for, and by whom",
    tell=_tell,
)
