"""Records of the log for people: what each says in one line, and how some of them are fetched.

Guarantees that any bytes have a line, and that whole records are found again by topic, partition
and offset. Changes nothing. Called by `log`, `why`, and the demonstration.
"""

import base64
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from ledger.core.holds import HOLD, RELEASE, parse_order
from ledger.core.money import Money, format_money
from ledger.core.strict_json import MalformedJson, parse
from ledger.log.kafka import KafkaLog
from ledger.log.port import Record
from ledger.log.webhook_record import WEBHOOK_TYPE
from ledger.signing.jws import claimed

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""

BYTES_MAX: Final = 4 * 1_024 * 1_024
ROUNDS_MAX: Final = 64
READ_MS: Final = 2_000


def content_of(record: Record) -> dict[str, Any]:
    """Type and data of a record, as they stand in its bytes; data is None where it is no event."""
    try:
        value = parse(record.value or b"", bytes_max=BYTES_MAX)
    except MalformedJson as malformed:
        return {"type": None, "data": None, "unreadable": malformed.code.value}
    if not isinstance(value, dict):
        return {"type": None, "data": None, "unreadable": "no_event"}
    content: dict[str, Any] = {"type": value.get("type"), "data": value.get("data")}
    if content["type"] == WEBHOOK_TYPE:
        content["body"] = body_of(content["data"])
    return content


def body_of(webhook: object) -> object:
    """What a webhook's sender wrote, where it is JSON; None where it is not."""
    if not isinstance(webhook, dict):
        return None
    try:
        raw = base64.b64decode(webhook.get("raw_base64", ""), validate=True)
        return parse(raw, bytes_max=BYTES_MAX)
    except (MalformedJson, ValueError, TypeError):
        return None


def document_of(record: Record) -> dict[str, Any]:
    """A record as one JSON object: where it stands, when, under which key, and what it says."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.decode("utf-8", "replace"),
        "bytes": len(record.value or b""),
        **content_of(record),
    }


def say(content: Mapping[str, Any]) -> str:
    """What a record says, in one line of plain text."""
    kind, data = content.get("type"), content.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        return f"unreadable: {content.get('unreadable', 'no data')}"
    short = kind.removeprefix("actionledger.").removesuffix(".v1")
    tell = _TOLD.get(short)
    body = content.get("body")
    said = f" {body['type']}" if isinstance(body, dict) and "type" in body else ""
    try:
        return f"{short}: {tell(data)}{said}" if tell is not None else short
    except (KeyError, TypeError, ValueError):
        return short


def money_of(money: Mapping[str, Any] | None) -> str:
    """An amount of the log as people write it."""
    return "" if not money else format_money(Money.model_validate(money))


def _propose(data: dict[str, Any]) -> str:
    request = data["request"]
    return _joined(data["key"], request.get("target"), money_of(request.get("money")))


def _report(data: dict[str, Any]) -> str:
    outcome = data["outcome"]
    told = outcome.get("reference") or outcome.get("code")
    return _joined(data["key"], f"attempt {data['attempt']}", outcome["kind"], told)


def _evidence(data: dict[str, Any]) -> str:
    return _joined(
        data["key"],
        data["kind"],
        data["meaning"],
        data.get("reference"),
        money_of(data.get("money")),
    )


def statement_of(signed: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a person says they decide, as it stands there: nothing here proves it. Empty where no
    statement can be read.
    """
    if signed["kind"] == "passkey":
        raw: bytes | None = signed["statement"].encode()
    else:
        token = claimed(signed["jws"])
        raw = None if token is None else token.payload
    try:
        said = parse(raw or b"", bytes_max=BYTES_MAX)
    except MalformedJson:
        return {}
    return said if isinstance(said, dict) else {}


def _judge(data: dict[str, Any]) -> str:
    said = statement_of(data["signed"])
    by = f"by {said['approver']}" if "approver" in said else "unreadable"
    return _joined(data["key"], said.get("decision"), said.get("move"), by)


def _preview(data: dict[str, Any]) -> str:
    foreseen = data.get("foreseen") or {}
    told = data.get("code") or foreseen.get("effect")
    return _joined(data["key"], f"preview {data['preview']}", told)


def _decision(data: dict[str, Any]) -> str:
    cause = data["cause"]
    came = f"{cause['topic']} {cause['partition']}:{cause['offset']}"
    return f"{came} → {became(data)}"


def became(decision: Mapping[str, Any]) -> str:
    """What an input became, by a decision's data."""
    facts = [*(decision.get("gate") or ()), *(decision.get("facts") or ())]
    if facts:
        return ", ".join(fact_line(fact) for fact in facts)
    if refused := decision.get("refused"):
        paths = ", ".join(detail["path"] for detail in refused.get("details") or ())
        return f"refused: {refused['code']}" + (f" ({paths})" if paths else "")
    if unchanged := decision.get("unchanged"):
        return f"unchanged: {unchanged['reason']}" + (
            f" ({unchanged['status']})" if unchanged.get("status") else ""
        )
    if quarantined := decision.get("quarantined"):
        return f"quarantined: {quarantined['reason']}"
    if adopted := decision.get("adopted"):
        return f"adopted: {_published(adopted)}"
    return "nothing"


def _published(config: Mapping[str, Any]) -> str:
    """A document by its hash; a hold or a release by what it says."""
    is_order = config["kind"] in {HOLD, RELEASE}
    order = parse_order(config["content"]) if is_order else None
    if order is None:
        return f"{config['kind']} {config['content_hash'][:19]}…"
    said = " ".join((order.reason or "").split())
    return _joined(config["kind"], str(order.scope), f"by {order.by}", said)


def fact_line(fact: Mapping[str, Any]) -> str:
    """A fact with the one field that tells most."""
    if fact.get("gate"):
        said = fact.get("outcome") or ("spent" if fact.get("spent") else "")
        about = fact.get("behind") or fact.get("like") or fact.get("reason")
        return _joined(str(fact["type"]), fact["gate"], said, about)
    if fact.get("person"):
        about = fact.get("reference") or fact.get("accepts")
        return _joined(str(fact["type"]), fact.get("move"), about, _said_by(fact))
    if fact.get("changes"):
        return _joined(str(fact["type"]), fact.get("reason"), _moved(fact["changes"]))
    if fact.get("names"):
        return _joined(str(fact["type"]), fact.get("reason"), fact["names"])
    if fact.get("accepts"):
        return _joined(str(fact["type"]), fact.get("move"), fact["accepts"])
    if fact["type"] == "approval.escalated":
        return _joined(str(fact["type"]), ", ".join(fact.get("groups") or ()))
    if fact["type"] == "action.denied":
        return _joined(str(fact["type"]), "by", fact.get("by"))
    if fact.get("by") and fact["type"] in {"action.blocked", "action.superseded"}:
        return _joined(str(fact["type"]), fact.get("reason"), fact["by"])
    for name in ("reference", "reason", "code", "provider_key", "purpose", "meaning", "row"):
        if fact.get(name):
            return f"{fact['type']} {fact[name]}"
    return str(fact["type"])


def _said_by(fact: Mapping[str, Any]) -> str:
    """Who said it, and what they had to say."""
    comment = " ".join(str(fact.get("comment") or "").split())
    return f"by {fact['person']}" + (f": {comment}" if comment else "")


def _moved(changes: Sequence[Mapping[str, str]]) -> str:
    """What is another value than was shown, each with both."""
    return ", ".join(f"{one['name']} {one['was']} → {one['now']}" for one in changes)


def _amounts(amounts: Mapping[str, int] | None) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in (amounts or {}).items())


def _joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


_TOLD: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "intent.propose": _propose,
    "saga.open": lambda data: _joined(
        data["stream"], data["saga"], f"{len(data['steps'])} steps", f"by {data['principal']}"
    ),
    "saga.cancel": lambda data: _joined(data["stream"], data["saga"], data.get("reason")),
    "step.report": lambda data: _joined(
        data["gate"], f"step {data['step']} of {data['reporter']}", _amounts(data.get("amounts"))
    ),
    "gate.ask": lambda data: _joined(data["gate"], data["action"], _amounts(data.get("demand"))),
    "gate.answer": lambda data: _joined(
        data["key"], data["gate"], data["outcome"], data.get("behind") or data.get("reason")
    ),
    "gate.keep": lambda data: _joined(data["gate"], data["action"], f"grant {data['grant']}"),
    "gate.close": lambda data: _joined(
        data["gate"], data["action"], "spent" if data.get("spent") else "unspent"
    ),
    "gate.taken": lambda data: _joined(data["key"], data["gate"]),
    "action.cancel": lambda data: _joined(data["key"], data.get("reason")),
    "approval.ask": lambda data: _joined(data["key"], f"by {data['principal']}"),
    "approval.decide": _judge,
    "preview.report": _preview,
    "attempt.report": _report,
    "caller.report": _report,
    "attempt.decline": lambda data: _joined(data["key"], data["code"]),
    "evidence.report": _evidence,
    "stream.tick": lambda data: str(data["stream"]),
    "config.publish": _published,
    "executor.offered": lambda data: f"{data['slots']} slots, {', '.join(data['operations'])}",
    "genesis.recorded": lambda data: f"{data['partitions']} partitions, {data['generation']}",
    "epoch.opened": lambda data: f"epoch {data['epoch']}",
    "decision.recorded": _decision,
    "webhook.received": lambda data: _joined(data["provider"], data["account"], data["event_id"]),
    "attention.raised": lambda data: _joined(data["action"], data["kind"], data.get("code")),
    "record.redriven": lambda data: (
        f"{data['topic']} {data['partition']}:{data['offset']} is {data['redriven_to']} now, "
        f"by {data['by']}"
    ),
    "record.quarantined": lambda data: (
        f"{data['topic']} {data['partition']}:{data['offset']} {data['reason']}"
    ),
}


async def records_at(log: KafkaLog, places: Collection[Place]) -> dict[Place, Record]:
    """The records at these places; one that is no longer kept is left out."""
    waiting: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in sorted(set(places)):
        waiting.setdefault((topic, partition), []).append(offset)
    found: dict[Place, Record] = {}
    if not waiting:
        return found
    reader = await log.reader({place: offsets[0] for place, offsets in waiting.items()})
    try:
        begins = await reader.beginning_offsets(waiting)
        for place, offsets in waiting.items():
            waiting[place] = [offset for offset in offsets if offset >= begins[place]]
        for _ in range(ROUNDS_MAX):
            waiting = {place: offsets for place, offsets in waiting.items() if offsets}
            if not waiting:
                break
            for (topic, partition), offsets in waiting.items():
                reader.seek(topic, partition, offsets[0])
            got = await reader.read(timeout_ms=READ_MS)
            if not got:
                break
            for record in got:
                offsets = waiting.get((record.topic, record.partition), [])
                if record.offset in offsets:
                    offsets.remove(record.offset)
                    found[record.topic, record.partition, record.offset] = record
    finally:
        await reader.close()
    return found


def pretty(data: object) -> str:
    """Data as indented JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False)
