"""Reading a description: from the text of a TOML file to a checked form, or to its mistakes.

Guarantees that a description is either whole or refused with every mistake on its line, in a
sentence; that the same text always reads the same; and that no value is quoted, which could be a
secret. Must never repair or ignore anything. Called by the kinds of adapter.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from ledger.core.ids import COMPONENT
from ledger.core.mistakes import Document, Found, Mistake, read_toml
from reconciler.providers.adapter import Adapter, ProviderSettings, UnusableProvider
from reconciler.providers.limits import DESCRIPTION_BYTES_MAX, DESCRIPTION_ENTRIES_MAX
from reconciler.providers.port import Previewer

_SENTENCES: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key here",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "dict_type": "must be a table",
    "list_type": "must be a list",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
}
# What pydantic adds to a place to say which of several types it tried; no key of the file.
_TRIED: Final = frozenset({"str", "int", "bool"})


class Form(BaseModel):
    """One table of a description: closed, strict, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ForeseesNothing:
    """What is said of a provider that cannot tell what a request would do."""

    __slots__ = ()

    @property
    def foreseen(self) -> frozenset[str]:
        """No operation."""
        return frozenset()

    def previewer(self) -> Previewer | None:
        """None: there is nothing to ask."""
        return None


SharedAccounts: TypeAlias = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=1024)]],
    Field(max_length=DESCRIPTION_ENTRIES_MAX),
]
"""Accounts on which others make effects as well, and write metadata."""


def account_contradictions(credentials: Collection[str], shared: Sequence[str]) -> Iterator[Found]:
    """What is wrong with the names of accounts, each with its path. A shared account that has no
    credential where others have one is a slip of the pen: it would protect nothing.
    """
    for account in credentials:
        if COMPONENT.fullmatch(account) is None:
            yield ("credentials", account), "is no name of an account"
    for at, account in enumerate(shared):
        if COMPONENT.fullmatch(account) is None:
            yield ("shared_accounts", at), "is no name of an account"
        elif credentials and account not in credentials:
            yield ("shared_accounts", at), "is none of the accounts under [credentials]"


_Form = TypeVar("_Form", bound=Form)
_Built = TypeVar("_Built")


def parse_form(
    text: str,
    model: type[_Form],
    contradictions: Callable[[_Form], Iterator[Found]],
    build: Callable[[_Form], _Built],
) -> _Built | tuple[Mistake, ...]:
    """What `build` makes of a TOML text that is a `model` without contradictions, else its mistakes
    in the order of their lines, at most MISTAKES_MAX. A ValueError of `build` is about the
    capabilities.
    """
    document = read_toml(text, "file", bytes_max=DESCRIPTION_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    try:
        form = model.model_validate(document.content)
    except ValidationError as refused:
        return document.mistakes(dict.fromkeys(complaints(refused)))
    found = list(contradictions(form))
    if not found:
        try:
            return build(form)
        except ValueError as error:
            found = [(("capabilities",), str(error).removeprefix("capabilities "))]
    return document.mistakes(dict.fromkeys(found))


def read_described(
    settings: ProviderSettings,
    file: Path,
    parse: Callable[[str], _Built | tuple[Mistake, ...]],
    adapter: Callable[[ProviderSettings, _Built], Adapter],
) -> Adapter | tuple[Mistake, ...]:
    """The adapter of what `parse` makes of a file, or its mistakes; raises OSError."""
    text = text_of(file)
    described = parse(text) if isinstance(text, str) else text
    return described if isinstance(described, tuple) else adapter(settings, described)


def file_of(settings: ProviderSettings) -> Path:
    """The description of a provider; raises UnusableProvider where there is none."""
    if settings.adapter_file is None:
        raise UnusableProvider(
            settings.name, "has no adapter file", "Set the path of the file that describes it."
        )
    return settings.adapter_file


def described_file(settings: ProviderSettings) -> Path:
    """The description of a provider that acts nowhere but where it says; raises UnusableProvider
    where there is none, or where the settings put another address in its place.
    """
    path = file_of(settings)
    if settings.base_url is not None:
        raise UnusableProvider(
            settings.name,
            f"is of the kind {settings.kind}, whose address no setting can replace",
            f"Take it out of ACTIONLEDGER_PROVIDER_URLS, and change {path}.",
        )
    return path


def text_of(path: Path) -> str | tuple[Mistake, ...]:
    """The text of a file, or the mistake that it is none; raises OSError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return (Mistake(1, "", "The file is not UTF-8 text."),)


def complaints(refused: ValidationError) -> Iterator[Found]:
    """Everything that a form had to say against a table, as paths and sentences."""
    for error in refused.errors(include_url=False):
        yield _in_words(error)


def _in_words(error: ErrorDetails) -> Found:
    place = [part for part in error["loc"] if part != "[key]"]
    while place and place[-1] in _TRIED:
        place.pop()
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return tuple(place), error["msg"].removeprefix("Value error, ")
    return tuple(place), sentence.format_map(error.get("ctx", {}))
