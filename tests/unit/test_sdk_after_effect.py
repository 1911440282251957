"""Once a function has run, or a request may have been taken, nothing that the SDK raises may tell a
model that nothing was started or recorded.
"""

from collections.abc import Callable

import httpx
import pytest

from actionledger import Effect, Ledger, testing
from actionledger.errors import (
    ActionRaised,
    CallerMistake,
    LedgerTrouble,
    LedgerUnavailable,
    OutcomeNotRecorded,
)
from actionledger.exchange import Retries
from tests.unit.test_performing import EITHER, Tool, charge

HASTY = Retries(first_ms=1, cap_ms=1)


def refusal(status: int) -> httpx.Response:
    """A refusal in the ledger's form."""
    body = {
        "type": "x",
        "title": "No.",
        "status": status,
        "code": "some_code",
        "hint": "Read it.",
        "asking_again": "is_useless",
    }
    return httpx.Response(status, json=body)


class Spoilt(httpx.AsyncBaseTransport):
    """Answers every outcome with something else than the ledger's answer."""

    def __init__(
        self, inner: httpx.AsyncBaseTransport, answer: Callable[[], httpx.Response]
    ) -> None:
        self._inner = inner
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.url.path.endswith("/outcome"):
            return self._answer()
        return await self._inner.handle_async_request(request)


async def performed(
    returned: object, answer: Callable[[], httpx.Response] | None = None
) -> BaseException | None:
    """What a caller hears once its function has returned that."""
    async with testing.ledger(EITHER) as world:

        async def does(_: object) -> Effect:
            return returned  # type: ignore[return-value] # on purpose

        tool = Tool(does)
        if answer is not None:
            client = world.ledger._exchange._pools.here()
            client._transport = Spoilt(client._transport, answer)
        try:
            await world.ledger.perform(charge(), tool)
        except Exception as trouble:  # noqa: BLE001 - whatever it is, it is looked at
            return trouble
        finally:
            assert tool.calls
    return None


@pytest.mark.parametrize("reference", ["ch_\x00", "ch_\ud800", "\u00e9" * 600, "x" * 1_024])
async def test_a_name_that_the_ledger_does_not_take_is_kept_for_the_caller(reference: str) -> None:
    """The effect is there, whatever it is called."""
    trouble = await performed(Effect(reference, {}))
    if trouble is not None:
        assert isinstance(trouble, OutcomeNotRecorded)
        assert trouble.reference == reference


@pytest.mark.parametrize("reference", [None, 12_345])
async def test_a_name_that_is_no_text_is_told_as_unknown(reference: object) -> None:
    """The function did not keep to its declaration; it has run."""
    trouble = await performed(Effect(reference, {}))  # type: ignore[arg-type]
    assert isinstance(trouble, ActionRaised)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
async def test_no_refusal_of_an_outcome_hides_that_the_function_ran(status: int) -> None:
    """A key that was withdrawn meanwhile, an action that is elsewhere, a faulty gateway."""
    trouble = await performed(Effect("ch_1", {}), lambda: refusal(status))
    assert isinstance(trouble, OutcomeNotRecorded)
    assert trouble.reference == "ch_1"


async def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    """It is asked for again, and at last said to be unavailable."""

    def packed() -> httpx.Response:
        stream = httpx.ByteStream(b"not packed at all")
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=stream)

    assert isinstance(await performed(Effect("ch_1", {}), packed), LedgerTrouble)


class Loses(httpx.AsyncBaseTransport):
    """Loses the first answer, or never takes the first request, and refuses every further one."""

    def __init__(self, first: httpx.TransportError, status: int) -> None:
        self._first: httpx.TransportError | None = first
        self._status = status

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        """One request."""
        first, self._first = self._first, None
        if first is not None:
            raise first
        return refusal(self._status)


@pytest.mark.parametrize("status", [401, 403, 422])
async def test_a_refusal_after_a_lost_answer_is_no_word_about_the_first(status: int) -> None:
    """The first may be recorded and done; the same call again tells."""
    transport = Loses(httpx.ReadError("lost"), status)
    async with Ledger("http://ledger", "k", transport=transport, retries=HASTY) as ledger:
        with pytest.raises(LedgerUnavailable) as trouble:
            await ledger.propose(charge())
    assert "Nothing was" not in trouble.value.text_for_model
    assert str(status) in trouble.value.message


async def test_a_refusal_after_a_request_that_never_left_is_a_refusal() -> None:
    """What nobody could connect to has taken nothing."""
    transport = Loses(httpx.ConnectError("nobody there"), 422)
    async with Ledger("http://ledger", "k", transport=transport, retries=HASTY) as ledger:
        with pytest.raises(CallerMistake):
            await ledger.propose(charge())
