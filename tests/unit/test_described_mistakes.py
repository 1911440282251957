"""A description is whole, or refused with every mistake on its line."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.providers import http
from reconciler.providers.http.description import Description
from reconciler.providers.http.parsing import parse_description, read_description

EXAMPLE = Path(http.__file__).with_name("example.toml")
TEXT = EXAMPLE.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the example, and what is said of it on the line where `new` begins."""

    old: str
    new: str
    said: str


ROW = 'verdict = "unresolved"'
PATH = 'path = "/v1/effects/{operation}"'
KEY_HEADER = 'headers = { Idempotency-Key = "{provider_key}" }'
PREVIEW = 'path = "/v1/previews/{operation}"'
PREVIEW_METHOD = 'method = "POST"\npath = "/v1/previews'
EDITS = [
    # What the forms say.
    Edit("format = 1", "format = 2", "must be 1"),
    Edit('reliability = "keyed"', 'reliability = "sure"', "must be 'keyed'"),
    Edit("search_lag_ms = 0", "search_lag_ms = -1", "whole number up to"),
    Edit("search_lag_ms = 0", "search_lag_ms = true", "whole number up to"),
    Edit("search_lag_ms = 0", 'search_lag_ms = "none"', 'or "impossible"'),
    Edit('method = "POST"', 'method = "GET"', "must be 'POST'"),
    Edit('remembers = ["success"]', "remembers = 1", "must be a list"),
    Edit('at = "effect"  ', "at = 7  ", "must be a text"),
    Edit('next = "next"', 'next = "a..b"', "single dots"),
    Edit("statuses = [409]", "statuses = [42]", "must be at least 200"),
    Edit('otherwise = "usual_statuses"', 'otherwise = "refused"', "must be 'usual_statuses'"),
    Edit('reference = "id"', 'reference = "id"\nrefrence = "id"', "is not a known key"),
    Edit(
        "overlap_seconds = 300\n",
        "kept_days = 1\noverlap_seconds = 86_400\n",
        "longer than overlap_seconds and two times interval_seconds",
    ),
    # Where a request goes is not for a template to say.
    Edit("format = 1", 'format = 1\nbase_url = "ftp://x"', "must be http(s)://host"),
    Edit("format = 1", 'format = 1\nbase_url = "https://u:p@bank"', "no user, password"),
    Edit("format = 1", 'format = 1\nbase_url = "https://bank?a=1"', "no user, password, query"),
    Edit("format = 1", 'format = 1\nbase_url = "https://{account}"', "is an address and no"),
    Edit("format = 1", 'format = 1\ncredentials = { "a b" = "f" }', "is no name of an account"),
    Edit("format = 1", 'format = 1\nshared_accounts = ["a b"]', "is no name of an account"),
    Edit(
        "format = 1",
        'format = 1\ncredentials = { main = "/f" }\nshared_accounts = ["mian"]',
        "is none of the accounts",
    ),
    Edit("format = 1", 'format = 1\nshared_accounts = "main"', "must be a list"),
    Edit(PATH, 'path = "https://evil.example/{operation}"', "host comes from the settings"),
    Edit(PATH, 'path = "//evil.example/{operation}"', "host comes from the settings"),
    Edit(PATH, 'path = "{target}"', "must begin with one /"),
    Edit(PATH, 'path = "/v1/../{operation}"', "must not have . or .."),
    Edit(PATH, 'path = "/v1/effects?op={operation}"', "only characters of a path"),
    Edit(PATH, 'path = "/v1/ef fects"', "only characters of a path"),
    Edit(PATH, 'path = "/v1/{operation"', "single brace"),
    Edit(PATH, 'path = "/v1/{operation!r}"', "is no name"),
    Edit(PATH, 'path = "/v1/{host}"', "{host}, which is not known"),
    Edit(PATH, 'path = "/v1/{params}"', "is a whole table"),
    Edit(PATH, 'path = "/v1/{credential}"', "in headers only"),
    Edit('target = "{target}"', 'target = "{credential}"', "in headers only"),
    Edit('target = "{target}"', 'target = "all: {params}"', "inside a text"),
    Edit('target = "{target}"', "target = 1.5", "must be a text, a whole number"),
    Edit('target = "{target}"', "target = 2026-01-01", "must be a text, a whole number"),
    Edit('target = "{target}"', 'target = "{money}"', "{money}, which is not known"),
    Edit(KEY_HEADER, 'headers = { Host = "x.example" }', "only the connection itself"),
    Edit(KEY_HEADER, 'headers = { Content-Length = "1" }', "only the connection itself"),
    Edit(KEY_HEADER, 'headers = { Proxy-Authorization = "x" }', "only the connection itself"),
    Edit(KEY_HEADER, 'headers = { "X\\r\\nHost" = "x" }', "is not the name of a header"),
    Edit(KEY_HEADER, 'headers = { X = "a\\r\\nHost: b" }', "one line of printable ASCII"),
    Edit('query = { key = "{provider_key}" }', 'query = { key = "{target}" }', "is not known here"),
    Edit('target = "{target}"', f"{'a.' * 3_000}a = 1", "levels deep"),
    # A preview cannot do what it shows.
    Edit(PREVIEW, 'path = "/v1/effects/{operation}"', "where * is performed"),
    Edit(PREVIEW, 'path = "/v1/effects/refund"', "an address of its own"),
    Edit(PREVIEW, PREVIEW + '\nquery = { key = "{provider_key}" }', "is not known here"),
    Edit(PREVIEW, PREVIEW + '\nheaders = { Key = "{provider_key}" }', "is not known here"),
    Edit(PREVIEW_METHOD, 'method = "GET"\npath = "/v1/previews', "belongs to the method POST"),
    Edit(PREVIEW_METHOD, 'method = "PUT"\npath = "/v1/previews', "must be 'GET'"),
    Edit("statuses = [200]    ", "statuses = [409]    ", "must be 200 to 299"),
    Edit('scope = "scope"', 'scope = "a..b"\nsort = 1', "is not a known key"),
    # What a search may say.
    Edit("absent_statuses = [404]", "absent_statuses = [500]", "must be 204, 404 or 410"),
    Edit(
        'result = { id = "id", operation',
        'none = { state = ["failed"] }\nresult = { id = "id", operation',
        "needs exists beside it",
    ),
    Edit(
        'result = { id = "id", operation',
        'exists = { a = ["x"] }\nnone = { a = ["y", "x"] }\nresult = { id = "id", operation',
        "has x as exists has",
    ),
    Edit(
        'result = { id = "id", operation',
        'exists = { a = [] }\nresult = { id = "id", operation',
        "at least 1",
    ),
    Edit('next = "next"', 'next = "next"\nlimit = 100', "needs both {limit}"),
    Edit('answers = "list"', 'answers = "one"\nabsent_statuses = [404]', "needs absent_codes"),
    # No row makes an unknown outcome a known one.
    Edit(ROW, 'verdict = "not_sent_later"', "must be refused_later or refused_never or unresolved"),
    Edit("statuses = [409]", "statuses = [409]\ntroubles = []\nmore = 1", "not a known key"),
    Edit('next = "next"', "", "needs both {cursor}"),
    Edit('next = "next"', "limit = 100", "needs next: where a page is full"),
    Edit('shape = "effect"\nat', 'shape = "efect"\nat', "is no [shape.…]"),
    Edit(
        '"effect.pending" = { meaning = "progress"', '"x" = { meaning = "final"', "if it is final"
    ),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.new[:40])
def test_a_mistake_is_told_on_its_line(edit: Edit) -> None:
    """Every mistake has a sentence and the line on which it, or the table around it, stands."""
    before, _, _ = TEXT.partition(edit.old)
    assert before != TEXT
    mistakes = parse_description(TEXT.replace(edit.old, edit.new, 1))
    assert isinstance(mistakes, tuple)
    first = before.count("\n") + 1
    last = first + edit.new.count("\n")
    told = [one for one in mistakes if edit.said in one.message]
    assert told, mistakes
    if edit.new:
        elsewhere = told[0].path in {"listing", "preview.*.body"}
        assert first <= told[0].line <= last or elsewhere


QUESTIONS = [
    "reliability",
    "finds_by_key",
    "finds_by_reference",
    "finds_by_marker",
    "lists_effects",
    "previews",
    "key_window_ms",
    "key_chars_max",
    "settle_horizon_ms",
    "search_lag_ms",
    "replay_proven",
    "remembers",
    "sends_webhooks",
    "retries_webhooks",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_has_an_answer_by_default(question: str) -> None:
    """A capability that is not answered is a mistake, never an assumption."""
    lines = [line for line in TEXT.splitlines() if not line.startswith(f"{question} =")]
    mistakes = parse_description("\n".join(lines))
    assert isinstance(mistakes, tuple)
    assert [(one.path, one.message) for one in mistakes] == [
        (f"capabilities.{question}", "is missing")
    ]


def without(heading: str) -> str:
    """The example without the tables under one heading."""
    kept, skips = [], False
    for line in TEXT.splitlines():
        if line.startswith("["):
            skips = line.startswith(heading)
        if not skips:
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("heading", "paths"),
    [
        ("[[find]]", ["finds_by_key", "finds_by_reference", "finds_by_marker"]),
        ("[listing]", ["lists_effects"]),
        ("[webhook", ["sends_webhooks"]),
        ("[preview", ["previews"]),
    ],
)
def test_what_is_promised_has_to_be_described(heading: str, paths: list[str]) -> None:
    """A promised search, list or webhook without its table is a mistake at the promise."""
    mistakes = parse_description(without(heading))
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == [f"capabilities.{path}" for path in paths]


def test_a_composite_needs_the_amount() -> None:
    """Without it a target and an operation would name an action of another sum."""
    head, table, rest = TEXT.partition("[webhook]")
    lines = [line for line in rest.splitlines() if not line.startswith("money =")]
    mistakes = parse_description(head + table + "\n".join(lines))
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == ["webhook.composite"]
    assert "needs money" in mistakes[0].message


def test_what_is_described_has_to_be_promised() -> None:
    """A preview that nobody is told of is a mistake at the answer that denies it."""
    mistakes = parse_description(TEXT.replace('previews = "possible"', 'previews = "impossible"'))
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == ["capabilities.previews"]


def test_a_preview_reads_something() -> None:
    """One of which nothing is shown and nothing read again is none."""
    read = ('effect = "effect"', 'target = "target"', 'scope = "scope"', "observed = {")
    lines = [line for line in TEXT.splitlines() if not line.startswith(read)]
    mistakes = parse_description("\n".join(lines))
    assert isinstance(mistakes, tuple)
    assert [one.message for one in mistakes] == [
        "reads nothing of the answer: effect, target, scope or observed"
    ]


def test_contradicting_capabilities_are_a_mistake() -> None:
    """What the port refuses is told as a mistake of the file."""
    text = TEXT.replace("key_window_ms = 86_400_000", 'key_window_ms = "impossible"')
    line = TEXT.partition("[capabilities]")[0].count("\n") + 1
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert [str(one) for one in mistakes] == [
        f"line {line}: capabilities contradict each other: keyed without a key window"
    ]


@pytest.mark.parametrize("mark", ["provider_key", "action_key"])
def test_what_makes_a_second_call_safe_has_to_be_sent(mark: str) -> None:
    """A key or a marker that is in no part of the request protects nothing."""
    _, _, rest = TEXT.partition("[perform")
    table, _, _ = rest.partition("[[find]]")
    text = TEXT.replace(table, table.replace(f"{{{mark}}}", "none"))
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == ["perform.*"]
    assert f"has no {{{mark}}} anywhere" in mistakes[0].message


ROWS = [
    ('phase = "answered"', "must have statuses or codes"),
    ('phase = "answered"\nstatuses = [200]', "needs codes beside a status of success"),
    ('phase = "answered"\nstatuses = [503]\ntroubles = ["connect_refused"]', "no troubles"),
    ('phase = "before_first_byte"\ntroubles = ["connect_refused"]', "must be not_sent_later"),
    ('phase = "after_first_byte"\ntroubles = ["connection_lost"]', "must be unresolved"),
    ('phase = "after_first_byte"\ntroubles = ["connect_refused"]', "does not happen"),
    ('phase = "before_first_byte"\ntroubles = ["bad_luck"]', "must be one of"),
    ('phase = "before_first_byte"\nstatuses = [503]', "must have troubles"),
]


@pytest.mark.parametrize(("row", "said"), ROWS)
def test_a_row_cannot_say_what_its_phase_cannot_know(row: str, said: str) -> None:
    """After the first byte nothing is refused by trouble, and before it nothing by an answer."""
    text = f'{TEXT}\n[[errors.row]]\nverdict = "refused_never"\n{row}\n'
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert any(said in one.message for one in mistakes), mistakes
    assert all(one.line > TEXT.count("\n") for one in mistakes)


def test_several_mistakes_come_in_the_order_of_their_lines() -> None:
    """An operator goes through the file once, from the top."""
    text = TEXT.replace('path = "/v1/effects/{operation}"', 'path = "x"').replace(
        "Authorization", "Host"
    )
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert len(mistakes) == 2
    assert mistakes[0].line < mistakes[1].line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is missing"),
        ("format = ", "This is not TOML"),
        ("x = 1\nx = 2", "This is not TOML"),
        ("\ufeffformat = 1", "begins with a byte order mark"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("# " + "x" * 200_000, "has more than"),
    ],
)
def test_a_text_that_is_no_description_is_told_so(text: str, said: str) -> None:
    """Empty, broken, endless: each has its sentence."""
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert said in mistakes[0].message


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=8))
def test_any_damage_is_a_description_or_mistakes(at: int, cut: int, text: str) -> None:
    """Whatever is cut out or written in, nothing is raised and every mistake has a line."""
    read = parse_description(TEXT[:at] + text + TEXT[at + cut :])
    assert isinstance(read, Description) or all(one.line >= 1 and one.message for one in read)


def test_no_value_is_quoted() -> None:
    """A credential that was pasted into the wrong place is not shown to whoever reads the log."""
    for old in ('reliability = "keyed"', "search_lag_ms = 0", 'method = "POST"'):
        name, _, _ = old.partition(" =")
        mistakes = parse_description(TEXT.replace(old, f'{name} = "sk_live_secret"'))
        assert isinstance(mistakes, tuple)
        assert "sk_live_secret" not in " ".join(map(str, mistakes))


def test_a_file_that_is_no_text_is_a_mistake(tmp_path: Path) -> None:
    """Bytes beyond UTF-8 are told like any other mistake."""
    path = tmp_path / "adapter.toml"
    path.write_bytes(b"\xff\xfe")
    mistakes = read_description(path)
    assert isinstance(mistakes, tuple)
    assert mistakes[0].message == "The file is not UTF-8 text."
