"""Descriptions of the kinds `postgres` and `kafka`: read whole, or every mistake on its line."""

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from standardwebhooks import Webhook

from reconciler.providers.kafka.adapter import promised_by
from reconciler.providers.kafka.description import KafkaDescription, parse_kafka
from reconciler.providers.kafka.headers import Asked, asked_by, headers_of
from reconciler.providers.kafka.mapping import EffectReport, KafkaMapping
from reconciler.providers.kafka.performer import outcome_of
from reconciler.providers.kafka.reporting import reporter
from reconciler.providers.port import (
    IMPOSSIBLE,
    MappedWebhook,
    Outcome,
    ProviderRequest,
    Refused,
    Reliability,
    Retry,
    Succeeded,
    Unrecognised,
    Unresolved,
)
from reconciler.providers.postgres.description import PostgresDescription, parse_postgres
from reconciler.providers.postgres.statement import BadStatement, statement_of
from reconciler.sql_files import statements
from tests.tree import ROOT

EXAMPLES = ROOT / "examples" / "providers"
POSTGRES = (EXAMPLES / "shop.toml").read_text(encoding="utf-8")
KAFKA = (EXAMPLES / "invoices.toml").read_text(encoding="utf-8")


def test_a_place_is_bound_and_a_text_is_left_alone() -> None:
    """Quotes, comments and casts keep their colons; the same name is the same value."""
    made = statement_of(
        "update t set a = :one::text, b = ':two', \"c:two\" = :one "
        "/* :two */ -- :two\nwhere d = :x;",
        {"one": "", "x": ""},
    )
    assert made.names == ("one", "x")
    assert made.text == (
        "update t set a = $1::text, b = ':two', \"c:two\" = $1 /* :two */ -- :two\nwhere d = $2"
    )


@pytest.mark.parametrize(
    ("sql", "values", "said"),
    [
        ("drop table t", {}, "must be one insert"),
        ("update t set a = 1; drop table t", {}, "one statement"),
        ("update t set a = :b", {}, "no value"),
        ("update t set a = 1", {"b": ""}, "has no :b"),
        ("update t set a = $1", {}, "has a \\$"),
        ("update t set a = $$x$$", {}, "has a \\$"),
        ("", {}, "must be one insert"),
    ],
)
def test_a_statement_that_cannot_be_used_is_told(
    sql: str, values: dict[str, object], said: str
) -> None:
    """One statement that changes something, with a value for each place."""
    with pytest.raises(BadStatement, match=said):
        statement_of(sql, values)


def test_the_examples_are_whole() -> None:
    """What is shown to be copied has no mistake."""
    assert isinstance(parse_postgres(POSTGRES), PostgresDescription)
    assert isinstance(parse_kafka(KAFKA), KafkaDescription)


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ('kind = "postgres"', 'kind = "mysql"', "kind", "must be"),
        ("key_window_ms = 2_592_000_000", "", "key_window_ms", "missing"),
        ("rows = 1", "rows = 2\nrows_at_most = 1", 'perform."order.cancel".rows_at_most', "less"),
        ("{params.order}", "{credential}", 'perform."order.cancel".values.order', "not known"),
        ("{params.order}", "{params", 'perform."order.cancel".values.order', "brace"),
        ("where id = :order", "where id = :id", 'perform."order.cancel".sql', "no value"),
        ("[lookups]\nmain", "[lookups]\nother", "lookups.other", "no account"),
        ("format = 1", 'format = 1\neffects_table = "t; x"', "effects_table", "must be a table"),
    ],
)
def test_a_mistake_in_a_database_is_told(old: str, new: str, path: str, said: str) -> None:
    """By its path and in a sentence."""
    assert old in POSTGRES
    mistakes = parse_postgres(POSTGRES.replace(old, new, 1))
    assert isinstance(mistakes, tuple)
    found = [one for one in mistakes if one.path == path.replace('"', "")]
    assert found, mistakes
    assert said in found[0].message


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ('topic = "invoices.requested"', 'topic = "{params.topic}"', "topic", "one topic"),
        ('brokers = "', 'brokers = "http://', "brokers", "host:port"),
        ('user = "ledger"', "", "accounts.main", "has no user"),
        ('protocol = "sasl_ssl"', 'protocol = "ssl"', "accounts.main", "no login"),
        ("{params.order}", "{credential}", "key", "not known"),
        ("lookups = { main", "lookups = { other", "consumer.lookups.other", "no account"),
        ("reports = ", "reportz = ", "consumer.reportz", "known key"),
    ],
)
def test_a_mistake_in_an_outbox_is_told(old: str, new: str, path: str, said: str) -> None:
    """By its path and in a sentence."""
    assert old in KAFKA
    mistakes = parse_kafka(KAFKA.replace(old, new, 1))
    assert isinstance(mistakes, tuple)
    found = [one for one in mistakes if one.path.endswith(path)]
    assert found, mistakes
    assert said in found[0].message


def test_an_outbox_promises_what_its_consumer_does() -> None:
    """Without one nothing; with one that keeps keys, and searches only where its table is given."""
    described = parse_kafka(KAFKA)
    assert isinstance(described, KafkaDescription)
    consumer = described.form.consumer
    assert consumer is not None
    assert promised_by(None).reliability is Reliability.NONE
    whole = promised_by(consumer)
    assert whole.reliability is Reliability.KEYED
    assert whole.finds_by_key
    assert not whole.replay_proven
    alone = promised_by(consumer.model_copy(update={"lookups": {}}))
    assert alone.reliability is Reliability.KEYED
    assert not alone.finds_by_key
    assert alone.search_lag_ms is alone.settle_horizon_ms is IMPOSSIBLE


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (0, Succeeded("t/1/7", {"topic": "t", "partition": 1, "offset": 7})),
        (3, Unresolved("kafka_error_3")),
        (6, Unresolved("kafka_error_6")),
        (19, Refused("kafka_not_enough_replicas", Retry.LATER)),
        (10, Refused("kafka_message_too_large", Retry.NEVER)),
        (29, Refused("kafka_topic_not_authorised", Retry.NEVER)),
        (7, Unresolved("kafka_error_7")),
        (20, Unresolved("kafka_error_20")),
        (56, Unresolved("kafka_error_56")),
        (-1, Unresolved("kafka_error_unknown")),
    ],
)
def test_a_brokers_answer_proves_what_it_says_and_no_more(error: int, outcome: Outcome) -> None:
    """Time-outs, and replicas or the partition itself lost after the record was appended, leave it
    open.
    """
    assert outcome_of("t", 1, error, 7) == outcome


def test_what_a_record_says_is_read_back() -> None:
    """Headers hold who asks for what; a record without them is nobody's."""
    request = ProviderRequest("a:v1:é", "a", 1, None, {}, None, "main", "sha256:00")
    written = headers_of(request, "key")
    assert asked_by(written) == Asked("key", "a:v1:é", "sha256:00", "a", "main", None)
    assert asked_by(written[1:]) is None
    assert asked_by([*written, ("actionledger-amount-minor", b"x")]) is None
    assert asked_by([(name, b"\xff") for name, _ in written]) is None
    assert asked_by([("trace", None), *written]) == asked_by(written)
    assert asked_by([*written, ("actionledger-action-key", b"x" * 1_025)]) is None


@pytest.mark.parametrize("name", ["actionledger-account", "actionledger-amount-minor"])
def test_a_header_without_a_value_asks_for_nothing(name: str) -> None:
    """Kafka has such headers: none of ours is one, and an amount that is not there is not free."""
    request = ProviderRequest("a:v1:é", "a", 1, None, {}, None, "main", "sha256:00")
    assert asked_by([*headers_of(request, "key"), (name, None)]) is None


def test_a_report_is_a_final_webhook() -> None:
    """What the consumer writes is what the mapping reads; anything else is not recognised."""
    report = EffectReport(
        event_id="e",
        account="main",
        action_key="a",
        provider_key="k",
        reference="t/0/1",
        occurred_at=5,
    )
    mapped = KafkaMapping().map(report.model_dump_json().encode())
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.meaning, mapped.effect, mapped.provider_key) == ("final", "exists", "k")
    assert KafkaMapping().map(b'{"type":"effect.made"}') == Unrecognised("not_a_report")


async def test_a_report_is_signed_for_the_ledgers_door() -> None:
    """What arrives is verified with the account's secret; an answer that is no yes is an error."""
    secret = "whsec_c2VjcmV0LW9mLXRoZS1zaW11bGF0ZWQtcHJvdmlkZXI="
    door, arrived = FastAPI(), list[bytes]()

    @door.post("/v1/webhooks/invoices")
    async def take(request: Request) -> Response:
        body = await request.body()
        Webhook(secret).verify(body, dict(request.headers))
        arrived.append(body)
        return Response(status_code=202 if request.query_params["account"] == "main" else 404)

    report = EffectReport(
        event_id="e",
        account="main",
        action_key="a",
        provider_key="k",
        reference="t/0/1",
        occurred_at=5,
    )
    transport = httpx.ASGITransport(door)
    async with httpx.AsyncClient(transport=transport, base_url="http://door.test") as http:
        tell = reporter(http, "/v1/webhooks/invoices", secret)
        await tell(report)
        with pytest.raises(httpx.HTTPStatusError):
            await tell(report.model_copy(update={"account": "other"}))
    assert isinstance(KafkaMapping().map(arrived[0]), MappedWebhook)


def test_the_keys_lock_is_the_same_everywhere() -> None:
    """Performer, finder and consumer exclude each other by one number."""
    sql = statements("reconciler.providers.postgres", "statements.sql")
    assert "6160438" in sql["hold_key"]
    assert "6160438" in sql["key_is_free"]
