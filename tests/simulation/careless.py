"""Agents that ask for what may not be: keys that are none, plans that do not hold together, undoing
of what was never done, words in the name of others. Each must be refused by its name, and change
nothing.
"""

from dataclasses import dataclass
from typing import Any

from ledger.core.ids import GateKind, gate_key
from ledger.core.inputs import (
    CallerOffer,
    Cancel,
    CancelSaga,
    Evidence,
    EvidenceKind,
    Meaning,
    Planned,
    Propose,
    Publish,
    Report,
    ReportStep,
    Success,
)
from ledger.core.money import Money
from ledger.core.policy import policy_hash
from ledger.core.state import Action, Status
from ledger.core.statement import Say, Statement
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from tests.simulation.agents import AGENT, RUN, Agents, plan_of
from tests.simulation.catalogue import STRAY, UNDOES
from tests.simulation.deciders import Deciders
from tests.simulation.signatures import sign
from tests.simulation.world import GENERATION

Words = tuple[dict[str, Any], ...]


@dataclass(slots=True)
class Careless:
    """The same agents on a bad day."""

    agents: Agents
    deciders: Deciders

    def begin(self) -> None:
        """Spread what they say over the chaos; in many histories they say nothing."""
        world, chance = self.agents.world, self.agents.chance
        for _ in range(chance.choice((0, 2, 4, 8))):
            at_ms = chance.randint(1, world.weather.chaos_ms)
            world.time.after(at_ms, self._says)

    def _says(self) -> None:
        self.agents.chance.choice(
            (
                *(self._nonsense, self._nonsense, self._revises_amiss, self._revises_amiss),
                *(self._undoes_amiss, self._undoes_amiss, self._plans_amiss, self._plans_amiss),
                *(self._reports_amiss, self._cancels_amiss, self._publishes_amiss),
                *(self._tells_of_effects,) * 4,
            )
        )("order-1")

    def _one(self, some: list[Action]) -> Action | None:
        return self.agents.chance.choice(some) if some else None

    # New keys

    def _nonsense(self, event: str) -> None:
        """A proposal that nothing is right about but its form."""
        agents, item = self.agents, self.agents.item()
        key = f"note:v1:acme:{event}#{item}"
        note, charge = agents.request("note"), agents.request("charge")
        offers = CallerOffer(nonce=f"call-{item}", valid_ms=800)
        errand = agents.request("errand")
        known = [one for one in agents.known(event) if one.request.operation == "note"]
        plain = [one for one in known if "~" not in one.key and one.request.version == 1]
        again = plain[0].key.replace(":v1:", ":v2:") if plain else f"nonsense:v1:acme:{event}"
        anew = note.model_copy(update={"version": 2})
        words: Words = (
            {"key": key, "request": charge},
            {"key": key, "request_hash": "sha256:of another request"},
            {"key": f"note:v1:acme:{event}#attempt-3"},
            {"key": f"charge:v1:acme:{event}#{item}", "request": charge, "caller": offers},
            {"key": f"errand:v1:acme:{event}#{item}", "request": errand},
            {"key": again, "request": anew if plain else note},
            {"request": note.model_copy(update={"principal": "user:mallory"})},
            {"request": note.model_copy(update={"money": Money(minor=1, currency="EUR")})},
            {"run": None},
        )
        changes: dict[str, Any] = {"key": key, "request": note, "run": RUN}
        changes |= agents.chance.choice(words)
        agents.says(Propose.model_validate(changes), event)

    # What belongs to another action

    def _revises_amiss(self, event: str) -> None:
        """A revision of nothing, of what is revised already, of a step, of another act."""
        agents = self.agents
        known = agents.known(event)
        earlier = self._one(known)
        if earlier is None:
            return
        request = agents.request(earlier.request.operation)
        said = agents.revision(earlier, request)
        nothing = earlier.key.partition("#")[0] + "#nothing"
        words: Words = (
            {"revises": None},
            {"revises": nothing},
            {"compensates": nothing},
            {"key": said.key.partition("~")[0] + "~9", "revises": nothing + "~8"},
            {"request": request.model_copy(update={"environment": "test"})},
            {},
        )
        changes: dict[str, Any] = {name: getattr(said, name) for name in type(said).model_fields}
        agents.says(Propose.model_validate(changes | agents.chance.choice(words)), event)

    def _undoes_amiss(self, event: str) -> None:
        """An undo of what never was, by what does not undo it, of more than there was, at another
        target.
        """
        agents, chance = self.agents, self.agents.chance
        known = agents.known(event)
        item = agents.item()
        gone = [one for one in known if one.is_final and not one.has_effect]
        original = self._one(gone if gone and chance.random() < 1 / 2 else known)
        if original is None:
            return
        operation = UNDOES.get(original.request.operation, "refund")
        whole = original.request.money or Money(minor=1, currency="EUR")
        more = whole.model_copy(update={"minor": whole.minor + 1})
        request = agents.request(operation, whole if operation == "refund" else None)
        request = request.model_copy(update={"target": original.request.target})
        words: Words = (
            {},
            {"request": request.model_copy(update={"money": more})},
            {"request": request.model_copy(update={"target": f"{original.request.target}-else"})},
            {"compensates": f"charge:v1:acme:{event}#nothing"},
            {"compensates": f"ticket:v1:acme:{event}#nothing"},
            {"request": request.model_copy(update={"environment": "test"})},
        )
        changes: dict[str, Any] = {
            "key": f"{operation}:v1:acme:{event}#{item}",
            "request": request,
            "compensates": original.key,
            "run": RUN,
        }
        agents.says(Propose.model_validate(changes | chance.choice(words)), event)

    def _plans_amiss(self, event: str) -> None:
        """A plan of which one step may not be: then nothing of it is."""
        agents = self.agents
        first, item = agents.step(event), agents.item()
        note = f"note:v1:acme:{event}#{item}"
        step = first.model_copy(update={"key": note, "request": agents.request("note")})
        charge = agents.request("charge")
        part = agents.request("refund", Money(minor=1, currency="EUR"))
        part = part.model_copy(update={"target": charge.target})
        mail = Planned(key=f"email:v1:acme:{event}#{item}", request=agents.request("email"))
        words: Words = (
            {
                "key": f"charge:v1:acme:{event}#{item}",
                "request": charge,
                "compensation": Planned(key=f"refund:v1:acme:{event}#{item}", request=part),
            },
            {"compensation": mail},
            {"key": f"note:v1:acme:order-3#{item}", "compensation": None},
            {"key": f"note:v1:acme:{event}#None", "compensation": None},
            {"request": step.request.model_copy(update={"money": part.money})},
        )
        second = step.model_copy(update=agents.chance.choice(words))
        agents.says(plan_of(event, f"amiss-{item}", (first, second)), event)

    def _cancels_amiss(self, event: str) -> None:
        """What a plan holds ready, and plans that nobody opened."""
        agents = self.agents
        known = agents.known(event)
        held = [one for one in known if one.saga is not None and one.saga.role == "compensation"]
        one = self._one(held)
        nobody = CancelSaga(stream=f"acme/{event}", saga="nobody", principal=AGENT)
        other = Cancel(key=f"note:v1:acme:{event}#nobody", principal=AGENT)
        own = other if one is None else Cancel(key=one.key, principal=AGENT)
        agents.says(agents.chance.choice((nobody, other, own, own, own, own)), event)

    # In the name of others

    def _reports_amiss(self, event: str) -> None:
        """Words about attempts and questions that never were, and about nothing that was asked."""
        agents = self.agents
        action = self._one(agents.known(event))
        if action is None:
            return
        self._reports_steps()
        said = self._judges(action)
        does = (
            lambda: self._tells(Topic.ATTEMPTS, _of_no_attempt(action)),
            lambda: self._tells(Topic.EVIDENCE, _of_no_lookup(action)),
            lambda: self.deciders.send(action.key, sign(said, "ben", really=self.deciders.really)),
        )
        agents.chance.choice(does)()

    def _tells(self, topic: Topic, said: Report | Evidence) -> None:
        world, stream = self.agents.world, f"acme/{said.key.split(':')[3].partition('#')[0]}"
        record = outgoing(said, stream=stream, subject=None, event_id="amiss", source="/stranger")
        world.log.append(topic.value, partition_of(stream, world.partitions), [record])

    def _tells_of_effects(self, event: str) -> None:
        """A provider speaks of an action that it may never have been asked for: as somebody who
        mixes up two of them does.
        """
        agents, chance = self.agents, self.agents.chance
        known = agents.known(event)
        idle = [one for one in known if not one.attempts]
        gone = [one for one in idle if one.status in {Status.DENIED, Status.EXPIRED}]
        action = self._one((gone or idle) if idle and chance.random() < 3 / 4 else known)
        if action is None:
            return
        item = agents.item()
        said = Evidence(
            key=action.key,
            kind=EvidenceKind.WEBHOOK,
            source_id=f"webhook:stray:{item}",
            provider=action.provider,
            account=action.account,
            meaning=chance.choice((Meaning.EFFECT, Meaning.EFFECT, Meaning.PENDING)),
            reference=f"{STRAY}_{item}",
            money=action.request.money,
        )
        self._tells(Topic.EVIDENCE, said)

    def _judges(self, action: Action) -> Statement:
        """What ben signs although nobody has asked him."""
        now = self.agents.world.time.now
        return Statement(
            ledger=GENERATION,
            decision=Say.APPROVE,
            approver="ben",
            tenant="acme",
            environment=action.request.environment,
            key=action.key,
            request_hash=action.request_hash,
            preview_hash="sha256:of nothing",
            policy_hash=action.policy_hash or "",
            row=action.policy_row or "",
            nonce="of nobody",
            issued_at=now,
            expires_at=now + 1_000,
        )

    def _reports_steps(self) -> None:
        """Two principals report under one name."""
        gate = gate_key("acme", GateKind.RUN, RUN)
        if self.agents.chance.random() < 1 / 4:
            gate = gate_key("acme", GateKind.TARGET, RUN)
        for principal in (AGENT, "agent:other"):
            report = ReportStep(
                gate=gate, principal=principal, step=self.agents.chance.randint(1, 9)
            )
            self.agents.say(report, gate)

    def _publishes_amiss(self, _event: str) -> None:
        """A table that is none."""
        text = 'row = "of nobody"'
        said = Publish(kind="policy", content=text, content_hash=policy_hash(text))
        self.agents.world.publish_one(said)


def _of_no_attempt(action: Action) -> Report:
    return Report(
        key=action.key,
        attempt=len(action.attempts) + 5,
        fencing_token=1,
        holder="executor-0",
        outcome=Success(reference="ef_nothing"),
    )


def _of_no_lookup(action: Action) -> Evidence:
    return Evidence(
        key=action.key,
        kind=EvidenceKind.LOOKUP,
        source_id="lookup:of nobody",
        provider=action.provider,
        account=action.account,
        meaning=Meaning.ABSENT,
        lookup=99,
    )
