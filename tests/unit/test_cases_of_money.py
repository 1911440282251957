"""Public failure cases about amounts: what a provider does not take, how many decimals a currency
has, and numbers with a point. Through the door where a door is what went wrong.
"""

from collections.abc import AsyncIterator

import httpx
import pytest

from actionledger import AwaitingApproval, CallerMistake, Intent, Money, Succeeded, testing
from gateway.memory.installation import ADDRESS, Installation, open_installation
from gateway.wiring.publishing import default_catalogue
from ledger.core import inputs as i
from ledger.core.catalogue import parse_catalogue
from ledger.core.money import Money as Amount
from ledger.core.money import exponent, format_money
from ledger.core.policy import parse_policy
from ledger.core.state import Status
from tests.asking import EVERYTHING_GOES_AHEAD, asked
from tests.examples import found_out, no_answer, offer, propose, report, request
from tests.unit.core.language import Story

DINAR = default_catalogue().replace(
    'money = "required"', 'money = "required"\namount_multiple_of = { KWD = 10 }', 1
)
"""The shipped catalogue with a provider whose dinars end with a nought."""
LIMIT = f"""
[[row]]
name = "authorised"
when.amount.at_most = {{ USD = 5_06 }}
outcome = "automatic"
reason = "As much was authorised."
{asked("charge")}
"""


def charge(minor: int, currency: str, event: str = "renewal-1") -> Intent:
    """An intent to charge so much."""
    return Intent(
        operation="charge",
        business_event=event,
        target="order:A-1842",
        money=Money(minor=minor, currency=currency),
        environment="test",
    )


@pytest.mark.case("C073")
async def test_c073_an_amount_that_a_provider_does_not_take_is_refused_and_never_rounded() -> None:
    """C073: 18600 thousandths of a dinar arrive as they are; 18605 are refused at submit with the
    reason, and the key stays free for the amount that is meant.
    """
    async with testing.ledger(DINAR) as world:
        assert isinstance(await world.ledger.propose(charge(18_600, "KWD")), Succeeded)
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.propose(charge(18_605, "KWD", "renewal-2"))
        (problem,) = refused.value.problems
        assert (problem.path, problem.code) == ("/money/minor", "amount_not_a_multiple")
        assert "18605" in problem.message
        assert "multiples of 10" in problem.message
        again = await world.ledger.propose(charge(18_610, "KWD", "renewal-2"))
        other = await world.ledger.propose(charge(18_605, "USD", "renewal-3"))
        assert isinstance(again, Succeeded)
        assert isinstance(other, Succeeded)
        seen = [(one.minor, one.currency) for one in world.provider.effects]
        assert seen == [(18_600, "KWD"), (18_610, "KWD"), (18_605, "USD")]
    assert format_money(Amount(minor=18_600, currency="KWD")) == "18.600 KWD"


@pytest.mark.case("C073")
def test_c073_a_tenth_of_the_amount_is_no_match() -> None:
    """C073: what the provider reports in other decimals than the currency has is a person's case,
    with the amount as it was reported.
    """
    story = Story()
    dinars = Amount(minor=18_600, currency="KWD")
    story.hears(propose(request=request(money=dinars)), offer=offer())
    story.hears(report(no_answer()), at=5)
    tenth = found_out(i.Meaning.EFFECT, lookup=None, money=Amount(minor=1_860, currency="KWD"))
    story.hears(tenth, at=10)
    assert story.action().status is Status.NEEDS_REVIEW
    assert story.facts[-1].type == "review.opened"
    assert story.facts[-1].reason == "amount_differs"


@pytest.mark.case("C075")
@pytest.mark.parametrize(
    "declared",
    ["exponents = { USD = 4 }", "money_decimals = 4", "[currencies.USD]\ndecimals = 4"],
)
def test_c075_nobody_configures_how_many_decimals_a_currency_has(declared: str) -> None:
    """C075: the ISO table alone says it. A catalogue or a decision table that says otherwise is
    refused when it is loaded, with the line.
    """
    for refused in (
        parse_catalogue(f"{declared}\n{default_catalogue()}"),
        parse_policy(f"{declared}\n{EVERYTHING_GOES_AHEAD}"),
    ):
        assert isinstance(refused, tuple)
        assert any("not a known key" in mistake.message for mistake in refused), refused
    assert (exponent("USD"), exponent("KWD"), exponent("JPY")) == (2, 3, 0)


@pytest.mark.case("C075")
async def test_c075_what_an_approver_is_shown_is_what_the_provider_gets() -> None:
    """C075: 600000 cents are shown as 6000 dollars, whatever a shop calls them, and nothing else
    can be signed or sent.
    """
    async with testing.ledger(policy=asked("charge")) as world:
        waiting = await world.ledger.propose(charge(600_000, "USD"))
        assert isinstance(waiting, AwaitingApproval)
        (shown,) = [
            fact["content"]["money"]
            for fact in await world.facts(waiting.key)
            if fact["type"] == "preview.recorded"
        ]
        assert format_money(Amount.model_validate(shown)) == "6000.00 USD"
        await world.approve(waiting.key)
        await world.ledger.wait(waiting.key)
        (effect,) = world.provider.effects
        assert {"minor": effect.minor, "currency": effect.currency} == shown


@pytest.fixture
async def installation() -> AsyncIterator[Installation]:
    """A ledger whose table lets as much as was authorised go ahead, and asks about more."""
    async with open_installation(policy=LIMIT) as one:
        yield one


@pytest.mark.case("C077")
async def test_c077_an_amount_is_compared_as_the_whole_number_that_it_is(
    installation: Installation,
) -> None:
    """C077: 506 of 506 goes ahead and 507 asks a person. The same amount as a number with a point
    is 400 with the reason, in each of its spellings, and nothing is recorded.
    """
    body = charge(506, "USD").model_dump(exclude_none=True)
    key = installation.api_key("acme", "agent:test")
    transport = httpx.ASGITransport(installation.app)
    async with httpx.AsyncClient(
        transport=transport, base_url=ADDRESS, headers={"Authorization": f"Bearer {key}"}
    ) as http:
        first = await http.post("/v1/actions?wait_ms=5000", json=body)
        assert first.json()["status"] == "completed"
        more = {**body, "business_event": "renewal-2", "money": {"minor": 507, "currency": "USD"}}
        waits = await http.post("/v1/actions", json=more)
        assert waits.json()["status"] == "awaiting_approval"
        for number in ("5.06", "506.0", "5.06e2", "5.0599999"):
            raw = f'{{"operation":"charge","business_event":"renewal-3","target":"order:A-1842",\
"money":{{"minor":{number},"currency":"USD"}},"environment":"test"}}'
            refused = await http.post(
                "/v1/actions", content=raw, headers={"Content-Type": "application/json"}
            )
            assert (refused.status_code, refused.json()["code"]) == (400, "malformed_json")
            (problem,) = refused.json()["problems"]
            assert (problem["path"], problem["code"]) == ("/money/minor", "float_refused")
        assert (await http.get("/v1/actions/charge:v1:acme:renewal-3")).status_code == 404
    assert len(installation.effects()) == 1


@pytest.mark.case("C077")
def test_c077_the_core_refuses_a_float_whoever_sends_it() -> None:
    """C077: no amount is read from a float, not even from a whole one."""
    for number in (5.06, 506.0):
        with pytest.raises(ValueError, match="int"):
            Amount.model_validate({"minor": number, "currency": "USD"})
