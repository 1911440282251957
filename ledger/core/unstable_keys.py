"""Keys that are no identity: what changes with every try, recognised by its shape.

Guarantees that a name which is refused holds something that a clock, a counter of tries, a call, a
trace or an empty variable has put there. Must never refuse what a counter of a business can walk
into, so a bare UUID, a bare hexadecimal number and a date pass: decision 23. Called by `propose`
for keys that are new; a key that is known was accepted once and stays.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.core.ids import ActionId

CLOCK_READING_MS: Final = 3_600_000
"""How far from the decision a number may be and still count as the time: longer than a proposal
waits anywhere, and so short that a count of documents seldom passes through it.
"""


class Unstable(StrEnum):
    """What in a name changes with every try, or never told two things apart."""

    LEFT_OVER = "left_over"
    ATTEMPT = "attempt_number"
    CALL = "call_id"
    TRACE = "trace_id"
    TIME = "time_stamp"
    ADDRESS = "memory_address"


@dataclass(frozen=True, slots=True)
class Instability:
    """Why a name is no identity: in which part, by which code, and a sentence with what is right.

    `part` is the field that a caller fills in.
    """

    part: str
    code: Unstable
    message: str


def instabilities(
    action_id: ActionId, now: int, occurrence: str | None = None
) -> Iterator[Instability]:
    """What in an action id cannot be stable, one a part. `now` is log time, by which the reading of
    a clock is told from a number that only looks like one. An `occurrence` is asked the same: one
    that every try has for itself would call each repetition an intended one.
    """
    parts = (
        ("business_event", action_id.business_event),
        ("item", action_id.item),
        ("occurrence", occurrence),
    )
    for part, text in parts:
        found = None if text is None else _found(text, now)
        if found is not None:
            code, shown = found
            yield Instability(part, code, f"{part} holds {shown}, {_WHY[code]}")


_OF_NO_RUN: Final = (
    "which is left where a value was missing: all such runs would share their ceilings; name the "
    "run once it has a name"
)
_OF_NO_TARGET: Final = (
    "which is left where a value was missing: guards and ceilings would take all such things for "
    "one; propose once the value is there"
)
_WHY: Final = {
    Unstable.LEFT_OVER: "what is left where a value was missing: different things would share the "
    "key; propose once the value is there",
    Unstable.ATTEMPT: "which counts tries: the next try would be another action, and could be a "
    "second effect; use one name for every try",
    Unstable.CALL: "the id of one call of a model or its tool: called again, the same act would be "
    "another action; name the thing that is acted on, or derive the key inside the run",
    Unstable.TRACE: "the id of a trace: the next try has another one; send it beside the key, and "
    "name the thing that is acted on",
    Unstable.TIME: "the reading of a clock: the next try reads another one; name the thing that is "
    "acted on, or the local date of a schedule",
    Unstable.ADDRESS: "the address of an object in memory: the next process has another one; use a "
    "field of the object that names it",
}

_BEGIN: Final = r"(?<![A-Za-z0-9])"
_WORD: Final = rf"(?:{_BEGIN}|(?<=[a-z0-9])(?=[A-Z]))"
"""Where a word begins in camelCase too. Letters that were drawn may spell a short word, so only
long ones are looked for there.
"""
_END: Final = r"(?![A-Za-z0-9])"

_UUID: Final = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_ROW_ID: Final = r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}"
"""A ULID, or the end of a TypeID: what data bases call their rows."""
_DRAWN: Final = r"(?:(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{8,}|[A-Za-z]{20,})"
"""Letters and digits that nobody chose, or so many letters that nobody did."""
_COUNTED: Final = (
    r"(?i:attempt|retry|rerun|redelivery)s?(?:[-_.]?(?i:no|nr|num|number|count))?[-_.]?"
)
_TRACED: Final = r"(?i:(?:trace|span)(?:[-_.]?(?:id|parent))?|request[-_.]?id)"
_DATE: Final = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_BARE_DATE: Final = r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_HOUR, _MINUTE, _SECOND = r"(?:[01]\d|2[0-3])", r"[0-5]\d", r"(?:[0-5]\d|60)"

_EMPTY: Final = (
    r"None|null|NULL|undefined|nan|NaN|NaT",
    r"0{8}-(?:0{4}-){3}0{12}|(?i:f{8}-(?:f{4}-){3}f{12})",
)
_SHAPES: Final[dict[tuple[str, str], dict[Unstable, tuple[str, ...]]]] = {
    (_BEGIN, _END): {
        Unstable.LEFT_OVER: _EMPTY,
        # The Turkish lira is TRY: only one digit, and only at the end.
        Unstable.ATTEMPT: (r"[Tt]ry[-_.]?\d\Z",),
        Unstable.CALL: (
            rf"call[-_](?:\d{{1,2}}[-_])?(?:{_UUID}|(?!{_ROW_ID}{_END}){_DRAWN})",
            r"(?:srv)?toolu(?:_bdrk|_vrtx)?_[A-Za-z0-9]{8,}",
            r"tooluse_[A-Za-z0-9_-]{20,24}",
            rf"(?:chatcmpl|cmpl)-(?:tool-)?(?:{_UUID}|[A-Za-z0-9]{{8,}})",
            r"function-call-\d{8,20}",
            r"(?:run|step)_(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{24}",
            r"(?:msg|req)_01[A-Za-z0-9]{22}",
            r"(?:resp|fc|rs|msg|req)_(?:[0-9a-f]{48,64}|[0-9a-f]{32})",
            rf"(?:lc_)?run--{_UUID}",
        ),
        Unstable.TRACE: (
            r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}",
            r"1-[0-9a-f]{8}-[0-9a-f]{24}",
        ),
        Unstable.ADDRESS: (
            r"0x(?:(?:7f|ff|55|56)[0-9a-f]{10}|1[0-9a-f]{8})",
            r"at[-_.]0x[0-9A-Fa-f]{8,16}",
        ),
    },
    (_WORD, _END): {
        Unstable.ATTEMPT: (
            rf"{_COUNTED}(?:\d{{1,3}}|{_UUID})",
            r"(?i:retry|rerun)\Z",
        ),
        Unstable.TRACE: (rf"{_TRACED}[-_.]?(?:{_UUID}|(?i:[0-9a-f]{{32}}|[0-9a-f]{{16}}))",),
    },
    (r"(?<!\d)", r"(?!\d)"): {
        Unstable.TIME: (
            rf"{_DATE}[Tt]{_HOUR}[-_.]?{_MINUTE}(?:[-_.]?{_SECOND})?",
            rf"{_BARE_DATE}[Tt]{_HOUR}{_MINUTE}(?:{_SECOND})?",
            rf"{_DATE}[-_.]{_HOUR}[-_.]{_MINUTE}[-_.]{_SECOND}",
        ),
    },
}
"""By where they begin and end, and by what they are. So grouped, a place in a word costs one look.
"""

_KINDS: Final = tuple(code for shapes in _SHAPES.values() for code in shapes)


def _pattern() -> re.Pattern[str]:
    """All shapes as one expression, whose only group is the one of the kind that was found."""
    places = []
    for (begin, end), shapes in _SHAPES.items():
        kinds = "|".join(f"((?:{'|'.join(forms)}){end})" for forms in shapes.values())
        places.append(f"{begin}(?:{kinds})")
    return re.compile("|".join(places))


_ANY: Final = _pattern()
# Words and a joint behind them, and nothing: what was to stand there was empty. Only of words that
# somebody chose: what was drawn from an alphabet with joints may end with one.
_CUT: Final = re.compile(r"[A-Z]?[a-z]{2,20}(?:[-_.][A-Z]?[a-z]{2,20}){0,4}[-_.]")
_DERIVED: Final = re.compile(r"derived-(.+)-[0-9a-f]{16}")
_OF_A_RUN: Final = frozenset({Unstable.CALL, Unstable.TRACE})
"""What may stand in a derived key: it says of itself that it holds inside its run alone."""


def left_over(run: str) -> str | None:
    """What in the name of a run is left where a value was missing, in a sentence; or None. Anything
    else that changes from run to run may stand in it.
    """
    if _CUT.fullmatch(run) is not None:
        return f"run is {run}, {_OF_NO_RUN}"
    for match in _ANY.finditer(run):
        if _KINDS[(match.lastindex or 0) - 1] is Unstable.LEFT_OVER:
            return f"run holds {match[0]}, {_OF_NO_RUN}"
    return None


# A kind, parted by a colon or, where there is none, by a joint; and what stands straight behind it.
_AIMED_AT_NOTHING: Final = re.compile(
    rf"(?:[^:]*:|[A-Za-z]{{2,20}}[-_.])?({'|'.join(_EMPTY)})(?=[:/]|\Z)"
)


def left_over_in_target(target: str) -> str | None:
    """What in a target is left where a value was missing, in a sentence; or None: nothing behind
    its only colon, or such a word and nothing else as what the kind is about (`order:None/line:2`,
    `order_null`). A word anywhere else may name a thing, which cannot be called otherwise.
    """
    _, colon, named = target.partition(":")
    if colon and not named.strip():
        return f"target ends with a colon, {_OF_NO_TARGET}"
    match = _AIMED_AT_NOTHING.match(target)
    return None if match is None else f"target holds {match[1]}, {_OF_NO_TARGET}"


_NUMBER: Final = re.compile(r"(?<!\d)\d{10,19}(?!\d)")
_MESSAGE: Final = re.compile(r"(?<!\d)(?:\d{10}\.\d{6}|p\d{16})(?!\d)")
"""How Slack calls a message: by when it was sent, once and for ever."""
_PER_MS: Final = {10: (1_000, 1), 13: (1, 1), 16: (1, 1_000), 19: (1, 1_000_000)}
"""By the count of digits of a time since 1970 (s, ms, us, ns): times and over what gives ms."""


def _found(text: str, now: int) -> tuple[Unstable, str] | None:
    """Of which kind the first trouble of a component is, and the piece that shows it."""
    if _CUT.fullmatch(text) is not None:
        return Unstable.LEFT_OVER, text
    derived = _DERIVED.fullmatch(text)
    for match in _ANY.finditer(text if derived is None else derived[1]):
        code = _KINDS[(match.lastindex or 0) - 1]
        if derived is None or code not in _OF_A_RUN:
            return code, match[0]
    for number in _NUMBER.findall(text):
        if _is_clock_reading(number, now) and _MESSAGE.search(text) is None:
            return Unstable.TIME, number
    return None


def _is_clock_reading(digits: str, now: int) -> bool:
    """Whether a number is the time of the decision, in any unit in which clocks are read. Other
    numbers of that size are documents of a book-keeping.
    """
    times, over = _PER_MS.get(len(digits), (0, 1))
    return times > 0 and abs(int(digits) * times // over - now) <= CLOCK_READING_MS
