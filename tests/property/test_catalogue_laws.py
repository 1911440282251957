"""Laws of reading a catalogue: any text is a catalogue or a list of mistakes with lines."""

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.toml_lines import TomlPath, lines_of

# Pieces of TOML, so that many texts are valid and most are nearly so.
pieces = st.lists(
    st.sampled_from(
        [
            "\n",
            "\n[a]\n",
            "\n[a.b]\n",
            "\n[[t]]\n",
            "\n[[t.u]]\n",
            "\n[[operation]]\n",
            "\n[operation.risk]\n",
            "k = 1\n",
            "l.m = 'x'\n",
            '"q r" = """\n]"""\n',
            "n = [1, [2,\n 3], {x = 1, y.z = '}'}]\n",
            "o = {}\n",
            "name = 'charge'\n",
            "version = 1\n",
            "# comment = [\n",
            "p = '''it's\n'''\n",
            "r = 1979-05-27 07:32:00 # time\n",
            "= ",
            '"',
            "[",
            "\r\n",
        ]
    ),
    max_size=14,
).map("".join)


def paths_of(value: object, path: TomlPath = ()) -> set[TomlPath]:
    """Every path of a parsed document."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = set() if path == () else {path}
    for key, inner in items:
        found |= paths_of(inner, (*path, key))
    return found


@settings(max_examples=1_000)
@given(pieces)
def test_lines_are_found_for_exactly_what_is_there(text: str) -> None:
    """In every valid text each path has a line, that line exists, and nothing else has one."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = lines_of(text)
    assert set(lines) == paths_of(document)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(pieces | st.text(max_size=80))
def test_any_text_is_a_catalogue_or_has_mistakes(text: str) -> None:
    """No text raises; every mistake has a line of that text and a sentence that can be read."""
    parsed = parse_catalogue(text)
    if isinstance(parsed, Catalogue):
        return
    assert parsed
    for mistake in parsed:
        assert 1 <= mistake.line <= text.count("\n") + 1
        assert str(mistake).isprintable()


@given(st.text(max_size=80))
def test_scanning_any_text_comes_to_an_end(text: str) -> None:
    """A text that is no TOML costs one pass and holds nothing up."""
    assert isinstance(lines_of(text), dict)
