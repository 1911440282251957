"""The model that everything crossing a wire is made of: frozen, strict, closed.

Guarantees that an unknown field, a coerced type or a late change is an error. Used by inputs, facts
and ledger records; it knows no bytes: `ledger.log.envelope` is the only place that does.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ledger.core.limits import INTEGER_MAX, TEXT_CHARS_MAX


class Wire(BaseModel):
    """A frozen, strict model without room for fields nobody declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


if TYPE_CHECKING:
    Json = JsonValue
else:
    Json = Any
"""Whatever JSON can hold. Not looked at value by value when it is read: bytes hold nothing else,
and the strict parse before has refused what is not wanted. Who builds one by hand checks it.
"""

Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
"""Any short text: a key, a code, a reference, a name."""
Milliseconds = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
"""A duration, or a point in time counted from 1970-01-01T00:00:00Z."""
Count = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
"""A number of things, or an offset."""
