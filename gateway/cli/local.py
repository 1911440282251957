"""`up`, `down`, `status`, `reset`: the local installation, servers and services together."""

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.numbers import whole_number
from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from gateway.local.control import Running, Status

PANEL = "On this machine"
FOLLOW_SECONDS = 0.5
USUAL_PORT = 8_788
"""Of the door, as the settings have it."""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up", rich_help_panel=PANEL)(up)
    app.command("down", rich_help_panel=PANEL)(down)
    app.command("status", rich_help_panel=PANEL)(status)
    app.command("reset", rich_help_panel=PANEL)(reset)


def up(
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and end everything on Ctrl-C or SIGTERM.")
    ] = False,
    port: Annotated[
        list[str] | None,
        typer.Option(help="Where a program listens, as NAME=PORT; 0 takes a free one. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start Kafka, Postgres and every process on this machine, and wait until all are ready.

    Needs neither Docker nor root. The first time fetches Kafka (45 MB) into a cache. All data stays
    over restarts; after a crash or a kill the next `up` heals. What runs already is left alone.

    Everything is kept in one folder, ACTIONLEDGER_STATE, by itself ~/.local/state/actionledger:
    another one is another installation.

    With ACTIONLEDGER_KAFKA and ACTIONLEDGER_DATABASE no server is started: the processes use yours.

    Example: actionledger up --port gateway=8788
    """
    from gateway.cli.progress import progress
    from gateway.local.control import up as start
    from gateway.settings import process_environment
    from gateway.wiring.external import external_servers

    out = Output("up", as_json=as_json)
    folder, cache = _folders()
    wanted = _ports(folder, port or [])
    external = external_servers(process_environment())
    started_s = time.monotonic()

    async def work() -> "Running":
        from gateway.local import prepare
        from gateway.wiring.local import local_services, prepare_folder

        with progress() as report:
            prepare_folder(folder)
            if not external:
                await prepare(cache, report)
            return await start(
                folder,
                cache,
                local_services(external),
                wanted_ports=wanted,
                external=external,
                report=report,
            )

    try:
        running = asyncio.run(work())
    except KeyboardInterrupt:
        from gateway.local.control import down as end

        asyncio.run(end(folder))  # whoever interrupts a start does not want half of it
        raise
    took_ms = round((time.monotonic() - started_s) * 1_000)
    result = {**_places(folder, running), "took_ms": took_ms}
    if not foreground:
        out.answer(result, lambda console: _show_up(console, result))
    if not as_json:
        _show_up(out.console, result)
    _stay(folder)
    out.answer(result, lambda console: console.print("Stopped."))


def _folders() -> tuple[Path, Path]:
    from gateway.cli.place import own_settings

    settings = own_settings()
    return settings.state_dir, settings.cache_dir


def _ports(folder: Path, given: list[str]) -> dict[str, int]:
    """The ports that were asked for; the door's own usual one where it is free and not yet set."""
    from gateway.local import ports
    from gateway.local.state import read_state
    from gateway.settings import PORT_MAX

    wanted: dict[str, int] = {}
    for text in given:
        name, _, said = text.partition("=")
        number = whole_number(said)
        if not name or number is None or number > PORT_MAX:
            raise UsageError(
                f"--port {text} is not NAME=PORT with a port up to {PORT_MAX}.",
                hint="Write gateway=8788.",
            )
        wanted[name] = number
    state = read_state(folder)
    is_new = state is None or "gateway" not in state.ports
    if is_new and "gateway" not in wanted and not ports.is_open(USUAL_PORT):
        wanted["gateway"] = USUAL_PORT
    return wanted


def _places(folder: Path, running: "Running") -> dict[str, Any]:
    """Where everything is, in the names of the JSON answer."""
    from gateway.settings import default_origin
    from gateway.wiring.local import TENANT
    from gateway.wiring.places import KEY_FILE

    key, port = folder / KEY_FILE, running.ports["gateway"]
    return {
        "url": f"http://127.0.0.1:{port}",
        "console_url": f"{default_origin(port)}/console",
        "tenant": TENANT,
        "api_key": key.read_text(encoding="utf-8").strip(),
        "api_key_file": str(key),
        "kafka_bootstrap": running.kafka_bootstrap,
        "database_url": running.database_url,
        "provider_url": f"http://127.0.0.1:{running.ports['simulated-provider']}",
        "state_dir": str(folder),
        "logs": str(folder / "logs"),
    }


def _show_up(console: "Console", result: dict[str, Any]) -> None:
    console.print(f"[green]Ready[/] after {result['took_ms'] / 1_000:.1f} s.\n")
    rows = (
        ("HTTP", result["url"]),
        ("Pages", f"{result['console_url']} (for people; `actionledger people passkey --help`)"),
        ("API key", f"{result['api_key']}"),
        ("", f"tenant {result['tenant']}, kept in {result['api_key_file']}"),
        ("Kafka", result["kafka_bootstrap"]),
        ("Postgres", result["database_url"]),
        ("Provider", f"{result['provider_url']} (simulated)"),
        ("Logs", result["logs"]),
    )
    for name, value in rows:
        console.print(f"  [bold]{name:<9}[/] {value}", soft_wrap=True)
    console.print(
        "\nTry: actionledger propose --file examples/intent.json --wait\n"
        "End: actionledger down (keeps all data)"
    )


def _stay(folder: Path) -> None:
    """Wait for Ctrl-C or SIGTERM, or until everything ended; then end what runs."""
    import signal

    from gateway.local.control import down as end
    from gateway.local.control import status as look
    from gateway.local.state import Phase

    async def wait() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        while not stop.is_set() and look(folder).phase is Phase.READY:
            try:
                async with asyncio.timeout(FOLLOW_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue
        await end(folder)

    asyncio.run(wait())


def down(as_json: Json = False) -> None:
    """End every process and both servers. All data stays; `up` goes on where it was.

    Example: actionledger down
    """
    from gateway.cli.progress import progress
    from gateway.local.control import down as end

    out = Output("down", as_json=as_json)
    folder, _ = _folders()
    with progress() as report:
        ran = asyncio.run(end(folder, report=report))
    said = "Stopped. All data is kept." if ran else "Nothing was running."
    out.answer({"was_running": ran}, lambda console: console.print(said))


def status(as_json: Json = False) -> None:
    """Tell what runs on this machine, since when, and how often it was started again.

    Ends with 1 where something that should run does not.

    Example: actionledger status
    """
    from gateway.local.control import status as look
    from gateway.local.state import Phase

    out = Output("status", as_json=as_json)
    folder, _ = _folders()
    found = look(folder)
    if found.phase is Phase.STOPPED and not found.processes:
        result = _status(found, folder)
        out.answer(result, lambda console: console.print("Nothing runs. Start: actionledger up"))
    well = found.phase is Phase.READY and all(
        one.phase in {Phase.READY, Phase.DONE} and not one.is_still for one in found.processes
    )
    code = Exit.OK if well or found.phase is Phase.STOPPED else Exit.TROUBLE
    out.answer(_status(found, folder), lambda console: _show_status(console, found), code)


def _status(found: "Status", folder: Path) -> dict[str, Any]:
    running = None if found.running is None else _places(folder, found.running)
    return {
        "phase": found.phase.value,
        "failure": None
        if found.failure is None
        else {"message": found.failure[0], "hint": found.failure[1]},
        "running": running,
        "processes": [
            {
                "name": one.name,
                "phase": one.phase.value,
                "pid": one.pid,
                "uptime_ms": one.uptime_ms,
                "still_ms": one.still_ms,
                "port": one.port,
                "restarts": one.restarts,
                "rss_bytes": one.rss_bytes,
                "log": str(one.log),
            }
            for one in found.processes
        ],
    }


def _show_status(console: "Console", found: "Status") -> None:
    from rich.table import Table

    console.print(f"[bold]{found.phase.value}[/]")
    if found.failure is not None:
        console.print("\n".join(found.failure), soft_wrap=True)
    if not found.processes:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("process", "phase", "pid", "up", "port", "restarts", "MB"):
        table.add_column(name, justify="left" if name in {"process", "phase"} else "right")
    for one in found.processes:
        phase = f"still for {_duration(one.still_ms)}" if one.is_still else one.phase.value
        colour = "green" if phase in {"ready", "done"} else "red"
        table.add_row(
            one.name,
            f"[{colour}]{phase}[/]",
            str(one.pid or "-"),
            _duration(one.uptime_ms) if one.pid else "-",
            str(one.port or "-"),
            str(one.restarts),
            str(one.rss_bytes // 1_000_000) if one.rss_bytes else "-",
        )
    console.print(table)
    if found.running is not None:
        console.print("[dim]Addresses, API key and logs: actionledger up says them again[/]")


def _duration(ms: int) -> str:
    seconds = ms // 1_000
    if seconds < 100:  # noqa: PLR2004 - below this, seconds read better
        return f"{seconds}s"
    minutes = seconds // 60
    return f"{minutes}m" if minutes < 100 else f"{minutes // 60}h"  # noqa: PLR2004


def kept_in(folder: Path) -> list[str]:
    """What a folder still has, a folder with a slash behind its name."""
    there = folder.iterdir() if folder.is_dir() else ()
    return sorted(f"{one.name}/" if one.is_dir() else one.name for one in there)


def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """End everything and delete all data of the local installation: log, tables, keys, book.

    What you have put into its folder yourself stays, as descriptions of providers: it says what.

    Example: actionledger reset --yes
    """
    from gateway.local.control import reset as erase
    from gateway.wiring.local import forget_folder

    out = Output("reset", as_json=as_json)
    folder, _ = _folders()
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError("Nothing was deleted.", hint="Say --yes where nobody can be asked.")
    confirm: Callable[[str], bool] = (lambda _: True) if yes else typer.confirm
    done = asyncio.run(erase(folder, confirm))
    if done:
        forget_folder(folder)
    kept = kept_in(folder) if done else []
    said = "Everything is deleted." if done else "Nothing was deleted."
    if kept:
        said = f"All data is deleted. {folder} still has {', '.join(kept)}."
    out.answer(
        {"deleted": done, "kept": kept},
        lambda console: console.print(said, markup=False, soft_wrap=True),
    )
