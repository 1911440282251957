"""`policy`: who may let actions go ahead: the table checked, shown, published, explained, and tried
on what was asked before.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.actions import Key
from gateway.cli.documents import (
    TIMEOUT_S,
    Source,
    Timeout,
    print_source,
    publish_file,
    refuse_mistakes,
    text_of,
)
from gateway.cli.numbers import moment_of, whole_number
from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledger.core.catalogue import Catalogue
    from ledger.core.policy import Policy
    from ledger.core.policy_names import UnknownName

group = typer.Typer(
    help="The decision table: what goes ahead by itself, what people decide, what never happens.",
    no_args_is_help=True,
)

File = Annotated[
    Path,
    typer.Argument(help="A policy in TOML.", exists=True, dir_okay=False, show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="policy", rich_help_panel="Operating")


@group.command("check")
def check(
    file: File,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="A catalogue whose operations and parameters the policy should know.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a policy and name every mistake with its line. Needs no server.

    Tells of ceilings that no row has an action pass and, with a catalogue, of names that no
    operation bears and windows that nobody looks into; and of rows that take an agent's word for
    where it acts: no mistakes, but often a slip of the pen. Ends with 4 where there is a mistake.

    Example: actionledger policy check examples/policies/payments.toml
    """
    from gateway.cli.policy_shown import ceilings_result, row_result, show_rows
    from ledger.core.policy_notes import by_word_alone, unguarded, unused_ceilings

    out = Output("policy check", as_json=as_json)
    policy = _policy(out, file)
    known = None if catalogue is None else _catalogue(out, catalogue)
    unknown = () if known is None else _unknown(policy, known)
    open_ones = () if known is None else unguarded(policy, known)
    unused, by_word = unused_ceilings(policy), by_word_alone(policy)
    result = {
        "mistakes": [],
        "rows": [row_result(row) for row in policy.rows],
        "ceilings": ceilings_result(policy),
        "unknown_names": unknown,
        "unused_ceilings": [one.ceiling for one in unused],
        "unguarded": open_ones,
        "by_word_alone": [one.row for one in by_word],
        "content_hash": policy.content_hash,
    }
    out.answer(
        result,
        lambda console: show_rows(console, policy, (*unknown, *open_ones, *unused, *by_word)),
    )


@group.command("show")
def show(
    file: Annotated[
        Path | None,
        typer.Option(
            help="A policy in TOML, instead of the one in force.", exists=True, dir_okay=False
        ),
    ] = None,
    source: Source = False,
    as_json: Json = False,
) -> None:
    """Show the rows of the policy in force, in their order: the first that matches decides.

    Example: actionledger policy show --source > policy.toml
    """
    from gateway.cli.policy_shown import ceilings_result, row_result, show_rows

    out = Output("policy show", as_json=as_json)
    if source:
        if file is not None:
            raise UsageError("--source is the text in force.", hint="Leave --file out.")
        print_source(out, "policy")
    policy = _in_force() if file is None else _policy(out, file)
    result = {
        "content_hash": policy.content_hash,
        "rows": [row_result(row) for row in policy.rows],
        "ceilings": ceilings_result(policy),
        "review_groups": policy.review_groups,
    }
    out.answer(result, lambda console: show_rows(console, policy))


@group.command("publish")
def publish(file: File, timeout: Timeout = TIMEOUT_S, as_json: Json = False) -> None:
    """Publish a policy and wait until every partition has adopted it.

    From then on every decision follows it. Actions that have not begun are ruled anew: what people
    were asked stays where the same is asked of them, and ends where it is not. Publishing what is
    in force changes nothing. See first what would differ: `actionledger policy whatif`. Notes on
    stderr tell what is hardly meant, such as a row that waits for more people than could sign.

    Example: actionledger policy publish policy.toml
    """
    out = Output("policy publish", as_json=as_json)
    policy = _policy(out, file)
    for one in _notes(policy):
        typer.echo(f"Note: {one}.", err=True)
    publish_file(out, "policy", file, timeout)


@group.command("explain")
def explain(
    key: Key,
    as_decided: Annotated[
        bool,
        typer.Option("--as-decided", help="By the table that ruled it, not by the one in force."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell why an action is ruled as it is: which row, which conditions held, which did not, and
    what was missing.

    By the recorded intent, the policy in force and the catalogue in force.

    Example: actionledger policy explain refund:v1:acme:return-2026-08-28-01
    """
    from gateway.cli.place import settings
    from gateway.cli.policy_shown import explained_result, show_explained
    from gateway.cli.proposing import UnknownActionError
    from gateway.wiring import policy_desk

    out = Output("policy explain", as_json=as_json)
    table = policy_desk.Table.AS_DECIDED if as_decided else policy_desk.Table.IN_FORCE
    found = asyncio.run(policy_desk.explain(settings(), key, table))
    if found is None:
        raise UnknownActionError(
            f"The read model has no action {key}.",
            hint="Look for it with `actionledger log tail --topic intents`; see also "
            "`actionledger status` for the projector.",
        )
    out.answer(explained_result(found), lambda console: show_explained(console, found))


@group.command("whatif")
def whatif(
    policy: Annotated[
        Path, typer.Option(help="The policy to try, in TOML.", exists=True, dir_okay=False)
    ],
    since: Annotated[
        str | None,
        typer.Option(help="From a log time on: 2026-08-28T02:13:00Z, milliseconds, or 7d, 12h."),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="A catalogue to try as well; by itself that in force.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Of this tenant only; by itself everybody's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rule what was asked before by another policy, and tell what would differ.

    Reads every recorded intent of the ledger and only reads. What was ruled is what the log says;
    facts about operations are those of the catalogue of today. Ceilings are compared by their
    names: whether one would have been reached is not computed. Ends with 3 where something would
    have gone otherwise.

    Example: actionledger policy whatif --policy policy.toml --since 30d
    """
    from gateway.cli.place import settings
    from gateway.cli.policy_shown import show_whatif, whatif_result
    from gateway.cli.progress import progress
    from gateway.cli.tenants import tell_without_intent
    from gateway.local.progress import Progress

    out = Output("policy whatif", as_json=as_json)
    tried = _policy(out, policy)
    under = None if catalogue is None else _catalogue(out, catalogue)
    since_ms = 0 if since is None else _since(since)
    known = settings()
    from gateway.wiring.policy_desk import compare_policies

    with progress() as report:
        found = asyncio.run(
            compare_policies(
                known,
                tried,
                catalogue=under,
                since=since_ms,
                tenant=tenant,
                progress=lambda done, of: report(Progress("ledger", done, of, "records")),
            )
        )
    if tenant is not None and not found.intent_count and not found.unruled_count:
        tell_without_intent(tenant)
    code = Exit.DIFFERENCES if found.difference_count else Exit.OK
    out.answer(whatif_result(found), lambda console: show_whatif(console, found), code)


def _policy(out: Output, file: Path) -> "Policy":
    from ledger.core.policy import Policy, parse_policy

    parsed = parse_policy(text_of(file))
    if not isinstance(parsed, Policy):
        refuse_mistakes(out, file, parsed)
    return parsed


def _unknown(policy: "Policy", catalogue: "Catalogue") -> "tuple[UnknownName, ...]":
    from ledger.core.policy_names import unknown_names

    return unknown_names(policy, catalogue)


def _notes(policy: "Policy") -> "Iterator[object]":
    """What the table hardly means, given what is published beside it."""
    import time

    from gateway.cli.place import settings
    from ledger.core.policy_notes import (
        by_word_alone,
        too_few_people,
        unguarded,
        unused_ceilings,
    )

    known = settings()
    from gateway.wiring.documents import published_now

    published = asyncio.run(published_now(known))
    if published.catalogue is not None:
        yield from _unknown(policy, published.catalogue)
        yield from unguarded(policy, published.catalogue)
    yield from unused_ceilings(policy)
    yield from by_word_alone(policy)
    yield from too_few_people(policy, published.people, time.time_ns() // 1_000_000)


def _in_force() -> "Policy":
    from gateway.cli.place import settings
    from gateway.wiring.documents import published_now

    return asyncio.run(published_now(settings())).policy


def _catalogue(out: Output, file: Path) -> "Catalogue":
    from ledger.core.catalogue import Catalogue, parse_catalogue

    parsed = parse_catalogue(text_of(file))
    if not isinstance(parsed, Catalogue):
        refuse_mistakes(out, file, parsed)
    return parsed


_UNITS: dict[str, int] = {"m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000}


def _since(text: str) -> int:
    """Milliseconds of log time from a time, or from how long ago it was."""
    import time

    ago = whole_number(text[:-1])
    if ago is not None and text[-1] in _UNITS:
        return max(0, time.time_ns() // 1_000_000 - ago * _UNITS[text[-1]])
    at = moment_of(text)
    if at is None:
        raise UsageError(
            f"--since {text} is no time.",
            hint="Write 2026-08-28T02:13:00Z, milliseconds, or how long ago: 90m, 12h, 7d.",
        )
    return at
