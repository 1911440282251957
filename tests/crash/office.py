"""People at work: they look at what waits, sign what they are shown, and note what they were told.

Everything follows from a seed. Most agree; some say no, some click twice, some take back what they
agreed to and agree again; what nobody decided in time somebody has asked again. A door that is away
is tried again. They come to an end only when they are told to.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from ledger.core.statement import Say, Statement
from ledger.signing.keys import SigningKey, sign
from ledger.signing.logins import login_token
from tests import asking
from tests.crash.evidence import Json

POLICY: Final = (
    asking.asked("refund", quorum=2, valid_ms=30_000, more='groups = ["finance", "operations"]')
    + """
[[row]]
name = "payments"
when.operation = ["charge"]
outcome = "automatic"
reason = "One at a time on an order, and all of them are counted."
ceilings = ["run", "day"]
block_target = true

[[ceiling]]
name = "run"
per = "run"
side_effects = 100_000

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "Europe/Paris"
spend = { EUR = 1_000_000_000 }
"""
    + asking.EVERYTHING_GOES_AHEAD
)
"""Two people have to agree to a refund; charges pass the gates of their run, of the day and of the
order that they are for; everything else goes ahead.
"""

KEYS: Final = {f"person-{number}": asking.signing_key(100 + number) for number in range(9)}
"""So many that nobody has to decide faster than a person may."""

PEOPLE: Final = "".join(
    f'[[person]]\nname = "{name}"\ntenants = ["*"]\n'
    f'groups = ["{("finance", "operations")[number % 2]}"]\n'
    f'keys = [{{ id = "{key.id}", kind = "ed25519", public = "{key.public}" }}]\n'
    for number, (name, key) in enumerate(KEYS.items())
)
LOOK_SECONDS: Final = 0.5
AGREES_AGAIN_SECONDS: Final = 2.5
"""Whoever took something back agrees again only after the skew of clocks: before, it could be a
copy of what they signed first."""

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "agrees": ("approve",),
    "clicks twice": ("approve", "approve"),
    "refuses": ("deny",),
    "hesitates": ("approve", "withdraw"),
    "again": ("approve",),
}
MOODS: Final = ("agrees", "clicks twice", "refuses", "hesitates")
SHARES: Final = (70, 15, 5, 10)
ANSWER_SECONDS_MAX: Final = 3.0
"""A door that is frozen is as good as one that is away."""


@dataclass
class Office:
    """Everybody who decides, at one door, with the notes of what they were told."""

    url: str
    ledger: str
    notes: Path
    seed: int
    _said: dict[tuple[str, int, str], tuple[str, float]] = field(default_factory=dict)

    async def work(self) -> None:
        """Look and decide, again and again, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, key in KEYS.items():
                group.create_task(self._person(name, key))

    async def _person(self, name: str, key: SigningKey) -> None:
        chance = random.Random(f"person|{self.seed}|{name}")
        async with httpx.AsyncClient(
            base_url=self.url, timeout=ANSWER_SECONDS_MAX, trust_env=False
        ) as http:
            desk = _Desk(http, self.ledger, key)
            while True:
                waiting = await desk.waiting()
                # So that not all of them look at the same one.
                chance.shuffle(waiting)
                for entry in waiting:
                    await self._look(desk, name, entry, chance)
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, desk: "_Desk", name: str, entry: Json, chance: random.Random) -> None:
        if entry["state"] == "expired":
            await desk.post(f"/v1/actions/{entry['key']}/ask")
            return
        sheet = await desk.get(f"/v1/approvals/{entry['key']}")
        if sheet is None or "asked" not in sheet:
            return
        place = (sheet["key"], sheet["asked"]["round"], name)
        if len(sheet["asked"].get("agreed", ())) >= sheet["asked"]["quorum"]:
            return
        said, at_s = self._said.get(place, ("nothing", 0.0))
        if said == "all" or time.monotonic() - at_s < AGREES_AGAIN_SECONDS:
            return
        mood = "again" if said == "hesitated" else chance.choices(MOODS, SHARES)[0]
        for word in WORDS[mood]:
            answer = await desk.decide(sheet, name, Say(word))
            if answer is None or answer.get("code") == "too_many_decisions":
                # It may count or not, or it is not looked at yet; the next look tells.
                return
            self._note(sheet["key"], name, word, answer)
        now_s = time.monotonic()
        self._said[place] = ("hesitated", now_s) if mood == "hesitates" else ("all", now_s)

    def _note(self, key: str, person: str, decision: str, answer: Json) -> None:
        line: Json = {"key": key, "person": person, "decision": decision}
        if "code" in answer and "hint" in answer:
            line |= {"answer": answer["code"], "replayed": False}
        else:
            line |= {"answer": "ok", "replayed": answer.get("replayed", False)}
        with self.notes.open("ab") as notes:
            notes.write(orjson.dumps(line) + b"\n")


@dataclass(frozen=True)
class _Desk:
    """A person's way to the door: None where it is away or says nothing."""

    http: httpx.AsyncClient
    ledger: str
    key: SigningKey

    async def waiting(self) -> list[Json]:
        """What waits."""
        found = await self.get("/v1/approvals")
        return [] if found is None else list(found["waiting"])

    async def get(self, path: str) -> Json | None:
        """Read as a person; None also where it is refused."""
        answer = await self._ask("GET", path, headers=self._login("GET", path))
        return answer if answer is not None and "hint" not in answer else None

    async def post(self, path: str) -> Json | None:
        """Ask for something as a person."""
        return await self._ask("POST", path, headers=self._login("POST", path))

    async def decide(self, sheet: Json, name: str, say: Say) -> Json | None:
        """Sign what a sheet shows, and hand it in."""
        said = _statement(sheet, name, say)
        body = {"key": sheet["key"], "signed": sign(said, self.key).model_dump(mode="json")}
        return await self._ask("POST", "/v1/decisions", json=body)

    def _login(self, method: str, path: str) -> Mapping[str, str]:
        now_ms = time.time_ns() // 1_000_000
        token = login_token(self.key, ledger=self.ledger, method=method, path=path, now_ms=now_ms)
        return {"Authorization": f"Login {token}"}

    async def _ask(self, method: str, path: str, **given: Any) -> Json | None:  # noqa: ANN401
        try:
            response = await self.http.request(method, path, **given)
            answer: Json = response.json()
        except (httpx.TransportError, ValueError):
            return None
        status = response.status_code
        is_known = status != httpx.codes.ACCEPTED and status < httpx.codes.INTERNAL_SERVER_ERROR
        return answer if is_known else None


def _statement(sheet: Json, name: str, say: Say) -> Statement:
    asked = sheet["asked"]
    return Statement(
        ledger=sheet["ledger"],
        decision=say,
        approver=name,
        tenant=sheet["tenant"],
        environment=sheet["request"]["environment"],
        key=sheet["key"],
        request_hash=sheet["request_hash"],
        preview_hash=asked["preview_hash"],
        policy_hash=asked["policy_hash"],
        row=asked["row"],
        nonce=asked["nonce"],
        # A later word is another statement, also within one millisecond.
        issued_at=time.time_ns() // 1_000_000,
        expires_at=asked["expires_at"],
    )
