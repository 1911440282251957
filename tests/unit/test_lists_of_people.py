"""Lists for people that hold more than an answer tells: it says so, and has what is urgent."""

import io
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import httpx
from rich.console import Console

from gateway.cli.case_shown import show_cases
from gateway.cli.sheet_shown import show_waiting
from gateway.http.app import create_app
from gateway.http.case_sheets import CaseList
from gateway.http.doors import Instance
from gateway.http.limits import SHEETS_MAX
from gateway.http.sheets import WaitingList
from gateway.memory.queries import _waiting
from gateway.settings import Settings
from ledger.log.published import Published
from ledger.signing.logins import login_token
from projections.query_rows import ReviewRow, WaitingRow
from tests import asking
from tests import examples as x
from tests.ledgers import ASKED, LedgerBuilder

NOW = "note:v1:acme:now"


class Many:
    """A read model with so many that ran out, one that did not, and as many cases."""

    def __init__(self, count: int) -> None:
        builder = LedgerBuilder(config=ASKED)
        builder.take(x.propose(x.NOTE))
        stream = builder.streams[x.STREAM]
        over = replace(_waiting(stream.actions[0]), ended="expired")
        self.over = [
            replace(over, action_key=f"note:v1:acme:over-{number}", requested_at=number)
            for number in range(count)
        ]
        self.live = replace(over, action_key=NOW, requested_at=count, ended=None)

    async def waiting(self, _tenants: Sequence[str], *, limit: int) -> Sequence[WaitingRow]:
        """As the statement does it: what ran out comes last."""
        return [self.live, *self.over][:limit]

    async def cases(self, _tenants: Sequence[str], *, limit: int) -> Sequence[ReviewRow]:
        """The oldest of them."""
        fields = {name: getattr(self.live, name, None) for name in ReviewRow.__dataclass_fields__}
        told = {"kind": "review", "reason": "gate_full", "status": "needs_review", "opened_at": 0}
        one = ReviewRow(**{**fields, **told})  # type: ignore[arg-type]
        return [one] * min(limit, len(self.over))

    async def blocked(self, _tenants: Sequence[str], *, limit: int) -> Sequence[Any]:
        """None, however many are asked for."""
        return [][:limit]


async def told(path: str, count: int) -> dict[str, Any]:
    """What ada is answered."""
    people = asking.people(asking.people_text("ada"))
    nobody, settings = cast("Any", None), Settings.from_environment({})
    instance = Instance("g", lambda: Published(people=people))
    app = create_app(nobody, cast("Any", Many(count)), nobody, nobody, settings, instance)
    login = login_token(
        asking.KEYS["ada"], ledger="g", method="GET", path=path, now_ms=time.time_ns() // 1_000_000
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        answer = await http.get(path, headers={"Authorization": f"Login {login}"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_can_be_decided_is_on_a_list_that_is_cut() -> None:
    """Where it stands by its age, and the list says that there are more."""
    found = await told("/v1/approvals", SHEETS_MAX)
    keys = [one["key"] for one in found["waiting"]]
    assert (len(keys), keys[-1], keys[0]) == (SHEETS_MAX, NOW, "note:v1:acme:over-0")
    assert found["more"] is True
    shown = io.StringIO()
    show_waiting(Console(file=shown), WaitingList.model_validate(found, strict=False))
    assert "More wait than these" in shown.getvalue()
    whole = await told("/v1/approvals", SHEETS_MAX - 1)
    assert (len(whole["waiting"]), "more" in whole) == (SHEETS_MAX, False)


async def test_cases_that_are_cut_say_so() -> None:
    """And those that are all do not."""
    found = await told("/v1/reviews", SHEETS_MAX + 1)
    assert (len(found["cases"]), found["more"], "more_blocked" in found) == (
        SHEETS_MAX,
        True,
        False,
    )
    shown = io.StringIO()
    show_cases(Console(file=shown), CaseList.model_validate(found, strict=False))
    assert "There are more than these" in shown.getvalue()
    assert "more" not in await told("/v1/reviews", SHEETS_MAX)
