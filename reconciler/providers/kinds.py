"""Which kinds of adapter there are, and which one a description asks for.

Guarantees that a kind is found by its name alone: among those that ship with the ledger, then among
the entry points `actionledger.adapters` of installed packages; that nobody takes the name of a
shipped one or of another's; and that every way of not finding one is told with what there is.

Must never import a kind that nobody asked for: its libraries may not be installed. Called by the
registry, the wiring and the command line.
"""

import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, cast

from ledger.core.excerpt import excerpt
from ledger.core.mistakes import Mistake
from ledger.core.toml_lines import line_of, lines_of
from reconciler.providers.adapter import Adapter, ProviderSettings, Read, UnusableProvider
from reconciler.providers.limits import DESCRIPTION_BYTES_MAX

GROUP: Final = "actionledger.adapters"
DEFAULT: Final = "http"
"""The kind of a description that names none."""

_SHIPPED: Final = {
    "http": "reconciler.providers.http.adapter:read",
    "kafka": "reconciler.providers.kafka.adapter:read",
    "null": "reconciler.providers.null:read",
    "postgres": "reconciler.providers.postgres.adapter:read",
    "simulated": "reconciler.providers.simulated.kind:read",
    "smtp": "reconciler.providers.smtp.adapter:read",
    "stripe": "reconciler.providers.stripe.adapter:read",
}
_CHARS_MAX: Final = 60


class NoSuchKind(Exception):
    """No adapter of this kind can be used here; `problem` ends a sentence about it."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def known_kinds() -> tuple[str, ...]:
    """The name of every kind that is installed here, sorted; nothing is imported."""
    return tuple(sorted({*_SHIPPED, *(one.name for one in entry_points(group=GROUP))}))


def kind_named(name: str) -> Read:
    """The kind of this name, imported now; raises NoSuchKind."""
    others = [one for one in entry_points(group=GROUP) if one.name == name]
    shipped = _SHIPPED.get(name)
    if shipped is not None:
        if others:
            raise NoSuchKind(
                f"has the kind {name}, which ships with the ledger and again with {_from(others)}",
                f"Uninstall that package, or rename its entry point in {GROUP}.",
            )
        module, _, attribute = shipped.partition(":")
        return cast("Read", getattr(import_module(module), attribute))
    if not others:
        shown = excerpt(name, chars_max=_CHARS_MAX)
        raise NoSuchKind(
            f"has the unknown kind {shown}; known here are {', '.join(known_kinds())}",
            f"Correct it, or install the package that brings the entry point {shown} in {GROUP}.",
        )
    if len({one.value for one in others}) > 1:
        raise NoSuchKind(
            f"has the kind {name}, which several packages bring: {_from(others)}",
            "Uninstall all but one of them.",
        )
    return _loaded(others[0])


def read_adapter(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The adapter that these settings describe, or the mistakes of its description, each with its
    line; raises UnusableProvider.
    """
    path = settings.adapter_file
    try:
        read = kind_named(settings.kind)
    except NoSuchKind as unknown:
        if path is None:
            raise UnusableProvider(settings.name, unknown.problem, unknown.hint) from None
        said = unknown.problem.replace("has the", "names the", 1)
        return (Mistake(_line_of_kind(path), "kind", f"{said}. {unknown.hint}"),)
    try:
        return read(settings)
    except OSError as error:
        problem = f"has an adapter file that cannot be read ({error.strerror})"
        raise UnusableProvider(settings.name, problem, f"Make {path} readable.") from error


def adapter_of(settings: ProviderSettings) -> Adapter:
    """The adapter that these settings describe; the first mistake tells which line to look at.

    Raises UnusableProvider.
    """
    read = read_adapter(settings)
    if not isinstance(read, tuple):
        return read
    more = f" (and {len(read) - 1} more)" if len(read) > 1 else ""
    problem = f"has mistakes in its adapter file: {read[0]}{more}"
    raise UnusableProvider(settings.name, problem, f"Correct {settings.adapter_file}.")


def kind_of(path: Path) -> str:
    """The kind that a description asks for: `kind = "smtp"` in its first lines, else `http`.

    A file that cannot be read has the usual kind, whose reader says what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            kind = tomllib.loads(file.read(DESCRIPTION_BYTES_MAX).decode()).get("kind", DEFAULT)
    except (OSError, ValueError, RecursionError):
        return DEFAULT
    return kind if isinstance(kind, str) else DEFAULT


def _line_of_kind(path: Path) -> int:
    try:
        return line_of(lines_of(path.read_text(encoding="utf-8")), ("kind",))
    except (OSError, UnicodeDecodeError):
        return 1


def _loaded(entry: EntryPoint) -> Read:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise NoSuchKind(
            f"has the kind {entry.name}, which cannot be imported: {excerpt(str(error))}",
            f"Repair or reinstall {_from([entry])}.",
        ) from error
    if not callable(loaded):
        raise NoSuchKind(
            f"has the kind {entry.name}, and {entry.value} is no function",
            f"Let the entry point in {GROUP} name a function that takes ProviderSettings.",
        )
    return cast("Read", loaded)


def _from(entries: list[EntryPoint]) -> str:
    return ", ".join(one.dist.name if one.dist else one.value for one in entries)
