"""Records as the command line tells them: every type has a line, and so have any bytes."""

from pathlib import Path
from typing import Literal

import pytest
from rich.table import Table

from gateway.cli.actions import show_answer, timeline
from gateway.cli.output import safe_console
from gateway.cli.reading import content_of, document_of, fact_line, say
from gateway.demo.telling import lines_of
from ledger.log.port import Record

EVENTS = sorted((Path(__file__).parents[1] / "golden" / "events").glob("*.json"))


def record(value: bytes, topic: str = "ledger") -> Record:
    """A record with these bytes."""
    return Record(topic, 3, 7, 1_800_000_000_000, b"acme/renewal-1", value, ())


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_every_type_of_record_has_a_line(path: Path) -> None:
    """What was ever written is told in one line that says more than its type."""
    line = say(content_of(record(path.read_bytes())))
    kind, colon, told = line.partition(": ")
    assert colon
    assert told.strip()
    assert kind.replace(".", "").replace("_", "").isalpha()
    assert "\n" not in line


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_the_demonstration_can_tell_every_record(path: Path) -> None:
    """No record that may come into the story stops it."""
    assert all(lines_of(document_of(record(path.read_bytes()))))


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"type":1}', b"\xff", b'{"a":1,"a":2}'])
def test_any_bytes_have_a_line(value: bytes) -> None:
    """Bytes that are no event are named as such and do not stop whoever reads on."""
    assert say(content_of(record(value))).startswith("unreadable: ")


def test_a_webhook_says_what_its_sender_wrote() -> None:
    """The signed bytes travel encoded; they are shown as what they hold."""
    path = next(path for path in EVENTS if path.stem == "webhook.received")
    document = document_of(record(path.read_bytes(), "webhooks"))
    assert document["body"] is not None
    assert document["data"]["raw_base64"]


@pytest.mark.parametrize("to", ["stdout", "stderr"])
def test_what_others_wrote_is_text_at_a_terminal(
    to: Literal["stdout", "stderr"], capsys: pytest.CaptureFixture[str]
) -> None:
    """Family operations: the reason of a hold or of a cancellation, a webhook's type: none of it
    moves the cursor, colours, rings or turns a line around, whether in a line, in markup or in a
    table. Line ends stay, and what looks like the name of a picture is what it is.
    """
    hostile = "a\x1b[2Jb\x9b31m\u202ec\x07\rd\u200b :rocket:"
    spelled = r"a\u001b[2Jb\u009b31m\u202ec\u0007\u000dd\u200b :rocket:"
    console = safe_console(to=to)
    console.print(f"{hostile}\nnext", markup=False)
    console.print(f"[bold]{hostile}[/]")
    table = Table(box=None)
    table.add_column("why", no_wrap=True)
    table.add_row(hostile)
    console.print(table)
    heard = capsys.readouterr()
    said = heard.out if to == "stdout" else heard.err
    assert said.count(spelled) == 3
    assert f"{spelled}\nnext\n" in said
    assert all(line.isprintable() for line in said.split("\n"))


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (
            {"type": "approval.granted", "person": "ada", "comment": "She\ncalled."},
            "approval.granted by ada: She called.",
        ),
        ({"type": "approval.withdrawn", "person": "ada"}, "approval.withdrawn by ada"),
        ({"type": "action.denied", "by": "policy"}, "action.denied by policy"),
        (
            {"type": "action.denied", "by": "person", "person": "ada", "comment": "Paid."},
            "action.denied by ada: Paid.",
        ),
        ({"type": "approval.escalated", "groups": ["a", "b"]}, "approval.escalated a, b"),
        (
            {
                "type": "approval.ended",
                "reason": "volatile_changed",
                "changes": [{"name": "rate", "was": "1.10", "now": "1.11"}],
            },
            "approval.ended volatile_changed rate 1.10 → 1.11",
        ),
        (
            {"type": "review.resolved", "move": "effect_exists", "reference": "ch_1"}
            | {"person": "ada", "comment": "Seen there."},
            "review.resolved effect_exists ch_1 by ada: Seen there.",
        ),
    ],
)
def test_who_said_what_and_what_moved_is_in_the_line(fact: dict[str, object], line: str) -> None:
    """Nobody has to read JSON to know who agreed, who denied and why, and which value moved."""
    assert fact_line(fact) == line


def test_no_name_at_a_provider_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A reference in brackets is shown whole, and ends no command."""
    fact = {"type": "action.completed", "reference": "re_[/b][red]1"}
    cause = {"topic": "attempts", "partition": 0, "offset": 1}
    event = {"version": 1, "decided_at": 0, "data": fact, "partition": 0, "ledger_offset": 1}
    safe_console(to="stdout").print(timeline([{**event, "cause": cause}]))
    assert "re_[/b][red]1" in capsys.readouterr().out


def test_a_timeline_says_on_which_day_each_thing_happened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was unknown for three days is looked at in the night after: the time of day alone is
    that of any of them.
    """
    at_ms, day_ms = 1_800_000_000_000, 86_400_000
    moments = (at_ms, at_ms + 1_000, at_ms + 3 * day_ms)
    safe_console(to="stdout").print(
        timeline(
            [
                {
                    "version": version,
                    "decided_at": moment,
                    "data": {"type": "attempt.resolved"},
                    "partition": 0,
                    "ledger_offset": version,
                    "cause": {"topic": "attempts", "partition": 0, "offset": version},
                }
                for version, moment in enumerate(moments, 1)
            ]
        )
    )
    began = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert began == ["2027-01-15", "1", "2", "2027-01-18", "3"]


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ({"reason": "target", "by": "charge:v1:acme:e"}, "charge:v1:acme:e holds the same target"),
        ({"reason": "target"}, "another action holds the same target"),
        ({"reason": "gates", "gates": ["acme/run:r1"]}, "acme/run:r1, which answers by itself"),
    ],
)
def test_what_waits_is_told_also_to_whom_the_other_is_not_named(
    capsys: pytest.CaptureFixture[str], waits: dict[str, object], said: str
) -> None:
    """No gate is waited for where another action is at work."""
    show_answer(safe_console(to="stdout"), {"key": "k", "status": "blocked", "blocked": waits})
    assert f"waits for  {said}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("denied", "said"),
    [
        ({"by": "policy"}, ["denied by  the rules in force", "actionledger policy explain k"]),
        ({"by": "person", "person": "ada", "comment": "Paid."}, ["denied by  ada: Paid.", ""]),
    ],
    ids=["rules", "person"],
)
def test_who_was_denied_is_told_by_whom(
    capsys: pytest.CaptureFixture[str], denied: dict[str, str], said: list[str]
) -> None:
    """Of rules, which may be those of the table or of the catalogue, where the row stands."""
    console = safe_console(to="stdout")
    show_answer(console, {"key": "k", "status": "denied", "denied": denied})
    out = capsys.readouterr().out
    assert all(one in out for one in said)
    assert ("policy explain" in out) == (denied["by"] == "policy")
