"""What undoes another effect names it to the provider: as the start says, in every adapter."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import orjson

from ledger.core.facts import PreviewStarted
from ledger.core.money import Money
from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import BodyTemplate
from reconciler.providers.http_exchange import Broken, Exchanged, Message, Trouble
from reconciler.providers.port import Deadlines, ProviderRequest
from reconciler.providers.simulated.adapter import SimulatedPerformer
from streams.provider_call import previewed_request, provider_request
from tests.examples import PAYOUT, T0, recorded, request, started
from tests.patience import PATIENCE_MS

REQUEST = ProviderRequest(
    action_key=PAYOUT,
    operation="refund",
    version=1,
    target=None,
    params={},
    money=Money(minor=4_990, currency="EUR"),
    account="main",
    request_hash="sha256:00",
)
UNDOES = replace(REQUEST, original_reference="ch_77")


@dataclass
class Wire:
    """A network that keeps what it is given and answers nothing."""

    sent: list[Message] = field(default_factory=list)

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> Exchanged:
        """Take a message, until its deadlines are over."""
        assert deadlines.response_ms > 0
        before_first_byte()
        self.sent.append(message)
        return Broken(Trouble.ANSWER_TIMED_OUT)

    async def close(self) -> None:
        """Nothing is open."""


def test_an_adapter_is_given_the_reference_that_the_start_names() -> None:
    """Nobody else knows it; the request was hashed before there was one."""
    start = started(key=PAYOUT)
    assert provider_request(start, request(PAYOUT)).original_reference is None
    named = start.model_copy(update={"original_reference": "ch_77"})
    assert provider_request(named, request(PAYOUT)).original_reference == "ch_77"


def test_a_previewer_is_given_what_an_attempt_would_be() -> None:
    """In the same bytes, so that what is read again can be compared."""
    asked = PreviewStarted(
        action=PAYOUT,
        version=3,
        preview=1,
        provider="simulated",
        account="main",
        intent_offset=0,
        answer_by=T0,
        original_reference="ch_77",
    )
    start = started(key=PAYOUT).model_copy(update={"original_reference": "ch_77"})
    intent = recorded(PAYOUT)
    assert previewed_request(intent, asked) == provider_request(start, intent.request)


async def test_the_simulated_provider_is_told_which_effect_is_undone() -> None:
    """What undoes nothing says the same bytes as ever."""
    wire = Wire()
    performer = SimulatedPerformer("http://provider.test", {"main": "s3cret"}, http=wire)
    for asked in (REQUEST, UNDOES):
        await performer.perform(
            asked,
            provider_key=PAYOUT,
            deadlines=Deadlines(PATIENCE_MS, PATIENCE_MS),
            before_first_byte=lambda: None,
        )
    plain, undoes = (orjson.loads(one.body or b"") for one in wire.sent)
    assert undoes == {**plain, "original": "ch_77"}
    assert "original" not in plain


def test_a_described_provider_may_name_it_in_its_templates() -> None:
    """A member that is left out where nothing is undone."""
    body = BodyTemplate({"charge": "{original_reference}", "kind": "refund"}, "omit")
    assert body.value(names_of(UNDOES)) == {"charge": "ch_77", "kind": "refund"}
    assert body.value(names_of(REQUEST)) == {"kind": "refund"}
