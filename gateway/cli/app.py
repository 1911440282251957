"""The command line put together: its groups, and the one place where trouble is told.

Called by `main`.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from functools import cache

import typer

from gateway.cli import (
    acl,
    actions,
    approving,
    catalogue,
    checking,
    comparing,
    doctor,
    evidence,
    holds,
    keys,
    local,
    log,
    notify,
    passkeys,
    people,
    policy,
    process,
    providers,
    quarantine,
    restoring,
    reviewing,
    runs,
    sagas,
    secrets,
    story,
    topics,
    version,
    webhooks,
)
from gateway.cli.output import Exit, UsageError, tell_trouble
from gateway.cli.trouble import as_trouble
from ledger.core.errors import LedgerError

HELP = """\
The ledger of the side effects of AI agents: decided, recorded, carried out once, settled.

Begin with `actionledger demo` to see it work, or with `actionledger up` and
`actionledger propose --file examples/intent.json --wait` to try it yourself.

Every command takes --json. Exit codes: 0 all is well, 1 trouble, 2 wrong usage, 3 a comparison
found differences, 4 refused; 74 stdout is full, 130 interrupted, 141 whoever read stdout has left.
"""

WORDS_MAX = 3
"""Words of a command's name: `people key add`."""

app = typer.Typer(
    name="actionledger",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for group in (
    local,
    story,
    actions,
    approving,
    reviewing,
    runs,
    sagas,
    log,
    checking,
    restoring,
    topics,
    acl,
    catalogue,
    policy,
    providers,
    comparing,
    evidence,
    holds,
    people,
    passkeys,
    quarantine,
    webhooks,
    notify,
    keys,
    secrets,
    doctor,
    process,
):
    group.add_to(app)
version.add_to(app)


# What the client of Kafka says in passing is no part of an answer. A process, which logs, hears it.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


def run(arguments: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    as_json = "--json" in arguments
    command = " ".join(_words(arguments))
    called = f"actionledger {command}".rstrip()
    try:
        # By itself typer tells a wrong usage in a box on stderr; a script wants its JSON.
        ended = _commands()(
            args=list(arguments), prog_name="actionledger", standalone_mode=not as_json
        )
    except SystemExit as exiting:
        return exiting.code if isinstance(exiting.code, int) else int(Exit.TROUBLE)
    except typer.TyperException as wrong:
        usage = UsageError(wrong.format_message(), hint=f"See `{called} --help`.")
        return tell_trouble(command, usage, Exit.USAGE, as_json=as_json)
    except LedgerError as trouble:
        return tell_trouble(command, trouble, _code_of(trouble), as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        # The second is what a question comes to that nobody answers.
        sys.stderr.write("\n")
        return int(Exit.INTERRUPTED)
    except Exception as fault:
        known = as_trouble(fault)
        if known is None:
            raise
        return tell_trouble(command, known, Exit.TROUBLE, as_json=as_json)
    return ended if isinstance(ended, int) else int(Exit.OK)


@cache
def _commands() -> Callable[..., object]:
    """All commands, as they are made out of their functions: once, for whoever runs several."""
    return typer.main.get_command(app)


def _code_of(trouble: LedgerError) -> Exit:
    from gateway.settings import SettingsError

    return Exit.USAGE if isinstance(trouble, SettingsError | UsageError) else Exit.TROUBLE


def _words(arguments: Sequence[str]) -> list[str]:
    """The name of the command: what comes before the first option, at most three words."""
    names = {name for group in (app, *_groups()) for name in _names(group)}
    words: list[str] = []
    for argument in arguments[:WORDS_MAX]:
        if argument not in names:
            break
        words.append(argument)
    return words


def _groups(parent: typer.Typer = app) -> list[typer.Typer]:
    """The groups of commands, and the groups in them."""
    own = [info.typer_instance for info in parent.registered_groups if info.typer_instance]
    return [*own, *(inner for group in own for inner in _groups(group))]


def _names(group: typer.Typer) -> list[str]:
    commands = [info.name for info in group.registered_commands if info.name]
    return [*commands, *(info.name for info in group.registered_groups if info.name)]
