"""The page of a saga: its steps in order, what undoes each, what is next, and no text that runs."""

from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, cast

from gateway.console.pages import Pages
from gateway.console.sagas import Line, saga_shown
from gateway.console.site_file import Site
from gateway.http.saga_views import saga_line, saga_view
from ledger.core import inputs as i
from ledger.core.statement import Move
from projections.queries import Queries
from tests import examples as x
from tests.examples_of_sagas import TRIP, do, plan, planned, step, undo
from tests.travelling import NO, Travelling

if TYPE_CHECKING:
    import asyncpg

HOSTILE = "order:<script>alert(1)</script>"
BASE = {"visitor": None, "now": x.T0, "here": "saga", "form": ""}


def page(template: str, **context: object) -> str:
    """A page as it is sent."""
    answer = Pages(Site("https://ledger.example.com", b"s" * 32)).page(template, BASE | context)
    return bytes(answer.body).decode()


def hostile(item: str) -> i.PlannedStep:
    """A step whose target would like to be a program."""
    request = x.request(do(item)).model_copy(update={"target": HOSTILE})
    return step(item, request=request, compensation=planned(undo(item), target=HOSTILE))


def test_a_saga_shows_its_steps_in_order_with_what_undoes_them() -> None:
    """While it is undone each step says how far that is, and which is next."""
    told = Travelling()
    told.does(do("flight"))
    told.does(do("hotel"))
    told.does(do("car"), NO)
    text = page("saga", **saga_shown(told.saga, "acme"))
    places = [text.index(f">{do(item)}<") for item in ("flight", "hotel", "car")]
    assert places == sorted(places)
    for said in ("its turn now", "planned, if it is needed", "not needed", "compensating"):
        assert said in text, said
    assert text.count('<span class="aside">next</span>') == 1
    assert f'href="/console/actions/{undo("hotel").replace("#", "%23")}"' in text


def test_a_saga_that_is_stuck_leads_to_the_case() -> None:
    """And says that nothing new begins before somebody has settled it."""
    told = Travelling()
    told.does(do("flight"))
    told.does(do("hotel"), NO)
    told.does(undo("flight"), NO)
    text = page("saga", **saga_shown(told.saga, "acme"))
    assert f'href="/console/review/{undo("flight").replace("#", "%23")}"' in text
    assert "Nothing new begins before this is settled" in text
    told.settles(undo("flight"), Move.ACKNOWLEDGE)
    text = page("saga", **saga_shown(told.saga, "acme"))
    assert "taken over by a person" in text
    assert "Waits for a person" not in text


def test_what_an_agent_wrote_is_text() -> None:
    """A target that would like to be a program is shown as what it is."""
    told = Travelling(plan(hostile("flight")))
    text = page("saga", **saga_shown(told.saga, "acme"))
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


def test_what_a_provider_calls_an_effect_turns_nothing_around() -> None:
    """A direction mark in a name of it is spelled out."""
    told = Travelling()
    told.does(do("flight"), x.success("n_\u202e1"))
    text = page("saga", **saga_shown(told.saga, "acme"))
    assert "\u202e" not in text
    assert '<mark class="unseen">\\u202e</mark>' in text


def test_the_list_names_each_with_how_far_it_is() -> None:
    """The newest sagas, each with its page."""
    told = Travelling()
    told.does(do("flight"))
    lines = [Line("acme", saga_line(told.saga))]
    text = page("sagas", lines=lines, tenants_shown="acme")
    assert 'href="/console/sagas/acme/renewal-1/trip"' in text
    assert "1 of 3" in text
    assert page("sagas", lines=[], tenants_shown="acme").count("No saga is known in acme") == 1


def test_the_view_says_what_the_saga_goes_on_with() -> None:
    """The first step, then each in its turn; nothing at the end."""
    told = Travelling()
    first = saga_view(told.saga)
    assert first.next is not None
    assert (first.next.key, first.next.what) == (do("flight"), "step")
    told.does(do("flight"), NO)
    ended = saga_view(told.saga)
    assert ended.next is None
    assert ended.is_final
    assert "step 1" in ended.sentence
    assert ended.version > first.version


class Watched(dict[str, Any]):
    """A row that knows in which thread it was read."""

    read_in: ClassVar[set[int]] = set()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as free as a row
        """One column."""
        self.read_in.add(get_ident())
        return super().__getitem__(name)


class Stored(Queries):
    """The tables with the facts of one opened trip."""

    def __init__(self) -> None:
        super().__init__(cast("asyncpg.Pool", None))

    async def _rows(self, *_: object) -> list[Any]:
        facts = Travelling().opening.decided.facts
        return [
            Watched(
                stream_key=x.STREAM,
                ledger_offset=offset,
                decided_at=x.T0,
                data=fact.model_dump_json(exclude_none=True),
            )
            for offset, fact in enumerate(facts)
        ]


async def test_plans_are_folded_beside_the_loop_that_serves_everybody() -> None:
    """Fifty long ones take seconds, and whoever asks for another page has a turn meanwhile."""
    Watched.read_in.clear()
    found = await Stored().saga(x.STREAM, TRIP)
    assert found is not None
    assert [one.action.key for one in found.steps] == [do("flight"), do("hotel"), do("car")]
    assert Watched.read_in
    assert get_ident() not in Watched.read_in
