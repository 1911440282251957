"""Every history of a trip of three steps, against a plain telling of how a saga goes.

Each action may be done, refused for good, or lost and then found to have its effect or none; the
caller may call the trip off at any moment, and a person takes note of what could not be undone. Of
one action that was refused its provider may tell an effect later, if one answer at most was lost.
Exhaustive: no history of these inputs is left out.
"""

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ledger.core import inputs as i
from ledger.core.statement import Move
from tests.examples import found_out
from tests.examples_of_sagas import ITEMS, cancel_trip, do, undo
from tests.travelling import LOST, NO, YES, Travelling

HISTORIES_MIN: Final = 3_500
"""Far fewer, and the world has lost some of what can happen in it."""

_NO_EFFECT: Final = ("failed", "cancelled")


@dataclass
class Plain:
    """A trip in words: what is said of each step, and of what undoes it."""

    step: list[str] = field(default_factory=lambda: ["ready", "blocked", "blocked"])
    back: list[str] = field(default_factory=lambda: ["blocked", "blocked", "blocked"])
    noted: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    lost: int = 0

    @property
    def comes_to_nothing(self) -> bool:
        """Some step was refused or called off, whatever was told of it after that."""
        return any(one in _NO_EFFECT for one in self.step)

    def events(self) -> list[tuple[str, int]]:
        """What can happen next, and to which step; of an undo the step counts from 3."""
        found: list[tuple[str, int]] = []
        for number, status in enumerate((*self.step, *self.back)):
            if status == "ready" and (number < 3 or self.turn == number - 3):
                found += [(name, number) for name in ("yes", "no", "lost")]
            elif status == "unknown":
                found.append(("effect", number))
                if str(number) not in self.looked:
                    found.append(("absent", number))
            elif number in self.asked:
                found.append(("note", number))
            if status == "failed" and not self.told | self.late and self.lost < 2:
                found.append(("late", number))
        if not self.comes_to_nothing and {"ready", "blocked"} & set(self.step):
            found.append(("cancel", 0))
        return found

    def happens(self, name: str, number: int) -> None:
        """One event, and all that follows."""
        said = {"yes": "completed", "effect": "completed", "no": "failed", "lost": "unknown"}
        match name:
            case "cancel":
                self.call_off()
            case "late":
                self.told.add(number)
            case "note":
                self.noted.add(number)
                self.late |= self.told & {number}
                self.told -= {number}
            case "absent":
                self.looked.add(str(number))
                self.becomes(number, "ready")
            case _:
                self.lost += name == "lost"
                self.becomes(number, said[name])
        self.goes_on()

    def becomes(self, number: int, status: str) -> None:
        """An action stands otherwise."""
        if number > 2:
            self.back[number - 3] = status
        else:
            self.step[number] = status

    def call_off(self) -> None:
        """What has no effect yet gets none."""
        self.step = ["cancelled" if one in {"ready", "blocked"} else one for one in self.step]

    def goes_on(self) -> None:
        """What follows from how everything stands."""
        if self.comes_to_nothing:
            self.call_off()
            for number in range(3):
                if self.step[number] in _NO_EFFECT:
                    self.back[number] = "cancelled"
            if self.turn is not None and self.back[self.turn] == "blocked":
                self.back[self.turn] = "ready"
        elif self.step == ["completed"] * 3:
            self.back = ["cancelled"] * 3
        else:
            number = self.step.index(next(one for one in self.step if one != "completed"))
            if self.step[number] == "blocked":
                self.step[number] = "ready"
        if self.asked:
            self.hold_back()

    def hold_back(self) -> None:
        """Before a person has looked nothing begins; what was sent and came to nothing goes on."""
        for number, status in enumerate((*self.step, *self.back)):
            if status == "ready" and str(number) not in self.looked:
                self.becomes(number, "blocked")

    @property
    def turn(self) -> int | None:
        """The last step whose effect is there and not undone, once everything is known."""
        if not self.comes_to_nothing or "unknown" in self.step or self.told:
            return None
        return next((one for one in (2, 1, 0) if not self.is_settled(one)), None)

    def is_settled(self, number: int) -> bool:
        """There is nothing of a step to undo, or it is undone, or a person has taken it over."""
        is_void = self.step[number] in _NO_EFFECT and number not in self.late
        return is_void or self.back[number] == "completed" or number + 3 in self.noted

    @property
    def asked(self) -> set[int]:
        """What a person is to look at: what was told late, what was to undo an effect and was
        refused, and then what was called off before there was one to undo.
        """
        failed = {one + 3 for one in range(3) if self.back[one] == "failed"} - self.noted
        turn = self.turn
        if not failed and turn is not None and self.back[turn] == "cancelled":
            return {turn + 3}
        return self.told | failed

    @property
    def status(self) -> str:
        """How the trip as a whole stands."""
        if self.step == ["completed"] * 3:
            return "completed"
        if not self.comes_to_nothing:
            return "running"
        if self.asked:
            return "stuck"
        ends = {"completed", "failed", "cancelled"}
        return "compensated" if {*self.step, *self.back} <= ends else "compensating"


def key_of(number: int) -> str:
    """The key of a step, or of an undo."""
    return do(ITEMS[number]) if number < 3 else undo(ITEMS[number - 3])


def tell(told: Travelling, name: str, number: int) -> None:
    """The same event, to the ledger."""
    key = key_of(number)
    match name:
        case "yes":
            told.does(key, YES)
        case "no":
            told.does(key, NO)
        case "lost":
            told.does(key, LOST)
        case "effect":
            told.finds(key, i.Meaning.EFFECT)
        case "absent":
            told.finds(key, i.Meaning.ABSENT)
        case "late":
            told.says(found_out(i.Meaning.EFFECT, key=key, lookup=None))
        case "note":
            told.settles(key, Move.ACKNOWLEDGE)
        case _:
            told.says(cancel_trip())


def test_a_trip_goes_as_it_is_told_in_every_history() -> None:
    """After every event of every history each action, and the trip, stand as in plain words; at
    its end nothing has an effect that was neither undone nor noted by a person.
    """
    ends: Counter[str] = Counter()
    todo: list[tuple[Travelling, Plain]] = [(Travelling(), Plain())]
    while todo:
        told, plain = todo.pop()
        events = plain.events()
        if not events:
            ends[plain.status] += 1
        for name, number in events:
            after, words = copy.copy(told), copy.deepcopy(plain)
            after.facts = list(told.facts)
            tell(after, name, number)
            words.happens(name, number)
            expected = list(zip(words.step, words.back, strict=True))
            assert after.statuses == expected, (name, number)
            assert after.saga.status == words.status, (name, number)
            todo.append((after, words))
    assert set(ends) == {"completed", "compensated"}
    assert ends.total() >= HISTORIES_MIN, ends
