"""Plans, judged from the log alone: in order, undone in reverse, settled first, and never in
silence.

A plan has no facts of its own: what is held against each of its actions is how the others stand.
"""

from collections.abc import Iterator
from typing import Any, Final

from tests.simulation.broken import law
from tests.simulation.oracle_actions import PlainAction

Json = dict[str, Any]
GIVEN_UP: Final = "compensation_failed"
OWN: Final = "each"
"""The ceiling of a single action, which no gate holds."""


class Plan:
    """The steps of one plan by number, and what undoes them."""

    def __init__(self, name: str, actions: list[PlainAction]) -> None:
        self.name = name
        self.actions = actions
        self.steps: dict[int, PlainAction] = {}
        self.undoes: dict[int, PlainAction] = {}
        for action in actions:
            place = action.intent["saga"]
            is_undo = place.get("role", "step") == "compensation"
            (self.undoes if is_undo else self.steps)[place["step"]] = action

    @property
    def unwinds(self) -> bool:
        """Whether some step came to nothing."""
        return any(one.is_final and one.status != "completed" for one in self.steps.values())

    @property
    def is_done(self) -> bool:
        """Whether every step had its effect."""
        return all(one.status == "completed" for one in self.steps.values())

    @property
    def cases(self) -> list[str]:
        """What of it is in front of a person."""
        return [one.key for one in self.actions if one.desk.opened is not None]

    def is_settled(self, number: int) -> bool:
        """Whether nothing of a step is left, or a person has taken over what is."""
        step, undo = self.steps[number], self.undoes.get(number)
        if step.is_without_effect:
            return True
        if undo is None:
            is_noted = step.review == GIVEN_UP and step.desk.opened is None
            return bool(step.intent["saga"].get("reads")) or is_noted
        if undo.desk.opened is not None:
            return False
        is_given_up = undo.is_final and undo.status != "completed" and undo.review == GIVEN_UP
        return undo.has_effect or is_given_up


class Plans:
    """Every plan of one business event."""

    def __init__(self, some: list[PlainAction]) -> None:
        self.some = some

    def _plans(self) -> Iterator[Plan]:
        named: dict[str, list[PlainAction]] = {}
        for action in self.some:
            if "saga" in action.intent:
                named.setdefault(action.intent["saga"]["saga"], []).append(action)
        for name, actions in named.items():
            yield Plan(name, actions)

    def _plan_of(self, action: PlainAction) -> Plan | None:
        return next((one for one in self._plans() if action in one.actions), None)

    def is_done(self, action: PlainAction) -> bool:
        """Whether the plan of an action has come to its good end, if it has one."""
        plan = self._plan_of(action)
        return plan is not None and plan.is_done

    def starts(self, action: PlainAction) -> None:
        """It is the turn of what starts; what may have had its effect is only found out."""
        plan = self._plan_of(action)
        if plan is None or action.is_open:
            return
        key, place = action.key, action.intent["saga"]
        if not action.counted:
            law(not plan.cases, "saga", f"{key} begins, and {plan.cases} wait for a person")
        if place.get("role", "step") == "step":
            earlier = [one for number, one in plan.steps.items() if number < place["step"]]
            late = [one.key for one in earlier if one.status != "completed"]
            law(not late, "saga", f"{key} starts before {late}")
            law(not plan.unwinds, "saga", f"{key} starts, and its plan unwinds")
            if not action.counted:
                tight = [one.key for one in plan.undoes.values() if not _has_room(one)]
                law(not tight, "saga", f"{key} begins, and there is no room for {tight}")
            return
        law(plan.unwinds, "saga", f"{key} starts, and no step came to nothing")
        loose = [one.key for one in plan.steps.values() if one.is_unsettled or not one.is_final]
        law(not loose, "saga", f"{key} starts, and {loose} are not settled")
        after = [one for one in plan.steps if one > place["step"] and not plan.is_settled(one)]
        law(not after, "saga", f"{key} starts before the steps {after} are undone")

    def rests(self, record: Json) -> None:
        """A plan is recorded whole; one that unwinds begins nothing new."""
        intents = [one for one in record.get("facts", ()) if one["type"] == "intent.recorded"]
        places = [one["saga"] for one in intents if "saga" in one]
        steps = [one["step"] for one in places if one.get("role", "step") == "step"]
        if places:
            whole = list(range(1, places[0]["steps"] + 1))
            law(steps == whole, "saga", f"{places[0]['saga']} is recorded in part: {steps}")
        for plan in self._plans():
            if plan.unwinds:
                idle = [one.key for one in plan.steps.values() if not one.is_final]
                left = [key for key in idle if self._may_yet_begin(plan, key)]
                law(not left, "saga", f"{plan.name} unwinds, and {left} may begin")

    @staticmethod
    def _may_yet_begin(plan: Plan, key: str) -> bool:
        step = next(one for one in plan.actions if one.key == key)
        return not step.is_open and step.status in {"proposed", "blocked", "ready"}

    def end(self) -> None:
        """Done, undone, or in front of a person."""
        for plan in self._plans():
            ended = all(one.is_final for one in plan.steps.values())
            is_undone = ended and all(plan.is_settled(one) for one in plan.steps)
            waits = plan.cases or any(one.status == "needs_review" for one in plan.actions)
            law(plan.is_done or is_undone or waits, "saga", f"{plan.name} stands still")


def _has_room(undo: PlainAction) -> bool:
    """Whether every budget that its row counts it by has granted it a place."""
    ruled = undo.asked.ruled or {}
    names = set((ruled.get("gates") or {}).get("ceilings", ())) - {OWN}
    claims = [one for one in undo.gates.state["claims"] if one["status"] == "granted"]
    return names <= {name for one in claims for name in one["ceilings"]}
