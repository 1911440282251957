"""What `saga` and `batch` print, and what the door is asked for them."""

import io

import httpx
import pytest
from rich.console import Console

from gateway.cli import proposing, sagas
from gateway.cli.proposing import Proposing, UnexpectedAnswerError
from gateway.http.limits import RUN_ACTIONS_MAX
from gateway.http.run_views import cut
from gateway.http.saga_views import SagaList, batch_view, saga_line, saga_view
from ledger.core.inputs import Meaning
from ledger.core.state import Status
from ledger.core.statement import Move
from projections.query_rows import ActionRow
from tests.examples import T0, found_out
from tests.examples_of_sagas import do, undo
from tests.travelling import NO, Travelling


def printed(show: object, found: object) -> str:
    """What a command prints."""
    out = io.StringIO()
    show(Console(file=out, width=200, color_system=None), found)  # type: ignore[operator]
    return out.getvalue()


def stuck() -> Travelling:
    """The hotel failed, and the flight cannot be undone."""
    told = Travelling()
    told.does(do("flight"))
    told.does(do("hotel"), NO)
    told.does(undo("flight"), NO)
    return told


def test_a_saga_is_printed_step_by_step_with_what_undoes_it() -> None:
    """And with the command by which a person settles what it waits for."""
    told = stuck()
    text = printed(sagas._show_saga, saga_view(told.saga))
    assert text.startswith("trip of renewal-1  stuck\n")
    assert text.index(do("flight")) < text.index(do("hotel")) < text.index(do("car"))
    assert "undo: its turn now" in text
    assert "undo: not needed" in text
    assert f"actionledger review show {undo('flight')}" in text
    told.settles(undo("flight"), Move.ACKNOWLEDGE)
    text = printed(sagas._show_saga, saga_view(told.saga))
    assert "undo: taken over by a person" in text
    assert "review show" not in text


def test_an_answer_of_the_door_is_printed_as_the_read_model_is() -> None:
    """A replay says that nothing new was started."""
    answer = saga_view(stuck().saga, replayed=True).model_dump(mode="json", exclude_none=True)
    text = printed(sagas._show_answer, answer)
    assert text.startswith("It was there before: nothing new was started.\ntrip of renewal-1")


def test_sagas_are_listed_with_how_far_they_are() -> None:
    """One line each; and a word where there is none."""
    found = SagaList(now=T0, sagas=(saga_line(stuck().saga),))
    assert printed(sagas._show_list, found).startswith("trip of renewal-1  stuck  1 of 3 steps")
    assert printed(sagas._show_list, SagaList(now=T0, sagas=())) == "There is no saga.\n"


def test_what_waits_for_a_person_is_not_said_to_go_on_by_itself() -> None:
    """While a step has a case the sentence names it."""
    told = Travelling()
    told.does(do("flight"))
    second = found_out(Meaning.EFFECT, key=do("flight"), lookup=None, reference="another-one")
    told.says(second)
    found = saga_view(told.saga)
    assert f"A person has to settle {do('flight')} before anything new" in found.sentence
    assert "by itself" not in found.sentence


def row(key: str, status: str, **fields: object) -> ActionRow:
    """An action as the read model has it, with everything else left out."""
    names = dict.fromkeys(ActionRow.__dataclass_fields__)
    known = {"action_key": key, "status": status, "target": "order:A-1"}
    return ActionRow(**(names | known | fields))  # type: ignore[arg-type]


def test_a_batch_is_counted_by_status() -> None:
    """Each of its actions stands for itself."""
    rows = [row("charge:v1:acme:a", "completed"), row("charge:v1:acme:b", "failed")]
    rows.append(row("charge:v1:acme:c", "completed", amount_minor=500, currency="EUR"))
    found = batch_view("reminders", rows)
    assert found.by_status == {Status.COMPLETED: 2, Status.FAILED: 1}
    assert found.sentence.startswith("Of 3 actions of the batch reminders: 2 completed, 1 failed.")
    text = printed(sagas._show_batch, found)
    assert text.startswith("reminders  2 completed, 1 failed\n")
    assert "5.00 EUR" in text


def test_a_batch_of_which_not_all_is_counted_says_so() -> None:
    """What was read first may be completed, whatever became of the rest."""
    rows = [row(f"charge:v1:acme:{number}", "completed") for number in range(RUN_ACTIONS_MAX)]
    assert batch_view("reminders", rows[1:], more=cut(rows[1:])).more is None
    found = batch_view("reminders", rows, more=cut(rows))
    assert found.more is True
    assert found.sentence.startswith(
        "Of the first 1000 actions of the batch reminders: 1000 completed. There may be more"
    )
    assert "there may be more" in printed(sagas._show_batch, found)


def test_the_door_is_asked_until_the_saga_has_come_to_an_end() -> None:
    """Waiting goes on while it goes on by itself, and no longer."""
    asked: list[str] = []

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path} {request.url.params}")
        status = "running" if request.method == "POST" else "completed"
        answer = {"status": status, "version": 3, "href": "/v1/sagas/e/s", "replayed": True}
        return (
            httpx.Response(201, json=answer)
            if request.method == "POST"
            else httpx.Response(200, json=answer)
        )

    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid", transport=httpx.MockTransport(answered)
        )
        status, answer = door.ask_of_saga("/v1/sagas", b"{}", wait_ms=1_000)
    assert (status, answer["status"], answer["replayed"]) == (201, "completed", True)
    assert [one.split("&")[0] for one in asked] == [
        "POST /v1/sagas wait_ms=1000",
        f"GET /v1/sagas/e/s {asked[1].split()[2].split('&')[0]}",
    ]
    assert "after_version=3" in asked[1]


def test_who_waits_hears_for_what_also_while_the_door_is_started_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A door that is away in the middle of a wait is asked again, as one that was away before it:
    the action is recorded. What is waited for, and why it takes so long, stands on stderr.
    """
    monkeypatch.setattr(proposing, "AGAIN_EVERY_S", 0.0)
    key, asked = "charge:v1:acme:e", 0

    def answered(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        answer = {"key": key, "href": f"/v1/actions/{key}", "version": asked, "replayed": False}
        if request.method == "POST":
            return httpx.Response(201, json={**answer, "status": "attempting"})
        if asked == 2:
            raise httpx.ReadError("reset")
        if asked == 3:
            return httpx.Response(503, json={"code": "not_ready"})
        return httpx.Response(200, json={**answer, "status": "completed"})

    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid", transport=httpx.MockTransport(answered)
        )
        status, answer = door.propose(b"{}", wait_ms=60_000)
    assert (status, answer["status"], asked) == (201, "completed", 4)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "It is attempting; waiting.\n"
        "The ledger at http://door.invalid does not answer yet; asking again for 10 s.\n"
    )


@pytest.mark.parametrize(
    ("status", "why"), [(429, "is asked too often"), (503, "does not answer yet")]
)
def test_who_asks_again_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, why: str
) -> None:
    """A proxy that wants to be asked less often is no ledger that is away."""
    monkeypatch.setattr(proposing, "AGAIN_EVERY_S", 0.0)
    answers = iter(
        (
            httpx.Response(status, text="later"),
            httpx.Response(201, json={"status": "completed", "replayed": False}),
        )
    )
    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid",
            transport=httpx.MockTransport(lambda _request: next(answers)),
        )
        assert door.propose(b"{}", wait_ms=0)[0] == 201
    assert capsys.readouterr().err == (
        f"The ledger at http://door.invalid {why}; asking again for 10 s.\n"
    )


@pytest.mark.parametrize("missing", ["unknown_action", "unknown_saga"])
def test_what_is_durable_and_undecided_is_refused_by_nobody(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Until it is decided the door knows nothing of it: a wait that was told so ended as refused,
    and the effect came about all the same.
    """
    monkeypatch.setattr(proposing, "AGAIN_EVERY_S", 0.0)
    looks = 0

    def answered(request: httpx.Request) -> httpx.Response:
        nonlocal looks
        answer = {"key": "charge:v1:acme:e", "href": "/v1/actions/charge:v1:acme:e", "version": 0}
        if request.method == "POST":
            return httpx.Response(202, json={**answer, "status": "undecided"})
        looks += 1
        if looks < 3:
            return httpx.Response(404, json={"code": missing})
        return httpx.Response(200, json={**answer, "status": "completed", "version": 5})

    def asked(wait_ms: int) -> tuple[int, str]:
        with Proposing("http://door.invalid", "key") as door:
            door._http = httpx.Client(
                base_url="http://door.invalid", transport=httpx.MockTransport(answered)
            )
            status, answer = door.propose(b"{}", wait_ms=wait_ms)
            return status, answer["status"]

    assert asked(60_000) == (202, "completed")
    looks = -1_000_000
    assert asked(50) == (202, "undecided")


def test_what_stands_before_the_door_may_answer_for_it_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gateway that is started again behind a proxy is away, and no other program."""
    monkeypatch.setattr(proposing, "AGAIN_EVERY_S", 0.0)
    answers = [
        httpx.Response(502, content=b"<html>Bad Gateway</html>"),
        httpx.Response(201, json={"key": "charge:v1:acme:e", "status": "completed"}),
    ]
    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid",
            transport=httpx.MockTransport(lambda _: answers.pop(0)),
        )
        assert door.propose(b"{}", wait_ms=0)[0] == 201


@pytest.mark.parametrize(("status", "answer"), [(200, {}), (301, {}), (404, {"detail": "No."})])
def test_json_of_another_program_is_no_answer(status: int, answer: dict[str, str]) -> None:
    """It was told as success with --json, and ended in a stack without."""
    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid",
            transport=httpx.MockTransport(lambda _: httpx.Response(status, json=answer)),
        )
        with pytest.raises(UnexpectedAnswerError, match="no ledger"):
            door.propose(b"{}", wait_ms=0)


def test_what_answers_with_no_text_is_no_ledger() -> None:
    """Bytes that are neither JSON nor text are named, and end in no stack."""
    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid",
            transport=httpx.MockTransport(lambda _: httpx.Response(200, content=b"\xff\xfe{\xfc")),
        )
        with pytest.raises(UnexpectedAnswerError, match="no ledger"):
            door.propose(b"{}", wait_ms=0)


def test_an_action_is_taken_back_by_its_whole_key() -> None:
    """Also one with an item, whose mark would end the path; and without a reason none is sent."""
    asked: list[tuple[bytes, bytes]] = []

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.raw_path, request.content))
        return httpx.Response(200, json={"key": "x", "status": "cancelled"})

    with Proposing("http://door.invalid", "key") as door:
        door._http = httpx.Client(
            base_url="http://door.invalid", transport=httpx.MockTransport(answered)
        )
        door.cancel("charge:v1:acme:e#fee~2", "No more.")
        door.cancel("charge:v1:acme:e", None)
    assert asked == [
        (b"/v1/actions/charge:v1:acme:e%23fee~2/cancel", b'{"reason": "No more."}'),
        (b"/v1/actions/charge:v1:acme:e/cancel", b"{}"),
    ]
