"""The judge: reads the log and the provider's book, nothing else, and trusts no code of ours.

Acceptance and the fold are written here a second time, plainly and slowly, over the JSON of the
records. Each law says which invariant it holds; the first that is broken ends the history.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from ledger.log.simulated import SimulatedLog
from tests.simulation.broken import law
from tests.simulation.catalogue import (
    CARELESS,
    CLASSES,
    IDLE_MS,
    KEY_MARGIN_MS,
    KEY_WINDOW_MS,
    LAG_MS,
    SETTLE_MS,
    SKEW_MS,
    STRAY,
)
from tests.simulation.oracle_actions import PlainAction, PlainAttempt
from tests.simulation.oracle_bounds import Doubts
from tests.simulation.oracle_claims import BEFORE, CLAIMS
from tests.simulation.oracle_desk import Settling
from tests.simulation.oracle_gates import Crossing
from tests.simulation.oracle_orders import Orders, undone
from tests.simulation.oracle_people import FACTS, Asked, Case, InForce
from tests.simulation.provider import Entry

Json = dict[str, Any]
ANSWERS = ("facts", "gate", "refused", "unchanged", "quarantined", "adopted")
OUR_FAULTS = {"broken_invariant", "fault_in_decide", "fault_in_fold"}
NO_EFFECT = {"failed", "denied", "cancelled", "expired", "superseded"}
FINAL = {"completed", *NO_EFFECT}
OUTCOMES = {
    "attempt.declined": "declined",
    "attempt.succeeded": "succeeded",
    "attempt.refused": "refused",
    "attempt.not_sent": "not_sent",
    "attempt.unresolved": "unresolved",
    "attempt.absent": "absent",
}
ENDS = {
    "action.completed": "completed",
    "action.failed": "failed",
    "action.denied": "denied",
    "action.cancelled": "cancelled",
    "action.expired": "expired",
    "action.superseded": "superseded",
}


@dataclass
class Judge:
    """Reads one finished history."""

    log: SimulatedLog
    book: list[Entry]
    reservations_max: int
    doubts: Doubts
    actions: dict[str, PlainAction] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    decisions: dict[int, list[Json]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    spent: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    nonces: set[str] = field(default_factory=set)
    void: int = 0

    def judge(self) -> None:
        """Every law over every partition. Raises BrokenLawError."""
        for partition in range(self.log.partitions):
            accepted = self.decisions[partition] = list(self.accepted(partition))
            in_force = InForce()
            self.causes(partition, accepted)
            self.times(partition, accepted)
            orders = Orders(self.actions)
            for record in accepted:
                self.answer(record)
                in_force.adopt(record.get("adopted") or {"kind": None})
                landed_at = self.log.landed_at("ledger", partition, record["at"])
                for fact in record.get("facts", ()):
                    orders.comes(fact, record)
                    self.fold(fact, record, landed_at, in_force)
                    self.closed(fact, record)
                    self.doubts.takes(self.actions[fact["action"]], fact, record)
                orders.rests(record)
            orders.ends()
        self.effects()
        undone(self.actions, self.book)
        if any(record.get("gate") for some in self.decisions.values() for record in some):
            tables = defaultdict[int, InForce](InForce)
            crossing = Crossing(
                self.log, tables.__getitem__, reservations_max=self.reservations_max
            )
            crossing.judge(self.decisions, self.book)

    def closed(self, fact: Json, record: Json) -> None:
        """S9: what is tried again is over first, in the very decision that says so."""
        action = self.actions[fact["action"]]
        is_last = fact is record["facts"][-1]
        if is_last and action.desk.says(record, "try_again"):
            is_started = fact["type"] == "attempt.started"
            before = action.attempts[:-1] if is_started else action.attempts
            law(not any(one.is_open for one in before), "S9", f"{action.key}: open, tried again")

    def answer(self, record: Json) -> None:
        """Count what inputs were answered; each has one answer of one kind (S11)."""
        kinds = [kind for kind in ANSWERS if record.get(kind)]
        law(len(kinds) == 1, "S11", record)
        reason = record["quarantined"]["reason"] if "quarantined" in kinds else None
        law(reason not in OUR_FAULTS, "fault", record)
        for kind, field_name in (("refused", "code"), ("unchanged", "reason")):
            if kind in kinds:
                self.answers[f"{kind}: {record[kind][field_name]}"] += 1

    # Acceptance

    def accepted(self, partition: int) -> Iterator[Json]:
        """Decisions that count: made for this very place in the epoch that was open (S15)."""
        epoch = 0
        for record in self.log.read("ledger", partition, 0):
            event = orjson.loads(record.value)
            data = event["data"]
            kind = event["type"]
            if kind == "actionledger.genesis.recorded.v1":
                law(record.offset == 0, "genesis", "a partition begins once")
                continue
            opens = kind == "actionledger.epoch.opened.v1"
            if data["at"] != record.offset:
                self.answers["void: another place"] += 1
                self.void += 1
            elif data["epoch"] != epoch + opens:
                self.answers["void: another epoch"] += 1
                self.void += 1
            elif opens:
                epoch = self.epochs[partition] = data["epoch"]
            else:
                yield data

    def causes(self, partition: int, accepted: list[Json]) -> None:
        """S10, S11, S16: every input that is in an inbox has exactly one decision, in its order."""
        decided: dict[str, list[int]] = {}
        for record in accepted:
            cause = record["cause"]
            decided.setdefault(cause["topic"], []).append(cause["offset"])
            law(cause["partition"] in {0, partition}, "S11", "an input of another partition")
        inboxes = ("intents", "approvals", "attempts", "evidence")
        for topic, begin in (*((topic, 1) for topic in inboxes), ("config", 0)):
            end = self.log.end_offset(topic, 0 if topic == "config" else partition)
            law(
                decided.get(topic, []) == list(range(begin, end)),
                "S16",
                f"{topic} {partition} has {end} records, decided were {decided.get(topic)}",
            )
        ticks = decided.get("internal", [])
        law(ticks == sorted(set(ticks)), "S16", f"ticks {ticks}")

    def times(self, partition: int, accepted: list[Json]) -> None:
        """Log time never runs back, and never ahead of the true time by more than clocks may: one
        broker's by the skew, and an input's from another, that was set forward, by as much again.
        """
        before = 0
        for record in accepted:
            law(record["decided_at"] >= before, "time", "log time runs back")
            before = record["decided_at"]
            ahead_ms = before - self.log.landed_at("ledger", partition, record["at"])
            law(ahead_ms <= 2 * SKEW_MS, "time", record)

    # The fold, plainly

    def fold(self, fact: Json, record: Json, landed_at: int, in_force: InForce) -> None:
        """One fact after the other, with what must be true when it comes."""
        kind, key = fact["type"], fact["action"]
        if kind == "intent.recorded":
            law(key not in self.actions, "S10", f"{key} is recorded twice")
            law(fact["version"] == 1, "S7", "a beginning in the middle")
            asked = Asked(deadline=fact["step_deadline_at"])
            self.actions[key] = PlainAction(key, fact, asked=asked)
            return
        action = self.actions[key]
        self.answers[f"cell: {action.status} {kind}"] += 1
        law(fact["version"] == action.version + 1, "S7", fact)
        action.version = fact["version"]
        if action.status in FINAL:
            may_follow = {"evidence.recorded", "review.opened", "review.resolved", *CLAIMS}
            law(kind in may_follow, "S5", f"{kind} after the end")
        match kind:
            case _ if kind in CLAIMS:
                status, deadline = action.gates.claim(action.key, action.status, fact, record)
                action.status = status
                action.asked.deadline = deadline or action.asked.deadline
            case "action.blocked":
                law(action.status in {*BEFORE, "proposed"}, "S6", f"{kind} {action.status}")
                action.gates.block(fact)
                action.status = "blocked"
            case _ if kind in FACTS:
                law(action.status in {*BEFORE, "proposed"}, "S6", kind)
                case = self.case(action, fact, record, in_force)
                action.status = action.gates.after(fact, case.fold(), action.status)
            case "attempt.started":
                self.case(action, fact, record, in_force).start()
                self.start(action, fact, record, landed_at)
            case "evidence.recorded":
                known = {one["source_id"] for one in action.evidence}
                law(fact["source_id"] not in known, "source", f"{key} counts a source twice")
                action.evidence.append({**fact, "decided_at": record["decided_at"]})
            case "lookup.started":
                law(action.status in {"unknown", "needs_review"}, "S6", f"{kind} {action.status}")
                action.lookups[fact["lookup"]] = record["decided_at"]
            case "review.opened":
                action.review = action.desk.leading(fact["reason"])
                if action.status not in FINAL:
                    action.status = "needs_review"
            case "review.resolved":
                self.settle(action, fact, record, in_force)
            case "timer.set":
                may_wait = {"awaiting_approval", "ready", "unknown"}
                law(action.status in may_wait, "S6", f"{kind} {action.status}")
            case _:
                self.ending(action, fact, record, in_force)
                self.outcome(action, fact, record)
        action.desk.takes(fact)

    def settle(self, action: PlainAction, fact: Json, record: Json, in_force: InForce) -> None:
        """A person settled the case: their word, and what the action is by it."""
        may_be = {"needs_review", "blocked", *FINAL}
        law(action.status in may_be, "S6", f"settled while {action.status}")
        desk, asked, move = action.desk, action.asked, fact["move"]
        outcomes = [one.outcome for one in action.attempts]
        Settling(
            self.case(action, fact, record, in_force),
            desk,
            tuple(one.start["lease_until"] for one in action.attempts if one.is_open),
            "running" in outcomes,
            "succeeded" in outcomes,
            action.status in FINAL,
            action.gates.blocked_by if action.status == "blocked" else None,
            desk.names,
        ).judge()
        was_open = desk.opened is not None
        desk.settled, desk.settled_at, desk.opened = fact, record["at"], None
        action.was_ever_noted |= action.was_noted
        self.answers[f"resolved: {move}"] += 1
        if move == "allow":
            is_amount = was_open and desk.reason == "original_amount_differs"
            allowed = f"amount_of:{fact['accepts']}" if is_amount else fact["accepts"]
            action.gates.allowed.append(allowed)
            asked.deadline = fact.get("step_deadline_at", asked.deadline)
        if move in {"acknowledge", "effect_exists"} or action.status == "blocked":
            return
        if move == "try_again":
            desk.tried_from = len(action.attempts)
            asked.deadline = fact["step_deadline_at"]
            asked.people_until = fact.get("people_until", asked.people_until)
        if action.is_open:
            action.status = "unknown"
        elif "blocked" in action.gates.state and move != "no_effect":
            action.status = "blocked"
        elif move == "no_effect" or asked.asks is None or asked.is_met:
            action.status = "ready"
        else:
            action.status = "awaiting_approval"
            asked.deadline = fact.get("people_until", asked.deadline)

    def case(self, action: PlainAction, fact: Json, record: Json, in_force: InForce) -> Case:
        """The fact with everything that people's word is held against."""
        has_begun = bool(action.counted)
        about = (action.key, action.intent, action.asked, fact, record)
        return Case(*about, in_force, self.read, action.status, has_begun, self.nonces)

    def read(self, topic: str, partition: int, offset: int) -> tuple[int, bytes]:
        """An input as its inbox holds it."""
        (raw,) = self.log.read(topic, partition, offset, records_max=1)
        return raw.timestamp, raw.value

    def ending(self, action: PlainAction, fact: Json, record: Json, in_force: InForce) -> None:
        """S4: who says no may; nothing expires in its time; what moved ends what was shown."""
        asked, case = action.asked, self.case(action, fact, record, in_force)
        match fact["type"]:
            case "action.denied" if fact["by"] == "person":
                law(case.statement("deny")["approver"] == fact["person"], "S4", fact)
            case "action.denied":
                row = in_force.row_for(action.operation)
                law(row["outcome"] == "deny", "S4", f"{fact} by {row}")
            case "action.expired" if action.status == "blocked":
                until = action.gates.wait_until
                law(until is not None and case.now >= until, "deadline", f"{action.key}: {until}")
            case "action.expired":
                law(case.now >= asked.deadline, "deadline", f"{action.key}: expired too early")
            case "attempt.declined" if len([one for one in action.attempts if one.is_open]) == 1:
                cause = record["cause"]
                said = orjson.loads(self.read("attempts", cause["partition"], cause["offset"])[1])
                approval = action.attempts[-1].start.get("approval")
                if said["data"].get("changes") and approval is not None:
                    asked.moved.add(approval["nonce"])

    def start(self, action: PlainAction, fact: Json, record: Json, landed_at: int) -> None:
        """S8, S9, S17: the next number and token, one key for ever, and only where it is safe."""
        law(action.status in {"ready", "unknown"}, "S6", f"a start while {action.status}")
        law(not action.gates.awaits, "S19", f"{action.key}: a start while a gate owes an answer")
        law(fact["attempt"] == len(action.attempts) + 1, "S17", "attempts are numbered")
        tokens = [one.start["fencing_token"] for one in action.attempts]
        law(fact["fencing_token"] > max(tokens, default=0), "S17", "tokens grow")
        law(all(one.outcome != "running" for one in action.attempts), "S9", "two at once")
        for one in action.attempts:
            law(one.start["provider_key"] == fact["provider_key"], "S8", "another key")
        for one in action.attempts[action.desk.tried_from :]:
            law(
                one.outcome != "declined" or one.start["holder"] != fact["holder"],
                "capacity",
                "asked again who gave it back",
            )
        is_own = fact["holder"].startswith("caller:")
        law(is_own is ("performer" in action.intent), "performer", f"{fact['holder']} took it")
        law(fact["offered_at"] <= record["decided_at"], "offer", "spent before it came")
        offer = self.offer_of(fact, record)
        law(offer is not None, "offer", f"{action.key}: no such offer, or it had lapsed")
        assert offer is not None
        place = (record["cause"]["partition"], fact["holder"], fact["offer_sequence"])
        self.spent[place] += 1
        law(self.spent[place] <= offer["slots"], "offer", f"{place} is spent too often")
        late = record["decided_at"] >= action.asked.deadline
        law(not late, "deadline", f"{action.key}: started too late")
        earlier = action.counted
        if earlier:
            self.again(action, earlier, record["decided_at"])
        action.attempts.append(PlainAttempt(fact, record["decided_at"], landed_at))
        action.status = "attempting"

    def again(self, action: PlainAction, earlier: list[PlainAttempt], now: int) -> None:
        """S9: a further attempt by class."""
        match CLASSES[action.operation]:
            case "keyed":
                closes = earlier[0].decided_at + KEY_WINDOW_MS - KEY_MARGIN_MS
                law(now < closes, "S9", f"{action.key}: the key window has closed")
            case "lookup":
                law(action.operation == "ticket", "S9", f"{action.key}: one attempt only")
                law(len(earlier) == 1, "S9", "a third attempt")
                law(not action.is_open, "S9", "a second attempt while the first is open")
            case "none":
                law(not earlier, "S9", f"{action.key}: one attempt, ever")
            case _:
                pass

    def offer_of(self, fact: Json, record: Json) -> Json | None:
        """The offer that a start spends, if it was made and was not yet over."""
        if record["cause"]["topic"] == "config":
            return None
        if fact["holder"].startswith("caller:"):
            return self.offer_of_call(fact, record)
        for offer in self.log.read("offers", record["cause"]["partition"], 0):
            if offer.timestamp == fact["offered_at"]:
                data: Json = orjson.loads(offer.value)["data"]
                named = (data["incarnation"], data["sequence"])
                lapses_at = offer.timestamp + data["valid_ms"]
                if named == (fact["holder"], fact["offer_sequence"]):
                    return data if record["decided_at"] <= lapses_at else None
        return None

    def offer_of_call(self, fact: Json, record: Json) -> Json | None:
        """The proposal by which a call offered itself for this one action, if it was in time."""
        for raw in self.log.read("intents", record["cause"]["partition"], 1):
            nonce = fact["holder"].removeprefix("caller:").encode()
            if raw.timestamp != fact["offered_at"] or nonce not in raw.value:
                continue
            data = orjson.loads(raw.value)["data"]
            offers = data.get("caller")
            if offers and (data["key"], f"caller:{offers['nonce']}") == (
                fact["action"],
                fact["holder"],
            ):
                in_time = record["decided_at"] <= raw.timestamp + offers["valid_ms"]
                return {"slots": 1} if in_time else None
        return None

    def outcome(self, action: PlainAction, fact: Json, record: Json) -> None:
        """What became of an attempt, or of the action."""
        kind = fact["type"]
        if kind in OUTCOMES:
            attempt = action.attempts[fact["attempt"] - 1]
            law(attempt.is_open, "S17", f"{action.key}: a second outcome, {kind}")
            self.said_by_its_holder(attempt, record)
            if fact.get("code") == "lease_lapsed":
                over_at = attempt.start["lease_until"] + SKEW_MS
                law(record["decided_at"] >= over_at, "S17", f"{action.key}: lapsed too early")
            if kind == "attempt.absent" and fact["source_id"].startswith("person:"):
                law(action.desk.says(record, "no_effect", "try_again"), "S12", f"{fact} unsigned")
            elif kind == "attempt.absent":
                self.absence(action, attempt, fact)
            attempt.outcome = OUTCOMES[kind]
            if kind == "attempt.succeeded":
                action.references.append(fact["reference"])
            if action.status != "needs_review" and kind != "attempt.succeeded":
                running = action.attempts[-1].outcome == "running"
                unsure = "unknown" if action.is_open else "ready"
                action.status = "attempting" if running else unsure
            return
        law(kind in ENDS, "S6", f"an unknown fact {kind}")
        if kind == "action.completed":
            law(action.attempts, "S12", f"{action.key}: completed without an attempt")
            action.completed = fact
            if fact["proof"] == "person":
                said = action.desk.says(record, "effect_exists")
                is_named = said is not None and said.get("reference") == fact["reference"]
                law(is_named, "S12", f"{action.key}: completed by nobody's word, {fact}")
            for attempt in action.attempts:
                attempt.outcome = "settled" if attempt.is_open else attempt.outcome
        else:
            law(not action.is_open, "S12", f"{action.key}: {kind} while an attempt is open")
            if "resolved_no_effect" in {fact.get("code"), fact.get("reason")}:
                law(action.desk.says(record, "no_effect"), "S12", f"{action.key}: {fact} unsigned")
        action.status = ENDS[kind]

    def said_by_its_holder(self, attempt: PlainAttempt, record: Json) -> None:
        """S17: what a holder says counts for the start that bears its token and its name."""
        cause = record["cause"]
        if cause["topic"] not in {"attempts", "intents"}:
            return
        _, value = self.read(cause["topic"], cause["partition"], cause["offset"])
        said = orjson.loads(value)["data"]
        if cause["topic"] == "intents":
            said["holder"] = f"caller:{said['nonce']}"
        for name in ("holder", "fencing_token"):
            law(said[name] == attempt.start[name], "S17", f"a word of another {name}")

    def absence(self, action: PlainAction, attempt: PlainAttempt, fact: Json) -> None:
        """An absence counts if the question was put after everything could be seen."""
        law(attempt.outcome == "unresolved", "S12", "absent while it runs")
        known = [one for one in action.evidence if one["source_id"] == fact["source_id"]]
        law(len(known) == 1, "S12", f"{action.key}: absent by {fact}, which is no evidence")
        (said,) = known
        asked_at = action.lookups[int(said["source_id"].split(":")[-1])]
        over = attempt.start["lease_until"] + SKEW_MS + LAG_MS + SETTLE_MS
        law(asked_at > over, "S12", f"{action.key}: absence was asked {over - asked_at} too early")

    # The book

    def effects(self) -> None:
        """S1, S2, S3, S8, S12: what happened, against what the ledger says of it."""
        by_action: dict[str, list[Entry]] = {}
        for entry in self.book:
            self.request(entry)
            by_action.setdefault(entry.action, []).append(entry)
        for key, action in self.actions.items():
            requests = by_action.get(key, [])
            made = [entry for entry in requests if entry.effect is not None]
            if action.intent["account"] != CARELESS:
                law(len(made) <= 1, "S1", f"{key}: {len(made)} effects")
            seen = [entry.attempt for entry in requests]
            law(len(seen) == len(set(seen)), "S3", f"{key}: an attempt acted twice: {seen}")
            if CLASSES[action.operation] == "none":
                law(len(action.counted) <= 1, "S1", f"{key}: more than one attempt")
            if action.status in NO_EFFECT:
                stands = [entry for entry in made if not entry.taken_back]
                law(not stands, "S12", f"{key} is {action.status} and its effect exists")
            if action.status == "completed":
                assert action.completed is not None
                names, reference = [entry.effect for entry in made], action.completed["reference"]
                law(
                    reference in names or reference.startswith(STRAY),
                    "S12",
                    f"{key}: completed by {action.completed}, in the book {names}",
                )

    def request(self, entry: Entry) -> None:
        """A request has its start, which had landed before the first byte left, and its lease."""
        action = self.actions.get(entry.action)
        law(action is not None, "S2", f"{entry.action}: a request for nothing")
        assert action is not None
        law(entry.attempt <= len(action.attempts), "S2", f"{entry.action}: no such start")
        attempt = action.attempts[entry.attempt - 1]
        start = attempt.start
        law(start["provider_key"] == entry.key, "S8", "another key on the wire")
        law(start["account"] == entry.account, "S2", "another account")
        law(start["request_hash"] == entry.request_hash, "S2", "another request")
        asked = action.intent["request"].get("money")
        sent = None if entry.money is None else entry.money.model_dump()
        law(asked == sent, "S2", "other money")
        law(attempt.landed_at <= entry.sent_at, "S3", "sent before its start had landed")
        law(
            entry.sent_at <= start["lease_until"] + SKEW_MS,
            "S3",
            f"{entry.action}: sent {entry.sent_at - start['lease_until']} ms after its lease",
        )
        late_ms = entry.sent_at - start["deadline_at"] - SKEW_MS - IDLE_MS
        law(late_ms <= 0, "deadline", f"{entry.action}: sent {late_ms} ms after its deadline")
        if "key_expires_at" in start:
            late_ms = entry.sent_at - start["key_expires_at"] - SKEW_MS - IDLE_MS
            law(late_ms <= 0, "S9", f"{entry.action}: sent {late_ms} ms after its key's window")
        law(attempt.outcome != "declined", "S2", f"{entry.action}: sent and then given back")
        law(attempt.outcome != "not_sent", "S2", f"{entry.action}: sent and called not sent")
