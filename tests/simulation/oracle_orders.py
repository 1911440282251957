"""What revises and what undoes another action, judged from the log and the provider's book: nothing
begins beside what may have had its effect, nothing is undone that never happened or twice, and what
comes to nothing is never passed over in silence.

Written once more from the rules, over the JSON of records, with nothing of the product.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.broken import law
from tests.simulation.catalogue import STRAY, STREAM_ACTIONS, STREAM_ACTIONS_ORDINARY
from tests.simulation.oracle_actions import PlainAction
from tests.simulation.oracle_plans import Plans
from tests.simulation.provider import Entry

Json = dict[str, Any]
NOT_BEGUN: Final = frozenset({"proposed", "awaiting_approval", "blocked", "ready"})
LINKS: Final = ("revises", "compensates", "saga")


@dataclass
class Orders:
    """The business events of one partition, in which actions belong together."""

    actions: dict[str, PlainAction]
    streams: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    linked: set[str] = field(default_factory=set)
    """Streams in which some action is bound to another one."""
    shown: dict[str, list[bool]] = field(default_factory=dict)
    """What people were shown last of each action that a revision revises: whether it has none."""

    def comes(self, fact: Json, record: Json) -> None:
        """One fact, before it is folded."""
        kind, stream = fact["type"], record["stream"]
        if kind == "intent.recorded":
            self._recorded(fact, stream)
            return
        if stream not in self.linked:
            return
        action = self.actions[fact["action"]]
        match kind:
            case "preview.recorded":
                checks = fact["content"].get("checks", ())
                shown = [one["passed"] for one in checks if one["name"] == "revises"]
                self.shown[action.key] = shown
                self._shows(action, fact["content"].get("undoes"))
            case "attempt.started":
                self._starts(action, fact)
                Plans(self._all(stream)).starts(action)
            case "action.superseded":
                by = [one.key for one in self._all(stream) if one.revises == action.key]
                law(fact["by"] in by, "order", f"{action.key} gives way to {fact['by']}: {by}")
                law(not action.is_unsettled, "order", f"{action.key} gives way, and may be there")
            case "action.cancelled" if fact.get("reason") == "nothing_to_undo":
                self._has_nothing_to_undo(action, stream)
            case "review.resolved" if fact["move"] == "allow" and action.status == "blocked":
                why = action.gates.state.get("blocked", {"reason": "revised_open"})["reason"]
                law(why == "revised_open", "order", f"{action.key} is let pass {why}")
            case _:
                pass

    def _all(self, stream: str) -> list[PlainAction]:
        return [self.actions[key] for key in self.streams[stream] if key in self.actions]

    def _others(self, action: PlainAction, original: PlainAction) -> Iterator[PlainAction]:
        """What else undoes the same."""
        for one in self.actions.values():
            if one.compensates == original.key and one is not action:
                yield one

    # Asking

    def _recorded(self, fact: Json, stream: str) -> None:
        known = self.streams[stream]
        if any(fact.get(name) for name in LINKS):
            self.linked.add(stream)
        if stream in self.linked:
            is_ordinary = not fact.get("revises") and not fact.get("compensates")
            room = STREAM_ACTIONS_ORDINARY if is_ordinary else STREAM_ACTIONS
            law(len(known) < room, "bounds", f"{stream} holds {len(known)} actions, and one more")
        for name in ("revises", "compensates"):
            other = fact.get(name)
            law(other is None or other in known, "order", f"{fact['action']} {name} {other}")
        if fact.get("revises"):
            earlier = self.actions[fact["revises"]]
            law(earlier.intent.get("saga") is None, "order", f"{earlier.key} is a step, revised")
            others = [one.key for one in self._all(stream) if one.revises == earlier.key]
            law(not others, "order", f"{fact['action']} revises {earlier.key}, as {others} does")
        if fact.get("compensates") and fact.get("saga") is None:
            original = self.actions[fact["compensates"]]
            law(not original.is_without_effect, "undo", f"{fact['action']} undoes nothing")
        if fact.get("compensates"):
            intents = (fact, self.actions[fact["compensates"]].intent)
            targets = [one["request"].get("target") for one in intents]
            law(len(set(targets)) == 1, "undo", f"{fact['action']} undoes at {targets}")
        known.append(fact["action"])

    # Starting

    def _starts(self, action: PlainAction, fact: Json) -> None:
        """What is revised never starts; what has begun is only found out."""
        later = [one.key for one in self.actions.values() if one.revises == action.key]
        law(not later, "order", f"{action.key} starts, and {later} revise it")
        self._undoes_what_was_shown(action, fact)
        if action.compensates is not None:
            self._knows_how_much(action, self.actions[action.compensates])
        if action.is_open:
            return
        lineage = list(self._lineage(action))
        for earlier in lineage:
            is_let = earlier.key in action.gates.allowed
            is_clear = is_let or not earlier.is_unsettled
            law(is_clear, "order", f"{action.key} starts beside {earlier.key}, which is open")
        if lineage:
            law(fact.get("approval"), "order", f"{action.key} revises, and nobody agreed")
            told, true = self.shown.get(action.key, []), [one.is_without_effect for one in lineage]
            law(told and told == true[: len(told)], "order", f"{action.key}: {told} is {true}")
        if action.compensates is not None:
            self._undoes(action, fact, self.actions[action.compensates])

    def _shows(self, action: PlainAction, told: Json | None) -> None:
        """People see which effect is undone as it stands, and none where none is."""
        if action.compensates is None:
            law(told is None, "S4", f"{action.key} undoes nothing, and people are shown {told}")
            return
        original = self.actions[action.compensates]
        asked = original.intent["request"]
        named = None if original.completed is None else original.completed["reference"]
        is_so = {
            "action": original.key,
            "status": original.status,
            "reference": (told or {}).get("reference") if named is None else named,
            "target": asked.get("target"),
            "money": asked.get("money"),
        }
        seen = {name: (told or {}).get(name) for name in is_so}
        law(seen == is_so, "S4", f"{action.key} undoes {is_so}, and people are shown {told}")

    def _undoes_what_was_shown(self, action: PlainAction, fact: Json) -> None:
        """Of what people agreed to, the very effect that stood on their sheet, at every attempt."""
        approval = fact.get("approval")
        if approval is None or action.compensates is None:
            return
        told = (approval.get("preview") or {}).get("undoes") or {}
        agreed, begun = (told.get("action"), told.get("reference")), fact.get("original_reference")
        law(agreed == (action.compensates, begun), "S4", f"{action.key} undoes {begun}: {agreed}")

    def _lineage(self, action: PlainAction) -> Iterator[PlainAction]:
        while action.revises is not None:
            action = self.actions[action.revises]
            yield action

    def _undoes(self, action: PlainAction, fact: Json, original: PlainAction) -> None:
        """Its original is settled and there, nothing else that undoes it is in doubt, and together
        they undo no more than there is.
        """
        law(not original.is_unsettled, "undo", f"{action.key} starts, {original.key} is open")
        law(original.has_effect, "undo", f"{action.key} starts, {original.key} has no effect")
        if original.completed is not None:
            names = (fact.get("original_reference"), original.completed["reference"])
            law(names[0] == names[1], "undo", f"{action.key} undoes {names[0]}, not {names[1]}")
        others = list(self._others(action, original))
        doubted = [one.key for one in others if one.is_final and one.is_unsettled]
        law(not doubted, "undo", f"{action.key} starts, and {doubted} are in doubt")
        if action.gates.allowed:
            return
        there = [one for one in others if one.is_open or (one.has_effect and not one.is_reversed)]
        self._is_no_more(original, [*there, action])

    def _knows_how_much(self, action: PlainAction, original: PlainAction) -> None:
        """Neither what it undoes, nor what undoes that too, was told with another amount than was
        asked for, unless a person lets it pass: also not where it is sent once more.
        """
        for one in (original, *self._others(action, original)):
            asked = one.intent["request"].get("money")
            told = [
                piece.get("money") != asked
                for piece in one.evidence
                if piece["meaning"] == "effect" and piece["kind"] != "report"
            ]
            is_doubtful = original.money is not None and asked is not None and any(told)
            is_let = f"amount_of:{one.key}" in action.gates.allowed
            is_clear = is_let or not is_doubtful or one.is_without_effect
            law(is_clear, "undo", f"{action.key} starts, and {one.key} is of another amount")

    def _is_no_more(self, original: PlainAction, some: list[PlainAction]) -> None:
        keys, whole = [one.key for one in some], original.money
        if whole is None:
            law(len(some) == 1, "undo", f"{original.key} is undone by {keys}")
            return
        undone = sum(whole if one.money is None else one.money for one in some)
        law(undone <= whole, "undo", f"{original.key} of {whole}: {undone} are undone by {keys}")

    # Between decisions

    def rests(self, record: Json) -> None:
        """What was decided is whole: what gives way is gone, what has nothing to undo is called
        off, and what came to nothing is in front of a person.
        """
        stream = record["stream"]
        if stream not in self.linked:
            return
        some = self._all(stream)
        Plans(some).rests(record)
        revised = {one.revises for one in some}
        ended = {
            fact["action"]
            for fact in record.get("facts", ())
            if fact["type"] in {"action.failed", "action.expired"}
        }
        for action in some:
            if action.key in revised and not action.is_final:
                law(action.is_unsettled, "order", f"{action.key} stands beside what revises it")
            if action.compensates is None:
                continue
            original, is_idle = self.actions[action.compensates], action.status in NOT_BEGUN
            if original.is_without_effect and not action.is_open:
                law(not is_idle, "undo", f"{action.key} waits for {original.key}, which is nothing")
            if action.key in ended and original.has_effect:
                is_told = (action.desk.opened is not None, action.review)
                given_up = (True, "compensation_failed")
                law(is_told == given_up, "undo", f"{action.key} came to nothing: {is_told}")

    def _has_nothing_to_undo(self, action: PlainAction, stream: str) -> None:
        original = None if action.compensates is None else self.actions[action.compensates]
        is_idle = original is not None and original.is_without_effect
        is_done = Plans(self._all(stream)).is_done(action)
        law(is_idle or is_done, "undo", f"{action.key} is called off, and there is what to undo")

    def ends(self) -> None:
        """In the end every plan is done, undone, or in front of a person."""
        for stream in sorted(self.linked):
            Plans(self._all(stream)).end()


def undone(actions: Mapping[str, PlainAction], book: list[Entry]) -> None:
    """What was undone had happened before, and no more of it was undone than that."""
    made: dict[str, list[Entry]] = defaultdict(list)
    for entry in book:
        if entry.effect is not None:
            made[entry.action].append(entry)
    totals: dict[str, int] = defaultdict(int)
    for key, entries in made.items():
        action = actions[key]
        if action.compensates is None:
            continue
        original = actions[action.compensates]
        before = [
            one
            for one in made.get(original.key, ())
            if (one.committed_at or 0) <= entries[0].sent_at
        ]
        told = before or original.was_ever_noted or _was_told_by_mistake(original)
        law(told, "undo", f"{key} undid {original.key}, which was nothing")
        if not action.gates.allowed:
            whole = 1 if original.money is None else original.money
            part = whole if action.money is None else action.money
            totals[original.key] += sum(part for one in entries if not one.taken_back)
            law(totals[original.key] <= whole, "undo", f"{original.key}: {totals[original.key]}")


def _was_told_by_mistake(action: PlainAction) -> bool:
    """Whether its provider took the effect of something else for its own."""
    return action.completed is not None and action.completed["reference"].startswith(STRAY)
