"""A case at the terminal: why a person is needed, everything that is known, and what is safe.

Guarantees that every attempt and every piece of evidence is shown before anybody is asked, as text
and whole. Called by the commands of the review desk.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from gateway.cli.sheet_shown import ago, left, listed, marked, moment, payload, put, rows, subject
from gateway.console.sheet import values_of
from gateway.console.text import Shown, shown
from gateway.http.case_sheets import AttemptSheet, CaseEntry, CaseList, CaseSheet, EvidenceSheet
from ledger.core.money import format_money

if TYPE_CHECKING:
    from rich.console import Console

    from ledger.core.statement import Resolution

SAYS: Final = {
    "effect": "there is an effect",
    "no_effect": "there is no effect of it",
    "absent": "the provider does not know it",
    "reversed": "it was there and was given back",
    "pending": "not settled at the provider yet",
    "inconclusive": "proves nothing",
}


def show_cases(console: "Console", found: CaseList, *, blocked: bool = False) -> None:
    """The list of cases, the oldest first; or of what is blocked."""
    if blocked:
        if not found.blocked:
            console.print(Text("No action waits for another one that a person may let it pass."))
        for one in found.blocked:
            _entry(console, one, found.now)
        _more(console, found.more_blocked)
        return
    if not found.cases:
        tenants = "every tenant" if "*" in found.tenants else ", ".join(found.tenants)
        said = f"No case waits for a person. You are {found.you}, for {tenants}."
        put(console, marked(shown(said)))
    for one in found.cases:
        _entry(console, one, found.now)
    _more(console, found.more)
    if found.blocked:
        waits = (
            "1 action waits" if len(found.blocked) == 1 else f"{len(found.blocked)} actions wait"
        )
        console.print(
            Text(f"{waits} for others, and may be let pass: actionledger review list --blocked")
        )


def _more(console: "Console", more: bool | None) -> None:
    if more:
        console.print(Text("There are more than these, which are the oldest."))


def _entry(console: "Console", one: CaseEntry, now_ms: int) -> None:
    kind = _KINDS[one.kind]
    console.print(marked(shown(one.key)).append(f"  {one.status}  {kind}".rstrip(), style="bold"))
    what = " ".join(part for part in (one.operation, one.amount, one.target) if part)
    rows(
        console,
        (
            ("why", f"{one.sentence} ({_reason(one.reason, one.names)})"),
            ("what", shown(what)),
            ("asked by", shown(one.principal)),
            ("where", shown(f"{one.provider} / {one.account}, {one.environment}, {one.tenant}")),
            ("since", f"{moment(one.since)}, {ago(now_ms - one.since)} ago"),
        ),
    )


_KINDS: Final = {
    "review": "",
    "alarm": "alarm: it is final, and something contradicts that",
    "blocked": "it goes on by itself",
}


def _reason(reason: str, names: str | None) -> str:
    return reason if names is None else f"{reason}: {names}"


def show_case(console: "Console", sheet: CaseSheet, *, heading: str) -> None:
    """Everything about a case, and what each move that is safe now would do."""
    console.print()
    console.print(Text(heading, style="bold"))
    rows(console, subject(sheet))
    payload(console, sheet)
    is_blocked = sheet.kind == "blocked"
    title = "What it waits for" if is_blocked else "Why a person is needed"
    console.print(Text(title, style="bold"))
    rows(console, _why(sheet))
    console.print(Text("Attempts", style="bold"))
    if not sheet.attempts:
        console.print(Text("  nothing was ever sent"))
    for attempt in sheet.attempts:
        rows(console, _attempt(attempt))
    console.print(Text("Evidence", style="bold"))
    if not sheet.evidence:
        console.print(Text("  none"))
    for one in sheet.evidence:
        rows(console, _evidence(one))
        listed(console, values_of(one.result or {}))
    rows(console, _ends(sheet))
    _earlier(console, sheet)
    if sheet.case is not None:
        console.print(Text("What is safe now", style="bold"))
        rows(console, ((one.move, one.sentence) for one in sheet.moves))
        if not sheet.moves:
            console.print(Text("  nothing yet; look again when no byte can be under way any more"))


def show_signed(console: "Console", said: "Resolution") -> None:
    """What is signed, each part of it."""
    console.print(Text("What is signed", style="bold"))
    rows(console, _signed(said))


def asked_to_sign(said: "Resolution", time_left: str) -> str:
    """The question before a signature; it names what is let pass."""
    passes = "" if said.accepts is None else f", letting it pass {said.accepts}"
    return f"Sign this as {said.approver}, {time_left}: {said.move}{passes}?"


def _why(sheet: CaseSheet) -> Iterator[tuple[str, str | Shown]]:
    if sheet.case is None:
        yield "", f"Nobody is: it is {sheet.status}, and no case of it is open."
    for one in sheet.reasons:
        yield "because", f"{one.sentence} ({one.reason}, {moment(one.opened_at)})"
    if sheet.about is not None:
        yield "about", shown(f"{sheet.about.sentence} ({sheet.about.name})")
        if sheet.about.kind == "action":
            yield "", shown(f"look at it: actionledger show {sheet.about.name}")
    if sheet.kind == "alarm":
        yield "alarm", f"it is {sheet.status}, and stays so"
    if sheet.groups:
        yield "who may", shown(", ".join(sheet.groups))


def _attempt(one: AttemptSheet) -> Iterator[tuple[str, str | Shown]]:
    code = "" if one.code is None else f": {one.code}"
    yield f"attempt {one.number}", shown(f"{one.status.replace('_', ' ')}{code}")
    yield "", shown(f"key {one.provider_key}, by {one.holder}")
    yield "", f"started {moment(one.started_at)}, lease until {moment(one.lease_until)}"


def _evidence(one: EvidenceSheet) -> Iterator[tuple[str, str | Shown]]:
    about = "" if one.attempt is None else f" to attempt {one.attempt}"
    about = about if one.lookup is None else f" {one.lookup}"
    yield one.kind, f"{moment(one.at)}: {one.kind}{about}: {SAYS.get(one.meaning, one.meaning)}"
    if one.reference is not None:
        yield "  reference", shown(one.reference)
    if one.money is not None:
        yield "  amount", format_money(one.money)
    if one.reverses is not None:
        yield "  of", shown(one.reverses)
    if one.occurred_at is not None:
        yield "  happened", moment(one.occurred_at)
    if one.code is not None:
        yield "  code", shown(one.code)
    if one.source_id is not None:
        yield "  source", shown(one.source_id)
    if one.raw_sha256 is not None:
        yield "  bytes", shown(one.raw_sha256)


def _ends(sheet: CaseSheet) -> Iterator[tuple[str, str | Shown]]:
    if sheet.last_byte_at is not None:
        over = left(sheet.last_byte_at, sheet.now)
        yield "last byte", f"{moment(sheet.last_byte_at)} at the latest, {over}"
    if sheet.key_window_closes_at is not None:
        over = left(sheet.key_window_closes_at, sheet.now)
        until = moment(sheet.key_window_closes_at)
        yield "key window", f"the provider knows the key until {until}, {over}"


def _earlier(console: "Console", sheet: CaseSheet) -> None:
    if sheet.resolved:
        console.print(Text("Settled before", style="bold"))
    for one in sheet.resolved:
        about = one.reference or one.accepts
        named = "" if about is None else f" ({about})"
        said = f"{moment(one.resolved_at)}: {one.person} signed {one.move}{named}: {one.comment}"
        rows(console, ((f"case {one.case}", shown(said)),))


def _signed(said: "Resolution") -> Iterator[tuple[str, str | Shown]]:
    yield "as", shown(said.approver)
    yield "move", said.move.value
    if said.reference is not None:
        yield "reference", shown(said.reference)
    if said.accepts is not None:
        yield "lets pass", shown(said.accepts)
    yield "comment", shown(said.comment)
    yield "action", shown(said.key)
    yield "tenant", shown(said.tenant)
    yield "environment", shown(said.environment)
    yield "ledger", shown(said.ledger)
    yield "request", said.request_hash
    yield "case", f"opened by fact {said.case}, newest known fact {said.moved}"
    yield "until", f"{moment(said.expires_at)}, {left(said.expires_at, said.issued_at)}"


def outcome_line(answer: Mapping[str, Any], move: str) -> str:
    """What became of an action after a resolution, in a sentence."""
    match answer["status"]:
        case "undecided":
            return "Your resolution is kept; what it counts is not known yet. Look again."
        case _ if move == "acknowledge":
            return "The alarm is settled; the action stays as it is."
        case "completed":
            return "It is completed on your word."
        case "failed" | "cancelled":
            return "It is over, and nothing of it will be sent."
        case "unknown":
            return "The provider is asked about it again."
        case "awaiting_approval":
            return "People are asked to agree before it is sent once more."
        case "needs_review":
            return "It needs a person again: look at the case as it is now."
        case _:
            return "It goes on by itself."
