"""The HTTP door on the real log: what is durable, what is refused, what is never told."""

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import asyncpg
import httpx
import pytest
import pytest_asyncio

from gateway.http import actions, following
from gateway.http.doors import doors_in
from gateway.http.serve import gateway
from gateway.keys import Role
from ledger.core.facts import AttemptStarted
from projections.projector import Projector
from projections.queries import Queries
from tests.integration.door import POLL_SECONDS, Door, charge_body, code_of, opened
from tests.integration.installation import PARTITIONS
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

DEEP = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
CANARY = "canary-9f3"
HOSTILE: list[tuple[str, bytes, int, str, str | None]] = [
    ("nothing", b"", 400, "malformed_json", "not_json"),
    ("no json", b"renewal please", 400, "malformed_json", "not_json"),
    ("cut off", b'{"operation":"charge"', 400, "malformed_json", "not_json"),
    ("two texts", b"{} {}", 400, "malformed_json", "trailing_data"),
    ("a list", b"[]", 400, "invalid_body", None),
    ("a text", b'"charge"', 400, "invalid_body", None),
    ("duplicate key", b'{"version":1,"version":2}', 400, "malformed_json", "duplicate_key"),
    ("float", b'{"money":{"minor":49.9}}', 400, "malformed_json", "float_refused"),
    ("exponent", b'{"version":1e0}', 400, "malformed_json", "float_refused"),
    ("NaN", b'{"params":{"x":NaN}}', 400, "malformed_json", "not_a_number"),
    ("infinity", b'{"params":{"x":-Infinity}}', 400, "malformed_json", "not_a_number"),
    ("2^53", b'{"params":{"x":9007199254740992}}', 400, "malformed_json", "integer_too_large"),
    ("huge", b'{"x":' + b"9" * 60_000 + b"}", 400, "malformed_json", "integer_too_large"),
    ("deep", DEEP, 400, "malformed_json", "too_deep"),
    ("deep lists", b"[" * 60_000, 400, "malformed_json", "too_deep"),
    ("NUL", b'{"params":{"x":"\\u0000"}}', 400, "malformed_json", "nul_character"),
    ("raw NUL", b'{"params":{"x":"\0"}}', 400, "malformed_json", "nul_character"),
    ("mark", b"\xef\xbb\xbf{}", 400, "malformed_json", "byte_order_mark"),
    ("latin-1", '{"x":"é"}'.encode("latin-1"), 400, "malformed_json", "not_utf8"),
    ("raw surrogate", b'{"x":"\xed\xa0\xbd"}', 400, "malformed_json", "not_utf8"),
    ("64 KiB and one", b" " * (64 * 1_024 + 1), 413, "too_large", None),
    ("1 MB", b"x" * 1_000_000, 413, "too_large", None),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """Open one door for all tests, with processor, executor and projector behind it."""
    async with opened(servers, tmp_path_factory.mktemp("door")) as one:
        await one.one.processor()
        await one.one.executor()
        async with asyncpg.create_pool(one.settings.database_url, min_size=1, max_size=4) as pool:
            projector = Projector(one.one.log, pool, range(PARTITIONS))
            stop = asyncio.Event()
            projecting = asyncio.create_task(projector.run(stop))
            yield one
            stop.set()
            await projecting


async def until_in_read_model(door: Door, key: str, status: str) -> None:
    """Wait until the projector has written the action with this status."""
    queries = doors_in(door.app).queries
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (row := await queries.action("acme", key)) is None or row.status != status:
            await asyncio.sleep(POLL_SECONDS)


async def starts_of(door: Door, key: str) -> int:
    """How often the ledger let an executor act on a key."""
    return sum(
        isinstance(fact, AttemptStarted) and fact.action == key
        for decision in await door.one.decisions()
        for fact in decision.facts
    )


# Proposals


async def test_a_new_intent_is_created_durable_and_found_at_its_location(door: Door) -> None:
    """201 with Location and the key in the form of the draft; GET shows the same action."""
    response = await door.propose(charge_body("created"), query="?wait_ms=30000")
    assert response.status_code == 201
    body = response.json()
    key = "charge:v1:acme:created"
    assert (body["key"], body["status"], body["replayed"]) == (key, "completed", False)
    assert response.headers["location"] == f"/v1/actions/{key}"
    assert response.headers["idempotency-key"] == f'"{key}"'
    assert response.headers["cache-control"] == "no-store"
    found = await door.get(response.headers["location"])
    assert found.status_code == 200
    assert found.json()["reference"] == body["reference"]


async def test_the_same_intent_again_is_a_replay_and_nothing_happens_twice(door: Door) -> None:
    """200, replayed, the same reference; the ledger started one attempt."""
    first = await door.propose(charge_body("again"), query="?wait_ms=30000")
    answers = await asyncio.gather(*(door.propose(charge_body("again")) for _ in range(8)))
    for answer in answers:
        assert answer.status_code == 200
        assert answer.json()["replayed"] is True
        assert answer.json()["reference"] == first.json()["reference"]
    assert await starts_of(door, "charge:v1:acme:again") == 1


async def test_c017_the_same_key_with_other_parameters_is_refused_with_the_difference(
    door: Door,
) -> None:
    """C017: 422 names the old action and the fields; no call; a new event with c2 is accepted."""
    body = charge_body("card-1", params={"customer": "c1"})
    await door.propose(body, query="?wait_ms=30000")
    other = {"customer": "c2"}
    conflict = await door.propose(charge_body("card-1", minor=3_000, params=other))
    assert conflict.status_code == 422
    assert code_of(conflict) == "conflicted"
    problem = conflict.json()
    assert {item["path"]: item["message"] for item in problem["problems"]} == {
        "/money/minor": "4990 -> 3000",
        "/params/customer": '"c1" -> "c2"',
    }
    assert problem["original"]["key"] == "charge:v1:acme:card-1"
    assert problem["original"]["status"] == "completed"
    assert "A new key is the wrong move" in problem["hint"]
    assert await starts_of(door, "charge:v1:acme:card-1") == 1
    fresh = await door.propose(charge_body("card-2", minor=3_000, params=other))
    assert fresh.status_code == 201


async def test_another_version_of_the_same_act_is_refused(door: Door) -> None:
    """An operation's new version is not another act of the same business event."""
    await door.propose(charge_body("versions"))
    other = await door.propose(charge_body("versions", version=2))
    assert other.status_code in {400, 409}
    assert code_of(other) in {"unknown_operation", "other_version"}


async def test_an_unknown_operation_is_refused_and_may_come_later(door: Door) -> None:
    """The catalogue does not have it; publishing it may help, so the same key stays usable."""
    response = await door.propose(charge_body("op", operation="launch_rocket"))
    assert response.status_code == 400
    assert code_of(response) == "unknown_operation"
    assert response.json()["asking_again"] == "may_help_later"


async def test_a_request_against_its_declaration_is_refused_with_every_problem(door: Door) -> None:
    """What the catalogue does not allow is named field by field."""
    body = charge_body("undeclared", target="customer:1", params={"colour": "red"})
    response = await door.propose(body)
    assert response.status_code == 400
    assert code_of(response) == "invalid_request"
    assert {"/target", "/params/colour"} <= {item["path"] for item in response.json()["problems"]}


@pytest.mark.parametrize(
    ("name", "raw", "status", "code", "fault"), HOSTILE, ids=[row[0] for row in HOSTILE]
)
async def test_hostile_bytes_are_refused_by_name(
    door: Door, name: str, raw: bytes, status: int, code: str, fault: str | None
) -> None:
    """Each is a problem of its own; nothing of it reaches the log."""
    response = await door.http.post(
        "/v1/actions", content=raw, headers=door.bearer() | {"content-type": "application/json"}
    )
    assert response.status_code == status
    assert code_of(response) == code
    if fault is not None:
        assert response.json()["problems"][0]["code"] == fault


@pytest.mark.case("C179")
async def test_c179_numbers_that_are_not_integers_are_refused_in_any_spelling(door: Door) -> None:
    """C179: 1e6 is refused, 1000000 is taken; so the two can never be two actions."""
    for spelling in (b"1.2345678901234567", b"1e6", b"1000000.0", b"-0.0"):
        raw = json.dumps(charge_body("spelling")).encode().replace(b"4990", spelling)
        response = await door.http.post(
            "/v1/actions", content=raw, headers=door.bearer() | {"content-type": "application/json"}
        )
        assert response.status_code == 400
        assert response.json()["problems"][0] | {"message": ""} == {
            "path": "/money/minor",
            "code": "float_refused",
            "message": "",
        }
    first = await door.propose(charge_body("spelling", minor=1_000_000))
    assert first.status_code == 201


@pytest.mark.case("C183")
async def test_c183_half_a_character_is_refused_when_it_is_submitted(door: Door) -> None:
    """C183: a text cut in the middle of an emoji is a 400 that says where."""
    raw = json.dumps(charge_body("cut", params={"description": "hi \ud83d"})).encode()
    assert b"\\ud83d" in raw
    response = await door.http.post(
        "/v1/actions", content=raw, headers=door.bearer() | {"content-type": "application/json"}
    )
    assert response.status_code == 400
    (trouble,) = response.json()["problems"]
    assert (trouble["path"], trouble["code"]) == ("/params/description", "lone_surrogate")
    assert (await door.get("/v1/actions/charge:v1:acme:cut")).status_code == 404


async def test_the_largest_body_that_is_taken_can_also_be_decided(door: Door) -> None:
    """The envelope around a body of the full size fits behind the door."""
    body = charge_body("largest")
    body["params"]["description"] = "é" * ((64 * 1_024 - len(json.dumps(body)) - 22) // 2)
    raw = json.dumps(body, ensure_ascii=False).encode()
    assert 64 * 1_024 - 8 < len(raw) <= 64 * 1_024
    response = await door.http.post(
        "/v1/actions", content=raw, headers=door.bearer() | {"content-type": "application/json"}
    )
    assert response.status_code == 400
    assert code_of(response) == "invalid_request"


async def test_an_idempotency_key_is_checked_before_anything_is_recorded(door: Door) -> None:
    """A key of the caller's own making is refused; the action's own is taken, in both forms."""
    url, body = "/v1/actions", charge_body("header")
    for header in ("8e03978e-40d5-43dd-bc93-6894a57f9324", '"charge:v1:globex:header"'):
        wrong = await door.http.post(
            url, json=body, headers=door.bearer() | {"Idempotency-Key": header}
        )
        assert wrong.status_code == 400
        assert code_of(wrong) == "other_idempotency_key"
    assert (await door.get("/v1/actions/charge:v1:acme:header")).status_code == 404
    right = await door.http.post(
        url, json=body, headers=door.bearer() | {"Idempotency-Key": '"header"'}
    )
    assert right.status_code == 201


# Who asks


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic YTpi",
        f"Bearer al_{'0' * 16}_{'A' * 43}",
        "Bearer \u00e9",
    ],
)
async def test_whoever_has_no_known_key_learns_nothing(door: Door, header: str | None) -> None:
    """A missing, malformed and unknown API key get one and the same 401, before anything else."""
    headers: dict[bytes, bytes] = {}
    if header is not None:
        headers[b"Authorization"] = header.encode("latin-1")
    answers = [
        await door.http.post("/v1/actions", content=b"not json", headers=headers),
        await door.http.get("/v1/actions/charge:v1:acme:created", headers=headers),
        await door.http.get("/v1/actions/nonsense/timeline", headers=headers),
        await door.http.post("/v1/actions/nonsense/cancel", headers=headers),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert code_of(answers[0]) == "unauthenticated"
    assert answers[0].headers["www-authenticate"].startswith("Bearer")


async def test_an_analyst_may_look_and_not_act(door: Door) -> None:
    """The role of the key decides, before the body is read."""
    await door.propose(charge_body("looked-at"))
    analyst = door.bearer(role=Role.ANALYST)
    refused = await door.http.post("/v1/actions", json=charge_body("by-analyst"), headers=analyst)
    assert refused.status_code == 403
    assert code_of(refused) == "role_not_allowed"
    path = "/v1/actions/charge:v1:acme:looked-at"
    assert (await door.http.post(f"{path}/cancel", headers=analyst)).status_code == 403
    assert (await door.http.get(path, headers=analyst)).status_code == 200


async def test_another_tenants_action_does_not_exist(door: Door) -> None:
    """Look, timeline and cancel answer as for a key that nobody ever used, byte for byte."""
    body = charge_body("private", params={"description": CANARY})
    await door.propose(body, query="?wait_ms=30000")
    for suffix in ("", "/timeline", "/cancel"):
        method = "POST" if suffix == "/cancel" else "GET"
        foreign, nobody = [
            await door.http.request(
                method,
                f"/v1/actions/charge:v1:acme:{event}{suffix}",
                headers=door.bearer("globex"),
            )
            for event in ("private", "never-used")
        ]
        assert foreign.status_code == nobody.status_code == 404
        assert foreign.content == nobody.content
        assert CANARY not in foreign.text
    own = await door.propose(charge_body("private", minor=1), tenant="globex")
    assert own.status_code == 201
    assert own.json()["key"] == "charge:v1:globex:private"


# Looking and waiting


async def test_a_long_poll_answers_as_soon_as_the_action_moves(door: Door) -> None:
    """Versions above the one that is known end the wait; without news it ends by itself."""
    await door.propose(charge_body("moving"))
    path, version = "/v1/actions/charge:v1:acme:moving", 0
    seen: list[str] = []
    while not seen or seen[-1] != "completed":
        response = await door.get(f"{path}?after_version={version}&wait_ms=30000")
        assert response.status_code == 200
        assert response.json()["version"] > version
        version = response.json()["version"]
        seen.append(response.json()["status"])
    settled = (await door.get(path)).json()["version"]
    quiet = await door.get(f"{path}?after_version={settled + 10}&wait_ms=300")
    assert quiet.json()["status"] == "completed"


@pytest.mark.parametrize(
    "query", ["wait_ms=-1", "wait_ms=30001", "wait_ms=x", "wait=1", "wait_ms=1&wait_ms=2"]
)
async def test_a_wrong_query_is_refused_by_name(door: Door, query: str) -> None:
    """A misspelt parameter is not passed over."""
    response = await door.get(f"/v1/actions/charge:v1:acme:created?{query}")
    assert response.status_code == 400
    assert code_of(response) == "invalid_query"


async def test_a_key_with_an_item_is_reached_by_its_escaped_form(door: Door) -> None:
    """The sign # would end the path, so Location escapes it."""
    response = await door.propose(charge_body("items", item="receipt"))
    assert response.headers["location"] == "/v1/actions/charge:v1:acme:items%23receipt"
    found = await door.get(response.headers["location"])
    assert found.json()["key"] == "charge:v1:acme:items#receipt"


async def test_a_timeline_tells_every_fact_and_its_cause(door: Door) -> None:
    """Versions without a gap, each with the input that led to it and its place in the ledger."""
    key = "charge:v1:acme:told"
    await door.propose(charge_body("told"), query="?wait_ms=30000")
    await until_in_read_model(door, key, "completed")
    timeline = (await door.get(f"/v1/actions/{key}/timeline")).json()
    entries = timeline["entries"]
    assert [entry["version"] for entry in entries] == list(range(1, len(entries) + 1))
    assert timeline["complete_to_version"] == len(entries)
    assert [entry["type"] for entry in entries][:3] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
    ]
    assert entries[0]["cause"]["topic"] == "intents"
    assert entries[-1]["type"] == "action.completed"


async def test_a_door_that_starts_later_answers_from_the_read_model(
    door: Door, servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It follows the log from where the read model stands and finds older actions there."""
    key = "charge:v1:acme:older"
    await door.propose(charge_body("older"), query="?wait_ms=30000")
    await until_in_read_model(door, key, "completed")
    async with asyncpg.create_pool(door.settings.database_url, min_size=0, max_size=1) as pool:
        offsets = await Queries(pool).offsets()
    begin_at = {part: one.begin for part, one in offsets.items()}
    async with gateway(door.settings, begin_at=begin_at) as (app, client):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://second") as http:
            assert await client.progress(key) is None
            found = await http.get(f"/v1/actions/{quote(key)}", headers=door.bearer())
            assert found.json()["status"] == "completed"
            replay = await http.post(
                "/v1/actions", json=charge_body("older"), headers=door.bearer()
            )
            assert replay.status_code == 200
            assert replay.json()["proof"] == "report"
            waited = await http.get(
                f"/v1/actions/{quote(key)}?after_version=99&wait_ms=700", headers=door.bearer()
            )
            assert waited.json()["status"] == "completed"


# Cancelling


async def test_a_settled_action_cannot_be_taken_back(door: Door) -> None:
    """409 with the action's outcome; the reason in the body changes nothing."""
    await door.propose(charge_body("settled"), query="?wait_ms=30000")
    key = "charge:v1:acme:settled"
    await until_in_read_model(door, key, "completed")
    response = await door.http.post(
        f"/v1/actions/{key}/cancel", json={"reason": "changed my mind"}, headers=door.bearer()
    )
    assert response.status_code == 409
    assert code_of(response) == "already_final"
    assert response.json()["original"]["status"] == "completed"


@pytest.mark.parametrize(
    "raw", [b"[]", b'{"why":1}', b'{"reason":1}', b'{"reason":"' + b"x" * 5_000]
)
async def test_a_malformed_cancellation_is_refused(door: Door, raw: bytes) -> None:
    """Its body may hold a reason, and nothing else."""
    response = await door.http.post(
        "/v1/actions/charge:v1:acme:created/cancel",
        content=raw,
        headers=door.bearer() | {"content-type": "application/json"},
    )
    assert response.status_code in {400, 413}
    assert code_of(response) in {"invalid_body", "too_large"}


# The door itself


async def test_what_is_not_there_is_a_problem_too(door: Door) -> None:
    """Unknown paths and methods answer like everything else."""
    missing = await door.http.get("/v2/actions")
    assert (missing.status_code, code_of(missing)) == (404, "not_found")
    method = await door.http.delete("/v1/actions/charge:v1:acme:created")
    assert (method.status_code, code_of(method)) == (405, "method_not_allowed")
    assert (await door.http.get("/docs")).status_code == 404


async def test_it_says_that_it_lives_and_is_ready(door: Door) -> None:
    """Both need no API key."""
    assert (await door.http.get("/healthz")).json() == {"status": "ok"}
    assert (await door.http.get("/readyz")).json() == {"status": "ok"}


async def test_a_fault_of_ours_leaves_a_number_and_no_stack(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500 with an incident; the log has the stack under the same number."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(following, "current", broken)
    response = await door.get("/v1/actions/charge:v1:acme:created")
    assert response.status_code == 500
    assert code_of(response) == "internal"
    assert CANARY not in response.text
    assert "Traceback" not in response.text
    (record,) = [record for record in caplog.records if record.msg == "request_failed"]
    assert record.__dict__["incident"] == response.json()["incident"]
    assert record.exc_info is not None


async def test_metrics_hold_no_callers_text(door: Door) -> None:
    """Paths, providers and methods that a caller made up do not become labels."""
    await door.propose(charge_body("counted"))
    again = await door.propose(charge_body("counted", minor=4_991))
    assert code_of(again) == "conflicted"
    await door.get("/v1/actions/charge:v1:acme:counted")
    await door.http.get(f"/{CANARY}")
    await door.http.post(f"/v1/webhooks/{CANARY}", content=b"{}")
    await door.http.request(CANARY.upper(), "/v1/actions")
    counted = (await door.http.get("/metrics")).text
    assert "actionledger_read_model_answers 1.0" in counted
    assert CANARY.lower() not in counted.lower()
    assert 'actionledger_intents_total{result="conflicted"}' in counted
    assert 'route="/v1/actions/{key}"' in counted


async def test_after_everything_other_keys_still_go_through(door: Door) -> None:
    """Nothing of the above stands in the way of an honest intent."""
    response = await door.propose(charge_body("last"), query="?wait_ms=30000")
    assert response.json()["status"] == "completed"


async def test_an_intent_nobody_decides_in_time_is_durable_all_the_same(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """202 while no processor runs; once one does, the intent and a cancellation are decided."""
    monkeypatch.setattr(actions, "DECISION_MS_MAX", 300)
    async with opened(servers, tmp_path_factory.mktemp("alone")) as alone:
        response = await alone.propose(charge_body("waiting"))
        assert response.status_code == 202
        assert response.json()["status"] == "undecided"
        path = response.headers["location"]
        assert (await alone.get(path)).status_code == 404
        poll = asyncio.create_task(alone.get(f"{path}?wait_ms=30000"))
        await alone.one.processor()
        decided = await poll
        assert decided.status_code == 200
        assert decided.json()["status"] == "ready"
        monkeypatch.undo()
        for replayed in (False, True):
            cancelled = await alone.http.post(f"{path}/cancel", headers=alone.bearer())
            assert cancelled.status_code == 200
            assert cancelled.json()["status"] == "cancelled"
            assert cancelled.json()["replayed"] is replayed
