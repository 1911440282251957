"""Public failure cases about what a provider answers: with status 200 and a refusal inside, with
parts, too large, cut in the middle of a character, with numbers that are none.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ledger.core import inputs as i
from ledger.core.strict_json import parse
from reconciler.providers import port
from reconciler.providers.http.description import Description
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.http.performer import HttpPerformer
from reconciler.providers.limits import ANSWER_BYTES_MAX
from reconciler.providers.port import (
    Deadlines,
    Outcome,
    Partial,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from streams.provider_call import reported
from tests.patience import PATIENCE_MS

DESCRIPTION = """
format = 1

[headers]
X-Api-Key = "{credential}"

[capabilities]
reliability = "none"
finds_by_key = "impossible"
finds_by_reference = "impossible"
finds_by_marker = "impossible"
lists_effects = "impossible"
previews = "impossible"
key_window_ms = "impossible"
key_chars_max = "impossible"
settle_horizon_ms = 0
search_lag_ms = 0
replay_proven = "impossible"
remembers = []
sends_webhooks = "impossible"
retries_webhooks = "impossible"

[shape.message]
reference = "messages.0.id"
result = { network = "network" }

[perform."*"]
method = "POST"
path = "/sms"
shape = "message"

[perform."*".success]
statuses = [200]
parts = { at = "messages", equals = { status = "0" }, result = { id = "id", error = "error" } }

[perform."*".body]
text = "{params.text}"
key = "{provider_key}"
marker = "{action_key}"

[errors]
code = "error"
otherwise = "usual_statuses"

[[errors.row]]
phase = "answered"
statuses = [200]
codes = ["no_credit"]
verdict = "refused_never"
"""
REQUEST = ProviderRequest(
    action_key="sms:v1:acme:greeting",
    operation="sms",
    version=1,
    target=None,
    params={"text": "hello"},
    money=None,
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
GOOD, BAD = {"id": "m-1", "status": "0"}, {"id": "m-2", "status": "9", "error": "rejected"}


@asynccontextmanager
async def answering(status: int, body: object) -> AsyncIterator[port.Performer]:
    """A performer whose provider answers this and nothing else; bytes go out as they are."""

    async def handle(_: web.Request) -> web.Response:
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, content_type="application/json")
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_post("/sms", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    description = parse_description(DESCRIPTION)
    assert isinstance(description, Description)
    performer = HttpPerformer(description, url, {"main": "key"})
    try:
        yield performer
    finally:
        await performer.close()
        await runner.cleanup()


async def outcome_of(status: int, body: object) -> Outcome:
    """What one call comes to."""
    async with answering(status, body) as performer:
        return await performer.perform(
            REQUEST,
            provider_key="k-1",
            deadlines=Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS),
            before_first_byte=lambda: None,
        )


PARTS: Mapping[str, object] = {"network": "n", "messages": [GOOD, BAD]}
TOLD = Partial(
    "m-1",
    {
        "network": "n",
        "part_1": {"exists": True, "id": "m-1", "error": None},
        "part_2": {"exists": False, "id": "m-2", "error": "rejected"},
    },
)


@pytest.mark.case("C015")
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"messages": [GOOD, GOOD]}, Succeeded("m-1", {"network": None})),
        (PARTS, TOLD),
        ({"messages": [BAD, BAD]}, Unresolved("answer_not_recognised")),
        ({"error": "no_credit", "messages": [BAD]}, Refused("no_credit", Retry.NEVER)),
        ({"error": "no_credit", "messages": [GOOD]}, Unresolved("answer_contradicts_itself")),
        ({"error": "no_credit", **PARTS}, Unresolved("answer_contradicts_itself")),
        ({"messages": []}, Unresolved("answer_not_recognised")),
        ({"messages": None}, Unresolved("answer_not_recognised")),
        ({"messages": ["0"]}, Unresolved("answer_not_recognised")),
        ({"messages": [{"id": "m-1", "status": 0}]}, Unresolved("answer_not_recognised")),
    ],
)
async def test_c015_the_status_line_alone_never_makes_a_success(
    body: object, outcome: Outcome
) -> None:
    """C015: status 200 over parts: all of them there is a success, some are told part by part, none
    is no success, and a refusal beside a part that exists contradicts itself.
    """
    found = await outcome_of(200, body)
    if isinstance(outcome, Unresolved) and outcome.code == "answer_not_recognised":
        assert isinstance(found, Unresolved)
    else:
        assert found == outcome
    assert not isinstance(found, Succeeded) or body == {"messages": [GOOD, GOOD]}


UNREADABLE = [
    b'{"messages": [{"id": "m-1", "status": "0", "score": NaN}]}',
    b'{"messages": [{"id": "m-1", "status": "0", "score": -Infinity}]}',
    b'{"messages": [{"id": "m-1", "status": "0"}], "messages": []}',
    b'{"messages": [{"id": "m-1", "status": "0"}]',
    b"",
    b"<html>ok</html>",
    b'{"messages": [{"id": "\xff", "status": "0"}]}',
    b"\x1f\x8b\x08\x00" + bytes(64),
]


@pytest.mark.case("C187")
@pytest.mark.parametrize("body", UNREADABLE, ids=lambda body: body[:20].hex())
async def test_c187_an_answer_that_cannot_be_read_leaves_the_outcome_open(body: bytes) -> None:
    """C187: NaN in a body of status 200, a member that is there twice, half of a text, compressed
    bytes that nobody asked for: the effect may exist, so it is unresolved and never failed.
    """
    assert isinstance(await outcome_of(200, body), Unresolved)


@pytest.mark.case("C187")
async def test_c187_an_answer_behind_a_byte_order_mark_is_read() -> None:
    """C187: the mark says nothing, and the answer behind it is as good as without."""
    body = b'\xef\xbb\xbf{"messages": [{"id": "m-1", "status": "0"}]}'
    assert isinstance(await outcome_of(200, body), Succeeded)


@pytest.mark.case("C187")
async def test_c187_a_number_beyond_every_float_stands_in_the_way_of_nothing() -> None:
    """C187: 1e400 in a field that nobody asked for does not cost the success its reference."""
    body = b'{"network": 1e400, "messages": [{"id": "m-1", "status": "0"}]}'
    assert await outcome_of(200, body) == Succeeded("m-1", {"network": "1e400"})


@pytest.mark.case("C183")
async def test_c183_half_a_character_in_an_answer_costs_a_field_and_no_outcome() -> None:
    """C183: where it stands in a detail the detail is left out and the success is told; where it
    stands in the reference nothing can be told, and the effect is looked for.
    """
    detail = b'{"network": "hi \\ud83d", "messages": [{"id": "m-1", "status": "0"}]}'
    assert await outcome_of(200, detail) == Succeeded("m-1", {"network": None})
    name = b'{"messages": [{"id": "m-\\ud83d", "status": "0"}]}'
    assert isinstance(await outcome_of(200, name), Unresolved)


@pytest.mark.case("C159")
async def test_c159_an_answer_of_three_megabytes_is_given_up_and_found_out() -> None:
    """C159: it is never read into memory whole, and what it says is not guessed: unresolved, so the
    lookups find the effect.
    """
    body = b'{"messages": [{"id": "m-1", "status": "0"}], "x": "' + b"y" * 3_000_000 + b'"}'
    assert await outcome_of(200, body) == Unresolved("answer_too_large")


@pytest.mark.case("C159")
@pytest.mark.case("C183")
@pytest.mark.case("C187")
@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("y" * 3_000_000, "too_large"),
        ("hi \ud83d", "unwritable"),
        (float("nan"), "not_a_number"),
        (float("inf"), "not_a_number"),
        (1.5, "float_refused"),
        (2**53, "integer_too_large"),
        ("\0", "nul_character"),
    ],
    ids=str,
)
def test_a_detail_that_the_log_cannot_hold_leaves_its_size_and_hash(
    detail: str | float, reason: str
) -> None:
    """C159, C183, C187: the success is recorded all the same, with what was left out of it, why,
    how large it was and its hash; what is recorded can be read by everybody.
    """
    said = reported(Succeeded("ch_1", {"detail": detail}))
    assert isinstance(said, i.Success)
    left_out = said.result["left_out"]
    assert isinstance(left_out, dict)
    assert left_out["reason"] == reason
    assert str(left_out["sha256"]).startswith("sha256:")
    size = left_out["size_bytes"]
    assert isinstance(size, int)
    assert (size > ANSWER_BYTES_MAX) == (reason == "too_large")
    assert parse(said.model_dump_json().encode())


@pytest.mark.case("C015")
def test_c015_parts_are_reported_as_parts() -> None:
    """C015: what the adapter tells of the parts is what the ledger hears."""
    told = reported(Partial("m-1", {"part_1": {"exists": True}}))
    assert told == i.PartialSuccess(reference="m-1", result={"part_1": {"exists": True}})
