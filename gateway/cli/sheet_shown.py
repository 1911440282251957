"""A sheet at the terminal: everything that is signed, in full, before anybody is asked.

Guarantees that what an agent or a provider wrote is shown as text and whole: nothing of it reaches
the terminal as a command, what cannot be seen is written as its code, and what passes for another
character is marked and named. Called by the commands of people.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text

from gateway.console.sheet import risk_levels, values_of
from gateway.console.text import Shown, shown
from gateway.http.sheets import ActionSheet, DecisionSheet, WaitingEntry, WaitingList
from ledger.core.money import exponent, format_money
from ledger.core.request import canonical_form

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.console.sheet import Value
    from gateway.http.sheets import DifferenceSheet
    from ledger.core.preview import Change, Revised, Undone

_STYLES: Final = {"hidden": "bold red", "odd": "bold yellow reverse", "rtl": "magenta"}
_NAME_CHARS: Final = 13
BY_CALLER: Final = "by its caller itself, with its own credentials; no executor stands between"
MARGIN: Final = "    │ "
"""Stands before every line that somebody else wrote."""
ROUNDS_SHOWN_MAX: Final = 5
"""Rounds that came to nothing, the newest: one ends every ten minutes where nobody looks."""
_MS_PER_S: Final = 1_000
_S_PER_MINUTE: Final = 60


def show_sheet(console: "Console", sheet: DecisionSheet, *, heading: str) -> None:
    """Everything: what would be done, by whom it is asked, what is foreseen, why people are asked,
    and what is signed.
    """
    console.print()
    console.print(Text(heading, style="bold"))
    rows(console, subject(sheet))
    payload(console, sheet)
    _foreseen(console, sheet)
    console.print(Text("Why people are asked", style="bold"))
    rows(console, _why(sheet))
    _history(console, sheet)
    console.print(Text("What is signed", style="bold"))
    rows(console, _signed(sheet))


def subject(sheet: ActionSheet) -> Iterator[tuple[str, str | Shown]]:
    """What the action is, and who wants it."""
    request, risk = sheet.request, sheet.operation.risk
    yield "action", shown(sheet.key)
    yield "operation", shown(f"{request.operation} v{request.version}")
    if sheet.operation.description is not None:
        yield "", shown(sheet.operation.description)
    if request.target is not None:
        yield "target", shown(request.target)
    if request.money is not None:
        # In words from what is signed, and from nothing that the door says of it.
        decimals = exponent(request.money.currency)
        minor = f"{request.money.minor} minor units, {decimals} decimals"
        yield "amount", f"{format_money(request.money)}   ({minor})"
    yield "provider", shown(f"{sheet.provider} / {sheet.account} ({sheet.reliability})")
    if sheet.compensates is not None:
        yield "undoes", shown(sheet.compensates)
    if sheet.performer is not None:
        yield "carried out", BY_CALLER
    yield "environment", shown(request.environment)
    yield "tenant", shown(sheet.tenant)
    yield "asked by", shown(request.principal)
    for name in sheet.behalf:
        yield "on behalf of", shown(name)
    if risk is not None:
        yield "risk", risk_levels(risk)


def payload(console: "Console", sheet: ActionSheet) -> None:
    """The request, whole."""
    console.print(Text("Parameters", style="bold"))
    values = tuple(values_of(canonical_form(sheet.request)["params"]))
    if not values:
        console.print(Text("  none"))
    listed(console, values)


def listed(console: "Console", values: "Iterable[Value]", *, said: str = "") -> None:
    """Every value under its name, of which type it is and, where it is told, `said` of what."""
    for value in values:
        line = Text("  ")
        line.append(marked(value.path))
        line.append(f"  ({value.kind}{said})\n{MARGIN}", style="dim")
        line.append(marked(value.text))
        put(console, line)
        notes(console, (*value.path.notes, *value.text.notes))


def _foreseen(console: "Console", sheet: DecisionSheet) -> None:
    console.print(Text("What would happen", style="bold"))
    preview = sheet.preview
    if preview is None:
        console.print(Text("  not known yet: the provider is asked first"))
        return
    said = preview.foreseen
    if said is None:
        console.print(Text("  exactly this request; the provider was not asked what it foresees"))
    else:
        found = (("effect", said.effect), ("target", said.target), ("scope", said.scope))
        rows(console, ((name, shown(text)) for name, text in found if text is not None))
        listed(console, values_of(dict(said.observed)), said=", now")
    _revised(console, preview.revises)
    if preview.undoes is not None:
        console.print(Text("  it undoes an effect that is there:"))
        rows(console, _undone(preview.undoes))
    for check in preview.checks:
        mark = Text("  ✓ ", style="green") if check.passed else Text("  ! ", style="yellow")
        detail = shown(check.detail)
        put(console, mark + marked(detail))
        notes(console, detail.notes)


def _revised(console: "Console", earlier: "Revised | None") -> None:
    """What the action changes of the one that it revises."""
    if earlier is None:
        return
    line = Text("  it takes the place of ")
    line.append(marked(shown(earlier.action)))
    line.append(f", which was {earlier.status} when people were asked")
    put(console, line)
    changed(console, earlier.changes)
    if not earlier.changes:
        console.print(Text("    it asks for exactly the same once more"))


def changed(console: "Console", changes: "Iterable[Change | DifferenceSheet]") -> None:
    """Every value that is another one now, beside its old one."""
    for change in changes:
        name, was, now = shown(change.name), shown(change.was), shown(change.now)
        line = Text("    ")
        line.append(marked(name))
        line.append("  was  ", style="dim")
        line.append(marked(was))
        line.append("  is  ", style="dim")
        line.append(marked(now))
        put(console, line)
        notes(console, (*name.notes, *was.notes, *now.notes))


def _undone(earlier: "Undone") -> Iterator[tuple[str, str | Shown]]:
    """The action whose effect is undone, as it stood when people were asked."""
    yield "of", shown(earlier.action)
    yield "which was", shown(earlier.status)
    if earlier.reference is not None:
        yield "reference", shown(earlier.reference)
    if earlier.target is not None:
        yield "target", shown(earlier.target)
    if earlier.money is not None:
        yield "amount", format_money(earlier.money)


def _why(sheet: DecisionSheet) -> Iterator[tuple[str, str | Shown]]:
    if sheet.policy is not None:
        yield "row", shown(sheet.policy.row)
        reason = sheet.policy.reason
        yield "", shown(reason if reason is not None else "(its table is not known here)")
    asked = sheet.asked
    if asked is None:
        return
    who = "anybody who is registered for the tenant" if not asked.groups else ""
    yield "who may", who or shown(", ".join(asked.groups))
    if asked.escalate_at is not None:
        further = ", ".join(asked.escalate_to)
        yield "", shown(f"from {moment(asked.escalate_at)} on also of {further}")
    standing = sum(one.void is None for one in asked.agreed)
    yield "how many", f"{asked.quorum}; agreed so far: {standing}"
    for one in asked.agreed:
        over = "" if one.void is None else "; revoked since, so it counts no more"
        yield "agreed", shown(f"{one.person} at {moment(one.granted_at)}{over}")
    if asked.ended is not None:
        yield "over", asked.ended


def _history(console: "Console", sheet: DecisionSheet) -> None:
    """What came to nothing before, with every value that is another one now; and who said what."""
    if not sheet.signed and not sheet.earlier:
        return
    console.print(Text("Earlier", style="bold"))
    for over in sheet.earlier[:ROUNDS_SHOWN_MAX]:
        said = f"round {over.round} ended at {moment(over.ended_at)}: {over.sentence}"
        put(console, Text("  ") + marked(shown(said)))
        changed(console, over.changes)
    if len(sheet.earlier) > ROUNDS_SHOWN_MAX:
        console.print(Text(f"  and {len(sheet.earlier) - ROUNDS_SHOWN_MAX} rounds before these"))
    for one in sheet.signed:
        said = f"round {one.round}: {one.person} said {one.decision} at {moment(one.decided_at)}"
        comment = "" if one.comment is None else f": {one.comment}"
        line = shown(said + comment)
        put(console, Text(MARGIN) + marked(line))
        notes(console, line.notes)


def _signed(sheet: DecisionSheet) -> Iterator[tuple[str, str | Shown]]:
    yield "as", shown(sheet.you)
    yield "ledger", shown(sheet.ledger)
    yield "request", sheet.request_hash
    asked = sheet.asked
    if asked is not None:
        yield "dry run", asked.preview_hash
        yield "policy", asked.policy_hash
        yield "nonce", shown(f"{asked.nonce} (round {asked.round})")
        yield "until", f"{moment(asked.expires_at)}, {left(asked.expires_at, sheet.now)}"


def left(expires_at: int, now_ms: int) -> str:
    """How long there is, as a countdown: `9:41 left`, `over`."""
    seconds = (expires_at - now_ms) // _MS_PER_S
    if seconds <= 0:
        return "over"
    minutes, rest = divmod(seconds, _S_PER_MINUTE)
    hours, minutes = divmod(minutes, _S_PER_MINUTE)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


def show_waiting(console: "Console", found: WaitingList) -> None:
    """A list of what waits, who was asked longest ago first."""
    if not found.waiting:
        tenants = "every tenant" if "*" in found.tenants else ", ".join(found.tenants)
        put(
            console, marked(shown(f"Nothing waits for people. You are {found.you}, for {tenants}."))
        )
    for one in found.waiting:
        _entry(console, one, found.now)
    if found.more:
        console.print(
            Text("More wait than these: what ran out gave way to what can be decided now.")
        )


def _entry(console: "Console", one: WaitingEntry, now_ms: int) -> None:
    until = left(one.expires_at, now_ms) if one.expires_at is not None else ""
    states = {
        "waiting": until,
        "preparing": "not to be decided yet: the provider is asked what would happen",
        "expired": "nobody decided in time; `actionledger ask` has people asked again",
        "ended": "people are being asked anew",
    }
    console.print(marked(shown(one.key)).append(f"  {states[one.state]}", style="bold"))
    what = " ".join(part for part in (one.operation, one.amount, one.target) if part)
    rows(
        console,
        (
            ("what", shown(what)),
            ("asked by", shown(f"{one.principal}, {ago(now_ms - one.since)} ago")),
            ("where", shown(f"{one.provider} / {one.account}, {one.environment}, {one.tenant}")),
        ),
    )
    if one.policy is not None:
        reason = one.policy.reason or "(its table is not known here)"
        rows(console, (("why", shown(f"{one.policy.row}: {reason}")),))
    if one.quorum is not None:
        agreed = f"{len(one.agreed)} of {one.quorum} agreed"
        groups = f"; one of {', '.join(one.groups)} may" if one.groups else ""
        rows(console, (("people", shown(agreed + groups)),))


def status_line(answer: Mapping[str, Any]) -> str:
    """What becomes of an action after a decision about it, in a sentence."""
    asked = answer.get("approval") or {}
    match answer["status"]:
        case "awaiting_approval" if asked.get("state") == "waiting":
            agreed = f"{asked.get('granted', 0)} of {asked.get('quorum', 1)} agreed"
            return f"It waits for people: {agreed}."
        case "awaiting_approval":
            return "It waits for people."
        case "denied":
            return "It never begins."
        case "undecided":
            return "Your decision is kept; what it counts is not known yet. Look again."
        case _:
            return "It goes ahead."


def rows(console: "Console", told: Iterable[tuple[str, str | Shown]]) -> None:
    """Names and what is said under them, each with its marked characters named below."""
    for name, value in told:
        line = Text(f"  {name:<{_NAME_CHARS}} ")
        known = value if isinstance(value, Shown) else shown(value)
        line.append(marked(known, margin=" " * _NAME_CHARS + " │ "))
        put(console, line)
        notes(console, known.notes)


def notes(console: "Console", found: Iterable[str]) -> None:
    """What a reader has to know of characters."""
    for note in found:
        put(console, Text(f"    ⚠ {note}", style="bold yellow"))


def put(console: "Console", line: Text) -> None:
    """Print a line that somebody else may have had a hand in. Where the terminal is narrower it is
    broken here, at the margin: the terminal itself would begin anew at its own edge.
    """
    if not console.is_terminal:
        console.print(line, soft_wrap=True)
        return
    for one in line.split("\n", allow_blank=True):
        first, *further = one.divide(_ends(one.plain, console.width))
        console.print(first, soft_wrap=True)
        for part in further:
            console.print(Text(MARGIN, style="dim") + part, soft_wrap=True)


def _ends(text: str, width: int) -> Iterator[int]:
    """Where a line has to end so that each part fits, the further ones behind the margin."""
    used = 0
    for place, character in enumerate(text):
        cells = cell_len(character)
        if used + cells > width:
            yield place
            used = len(MARGIN)
        used += cells


def marked(text: Shown, *, margin: str = MARGIN) -> Text:
    """A text with what is not what it looks like marked in it. Every further line of it begins at
    the margin, so that no text can pass for a line of ours.
    """
    line = Text()
    for piece in text.pieces:
        if piece.kind == "break":
            line.append("\n" + margin, style="dim")
        else:
            line.append(piece.text, style=_STYLES.get(piece.kind, ""))
    return line


def moment(at_ms: int) -> str:
    """A time of the log, to the second and in UTC."""
    return datetime.fromtimestamp(at_ms / _MS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(since_ms: int) -> str:
    """How long something lasts already."""
    seconds = max(0, since_ms) // _MS_PER_S
    if seconds < 2 * _S_PER_MINUTE:
        return f"{seconds} s"
    minutes = seconds // _S_PER_MINUTE
    return f"{minutes} min" if minutes < 2 * _S_PER_MINUTE else f"{minutes // _S_PER_MINUTE} h"


def monotonic_ms() -> int:
    """For how long somebody looks."""
    return time.monotonic_ns() // 1_000_000
