"""How webhooks are shown to a person at a terminal. Nothing a stranger wrote reaches it raw."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gateway.cli.quarantine import visible
from gateway.cli.reading import money_of

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.wiring.webhook_desk import Tested, Tried
    from reconciler.replaying import Replayed
    from reconciler.webhook_rows import Suggestion, Unmatched, WebhookView

SHOWN_CHARS: Final = 4_096
WIDE_COLUMNS: Final = 120
"""Of characters; with fewer the columns of a list would break their words."""

CHANGES_SHOWN: Final = 20
_AGES: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def age(ms: int) -> str:
    """A span in its largest unit: `3 d`, `12 min`, `40 s`."""
    for unit, length in _AGES:
        if ms >= length:
            return f"{ms // length} {unit}"
    return f"{max(ms, 0) // 1_000} s"


def show_list(
    console: "Console",
    rows: "Sequence[WebhookView]",
    open_ones: "Sequence[Unmatched]",
    *,
    now_ms: int,
) -> None:
    """The rows, and below them what is nobody's. On a terminal too narrow for six columns each row
    takes two lines.
    """
    if rows and console.width < WIDE_COLUMNS:
        for one in rows:
            about = (f"{one.provider}/{one.account}", one.event_type, one.action_key or one.repeats)
            told = f"{one.place}  {age(now_ms - one.received_at)}  {_state(one)}"
            console.print(told, markup=False, soft_wrap=True)
            said = "  ".join(part for part in about if part)
            console.print(f"  {visible(said)}", markup=False, soft_wrap=True)
    elif rows:
        _show_table(console, rows, now_ms)
    else:
        console.print("No webhook is in this state.")
    for found in open_ones:
        what = f"{found.provider}/{found.account} {found.state.value}: {found.reason}"
        since = (
            "" if found.oldest_at is None else f", the oldest for {age(now_ms - found.oldest_at)}"
        )
        said = f"{found.waiting} waiting{since}; {found.expired} expired"
        console.print(f"[yellow]●[/] {_plain(what)}: {said}", soft_wrap=True)


def _show_table(console: "Console", rows: "Sequence[WebhookView]", now_ms: int) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("place", "age", "account", "type", "state", "action"):
        table.add_column(name, overflow="fold")
    for one in rows:
        table.add_row(
            one.place,
            age(now_ms - one.received_at),
            _plain(f"{one.provider}/{one.account}"),
            _plain(one.event_type or ""),
            _state(one),
            _plain(one.action_key or one.repeats or ""),
        )
    console.print(table)


def _state(one: "WebhookView") -> str:
    return one.state.value if one.reason is None else f"{one.state.value}: {one.reason}"


def show_one(
    console: "Console",
    view: "WebhookView | None",
    raw: bytes,
    headers: Mapping[str, str],
    hints: "Sequence[Suggestion]",
) -> None:
    """One webhook in full."""
    if view is None:
        console.print("The reconciler has not come to it yet.")
    else:
        money = None
        if view.amount_minor is not None:
            money = money_of({"minor": view.amount_minor, "currency": view.currency})
        pairs: tuple[tuple[str, object], ...] = (
            ("state", _state(view)),
            ("from", f"{view.provider}/{view.account}, {view.source}"),
            ("event", f"{view.event_id} {view.event_type or ''}"),
            ("received", _moment(view.received_at)),
            ("happened", None if view.occurred_at is None else _moment(view.occurred_at)),
            ("means", None if view.meaning is None else f"{view.meaning}, effect {view.effect}"),
            ("reference", view.reference),
            ("reverses", view.reverses),
            ("money", money),
            ("action", view.action_key and f"{view.action_key} by {view.matched_by}"),
            ("repeats", view.repeats),
            ("seen by", view.seen_by),
        )
        for name, value in pairs:
            if value is not None:
                console.print(f"{name:<10} {visible(str(value))}", markup=False, soft_wrap=True)
    for name, value in headers.items():
        console.print(f"header     {visible(f'{name}: {value}')}", markup=False, soft_wrap=True)
    console.print(f"\n{_body(raw)}\n", markup=False, soft_wrap=True)
    for hint in hints:
        said = f"may be about {hint.action_key} ({hint.status}): same account, amount and currency"
        console.print(f"{visible(said)}", markup=False, soft_wrap=True)


def show_tested(console: "Console", tested: "Tested", wait: float) -> None:
    """What the door said, and what became of it."""
    console.print(f"{tested.url} answered {tested.status}", markup=False, soft_wrap=True)
    if tested.became is not None:
        one = tested.became
        console.print(f"[green]✓[/] It stands at {one.place}, {_plain(_state(one))}.")
    elif isinstance(tested.answer, dict) and "code" in tested.answer:
        told = f"{tested.answer.get('code')}: {tested.answer.get('detail') or ''}"
        console.print(f"[red]✗[/] {_plain(told)}", soft_wrap=True)
    else:
        console.print(f"[red]✗[/] The reconciler has not come to it in {wait:g} s.")


def show_tried(console: "Console", tried: "Tried") -> None:
    """What would happen to a body."""
    if tried.verification is not None:
        console.print(f"verification  {tried.verification}", markup=False)
    said = {name: value for name, value in tried.meaning.items() if value is not None}
    meaning = json.dumps(said, ensure_ascii=True, default=str)
    console.print(f"meaning       {meaning}", markup=False, soft_wrap=True)
    match = tried.match if tried.reason is None else f"{tried.match}: {tried.reason}"
    whose = "" if tried.matched_to is None else f" {tried.matched_to}"
    console.print(f"would be      {visible(match + whose)}", markup=False, soft_wrap=True)


def show_replayed(
    console: "Console", found: "Sequence[Replayed]", changed: "Sequence[Replayed]", *, more: bool
) -> None:
    """How many were looked at, and what changed; and whether there may be more that waits."""
    counts = Counter((one.before or "new", one.after) for one in changed)
    console.print(f"[green]✓[/] {len(found)} looked at, {len(changed)} changed.")
    for (before, after), count in counts.most_common():
        console.print(f"  {count} from {before} to {after}", markup=False)
    for one in changed[:CHANGES_SHOWN]:
        place = f"webhooks/{one.position.partition}/{one.position.offset}"
        console.print(f"  {place} {one.before or 'new'} → {one.after}", markup=False)
    if more:
        console.print("These were the oldest that wait; there may be more: name their places.")


def _body(raw: bytes) -> str:
    """The bytes for a person: JSON laid out where it is JSON, else text."""
    try:
        laid_out = json.dumps(json.loads(raw), indent=2, ensure_ascii=True)
    except (ValueError, RecursionError):
        laid_out = visible(raw.decode("utf-8", "backslashreplace"))
    left = len(laid_out) - SHOWN_CHARS
    return laid_out[:SHOWN_CHARS] + (f"\n… and {left} characters more" if left > 0 else "")


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(visible(text))
