"""People of the demonstration: each with a key of their own, as a device of theirs would use it.

Guarantees that they look and decide only through the doors that are open to people, that what they
sign is what they were shown, and that a forger has no way but to change it before or after. Called
by the chapters.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.demo.stage import Stage
from gateway.demo.waiting import until
from gateway.http.case_sheets import CaseSheet
from gateway.signing_case import resolution_of
from gateway.wiring.installation import open_log
from ledger.core.people import People, Person, PersonKey
from ledger.core.people_text import written
from ledger.core.statement import Move, Resolution, Say, SignedByKey, Statement
from ledger.log.follow import genesis_of
from ledger.log.published import read_published
from ledger.signing.keys import SigningKey, sign
from ledger.signing.logins import login_token

Sheet = Mapping[str, Any]
"""Everything that a person is shown about an action before they sign."""

GROUP: Final = "finance"


@dataclass(frozen=True, slots=True)
class Colleague:
    """A person who may decide, or somebody who would like to."""

    name: str
    key: SigningKey
    ledger: str
    stage: Stage

    async def sheet(self, action_key: str, *, round_: int = 1) -> Sheet:
        """What is shown of an action, as soon as people are asked so many times.

        Raises NotSeenError.
        """
        path = f"/v1/approvals/{quote(action_key, safe=':~')}"

        async def shown() -> Sheet | None:
            answer = await self.stage.door.get(path, headers=self._logged_in("GET", path))
            sheet: Sheet = answer.json()
            asked = (sheet.get("asked") or {}).get("round", 0) if answer.is_success else 0
            return sheet if asked >= round_ else None

        return await until(f"what {self.name} is shown of {action_key}", shown)

    async def waiting(self) -> list[dict[str, Any]]:
        """What waits for people. Raises httpx.HTTPStatusError."""
        path = "/v1/approvals"
        answer = await self.stage.door.get(path, headers=self._logged_in("GET", path))
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["waiting"]
        return found

    def sign(self, sheet: Sheet, say: Say = Say.APPROVE, **changed: object) -> SignedByKey:
        """A decision about what a sheet shows, unless somebody changes it first."""
        asked, request = sheet["asked"], sheet["request"]
        shown: dict[str, object] = {
            "ledger": sheet["ledger"],
            "decision": say,
            "approver": self.name,
            "tenant": sheet["tenant"],
            "environment": request["environment"],
            "key": sheet["key"],
            "request_hash": sheet["request_hash"],
            "preview_hash": asked["preview_hash"],
            "policy_hash": asked["policy_hash"],
            "row": asked["row"],
            "nonce": asked["nonce"],
            "issued_at": time.time_ns() // 1_000_000,
            "expires_at": asked["expires_at"],
        }
        return sign(Statement.model_validate(shown | changed), self.key)

    async def case(self, action_key: str) -> CaseSheet:
        """What is shown of a case, as soon as there is one. Raises NotSeenError."""
        path = f"/v1/reviews/{quote(action_key, safe=':~')}"

        async def shown() -> CaseSheet | None:
            answer = await self.stage.door.get(path, headers=self._logged_in("GET", path))
            if not answer.is_success:
                return None
            sheet = CaseSheet.model_validate_json(answer.content)
            return None if sheet.case is None else sheet

        return await until(f"the case that {self.name} is shown of {action_key}", shown)

    async def cases(self) -> list[dict[str, Any]]:
        """The cases that wait, as soon as there are any. Raises NotSeenError."""
        path = "/v1/reviews"

        async def listed() -> list[dict[str, Any]] | None:
            answer = await self.stage.door.get(path, headers=self._logged_in("GET", path))
            found: list[dict[str, Any]] = answer.json().get("cases") or []
            return found or None

        return await until(f"a case in the list of {self.name}", listed)

    async def blocked(self, action_key: str) -> dict[str, Any]:
        """What an action waits for, as soon as it is listed. Raises NotSeenError."""
        path = "/v1/reviews"

        async def listed() -> dict[str, Any] | None:
            answer = await self.stage.door.get(path, headers=self._logged_in("GET", path))
            found: list[dict[str, Any]] = answer.json().get("blocked") or []
            return next((one for one in found if one["key"] == action_key), None)

        return await until(f"{action_key} in the list of what is blocked", listed)

    def settle(
        self,
        sheet: CaseSheet,
        move: Move,
        comment: str,
        *,
        reference: str | None = None,
        **changed: object,
    ) -> SignedByKey:
        """What settles a case as a sheet shows it, unless somebody changes it first."""
        shown = resolution_of(sheet, move, reference=reference, comment=comment)
        return sign(Resolution.model_validate(shown.model_dump() | changed), self.key)

    async def hand_in(self, action_key: str, signed: SignedByKey) -> httpx.Response:
        """Send a decision about an action, as anybody may who has one."""
        return await hand_in(self.stage, action_key, signed)

    async def decide(self, action_key: str, say: Say = Say.APPROVE) -> httpx.Response:
        """Look, sign, and send."""
        sheet = await self.sheet(action_key)
        return await self.hand_in(action_key, self.sign(sheet, say))

    def _logged_in(self, method: str, path: str) -> dict[str, str]:
        token = login_token(
            self.key,
            ledger=self.ledger,
            method=method,
            path=path,
            now_ms=time.time_ns() // 1_000_000,
        )
        return {"Authorization": f"Login {token}"}


async def hand_in(stage: Stage, action_key: str, signed: SignedByKey) -> httpx.Response:
    """Send what is said to be a person's decision."""
    body = {"key": action_key, "signed": signed.model_dump(mode="json")}
    return await stage.door.post("/v1/decisions", json=body)


async def registered(stage: Stage, *names: str) -> list[Colleague]:
    """People with a key each, adopted by every partition as deciding for the tenant beside those
    who decide already.
    """
    in_force = (await read_published(open_log(stage.settings, "cli"))).people
    found = [await stranger(stage, _free(name, stage, in_force)) for name in names]
    added = tuple(_person(one) for one in found)
    await stage.publish("people", written(in_force, (*in_force.people, *added)))
    return found


async def stranger(stage: Stage, name: str) -> Colleague:
    """Somebody with a key that nobody has registered."""
    ledger = (await genesis_of(open_log(stage.settings, "cli"))).generation
    return Colleague(name, SigningKey.of(Ed25519PrivateKey.generate()), ledger, stage)


def _free(name: str, stage: Stage, in_force: People) -> str:
    """A name that nobody has yet who decides already."""
    return name if in_force.person(name) is None else f"{name}-{stage.tenant}"


def _person(one: Colleague) -> Person:
    key = PersonKey(id=one.key.id, kind="ed25519", public=one.key.public)
    return Person(name=one.name, groups=(GROUP,), tenants=(one.stage.tenant,), keys=(key,))


def code_of(answer: httpx.Response) -> str:
    """The name of a refusal, or the status of the action where it was none."""
    told = answer.json()
    return str(told.get("code") or told.get("status"))
