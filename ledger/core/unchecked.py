"""Constructors and copies of frozen records without their checks, for speed: a decision makes
dozens of records, and a frozen one takes several times as long to fill.

Guarantees the same record that the class itself would make from valid values. Checks no value: it
is for values that were checked before, or that are checked when the written bytes are read back.
Called by the fold and by `decide`.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, make_dataclass
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

from ledger.core.wire import Wire

_Fields = ParamSpec("_Fields")
_Record = TypeVar("_Record")
_Made = TypeVar("_Made", bound=Wire)

_Changes = Mapping[str, object]


def maker_of(
    kind: Callable[_Fields, _Record],
) -> tuple[
    Callable[_Fields, _Record],
    Callable[[_Record, _Changes], _Record],
    Callable[[_Record, _Changes], None],
]:
    """Three functions for a slotted frozen dataclass, without its own checks: a constructor, in a
    quarter of the time; `dataclasses.replace`, in a fifth; and one that changes a record in place,
    which is only for a record that nobody else has seen yet.

    A record is filled as a twin class of the same layout that is not frozen, and its `__class__` is
    then set to the real one.
    """
    assert isinstance(kind, type)  # noqa: S101 - for the type checker
    own = fields(kind)
    names = tuple(one.name for one in own)
    twin = make_dataclass("Twin", [(one.name, Any, _default_of(one)) for one in own], slots=True)
    values_of = attrgetter(*names)

    def made(*args: _Fields.args, **values: _Fields.kwargs) -> _Record:
        new = twin(*args, **values)
        new.__class__ = kind
        return new  # type: ignore[no-any-return]  # a class made here has no types

    def changed(record: _Record, changes: _Changes) -> _Record:
        new = twin(*values_of(record))
        for name, value in changes.items():
            setattr(new, name, value)
        new.__class__ = kind
        return new  # type: ignore[no-any-return]  # as above

    def fill(record: _Record, changes: _Changes) -> None:
        for name, value in changes.items():
            object.__setattr__(record, name, value)

    return made, changed, fill


def _default_of(one: Field[Any]) -> Any:  # noqa: ANN401 - a field is declared as what it is not
    if one.default_factory is not MISSING:
        return field(default_factory=one.default_factory)
    return field() if one.default is MISSING else field(default=one.default)


def written_with(record: _Made, **changes: object) -> _Made:
    """A copy of a record with some fields changed, to be checked when its bytes are read back."""
    copy: _Made = type(record).__new__(type(record))
    object.__setattr__(copy, "__dict__", record.__dict__ | changes)
    names = record.__pydantic_fields_set__.union(changes)
    object.__setattr__(copy, "__pydantic_fields_set__", names)
    object.__setattr__(copy, "__pydantic_extra__", None)
    object.__setattr__(copy, "__pydantic_private__", None)
    return copy


def writer_of(kind: Callable[_Fields, _Made]) -> Callable[_Fields, _Made]:
    """A constructor of a record that is written to the log next, in a third of the time. Its values
    are checked when its bytes are read back, which also finds a mistake of ours.

    Only for kinds whose defaults are immutable and that have no validator of their own.
    """
    assert isinstance(kind, type)  # noqa: S101 - for the type checker
    assert issubclass(kind, Wire)  # noqa: S101 - for the type checker
    # In the order of the fields: that is the order of the bytes.
    template = {name: one.get_default() for name, one in kind.model_fields.items()}
    names, put = set(template), object.__setattr__

    def made(*_: _Fields.args, **values: _Fields.kwargs) -> _Made:
        record: _Made = kind.__new__(kind)  # type: ignore[assignment]  # `kind` is what it makes
        put(record, "__dict__", template | values)
        put(record, "__pydantic_fields_set__", names)
        put(record, "__pydantic_extra__", None)
        put(record, "__pydantic_private__", None)
        return record

    return made
