"""`people`: who may decide, with which keys; and a person's own key."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gateway.cli.documents import text_of
from gateway.cli.output import Exit, Json, Output, UsageError
from gateway.cli.passphrase import PassphraseFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from gateway.wiring.people_desk import Changed
    from ledger.core.people import Mistake, People, Person, PersonKey
    from ledger.core.people_text import NotChanged

group = typer.Typer(help="Who may decide, and with which keys.", no_args_is_help=True)
key_group = typer.Typer(
    help="Keys of people: make your own, register somebody's.", no_args_is_help=True
)
group.add_typer(key_group, name="key")

TIMEOUT_S = 30
DAY_MS = 24 * 3_600_000

Name = Annotated[str, typer.Argument(help="What the person is called here.", show_default=False)]
Document = Annotated[
    Path,
    typer.Argument(help="People in TOML.", exists=True, dir_okay=False, show_default=False),
]
Timeout = Annotated[int, typer.Option(min=1, max=600, help="Seconds to wait for all partitions.")]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="people", rich_help_panel="Operating")


@group.command("list")
def list_people(as_json: Json = False) -> None:
    """List who may decide: groups, tenants, keys, and what is revoked.

    Example: actionledger people list
    """
    from gateway.cli.place import settings
    from gateway.wiring.people_desk import people_in_force

    out = Output("people list", as_json=as_json)
    people = asyncio.run(people_in_force(settings()))
    result = {"content_hash": people.content_hash, "people": people.people}
    out.answer(result, lambda console: _show_people(console, people))


@group.command("add")
def add(
    *,
    name: Name,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the policy; may be given several times.")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Whose actions the person decides on; * for every tenant's."),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            help="A name under which the same person asks for actions: nobody approves what they "
            "asked for. The own name is one by itself."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="The public half of the person's key, as `people key new` printed it.",
            show_default=False,
        ),
    ] = None,
    as_written: Annotated[
        bool,
        typer.Option("--as-written", help="Tenants beside ones of another spelling are meant."),
    ] = False,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Register a person, with a key or without: `people key add` registers further ones.

    Returns when every partition has adopted it.

    Example: actionledger people add ada --group finance --tenant acme --key bTQ2Y0Nk…
    """
    from gateway.cli.place import settings
    from gateway.tenant_names import check_spelling, tenants_of
    from ledger.core.people_text import with_person

    if not tenant:
        raise UsageError(
            "Say for which tenants.", hint="Name each with --tenant; --tenant '*' is every tenant."
        )
    person = _person(name, group, tenant, principal)
    if key is not None:
        person = person.model_copy(update={"keys": (_key(key, None),)})

    def change(people: "People") -> "str | NotChanged":
        known = tenants_of(settings().api_keys_file, people)
        if not as_written:
            for one in person.tenants:
                check_spelling(one, known)
        return with_person(people, person)

    change_and_tell("add", change, timeout, as_json=as_json)


@group.command("remove")
def remove(name: Name, timeout: Timeout = TIMEOUT_S, as_json: Json = False) -> None:
    """Forget a person with all keys. What they decided before stays in the log.

    Who was revoked, or has a key that was, stays: revoke stops a person or a key on the record, and
    nothing brings it back.

    Example: actionledger people remove ada
    """
    from ledger.core.people_text import without_person

    change_and_tell("remove", lambda people: without_person(people, name), timeout, as_json=as_json)


@group.command("revoke")
def revoke(
    name_or_key: Annotated[
        str, typer.Argument(metavar="NAME|KEY", help="A person, or one key.", show_default=False)
    ],
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take a person or one key back: nothing signed with it counts from now on.

    Approvals that were given and not used are dead too: the start asks again whose key it is.
    Nothing undoes it: who comes back gets another key, and a revoked person another name.

    Example: actionledger people revoke ada
    """
    from ledger.core.people_text import NotChanged, with_revoked

    revoked: dict[str, Any] = {}

    def change(people: "People") -> "str | NotChanged":
        done = with_revoked(people, name_or_key)
        if isinstance(done, NotChanged):
            return done
        revoked.update(person=done.person, key=done.key_id)
        return done.text

    change_and_tell("revoke", change, timeout, also=revoked, as_json=as_json)


@group.command("check")
def check(file: Document, as_json: Json = False) -> None:
    """Read a document of people and name every mistake with its line. Needs no server.

    Ends with 4 where there is one.

    Example: actionledger people check people.toml
    """
    from ledger.core.people import People, parse_people

    out = Output("people check", as_json=as_json)
    parsed = parse_people(text_of(file))
    if not isinstance(parsed, People):
        _refuse_mistakes(out, file, parsed)
    names = [one.name for one in parsed.people]
    out.answer(
        {"mistakes": [], "people": names, "content_hash": parsed.content_hash},
        lambda console: console.print(f"[green]✓[/] {len(names)} people: {', '.join(names)}"),
    )


@group.command("publish")
def publish(file: Document, timeout: Timeout = TIMEOUT_S, as_json: Json = False) -> None:
    """Publish a document of people that is kept in a file, and wait until it is adopted.

    Its line `replaces` names the document in force, as `people list` tells it; only the first has
    none. So nobody undoes what somebody else changed in between.

    Example: actionledger people publish people.toml
    """
    from gateway.wiring.publishing import DocumentRefusedError, checked_document

    text = text_of(file)
    try:
        checked_document("people", text)
    except DocumentRefusedError as refused:
        _refuse_mistakes(Output("people publish", as_json=as_json), file, refused.mistakes)
    change_and_tell("publish", lambda _people: text, timeout, as_json=as_json)


@key_group.command("new")
def new(
    file: Annotated[
        Path | None,
        typer.Option(help="Where to keep it. By itself: your own folder.", show_default=False),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a key of your own, kept encrypted under a passphrase, and print its public half.

    Give the public half to an operator, who registers it: `actionledger people key add`. Keep the
    file where no agent runs. Nobody can recover it or its passphrase.

    Example: actionledger people key new
    """
    from gateway.cli.passphrase import chosen_passphrase
    from gateway.cli.place import own_settings
    from gateway.signing_key_file import check_no_key_file, create_key_file
    from ledger.signing.keys import PASSPHRASE_CHARS_MIN

    out = Output("people key new", as_json=as_json)
    path = own_settings().signing_key_file if file is None else file
    check_no_key_file(path)
    passphrase = chosen_passphrase(passphrase_file, chars_min=PASSPHRASE_CHARS_MIN)
    key = create_key_file(path, passphrase)
    typer.echo(f"Kept in {path}. Its public half, for an operator to register:", err=True)
    result = {"file": str(path), "id": key.id, "public": key.public}
    out.answer(result, lambda console: console.print(key.public, soft_wrap=True, markup=False))


@key_group.command("add")
def key_add(
    name: Name,
    public: Annotated[
        str,
        typer.Argument(
            help="The public half that `people key new` printed, or what the registration page of "
            "a passkey shows.",
            show_default=False,
        ),
    ],
    days: Annotated[
        int | None, typer.Option(min=1, max=3_650, help="How long it is valid; else for ever.")
    ] = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Register a key for a person: from now on what it signs is that person's decision.

    Be sure whose it is: ask the person, not the message that brought it.

    Example: actionledger people key add ada bTQ2Y0Nk…
    """
    from ledger.core.people_text import with_key

    key = _key(public, None if days is None else _now_ms() + days * DAY_MS)
    change_and_tell("key add", lambda people: with_key(people, name, key), timeout, as_json=as_json)


def _person(
    name: str, groups: list[str] | None, tenants: list[str], principals: list[str] | None
) -> "Person":
    from pydantic import ValidationError

    from ledger.core.people import Person

    try:
        return Person(
            name=name,
            groups=tuple(groups or ()),
            tenants=tuple(tenants),
            principals=tuple(principals or ()),
        )
    except ValidationError as refused:
        where = refused.errors(include_url=False)[0]
        field = str(where["loc"][0])
        said = where["msg"].removeprefix("Value error, ")
        called = {"name": "The name", "groups": "--group", "tenants": "--tenant"}
        raise UsageError(
            f"{called.get(field, '--principal')} {said}.", hint="Correct it and run it again."
        ) from None


def _key(public: str, not_after: int | None) -> "PersonKey":
    """A registered key from what a person handed over; whether it is one, the document says."""
    from pydantic import ValidationError

    from ledger.core.people import PersonKey
    from ledger.core.public_keys import ed25519_problem, thumbprint

    text = public.strip()
    if not text.startswith("{"):
        problem = ed25519_problem(text)
        if problem is not None:
            raise UsageError(
                f"The public half {problem}.",
                hint="Copy it whole, as `actionledger people key new` printed it.",
            )
        return PersonKey(id=thumbprint(text), kind="ed25519", public=text, not_after=not_after)
    try:
        key = PersonKey.model_validate_json(text)
    except ValidationError:
        raise UsageError(
            "This is no passkey.", hint="Copy the whole line that the registration page shows."
        ) from None
    return key.model_copy(update={"not_after": not_after})


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def change_and_tell(
    command: str,
    change: "Callable[[People], str | NotChanged]",
    timeout_s: int,
    *,
    also: "Mapping[str, Any] | None" = None,
    as_json: bool,
) -> NoReturn:
    """Make a change and tell what came of it, with what it wants to be told beside that."""
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.local.progress import Progress
    from gateway.wiring.people_desk import change_people
    from ledger.core.people_text import NotChanged

    out = Output(f"people {command}", as_json=as_json)
    with progress() as report:

        def tell(done: int, of: int) -> None:
            report(Progress("adopted by", done, of, "partitions"))

        changed = asyncio.run(
            change_people(settings(), change, timeout_ms=timeout_s * 1_000, progress=tell)
        )
    if isinstance(changed, NotChanged):
        refuse(out, changed)
    result: dict[str, Any] = {
        **(also or {}),
        "content_hash": changed.content_hash,
        "published": changed.was_published,
        "config_offset": changed.offset,
        "partitions": changed.partitions,
        "not_adopted": changed.waiting,
    }
    code = Exit.TROUBLE if changed.waiting else Exit.OK
    out.answer(result, lambda console: _show_changed(console, changed), code)


def refuse(out: Output, why: "NotChanged") -> NoReturn:
    """Say why a change is none, and what helps."""
    from ledger.core.people_text import NotChanged

    message, hint = {
        NotChanged.PERSON_KNOWN: ("This person is there already.", "Add a key, or remove first."),
        NotChanged.PERSON_UNKNOWN: ("There is no such person.", "`people list` has who there is."),
        NotChanged.PERSON_REVOKED: (
            "This person is revoked for good: no key of theirs proves anything.",
            "Who comes back is registered under another name: `people add`.",
        ),
        NotChanged.KEY_KNOWN: ("This key is registered already.", "`people list` says for whom."),
        NotChanged.NAME_OR_KEY_UNKNOWN: (
            "No person is called so, and no key.",
            "`people list` has both.",
        ),
        NotChanged.NAME_OR_KEY_AMBIGUOUS: (
            "A person and another's key are both called so.",
            "Edit the document, and publish it with `people publish`.",
        ),
        NotChanged.REVOKED_STAYS: (
            "What was revoked stays in the document, so that it cannot come back.",
            "`people revoke` the person; a revoked person decides nothing.",
        ),
        NotChanged.REVOKED_ALREADY: ("It is revoked already.", "There is nothing to do."),
    }[why]

    def show(console: "Console") -> None:
        console.print(message, markup=False)
        console.print(hint, markup=False)

    told = {"code": why.value, "message": message, "hint": hint}
    out.answer({"refused": told}, show, Exit.REFUSED)


def _refuse_mistakes(out: Output, file: Path, mistakes: "tuple[Mistake, ...]") -> NoReturn:
    def show(console: "Console") -> None:
        for one in mistakes:
            said = f"{file}:{one.line}: {one.path} {one.message}"
            console.print(said, soft_wrap=True, markup=False)

    out.answer({"mistakes": mistakes}, show, Exit.REFUSED)


def _show_changed(console: "Console", changed: "Changed") -> None:
    again = "" if changed.was_published else " It was in force before."
    if not changed.waiting:
        console.print(f"[green]✓[/] Adopted by all {changed.partitions} partitions.{again}")
        return
    missing = ", ".join(map(str, changed.waiting))
    console.print(
        f"[red]✗[/] Published, and not adopted by partition {missing} in time: is the processor "
        "running? It adopts this before it decides anything else. Executors that run heed it "
        "already.",
        soft_wrap=True,
    )


def _show_people(console: "Console", people: "People") -> None:
    if not people.people:
        console.print("Nobody may decide. Register somebody: `actionledger people add --help`.")
        return
    width = max(len(person.name) for person in people.people)
    for person in people.people:
        told = [f"tenants {', '.join(person.tenants)}"]
        if person.groups:
            told.append(f"groups {', '.join(person.groups)}")
        if person.principals:
            told.append(f"asks as {', '.join(person.principals)}")
        if person.revoked:
            told.append("revoked")
        line = f"{person.name.ljust(width)}  {'; '.join(told)}"
        console.print(line, soft_wrap=True, markup=False)
        # A line for each key, so that its name can be copied whole at any width.
        for key in person.keys:
            said = f"{' ' * width}  {key.id}  {key.kind}, {_state(key)}"
            console.print(said, soft_wrap=True, markup=False)
        if not person.keys:
            console.print(f"{' ' * width}  no key yet", markup=False)
    console.print(people.content_hash, style="dim", soft_wrap=True, markup=False)


def _state(key: "PersonKey") -> str:
    from datetime import UTC, datetime

    if key.revoked:
        return "revoked"
    if key.not_after is None:
        return "in force"
    said = "ended" if _now_ms() > key.not_after else "until"
    return f"{said} {datetime.fromtimestamp(key.not_after / 1_000, UTC):%Y-%m-%d %H:%M UTC}"
