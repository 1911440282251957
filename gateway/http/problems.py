"""RFC 9457 problem details: how every "no" of the HTTP door looks on the wire.

Guarantees a stable `type` and `code`, what went wrong, what to do next, and whether asking again
can help. Must never echo what was sent (beyond the short excerpts of a named difference), a secret
or a stack. Called by all routes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from gateway.http.codes import KINDS, REJECTED, AskingAgain, Code, Kind
from gateway.http.limits import RETRY_AFTER_S
from ledger.core.limits import DIFFERENCES_MAX
from ledger.core.rejections import Detail, Refused, Rejection
from ledger.core.strict_json import pointer

TYPE_PREFIX: Final = "urn:actionledger:problem:"
MEDIA_TYPE: Final = "application/problem+json"
MESSAGE_CHARS_MAX: Final = 500


class Trouble(BaseModel):
    """One thing that is wrong: where (JSON Pointer), which rule, in words."""

    model_config = ConfigDict(frozen=True)

    path: str
    code: str
    message: str


class LedgerPlace(BaseModel):
    """Where the ledger recorded its answer."""

    model_config = ConfigDict(frozen=True)

    partition: int
    offset: int


class Original(BaseModel):
    """The action that a key already stands for."""

    model_config = ConfigDict(frozen=True)

    key: str
    href: str
    status: str | None = None
    reference: str | None = None


class Problem(BaseModel):
    """RFC 9457 problem details with our extension members."""

    model_config = ConfigDict(frozen=True)

    type: Annotated[str, Field(examples=[f"{TYPE_PREFIX}conflicted"])]
    title: str
    status: int
    code: Annotated[str, Field(examples=["conflicted"])]
    detail: str | None = None
    hint: str
    asking_again: AskingAgain
    problems: tuple[Trouble, ...] = ()
    original: Original | None = None
    ledger: LedgerPlace | None = None
    incident: str | None = None


@dataclass(frozen=True, slots=True)
class No:
    """A refusal on its way to the caller: a value, made by what refuses, answered by the route."""

    code: Code | Rejection
    detail: str | None = None
    problems: tuple[Trouble, ...] = ()
    original: Original | None = None
    ledger: LedgerPlace | None = None
    incident: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """What holds for every problem of this code."""
        return REJECTED[self.code] if isinstance(self.code, Rejection) else KINDS[self.code]

    def response(self) -> Response:
        """The answer in bytes."""
        kind = self.kind
        problem = Problem(
            type=TYPE_PREFIX + self.code.value,
            title=kind.title,
            status=self.status or kind.status,
            code=self.code.value,
            detail=self.detail,
            hint=kind.hint,
            asking_again=kind.asking_again,
            problems=self.problems[:DIFFERENCES_MAX],
            original=self.original,
            ledger=self.ledger,
            incident=self.incident,
        )
        headers = dict(self.headers)
        if problem.status == 401:  # noqa: PLR2004 - RFC 9110 asks for the header with this status
            headers.setdefault("WWW-Authenticate", 'Bearer realm="actionledger"')
        elif problem.status == 503:  # noqa: PLR2004 - the one status that means "later"
            headers["Retry-After"] = str(RETRY_AFTER_S)
        return Response(
            problem.model_dump_json(exclude_defaults=True),
            status_code=problem.status,
            headers=headers,
            media_type=MEDIA_TYPE,
        )


def refused(answer: Refused, *, place: LedgerPlace, original: Original | None = None) -> No:
    """The ledger's refusal as the door says it."""
    return No(
        answer.code,
        problems=tuple(_trouble(detail) for detail in answer.details),
        original=original,
        ledger=place,
    )


def _trouble(detail: Detail) -> Trouble:
    return Trouble(path=detail.path, code=detail.code, message=detail.message)


_OURS: Final[Mapping[str, str]] = {
    "/tenant": "the tenant comes from the API key, never from the body",
    "/principal": "the principal comes from the API key, never from the body",
    "/key": "the key follows from operation, version, tenant and business event",
    "/idempotency_key": "the key follows from operation, version, tenant and business event",
    "/revision": "the number of a revision follows from the action that it `revises`",
}


_IN_WORDS: Final[Mapping[str, str]] = {
    "model_type": "write an object of JSON: {…}",
    "dict_type": "write an object of JSON: {…}",
}
"""What callers are told where the words of the library speak of its own types."""


def invalid(code: Code, error: ValidationError) -> No:
    """What a model found wrong, without what was sent."""
    return No(code, problems=tuple(_troubles(error)))


def _troubles(error: ValidationError) -> Iterable[Trouble]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for item in found[:DIFFERENCES_MAX]:
        path = pointer(item["loc"])
        message = _IN_WORDS.get(item["type"], item["msg"])
        if item["type"] == "extra_forbidden":
            message = _OURS.get(path, "there is no such field")
        yield Trouble(path=path, code=item["type"], message=message[:MESSAGE_CHARS_MAX])
