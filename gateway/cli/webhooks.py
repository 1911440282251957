"""`webhook`: what providers said, what became of it, a test through the door, another look."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.settings import Settings
    from gateway.wiring.webhook_desk import Tested, Tried
    from reconciler.parking import Position
    from reconciler.replaying import Replayed
    from reconciler.webhook_rows import State, Suggestion, Unmatched, WebhookView

group = typer.Typer(
    help="Webhooks: what providers said and what became of it.", no_args_is_help=True
)

REPLAYED_MAX: Final = 100_000
RANGE_MAX: Final = 100_000
BODY_BYTES_MAX: Final = 2 * 1_024 * 1_024

Provider = Annotated[str, typer.Argument(help="The provider, as in the catalogue.")]
Account = Annotated[str, typer.Argument(help="The account at the provider.")]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="webhook", rich_help_panel="Operating")


@group.command("list")
def list_webhooks(
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="matched, parked, unrecognised, expired, duplicate or irrelevant; else all."
        ),
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Only of this provider.")] = None,
    account: Annotated[str | None, typer.Option(help="Only of this account.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List webhooks by what became of them, with reason and age, and count what is nobody's.

    Parked and unrecognised ones are looked for 30 days; then they are expired, and stay.

    Example: actionledger webhook list --state parked --provider simulated
    """
    from gateway.cli.place import settings
    from gateway.cli.webhooks_shown import show_list

    out = Output("webhook list", as_json=as_json)
    wanted = _state(state)
    rows, open_ones = asyncio.run(_list(settings(), wanted, provider, account, limit))
    out.answer(
        {"webhooks": rows, "unmatched": open_ones},
        lambda console: show_list(console, rows, open_ones, now_ms=_now_ms()),
    )


@group.command("show")
def show(
    place: Annotated[str, typer.Argument(help="Where it stands, such as webhooks/3/17.")],
    as_json: Json = False,
) -> None:
    """Show a webhook: its bytes, what the mapping made of it, whose it is, or might be.

    Actions of the same account, amount and currency are named as a hint; nothing is matched by
    them. What a stranger wrote is shown as text and never as commands to your terminal.

    Example: actionledger webhook show webhooks/3/17
    """
    from gateway.cli.place import settings
    from gateway.cli.webhooks_shown import show_one

    out = Output("webhook show", as_json=as_json)
    (position,) = _positions([place], ranges=False)
    view, raw, headers, hints = asyncio.run(_show(settings(), position))
    result = {
        "webhook": view,
        "headers": headers,
        "body": raw.decode("utf-8", "backslashreplace"),
        "suggestions": hints,
    }
    out.answer(result, lambda console: show_one(console, view, raw, headers, hints))


@group.command("test")
def send_or_try(
    provider: Provider,
    account: Account,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Send this body; else an event that means nothing.", exists=True, dir_okay=False
        ),
    ] = None,
    dry_run: Annotated[
        Path | None,
        typer.Option(
            help="Send nothing: say what would happen to this body.", exists=True, dir_okay=False
        ),
    ] = None,
    headers: Annotated[
        Path | None,
        typer.Option(
            help="With --dry-run: its headers, `Name: value` a line.", exists=True, dir_okay=False
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, max=300, help="Seconds to wait for what becomes of it.")
    ] = 10.0,
    as_json: Json = False,
) -> None:
    """Send a signed test event through the door, and say what became of it.

    Signed by the provider's own scheme with the newest secret of the account. By itself it is an
    event of a type that no mapping knows. Ends with 4 where it is not believed or does not arrive.

    Example: actionledger webhook test simulated main
    """
    from gateway.cli.place import settings
    from gateway.cli.webhooks_shown import show_tested, show_tried
    from gateway.wiring.webhook_desk import send_test, try_body

    out = Output("webhook test", as_json=as_json)
    known = settings()
    if dry_run is not None:
        if file is not None:
            raise UsageError("--file sends and --dry-run does not.", hint="Give one of them.")
        given = None if headers is None else _headers(headers)
        tried: Tried = asyncio.run(try_body(known, provider, account, _body(dry_run), given))
        is_believed = tried.verification in {None, "verified"}
        code = Exit.OK if is_believed else Exit.REFUSED
        out.answer(tried, lambda console: show_tried(console, tried), code)
    if headers is not None:
        raise UsageError("--headers belongs to --dry-run.", hint="A test is signed anew.")
    body = None if file is None else _body(file)
    tested: Tested = asyncio.run(send_test(known, provider, account, body=body, wait_seconds=wait))
    code = Exit.REFUSED if tested.became is None else Exit.OK
    out.answer(tested, lambda console: show_tested(console, tested, wait), code)


@group.command("replay")
def replay(
    places: Annotated[
        list[str] | None,
        typer.Argument(help="Such as webhooks/3/17, or webhooks/3/17-40.", show_default=False),
    ] = None,
    *,
    parked: Annotated[
        bool, typer.Option("--parked", help="All that is parked, unrecognised or expired.")
    ] = False,
    provider: Annotated[str | None, typer.Option(help="With --parked: only of this one.")] = None,
    as_json: Json = False,
) -> None:
    """Classify webhooks again from the topic: after a mapping was taught, or in doubt.

    What is matched stays; doing it twice changes nothing more. Uses the logins of the reconciler.

    Example: actionledger webhook replay --parked --provider bank
    """
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.cli.webhooks_shown import show_replayed
    from gateway.wiring.webhook_desk import look_again
    from projections.roles import Role

    out = Output("webhook replay", as_json=as_json)
    if parked == bool(places):
        raise UsageError("Name places, or say --parked.", hint="See `actionledger webhook list`.")
    known = settings(Role.RECONCILER)
    positions = asyncio.run(_open_places(known, provider)) if parked else _positions(places or [])
    with progress() as report:
        found: list[Replayed] = asyncio.run(look_again(known, positions, report))
    changed = [one for one in found if one.is_changed]
    became = Counter(one.after.partition(":")[0] for one in changed)
    more = parked and len(positions) >= REPLAYED_MAX
    result = {"looked_at": len(found), "changed": changed, "became": became, "more": more}
    out.answer(result, lambda console: show_replayed(console, found, changed, more=more))


async def _list(
    settings: "Settings",
    state: "State | None",
    provider: str | None,
    account: str | None,
    limit: int,
) -> "tuple[list[WebhookView], list[Unmatched]]":
    from gateway.wiring.installation import open_pool
    from reconciler.webhook_rows import list_webhooks, unmatched

    now_ms = _now_ms()
    async with await open_pool(settings) as pool:
        rows = await list_webhooks(
            pool, state, provider=provider, account=account, now_ms=now_ms, limit=limit
        )
        return rows, await unmatched(pool, now_ms=now_ms)


async def _show(
    settings: "Settings", position: "Position"
) -> "tuple[WebhookView | None, bytes, dict[str, str], list[Suggestion]]":
    from gateway.wiring.installation import open_log, open_pool
    from gateway.wiring.webhook_desk import record_at
    from reconciler.webhook_rows import find_webhook, suggestions

    _, received = await record_at(open_log(settings, "cli"), position)
    async with await open_pool(settings) as pool:
        view = await find_webhook(pool, position, now_ms=_now_ms())
        hints = [] if view is None else await suggestions(pool, view)
    return view, received.raw(), received.headers, hints


async def _open_places(settings: "Settings", provider: str | None) -> "list[Position]":
    from gateway.wiring.installation import open_pool
    from reconciler.webhook_rows import open_places

    async with await open_pool(settings) as pool:
        return await open_places(pool, provider=provider, limit=REPLAYED_MAX)


def _state(given: str | None) -> "State | None":
    from reconciler.webhook_rows import State

    if given is None:
        return None
    try:
        return State(given)
    except ValueError:
        known = ", ".join(State)
        raise UsageError(f"{given!r} is no state of a webhook.", hint=f"One of {known}.") from None


def _positions(places: "Sequence[str]", *, ranges: bool = True) -> "list[Position]":
    """Places as they are written, with or without the topic; raises UsageError."""
    from reconciler.parking import Position

    found: dict[Position, None] = {}
    for place in places:
        partition, _, offsets = place.removeprefix("webhooks/").partition("/")
        first, dash, last = offsets.partition("-")
        numbers = (partition, first, last if dash else first)
        if not all(_is_number(one) for one in numbers) or (dash and not ranges):
            shapes = "webhooks/3/17" + (" or webhooks/3/17-40" if ranges else "")
            raise UsageError(f"{place!r} is no place.", hint=f"Write it as {shapes}.")
        begin, end = int(first), int(numbers[2]) + 1
        if not 0 < end - begin <= RANGE_MAX:
            raise UsageError(
                f"{place!r} holds no places, or more than {RANGE_MAX}.",
                hint="The smaller offset first; take a large range in parts.",
            )
        found |= {Position(int(partition), offset): None for offset in range(begin, end)}
    return list(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15  # noqa: PLR2004 - below 2**53


def _body(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(BODY_BYTES_MAX)


def _headers(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = [line.partition(":") for line in lines if line]
    if any(not colon for _, colon, _ in pairs):
        raise UsageError(f"{file} holds no headers.", hint="Write `Name: value` on each line.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
