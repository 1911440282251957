"""`propose`, `cancel`, `show`, `why`, `unknowns`: actions, from the intent to how they stand and
why.
"""

import asyncio
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gateway.cli.numbers import whole_number
from gateway.cli.output import Json, Output, UsageError, plain
from gateway.cli.unknowns import unknowns
from ledger.core.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from gateway.cli.door_answer import Answered
    from gateway.cli.proposing import Proposing
    from gateway.cli.reading import Place
    from gateway.settings import Settings
    from projections.query_rows import ActionRow, Became


class UndecidedInputError(LedgerError):
    """No decision about an input is known: there is none, or not yet."""


PANEL = "Actions"


def _is_key(text: str | None) -> str | None:
    """The text, where it is the key of an action: before anything is asked about it."""
    from ledger.core.ids import ActionKey, MalformedId

    try:
        return None if text is None else str(ActionKey.parse(text))
    except MalformedId as malformed:
        raise UsageError(
            f"That is no key of an action: {malformed}.",
            hint="Write it whole, as `actionledger propose` said it.",
        ) from None


Key = Annotated[
    str,
    typer.Argument(
        help="Such as charge:v1:acme:renewal-2026-08-28-01.", callback=_is_key, show_default=False
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("propose", rich_help_panel=PANEL)(propose)
    app.command("cancel", rich_help_panel=PANEL)(cancel)
    app.command("show", rich_help_panel=PANEL)(show)
    app.command("why", rich_help_panel=PANEL)(why)
    app.command("unknowns", rich_help_panel=PANEL)(unknowns)


def propose(
    file: Annotated[
        Path | None, typer.Argument(help="The intent in JSON; - reads stdin.", show_default=False)
    ] = None,
    named: Annotated[
        Path | None, typer.Option("--file", "-f", help="The same.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it no longer moves.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="How long to wait, in seconds.")] = 60,
    as_json: Json = False,
) -> None:
    """Ask for one effect. The same file again is the same action: nothing happens twice.

    The file names the operation, its version, your business event, and what to do; tenant and
    principal come from the API key. Ends with 4 where the ledger refuses, and says why.

    Example: actionledger propose --file examples/intent.json --wait
    """
    from gateway.cli.door_answer import answer_of_door

    out = Output("propose", as_json=as_json)
    files = [one for one in (file, named) if one is not None]
    if len(files) != 1:
        raise UsageError(
            "Name one file.", hint="As in `actionledger propose examples/intent.json`; - is stdin."
        )
    wait_ms = timeout * 1_000 if wait else 0

    def ask(asking: "Proposing") -> "Answered":
        raw = sys.stdin.buffer.read() if str(files[0]) == "-" else files[0].read_bytes()
        return asking.propose(raw, wait_ms=wait_ms)

    answer_of_door(out, ask, show_answer)


def cancel(
    key: Key,
    reason: Annotated[
        str | None, typer.Option(help="Why; it is recorded.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Take an action back of which nothing has begun. Again changes nothing.

    It is asked for with the API key, as `propose` is. Ends with 4 where it is too late, or a person
    has to settle it first.

    Example: actionledger cancel refund:v1:acme:return-2026-11-30-07 --reason "Sent in error."
    """
    from gateway.cli.door_answer import answer_of_door

    answer_of_door(
        Output("cancel", as_json=as_json), lambda asking: asking.cancel(key, reason), show_answer
    )


def show_answer(console: "Console", answer: "Mapping[str, Any]") -> None:
    """How an action stands, as the door says it; and what to look at next."""
    replay = "  [dim](it was there before: nothing new was started)[/]"
    console.print(f"[bold]{answer['key']}[/]", soft_wrap=True)
    console.print(
        f"  {coloured(answer['status'])}{replay if answer.get('replayed') else ''}", soft_wrap=True
    )
    for name in ("reference", "code", "review", "proof"):
        if answer.get(name):
            console.print(f"  {name:<10} {answer[name]}", markup=False, soft_wrap=True)
    if waits := answer.get("blocked"):
        told = blocked_line(waits["reason"], waits.get("by"), waits.get("gates") or ())
        console.print(f"  waits for  {told}", markup=False, soft_wrap=True)
    if answer.get("review_names"):
        console.print(f"  about      {answer['review_names']}", markup=False, soft_wrap=True)
    if held := answer.get("held"):
        told = f"by {held['by']}" + (f": {held['reason']}" if held.get("reason") else "")
        console.print(f"  held       {told}", markup=False, soft_wrap=True)
    if asked := answer.get("approval"):
        console.print(f"  people     {asked_line(asked)}", markup=False, soft_wrap=True)
    if denied := answer.get("denied"):
        # The table, or the catalogue before it: the row says which.
        by = denied.get("person") or "the rules in force"
        told = by + (f": {denied['comment']}" if denied.get("comment") else "")
        console.print(f"  denied by  {told}", markup=False, soft_wrap=True)
    if answer.get("ledger"):
        place = answer["ledger"]
        console.print(f"  ledger     {place['partition']}:{place['offset']}")
    if asked and answer.get("status") == "awaiting_approval":
        console.print(f"\nDecide: actionledger approve {answer['key']}", soft_wrap=True)
        console.print(f"Why people are asked: actionledger policy explain {answer['key']}")
        return
    console.print(f"\nWhy: actionledger why {answer['key']}", soft_wrap=True)
    if denied and denied.get("by") == "policy":
        console.print(f"Which row: actionledger policy explain {answer['key']}", soft_wrap=True)
    if answer.get("status") == "needs_review":
        console.print(f"Settle it: actionledger review show {answer['key']}", soft_wrap=True)


def asked_line(asked: "Mapping[str, Any]") -> str:
    """What people are asked about an action, and how far they are."""
    if asked.get("ended") == "expired" or asked.get("state") == "expired":
        return "nobody decided in time, which is no denial; `actionledger ask` has them asked again"
    if asked.get("expires_at") is None:
        return "they are asked as soon as the provider has said what would happen"
    agreed = f"{asked.get('granted') or 0} of {asked['quorum']} agreed"
    who = f", of {' or '.join(asked['groups'])}" if asked.get("groups") else ""
    return f"{agreed}{who}; until {moment(asked['expires_at'])} UTC"


def blocked_line(reason: str, by: str | None, gates: "Sequence[str]" = ()) -> str:
    """What an action waits for, and that it goes on by itself."""
    from gateway.console.why import BLOCKED

    if by is None and reason not in BLOCKED:
        return f"{', '.join(gates) or 'a gate'}, which answers by itself"
    # An agent is not told of an action for whose like it may not ask.
    return BLOCKED[reason].format(by or "another action")


_COLOURS = {"completed": "green", "unknown": "yellow", "needs_review": "yellow", "failed": "red"}


def coloured(status: str) -> str:
    """A status in rich markup."""
    colour = _COLOURS.get(status)
    return f"[{colour}]{status}[/]" if colour else status


def show(key: Key, as_json: Json = False) -> None:
    """Show how an action stands, its attempts, and everything that happened to it.

    Example: actionledger show charge:v1:acme:renewal-2026-08-28-01
    """
    from gateway.cli.place import settings

    out = Output("show", as_json=as_json)
    found = asyncio.run(_found(settings(), key))
    if found is None:
        _unknown_action(key)
    out.answer(found, lambda console: _show_action(console, found))


def _unknown_action(key: str) -> NoReturn:
    from gateway.cli.proposing import UnknownActionError

    raise UnknownActionError(
        f"The read model has no action {key}.",
        hint="Look for it with `actionledger log tail --topic intents`; see also `actionledger "
        "status` for the projector.",
    )


async def _found(settings: "Settings", key: str) -> dict[str, Any] | None:
    from gateway.wiring.installation import open_pool
    from projections.limits import ACTION_FACTS_MAX
    from projections.queries import Queries
    from projections.query_rows import ALL

    async with await open_pool(settings) as pool:
        queries = Queries(pool)
        action = await queries.action(ALL, key)
        if action is None:
            return None
        attempts = await queries.attempts(ALL, key)
        events = await queries.whole_timeline(ALL, key)
    return {
        "action": plain(action),
        "attempts": plain(attempts),
        "timeline": plain(events[:ACTION_FACTS_MAX]),
        "more": len(events) > ACTION_FACTS_MAX,
    }


def _show_action(console: "Console", found: "Mapping[str, Any]") -> None:
    action = found["action"]
    console.print(f"[bold]{action['action_key']}[/]  {coloured(action['status'])}", soft_wrap=True)
    amount = _amount(action["amount_minor"], action["currency"])
    rows = (
        ("target", action["target"]),
        ("amount", amount),
        ("provider", f"{action['provider']} / {action['account']} ({action['reliability']})"),
        ("reference", action["provider_reference"]),
        ("proof", action["proof"]),
        ("code", action["code"]),
        ("review", action["review"]),
        ("waits for", _waits_for(action)),
        ("unblocks", _unblocks(action)),
        ("run", action["run"]),
        ("people", _people(action)),
        ("next due", _when(action["next_due_at"])),
        ("held", held_line(action["held"])),
        ("asked by", action["principal"]),
        ("hash", action["request_hash"]),
    )
    for name, value in rows:
        if value is not None:
            console.print(f"  {name:<10} {value}", markup=False, soft_wrap=True)
    for one in found["attempts"]:
        code = f" ({one['code']})" if one["code"] else ""
        console.print(f"  attempt {one['number']}  {one['status']}{code}", markup=False)
    console.print(timeline(found["timeline"]))
    if found["more"]:
        console.print("These are the first facts that were recorded; there are more.")


def timeline(events: "Sequence[Mapping[str, Any]]") -> "Table":
    """Facts of an action in their order, and the input that each is because of. An action may take
    days: each stands in a line of its own, so that what happened keeps its room.
    """
    from rich.markup import escape
    from rich.table import Table

    from gateway.cli.reading import fact_line

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("v", "at (UTC)", "fact", "ledger", "because of"):
        table.add_column(name, justify="right" if name == "v" else "left", overflow="fold")
    day = ""
    for event in events:
        cause, before = event["cause"], day
        day = day_of(event["decided_at"])
        if day != before:
            table.add_row("", day, style="dim")
        table.add_row(
            str(event["version"]),
            clock(event["decided_at"]),
            escape(fact_line(event["data"])),
            f"{event['partition']}:{event['ledger_offset']}",
            f"{cause['topic']} {cause['partition']}:{cause['offset']}",
        )
    return table


def _waits_for(action: "Mapping[str, Any]") -> str | None:
    """What a blocked action waits for."""
    reason, by = action["blocked_reason"], action["blocked_by"]
    if reason is None:
        return None
    is_gate = reason == "unanswered"
    return blocked_line(reason, None if is_gate else by, (by,) if is_gate and by else ())


def _unblocks(action: "Mapping[str, Any]") -> str | None:
    """What a person may do where an action waits for another one."""
    if action["blocked_reason"] not in {"target", "revised_open"}:
        return None
    key, by = action["action_key"], action["blocked_by"]
    return (
        f"settling {by}; or a person who takes the risk of both: actionledger review resolve {key} "
        f"--move allow --accepts {by}"
    )


def _people(action: "Mapping[str, Any]") -> str | None:
    """What people are asked, while it matters."""
    waits = action["status"] in {"awaiting_approval", "ready"}
    return asked_line(action["approval"]) if waits and action["approval"] else None


def held_line(held: "Mapping[str, Any] | None") -> str | None:
    """By whom an action is held, and why; None where nobody holds it."""
    if held is None:
        return None
    named = ", ".join(f"{name} {value}" for name, value in held["scope"].items()) or "everything"
    reason = f": {held['reason']}" if held.get("reason") else ""
    return f"by {held['by']} since {moment(held['since'])} UTC ({named}){reason}"


def _amount(minor: int | None, currency: str | None) -> str | None:
    from gateway.cli.reading import money_of

    return None if minor is None else money_of({"minor": minor, "currency": currency})


def clock(at_ms: int) -> str:
    """The time of day of a log time, UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def day_of(at_ms: int) -> str:
    """The day of a log time, UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d")


def moment(at_ms: int) -> str:
    """A log time with its day, UTC, to the second: what is looked at may be of any day."""
    return f"{day_of(at_ms)} {clock(at_ms)[:8]}"


def _when(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    left_s = at_ms / 1_000 - time.time()
    return f"in {left_s:,.0f} s" if left_s > 0 else "now"


def why(
    key: Annotated[
        str | None, typer.Argument(help="An action key.", callback=_is_key, show_default=False)
    ] = None,
    cause: Annotated[str | None, typer.Option(help="One input, as topic/partition/offset.")] = None,
    as_json: Json = False,
) -> None:
    """Tell which input became what: every input about an action, or one input by its place.

    Example: actionledger why --cause intents/3/17
    """
    from gateway.cli.place import settings

    out = Output("why", as_json=as_json)
    if (key is None) == (cause is None):
        raise UsageError("Name one thing.", hint="Give an action key, or --cause topic/0/0.")
    place = None if cause is None else _place(cause)
    answers, action, more = asyncio.run(_answers(settings(), key, place))
    if not answers and key is None:
        raise UndecidedInputError(
            f"The read model has no decision about an input at {cause}.",
            hint="Look whether it is there with `actionledger log tail`; see also `actionledger "
            "status` for the processor and the projector.",
        )
    if not answers:
        _unknown_action(str(key))
    result: dict[str, Any] = {"inputs": answers, "more": more}
    if action is not None and action.held is not None:
        result["held"] = action.held
    if action is not None and action.blocked_reason is not None:
        result["blocked"] = {"reason": action.blocked_reason, "by": action.blocked_by}
    out.answer(result, lambda console: _show_why(console, answers, action, more=more))


def _place(text: str) -> "Place":
    from ledger.log.topics import Topic

    topic, _, rest = text.partition("/")
    partition, offset = map(whole_number, rest.partition("/")[::2])
    if topic not in set(Topic) or partition is None or offset is None:
        raise UsageError(f"--cause {text} is no place.", hint="Write intents/3/17.")
    return topic, partition, offset


async def _answers(
    settings: "Settings", key: str | None, place: "Place | None"
) -> "tuple[list[dict[str, Any]], ActionRow | None, bool]":
    """Each input with what it said and what came of it, in the order of the ledger; the action as
    it stands; and whether there may be more inputs than were read.
    """
    from gateway.cli.reading import content_of, records_at
    from gateway.wiring.installation import open_log, open_pool
    from projections.limits import ROWS_READ_MAX
    from projections.queries import Queries
    from projections.query_rows import ALL

    async with await open_pool(settings) as pool:
        queries = Queries(pool)
        found: Sequence[Became] = (
            await queries.why_action(ALL, key)
            if key is not None
            else await queries.why_input(ALL, *(place or ("", 0, 0)))
        )
        action = None if key is None else await queries.action(ALL, key)
    causes = [(one.cause.topic, one.cause.partition, one.cause.offset) for one in found]
    records = await records_at(open_log(settings, "cli"), causes)
    answers: dict[tuple[int, int], dict[str, Any]] = {}
    for one, came in zip(found, causes, strict=True):
        record = records.get(came)
        answer = answers.setdefault(
            (one.partition, one.ledger_offset),
            {
                "input": {
                    "topic": came[0],
                    "partition": came[1],
                    "offset": came[2],
                    **({"kept": False} if record is None else content_of(record)),
                },
                "ledger": {"partition": one.partition, "offset": one.ledger_offset},
                "decided_at": one.decided_at,
                "outcome": one.outcome,
                "became": [],
            },
        )
        answer["became"].append({"reason": one.reason, "details": one.details})
    return list(answers.values()), action, len(found) >= ROWS_READ_MAX


def _show_why(
    console: "Console",
    answers: "Sequence[Mapping[str, Any]]",
    action: "ActionRow | None",
    *,
    more: bool,
) -> None:
    from gateway.cli.reading import fact_line, say

    for one in answers:
        given, ledger = one["input"], one["ledger"]
        place = f"{given['topic']} {given['partition']}:{given['offset']}"
        said = "(no longer kept)" if given.get("kept") is False else say(given)
        console.print(f"[cyan]{place}[/] ", end="")
        console.print(said, markup=False, soft_wrap=True)
        for fact in one["became"]:
            told = (
                fact_line(fact["details"])
                if one["outcome"] == "facts"
                else f"{one['outcome']}: {fact['reason']}"
            )
            style = "red" if one["outcome"] in {"refused", "quarantined"} else ""
            console.print(
                f"   → {told}  (ledger {ledger['partition']}:{ledger['offset']})",
                style=style,
                markup=False,
                soft_wrap=True,
            )
    if more:
        console.print("These are the first inputs that were decided; there may be more.")
    if action is not None and action.held is not None:
        held = held_line(action.held)
        console.print(f"   … held {held}", style="yellow", markup=False, soft_wrap=True)
    if action is not None:
        for told in filter(None, (_waits_for(asdict(action)), _unblocks(asdict(action)))):
            console.print(f"   … {told}", style="yellow", markup=False, soft_wrap=True)
