"""Names in the paths of pages, whatever bytes they are made of."""

import pytest

from tests.browser.conftest import Knocks
from tests.browser.http import code_of
from tests.browser.stage import Stage

pytestmark = pytest.mark.servers


def test_a_name_of_any_bytes_is_one_of_nothing(stage: Stage, knocking: Knocks) -> None:
    """Whatever stands where a page has a name, there is nothing: no fault, and no word of one."""
    http = knocking("anna").log_in().http
    for name in (
        "a%2Fb",
        "%00",
        "a%00",
        "%FF%FE",
        "%ED%A0%80",
        "%0A",
        "%25",
        "a" * 4_000,
        "",
        "a/b",
    ):
        for path in (
            f"actions/{name}",
            f"approve/{name}",
            f"review/{name}",
            f"runs/acme/{name}",
            f"runs/{name}/r1",
            f"sagas/acme/e/{name}",
            f"sagas/acme/{name}/order",
            f"sagas/{name}/e/order",
            f"static/{name}",
            f"passkeys/{name}",
        ):
            answer = http.get(f"/console/{path}")
            assert (answer.status_code, code_of(answer)) in {
                (404, "not_found"),
                (404, "link_over"),
            }, (path, answer.text)


def test_a_tenant_of_any_bytes_is_one_of_nothing(stage: Stage, knocking: Knocks) -> None:
    """Also for somebody who decides for every tenant: what cannot name one is not looked for."""
    http = knocking("carla").log_in().http
    for name in ("%00", "a%00", "%FF", "*", "a%2Fb", "a" * 4_000):
        answer = http.get(f"/console/waiting?tenant={name}")
        assert (answer.status_code, code_of(answer)) == (404, "not_found"), name
    assert http.get("/console/waiting?tenant=acme").status_code == 200
