"""Lines of a TOML text: every path that stands in it, whatever the way it is written."""

import tomllib

import pytest

from ledger.core.toml_lines import TomlPath, line_of, lines_of

SOURCE = '''\
# a comment [not.a] = table
a.b = 1
x = [ 1, # one ]
  2,
  [3, 4], { k = "}", "q.r".z = [5] } ]

[[op]]
name = """
[not] = 1
""\\"""" # still a text
[op.target]
'lit' = 'a"]'
[[op]]
name = 'x'
[op.p.q]
t = 2020-01-01T00:00:00Z
m = \'\'\'
x = 1\'\'\'
[op.p."w.w"] # a quoted name
  n = -1_000
[[op.deep]]
v = 1
[[op.deep]]
v = { a = { b = true } }
[ last . one ]
"quoted\\u0041 key" = ""
'bare' = """"quotes at the end"""""
end = 1.5'''


def test_every_path_has_its_line() -> None:
    """Tables, dotted keys, quoted names, arrays over lines, inline tables and long texts."""
    assert lines_of(SOURCE) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("x",): 3,
        ("x", 0): 3,
        ("x", 1): 4,
        ("x", 2): 5,
        ("x", 2, 0): 5,
        ("x", 2, 1): 5,
        ("x", 3): 5,
        ("x", 3, "k"): 5,
        ("x", 3, "q.r"): 5,
        ("x", 3, "q.r", "z"): 5,
        ("x", 3, "q.r", "z", 0): 5,
        ("op",): 7,
        ("op", 0): 7,
        ("op", 0, "name"): 8,
        ("op", 0, "target"): 11,
        ("op", 0, "target", "lit"): 12,
        ("op", 1): 13,
        ("op", 1, "name"): 14,
        ("op", 1, "p"): 15,
        ("op", 1, "p", "q"): 15,
        ("op", 1, "p", "q", "t"): 16,
        ("op", 1, "p", "q", "m"): 17,
        ("op", 1, "p", "w.w"): 19,
        ("op", 1, "p", "w.w", "n"): 20,
        ("op", 1, "deep"): 21,
        ("op", 1, "deep", 0): 21,
        ("op", 1, "deep", 0, "v"): 22,
        ("op", 1, "deep", 1): 23,
        ("op", 1, "deep", 1, "v"): 24,
        ("op", 1, "deep", 1, "v", "a"): 24,
        ("op", 1, "deep", 1, "v", "a", "b"): 24,
        ("last",): 25,
        ("last", "one"): 25,
        ("last", "one", "quotedA key"): 26,
        ("last", "one", "bare"): 27,
        ("last", "one", "end"): 28,
    }


def test_the_paths_are_exactly_those_of_the_document() -> None:
    """Nothing that `tomllib` reads is without a line, and no line is for nothing."""
    assert set(lines_of(SOURCE)) == set(paths_of(tomllib.loads(SOURCE)))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("op", 1, "p", "q", "missing"), 15),
        (("op", 1, "missing", "deeper"), 13),
        (("op", 7), 7),
        (("missing",), 1),
        ((), 1),
    ],
)
def test_a_missing_path_has_the_line_around_it(path: TomlPath, line: int) -> None:
    """What is absent is reported where it ought to be: at the table it is missing from."""
    assert line_of(lines_of(SOURCE), path) == line


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_of_every_system_count_once(newline: str) -> None:
    """A text saved on another system has the same lines."""
    assert lines_of(SOURCE.replace("\n", newline)) == lines_of(SOURCE)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "[", "a = [1,", "a = {", "a ="])
def test_no_text_holds_it_up(text: str) -> None:
    """A text that is empty or ends too early is read to its end, whatever comes of it."""
    assert isinstance(lines_of(text), dict)


def paths_of(value: object, path: TomlPath = ()) -> list[TomlPath]:
    """Every path of a parsed document."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = [] if path == () else [path]
    for key, inner in items:
        found += paths_of(inner, (*path, key))
    return found
