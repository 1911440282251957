"""The chapter of approvals: a refund of 120 EUR that a person confirms, denies, or lets expire.

Guarantees that nothing is refunded that nobody has confirmed, that what was confirmed is refunded
once, and that no signature can be carried over.
"""

from typing import Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, Sheet, code_of, registered, stranger
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene, effects, facts_of
from gateway.demo.waiting import until
from gateway.wiring.publishing import default_policy
from ledger.core.statement import Say, SignedByKey

APPROVED: Final = "return-2026-09-02-01"
DENIED: Final = "return-2026-09-02-02"
EXPIRED: Final = "return-2026-09-02-03"
OTHER_AMOUNT: Final = 9_900
VALID_MS: Final = 3_000
CHANGED_AT: Final = 40
"""A character in the middle of a token's payload."""


class _Approvals:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        sheet = await self._waits()
        signed = await self._approved(sheet)
        await self._denied()
        await self._expired()
        await self._forged(sheet, signed)
        await self._proof()
        await self._scene.claim_tables()

    async def _waits(self) -> Sheet:
        self._telling.step("An agent wants to refund 120 EUR")
        told = await self._scene.ask(refund(APPROVED))
        key = self._key(APPROVED)
        self._scene.show(await self._scene.until_fact("the question", "approval.requested", key))
        self._telling.quote(told["text"])
        sheet = await self._mara.sheet(key)
        self._telling.step("Mara looks at everything that she would sign")
        asked = sheet["asked"]
        self._telling.say(f"{sheet['amount']} for {sheet['request']['target']}, row {asked['row']}")
        self._telling.say(f"request {sheet['request_hash'][:30]}…")
        self._telling.say(f"preview {asked['preview_hash'][:30]}…")
        calls = len(await self._scene.lines())
        self._scene.claim(
            Claim(
                "waits",
                "The refund waits for a person, and the provider has not heard of it",
                told["result"] == "AwaitingApproval" and calls == 0,
                f"{told['result']}, {calls} calls",
            )
        )
        return sheet

    async def _approved(self, sheet: Sheet) -> SignedByKey:
        self._telling.step("Mara signs, with a key that is hers alone")
        key, signed = self._key(APPROVED), self._mara.sign(sheet)
        await self._mara.hand_in(key, signed)
        await self._scene.until_fact("the completion", "action.completed", key)
        twice = await self._mara.hand_in(key, signed)
        self._scene.show(await self._scene.until_answer("unchanged", key))
        lines = await self._scene.lines()
        self._telling.book(lines)
        (granted,) = self._facts("approval.granted", key)
        self._scene.claim(
            Claim(
                "completed_once",
                "Confirmed by a person's key, the refund is made",
                granted["person"] == self._mara.name and len(effects(lines)) == 1,
                f"{granted['person']} {effects(lines)}",
            )
        )
        self._scene.claim(
            Claim(
                "double_click",
                "The same signature again counts as the one it was",
                twice.is_success and len(self._facts("approval.granted", key)) == 1,
                code_of(twice),
            )
        )
        return signed

    async def _denied(self) -> None:
        self._telling.step("Another refund, and Mara says no")
        key = self._key(DENIED)
        await self._scene.ask(refund(DENIED))
        await self._mara.decide(key, Say.DENY)
        self._scene.show(await self._scene.until_fact("the denial", "action.denied", key))
        told = await self._scene.ask(refund(DENIED))
        self._telling.quote(told["text"])
        self._scene.claim(
            Claim(
                "denied",
                "Denied is final, and its agent is told so",
                told["result"] == "Denied",
                str(told["result"]),
            )
        )

    async def _expired(self) -> None:
        self._telling.step("Nobody looks in time")
        self._telling.say(f"An operator lets requests stand for {VALID_MS / 1_000:.0f} seconds.")
        await self._scene.stage.publish("policy", _hasty())
        key = self._key(EXPIRED)
        await self._scene.ask(refund(EXPIRED))
        sheet = await self._mara.sheet(key)
        ended = await self._scene.until_fact("the end of the question", "approval.ended", key)
        late = await self._mara.hand_in(key, self._mara.sign(sheet))
        told = await self._scene.ask(refund(EXPIRED))
        self._scene.show(ended)
        self._scene.claim(
            Claim(
                "expired",
                "Too late is refused by name, and is no denial: the refund still waits",
                (code_of(late), told["result"]) == ("approval_expired", "ApprovalExpired"),
                f"{code_of(late)} {told['result']}",
            )
        )
        self._telling.step("The agent has people asked again, and Mara is quicker")
        await self._scene.ask_again(key)
        await self._mara.sheet(key, round_=2)
        dead = await self._mara.hand_in(key, self._mara.sign(sheet))
        again = await until("a signature in time", lambda: self._in_time(key))
        self._scene.show(await self._scene.until_fact("the completion", "action.completed", key))
        self._scene.claim(
            Claim(
                "asked_again",
                "Each time people are asked there is another nonce, and only the newest counts",
                code_of(dead) == "nonce_dead"
                and sheet["asked"]["nonce"] != again["asked"]["nonce"],
                code_of(dead),
            )
        )

    async def _in_time(self, key: str) -> Sheet | None:
        """The sheet that Mara signed; None where that lapsed before, as on a busy machine."""
        await self._scene.ask_again(key)
        sheet = await self._mara.sheet(key, round_=2)
        signed = await self._mara.hand_in(key, self._mara.sign(sheet))
        return sheet if signed.is_success else None

    async def _forged(self, sheet: Sheet, signed: SignedByKey) -> None:
        self._telling.step("Somebody else tries")
        other = await self._another()
        mallory = await stranger(self._scene.stage, self._mara.name)
        tries = {
            "unknown_signer": (other["key"], mallory.sign(other)),
            "signature_invalid": (other["key"], _tampered(self._mara.sign(other))),
            "other_action": (other["key"], signed),
            "other_tenant": (other["key"], self._mara.sign(other, tenant="globex")),
            "other_environment": (other["key"], self._mara.sign(other, environment="sandbox")),
            "other_request": (
                other["key"],
                self._mara.sign(other, request_hash=sheet["request_hash"]),
            ),
            "other_policy": (other["key"], self._mara.sign(other, policy_hash="sha256:0")),
            "other_preview": (
                other["key"],
                self._mara.sign(other, preview_hash=sheet["asked"]["preview_hash"]),
            ),
        }
        told = {}
        for name, (key, given) in tries.items():
            told[name] = code_of(await self._mara.hand_in(key, given))
            self._telling.say(f"refused: {told[name]}")
        status = await self._scene.status(other["key"])
        self._scene.claim(
            Claim(
                "forgeries",
                "Forged, tampered with, replayed or transplanted, each is refused by name",
                all(name == code for name, code in told.items()) and status == "awaiting_approval",
                f"{told} {status}",
            )
        )

    async def _another(self) -> Sheet:
        """One more refund that waits, long enough to be attacked."""
        await self._scene.stage.publish("policy", default_policy())
        event = "return-2026-09-02-04"
        await self._scene.ask(refund(event, minor=OTHER_AMOUNT))
        return await self._mara.sheet(self._key(event))

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._scene.lines()
        self._telling.book(lines)
        confirmed = {self._key(APPROVED), self._key(EXPIRED)}
        self._scene.claim(
            Claim(
                "book",
                "The book has the two refunds that a person confirmed, and nothing else",
                len(effects(lines)) == len(confirmed) == len(lines),
                f"{effects(lines)}",
            )
        )

    def _key(self, event: str) -> str:
        return key_of(self._scene, event)

    def _facts(self, kind: str, key: str) -> list[dict[str, object]]:
        return [fact for one in self._scene.witness.seen for fact in facts_of(one, kind, key)]


def _tampered(signed: SignedByKey) -> SignedByKey:
    """A token with one character of its payload changed."""
    header, payload, signature = signed.jws.split(".")
    character = "A" if payload[CHANGED_AT] != "A" else "B"
    payload = payload[:CHANGED_AT] + character + payload[CHANGED_AT + 1 :]
    return SignedByKey(jws=f"{header}.{payload}.{signature}")


def _hasty() -> str:
    """The default policy with one line more: how long people are asked about a payment."""
    before, row, after = default_policy().partition('name = "payment"\n')
    return f"{before}{row}valid_ms = {VALID_MS}\n{after}"


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Approvals(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="approvals",
    line="a refund of 120 EUR that a person confirms, denies or lets expire; forged signatures",
    title="Approvals: nothing leaves that a person has not signed",
    tell=_tell,
)
