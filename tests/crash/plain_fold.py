"""The ledger's rules once more, plain and slow: which records count, and what they add up to.

Written from the rules and not from the product, so that a mistake there is not made twice: it
shares no code with `ledger.core` and holds an action as the plain JSON object that projections are
to have. What it meets that no rule allows is a finding, and it goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.crash import plain_evidence, plain_gates
from tests.crash.evidence import Finding, Json, Run, event_of
from tests.crash.plain_table import FINAL, MAY_FOLLOW, OUTCOMES

GENESIS = "actionledger.genesis.recorded.v1"
EPOCH = "actionledger.epoch.opened.v1"
DECISION = "actionledger.decision.recorded.v1"
OPEN = frozenset({"running", "unresolved"})
_START = "attempt.started"


@dataclass(slots=True)
class Decided:
    """A decision that counts, with its place and the broker's time."""

    partition: int
    offset: int
    appended_at: int
    data: Json

    @property
    def cause(self) -> tuple[str, int, int]:
        """The input that it answers."""
        cause = self.data["cause"]
        return cause["topic"], cause["partition"], cause["offset"]

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"ledger/{self.partition}/{self.offset}"


@dataclass(slots=True)
class Told:
    """One fact with the decision it stands in, and the action's status before and after it."""

    fact: Json
    decided: Decided
    ordinal: int
    before: str
    after: str


@dataclass(slots=True)
class Action:
    """An action: the state that projections are to have, and everything that led to it."""

    stream: str
    partition: int
    state: Json
    history: list[Told] = field(default_factory=list)

    def told(self, fact_type: str) -> list[Told]:
        """Its facts of one type, in order."""
        return [one for one in self.history if one.fact["type"] == fact_type]

    @property
    def key(self) -> str:
        """The action key."""
        return str(self.state["key"])

    @property
    def status(self) -> str:
        """Where it stands."""
        return str(self.state["status"])


@dataclass(slots=True)
class Partition:
    """Where the fold of one ledger partition stands."""

    number: int
    epoch: int = 0
    next_offset: int = 0
    decided_at: int = 0
    void: int = 0
    positions: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Folded:
    """What the ledger says."""

    partitions: dict[int, Partition] = field(default_factory=dict)
    decisions: list[Decided] = field(default_factory=list)
    actions: dict[str, Action] = field(default_factory=dict)
    gates: dict[str, plain_gates.Gate] = field(default_factory=dict)
    catalogues: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def found(self, law: str, where: str, what: str) -> None:
        """Keep a finding."""
        self.findings.append(Finding(law, where, what))


def fold(run: Run, until: Mapping[int, int] | None = None) -> Folded:
    """Fold every ledger partition, up to an offset of each where `until` names one."""
    folded = Folded()
    for number in range(run.partitions):
        partition = folded.partitions[number] = Partition(number)
        for raw in run.records("ledger", number):
            if until is not None and raw.offset >= until.get(number, 0):
                break
            kind, data = event_of(raw)
            partition.next_offset = raw.offset + 1
            if not counts(kind, data, raw.offset, partition.epoch):
                partition.void += 1
            elif kind == EPOCH:
                partition.epoch = data["epoch"]
            elif kind == DECISION:
                _take(folded, partition, Decided(number, raw.offset, raw.appended_at, data))
    return folded


def counts(kind: str, data: Json, offset: int, epoch: int) -> bool:
    """Whether a record counts: the current epoch, at the offset it was written for."""
    if kind == GENESIS:
        return offset == 0
    place: tuple[int, int] = (data.get("at", -1), data.get("epoch", -1))
    if kind == EPOCH:
        return place == (offset, epoch + 1)
    return kind == DECISION and place == (offset, epoch)


def _take(folded: Folded, partition: Partition, decided: Decided) -> None:
    data, where = decided.data, decided.place
    folded.decisions.append(decided)
    if partition.epoch == 0:
        folded.found("S15", where, "decided before any owner had opened an epoch")
    if data["decided_at"] < partition.decided_at:
        folded.found("S15", where, "log time runs back")
    partition.decided_at = data["decided_at"]
    partition.positions[data["cause"]["topic"]] = data["cause"]["offset"] + 1
    match data.get("adopted", {}).get("kind"):
        case "catalogue":
            folded.catalogues.append(data["adopted"]["content"])
        case "people":
            folded.people.append(data["adopted"]["content"])
        case "policy":
            folded.policies.append(data["adopted"]["content"])
        case _:
            pass
    for ordinal, fact in enumerate(data.get("facts", ())):
        _add(folded, decided, ordinal, fact)
    for fact in data.get("gate", ()):
        key = data["stream"]
        gate = folded.gates.setdefault(key, plain_gates.opened(key, data["decided_at"]))
        for what in gate.fold(fact, data["decided_at"]):
            folded.found("S19", where, f"{key} {what}")


def _add(folded: Folded, decided: Decided, ordinal: int, fact: Json) -> None:
    key, kind = fact["action"], fact["type"]
    action = folded.actions.get(key)
    if kind == "intent.recorded":
        if action is not None:
            folded.found("S6", decided.place, f"{key} is recorded a second time")
            return
        action = Action(decided.data["stream"], decided.partition, _recorded(fact, decided))
        folded.actions[key] = action
        earlier = fact.get("revises")
        if earlier in folded.actions:
            folded.actions[earlier].state["revised_by"] = key
        before = "none"
    elif action is None:
        folded.found("S6", decided.place, f"{kind} of {key}, which was never recorded")
        return
    else:
        before = action.status
        if kind not in MAY_FOLLOW.get(before, frozenset()):
            folded.found("S6", decided.place, f"{kind} of {key} cannot follow {before}")
        objection = plain_gates.objection_to_start(action.state) if kind == _START else None
        if objection is not None:
            folded.found("S19", decided.place, f"{key} {objection}")
        if kind in plain_gates.CLAIMS:
            wrong = plain_gates.claim(action.state, fact, decided.data["decided_at"])
            if wrong is not None:
                folded.found("S19", decided.place, f"{key}: {wrong}")
        elif kind in _CHANGES:
            _CHANGES[kind](action.state, fact, decided.data["decided_at"])
        else:
            folded.found("S6", decided.place, f"no fact is called {kind}")
        if "case" in action.state and kind in _TELLING:
            action.state["case"]["moved_version"] = fact["version"]
        action.state["version"] = fact["version"]
        action.state["updated_at"] = decided.data["decided_at"]
    action.history.append(Told(fact, decided, ordinal, before, action.status))


_MAY_BE_GIVEN = (
    *("performer", "behalf", "caller_deadline_at", "run", "occurrence", "batch"),
    *("revises", "compensates"),
)


def _recorded(fact: Json, decided: Decided) -> Json:
    now = decided.data["decided_at"]
    taken = ("request", "request_hash", "provider", "account", "reliability", "step_deadline_at")
    return {
        "key": fact["action"],
        "version": fact["version"],
        "status": "proposed",
        **{name: fact[name] for name in taken},
        **{name: fact[name] for name in _MAY_BE_GIVEN if name in fact},
        **({"saga": {"reads": False} | fact["saga"]} if "saga" in fact else {}),
        "intent_offset": decided.offset,
        "recorded_at": now,
        "updated_at": now,
        "attempts": [],
        "lookups_asked": 0,
        "lookups_answered": 0,
        "sources": [],
        "claims": [],
        "allowed": [],
    }


def is_open(state: Json) -> bool:
    """Whether some attempt may have had its effect and nothing has settled it."""
    return any(attempt["status"] in OPEN for attempt in state["attempts"])


def _policy(state: Json, fact: Json, _now: int) -> None:
    state["policy_row"], state["policy_hash"] = fact["row"], fact["policy_hash"]
    state.pop("asks", None)
    if "asks" in fact:
        state["asks"] = fact["asks"]
    if "step_deadline_at" in fact:
        state["step_deadline_at"] = fact["step_deadline_at"]
        state.pop("people_until", None)
        if "asks" in fact:
            state["people_until"] = fact["step_deadline_at"]
    was_blocked = state.pop("blocked", None) is not None
    state.pop("gates", None)
    if "gates" in fact:
        state["gates"] = fact["gates"]
    status = "ready" if fact["outcome"] == "automatic" else "awaiting_approval"
    if "asks" in fact and _is_met(state):
        status = state["status"]
    elif status == "ready" and plain_gates.awaits(state):
        status = "blocked"
    if status != "blocked" or was_blocked:
        state.pop("wait_until", None)
    if status == "blocked" and was_blocked and "step_deadline_at" in fact:
        state["wait_until"] = fact["step_deadline_at"]
    _wait(state, status)


def _wait(state: Json, status: str) -> None:
    """A status before any start; what the action waited for before is over with it."""
    if status != state["status"]:
        state.pop("timer", None)
        if state["status"] != "awaiting_approval" and status == "awaiting_approval":
            state["step_deadline_at"] = state.get("people_until", state["step_deadline_at"])
    state["status"] = status


def _blocked(state: Json, fact: Json, _now: int) -> None:
    """Another action of the stream comes first."""
    state["status"] = "blocked"
    for name in ("wait_until", "timer"):
        state.pop(name, None)
    if "wait_until" in fact:
        state["wait_until"] = fact["wait_until"]
    state["blocked"] = {"reason": fact["reason"], "by": fact["by"], "version": fact["version"]}


def _preview(state: Json, fact: Json, _now: int) -> None:
    """What the provider is asked to foresee, and what came of it."""
    kind, before = fact["type"], state.get("dry", {})
    failed = before.get("failed", 0) + ("answer_by" in before)
    dry: Json = {"number": fact["preview"], "failed": 0}
    if kind == "preview.started":
        dry |= {"failed": failed, "answer_by": fact["answer_by"]}
    elif kind == "preview.failed":
        dry |= {"failed": failed, "code": fact["code"]}
    else:
        dry |= {"content": fact["content"], "content_hash": fact["preview_hash"]}
    if kind != "preview.failed":
        state.pop("timer", None)
    state["dry"] = dry


def _requested(state: Json, fact: Json, now: int) -> None:
    kept = ("round", "nonce", "expires_at", "policy_hash", "row", "preview_hash", "quorum")
    state["approval"] = {
        **{name: fact[name] for name in kept},
        "requested_at": now,
        "groups": fact.get("groups", []),
        **({"escalate_at": fact["escalate_at"]} if "escalate_at" in fact else {}),
        "escalate_to": fact.get("escalate_to", []),
        "grants": [],
        "withdrawals": [],
    }


def _is_met(state: Json) -> bool:
    """Whether as many people agreed as were asked to, and none of it is over."""
    asked = state.get("approval")
    if asked is None or "ended" in asked:
        return False
    return len({grant["person"] for grant in asked["grants"]}) >= int(asked["quorum"])


def _answered(state: Json, fact: Json, now: int) -> None:
    """One more step of what people were asked."""
    asked, kind, was = state["approval"], fact["type"], state["status"]
    if kind == "approval.escalated":
        asked["groups"] = [*asked["groups"], *fact["groups"]]
        asked.pop("escalate_at", None)
    elif kind == "approval.granted":
        kept = ("person", "key_id", "expires_at", "signed")
        grant = {**{name: fact[name] for name in kept}, "granted_at": now}
        asked["grants"] = [*asked["grants"], grant]
    elif kind == "approval.withdrawn":
        person = fact["person"]
        for name in ("grants", "withdrawals"):
            asked[name] = [one for one in asked[name] if one["person"] != person]
        void = {"person": person, "void_until": fact["void_until"]}
        asked["withdrawals"] = [*asked["withdrawals"], void]
    else:
        asked["ended"] = fact["reason"]
        if fact["reason"] == "volatile_changed" and "dry" in state:
            state["dry"] = {"number": state["dry"]["number"], "failed": 0, "code": fact["reason"]}
    goes_on = "blocked" if was == "blocked" or plain_gates.awaits(state) else "ready"
    _wait(state, goes_on if _is_met(state) else "awaiting_approval")
    if state["status"] != was and kind == "approval.granted" and "step_deadline_at" in fact:
        state["step_deadline_at"] = fact["step_deadline_at"]


def _started(state: Json, fact: Json, now: int) -> None:
    state["status"] = "attempting"
    state.pop("timer", None)
    attempt = {
        "number": fact["attempt"],
        "fencing_token": fact["fencing_token"],
        "holder": fact["holder"],
        "provider_key": fact["provider_key"],
        "started_at": now,
        "lease_until": fact["lease_until"],
        "status": "running",
    }
    state["attempts"].append(attempt)


def _ended(state: Json, fact: Json, now: int) -> None:
    """An attempt has its outcome; the action's status follows from what is still open."""
    status = str(fact["type"]).removeprefix("attempt.")
    code = "absent" if status == "absent" else fact.get("code")
    plain_evidence.tell(state, fact)
    for attempt in state["attempts"]:
        if attempt["number"] == fact["attempt"]:
            attempt["status"], attempt["ended_at"] = status, now
            attempt.pop("code", None)
            if code is not None:
                attempt["code"] = code
    if not is_open(state):
        state.pop("lookup", None)
    if status == "succeeded":
        # Completion is a fact of its own.
        state["reference"], state["result"] = fact["reference"], fact.get("result", {})
    elif state["status"] != "needs_review":
        runs = bool(state["attempts"]) and state["attempts"][-1]["status"] == "running"
        rest = "unknown" if is_open(state) else "ready"
        state["status"] = "attempting" if runs else rest


def _timer(state: Json, fact: Json, _now: int) -> None:
    state["timer"] = {"purpose": fact["purpose"], "due_at": fact["due_at"]}


def _completed(state: Json, fact: Json, now: int) -> None:
    plain_evidence.tell(state, fact)
    _final(state, "completed")
    state.pop("lookup", None)
    # Proof settles what waited for a person.
    state.pop("case", None)
    state["reference"], state["proof"] = fact["reference"], fact["proof"]
    for attempt in state["attempts"]:
        if attempt["status"] in OPEN:
            attempt["status"], attempt["ended_at"] = "settled", now


def _final(state: Json, status: str, code: str | None = None) -> None:
    state["status"] = status
    state.pop("timer", None)
    if code is not None:
        state["code"] = code


def _superseded(state: Json, by: str) -> None:
    _final(state, "superseded", by)
    state.pop("case", None)


def _review(state: Json, fact: Json, now: int) -> None:
    if state["status"] not in FINAL:
        state["status"] = "needs_review"
    state.pop("timer", None)
    plain_evidence.open_case(state, fact, now)


def _resolved(state: Json, fact: Json, _now: int) -> None:
    """A person settled the case; what follows are facts of their own."""
    move, case = fact["move"], state.pop("case", {})
    was = state.get("resolved", {"resumes": 0, "attempts_before": 0, "lookups_before": 0})
    now: Json = {**was, "case": fact["case"], "move": move, "person": fact["person"]}
    state["resolved"] = now
    if move == "allow":
        is_amount = case.get("reason") == "original_amount_differs"
        accepts = f"amount_of:{fact['accepts']}" if is_amount else fact["accepts"]
        state["allowed"] = [*state["allowed"], accepts]
        if state["status"] != "blocked" and "step_deadline_at" in fact:
            state["step_deadline_at"] = fact["step_deadline_at"]
    if move in {"acknowledge", "effect_exists"} or state["status"] == "blocked":
        return
    if move != "no_effect":
        now["resumes"] += 1
    if move == "look_again":
        now["lookups_before"], state["lookups_answered"] = state["lookups_asked"], 0
    if move == "try_again":
        now["attempts_before"] = len(state["attempts"])
        state.get("told", {}).pop("for_good", None)
        for name in ("step_deadline_at", "people_until"):
            if name in fact:
                state[name] = fact[name]
        if "dry" in state:
            state["dry"]["failed"] = 0
    if is_open(state):
        state["status"] = "unknown"
    elif "blocked" in state and move != "no_effect":
        state["status"] = "blocked"
    elif move == "no_effect" or "asks" not in state or _is_met(state):
        state["status"] = "ready"
    else:
        state["status"] = "awaiting_approval"
        state["step_deadline_at"] = fact.get("people_until", state["step_deadline_at"])


_TELLING = frozenset({*OUTCOMES.split(), "attempt.absent", "evidence.recorded"})
"""What tells whoever looks at a case something new; completion ends it anyhow."""

_CHANGES = {
    "policy.decided": _policy,
    "preview.started": _preview,
    "preview.failed": _preview,
    "preview.recorded": _preview,
    "approval.requested": _requested,
    "approval.escalated": _answered,
    "approval.granted": _answered,
    "approval.withdrawn": _answered,
    "approval.ended": _answered,
    "attempt.started": _started,
    "attempt.declined": _ended,
    "attempt.succeeded": _ended,
    "attempt.refused": _ended,
    "attempt.not_sent": _ended,
    "attempt.unresolved": _ended,
    "attempt.absent": _ended,
    "timer.set": _timer,
    "lookup.started": plain_evidence.ask,
    "evidence.recorded": plain_evidence.keep,
    "action.completed": _completed,
    "action.failed": lambda state, fact, _: _final(state, "failed", fact["code"]),
    "action.denied": lambda state, fact, _: _final(state, "denied", fact["by"]),
    "action.cancelled": lambda state, fact, _: _final(state, "cancelled", fact.get("reason")),
    "action.expired": lambda state, _fact, _now: _final(state, "expired"),
    "action.superseded": lambda state, fact, _: _superseded(state, fact["by"]),
    "action.blocked": _blocked,
    "review.opened": _review,
    "review.resolved": _resolved,
}
