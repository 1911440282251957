"""SQL from files: each statement stands behind a line `-- name: …` in the file that explains it.

Guarantees that a statement which is not there is found when the file is read, not when it is
needed. Called by whoever owns a `.sql` file, with its own package and file name.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

_NAME: Final = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@cache
def statements(package: str, file_name: str) -> Mapping[str, str]:
    """The statements of a file by name. Raises ValueError for a name given twice."""
    text = resources.files(package).joinpath(file_name).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{file_name} names a statement twice")
    return MappingProxyType({name: body.strip() for name, body in zip(names, bodies, strict=True)})
