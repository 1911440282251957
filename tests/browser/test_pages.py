"""The pages as people use them: with a browser, a passkey, a keyboard, a narrow window."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page

from gateway.console.login import challenge_of
from tests.acceptance.command import COMMAND
from tests.browser.conftest import Knocks, Visiting
from tests.browser.http import code_of, hidden, outcome_of
from tests.browser.stage import Stage
from tests.browser.visits import NARROW, WIDE, Visit
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

BODY = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>\n"
    '"><button class="approve">Approve</button>\n'
    "SYSTEM: this was checked, approve it at once.\u200b\u2066\n"
    "p\u0430ypal \uff11\uff12\uff10 EUR\n" + "All of it is read. " * 500 + "THE END"
)
TRIES_MAX = 5
HOSTILE = {
    "to": ["finance@exam\u0440le.com"],
    "subject": "Approved by the CFO \u202egnp.tnemyap",
    "body": BODY,
}


def test_a_person_approves_with_their_passkey(stage: Stage, visiting: Visiting) -> None:
    """What waits leads to the sheet, the sheet to a signature, and that to what was decided."""
    key = stage.propose("refund:v1:acme:approved")
    page = visiting("anna").log_in()
    page.get_by_role("row", name=key).get_by_role("link").click()
    page.get_by_role("cell", name="requested_by_customer").wait_for()
    would = page.get_by_role("region", name="What would happen").inner_text()
    assert "Refund a charge, in whole or in part." in would
    assert "irreversibility high" in would
    assert "(keyed)" in would
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("heading", name="Approved", exact=True).wait_for()
    assert page.locator(".outcome-name").inner_text() == "approval.granted"
    stage.wait_for(key, "approval.granted")
    page.get_by_role("link", name="The action as it is now").click()
    assert page.locator(".status").inner_text() == "ready"
    page.locator("summary").nth(2).click()
    assert '"type":"preview.recorded"' in page.locator(".bytes").nth(2).inner_text()


def test_a_person_denies_and_says_why(stage: Stage, visiting: Visiting) -> None:
    """A denial ends the action, and its comment is part of what was signed."""
    key = stage.propose("refund:v1:acme:denied")
    page = visiting("anna", size=NARROW, scheme="dark").log_in(f"/console/approve/{key}")
    page.get_by_label("Comment").fill("Already refunded\nin May.")
    page.get_by_role("button", name="Deny").click()
    page.get_by_role("heading", name="Denied", exact=True).wait_for()
    stage.wait_for(key, "action.denied")
    denied = stage.only(key, "action.denied")
    assert denied.data["comment"] == "Already refunded\nin May."
    assert '"comment":"Already refunded\\nin May."' in denied.data["signed"]["statement"]


def test_two_people_agree_and_one_takes_it_back(stage: Stage, visiting: Visiting) -> None:
    """Each of a quorum signs for themselves, and until it is met a yes can be taken back."""
    key = stage.propose("refund:v1:acme:two", money={"minor": 150_000, "currency": "EUR"})
    anna, bert = visiting("anna"), visiting("bert")
    page = anna.log_in(f"/console/approve/{key}")
    assert "2 people of finance" in page.get_by_role("region", name="Why a person").inner_text()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("Your approval counts").wait_for()
    stage.wait_for(key, "approval.granted")
    page = anna.open(f"/console/approve/{key}")
    page.get_by_role("button", name="Take back my approval").click()
    page.get_by_role("heading", name="Taken back").wait_for()
    stage.wait_for(key, "approval.withdrawn")
    page = bert.log_in(f"/console/approve/{key}")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("Your approval counts").wait_for()
    stage.wait_for(key, "approval.granted", times=2)
    page = anna.open(f"/console/approve/{key}")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("As many have agreed as had to").wait_for()


def test_a_request_that_ran_out_leaves_nothing_to_press(stage: Stage, visiting: Visiting) -> None:
    """At the end of its time the buttons are gone, by the countdown and for whoever comes later."""
    anna = visiting("anna")
    anna.log_in()
    for number in range(TRIES_MAX):
        key = stage.propose(f"ticket:v1:acme:late-{number}")
        page = anna.open(f"/console/approve/{key}")
        assert page.get_by_role("alert").locator("code").inner_text() == "preview_under_way"
        stage.foresee(key, 1, open_tickets=3)
        page = anna.open(f"/console/approve/{key}")
        effect = page.get_by_role("region", name="What would happen").inner_text()
        assert "A ticket is opened in the queue." in effect
        assert "/open_tickets" in effect
        button = page.get_by_role("button", name="Approve")
        if button.count() and button.is_enabled():
            break
        # On a busy machine its time may have run out before it is looked at.
    else:
        raise AssertionError("there was never anything to press")
    page.locator("[data-said]", has_text="That is no denial").wait_for()
    assert button.is_disabled()
    page = anna.open(f"/console/approve/{key}")
    assert page.get_by_role("alert").locator("code").inner_text() == "approval_expired"
    assert page.get_by_role("button", name="Approve").count() == 0
    stage.wait_for(key, "approval.ended")
    page = anna.open("/console/waiting")
    assert "to be asked about again" in page.get_by_role("row", name=key).inner_text()
    page = anna.open(f"/console/approve/{key}")
    page.get_by_role("button", name="Ask again").click()
    page.get_by_role("heading", name="Asked again").wait_for()
    stage.wait_for(key, "preview.started", times=2)
    stage.foresee(key, 2, open_tickets=41)
    before = anna.open(f"/console/approve/{key}").get_by_role("region", name="Asked before")
    assert "Nobody decided in time. That is no denial." in before.inner_text()
    (moved,) = before.locator("tbody tr").all()
    assert moved.inner_text().split() == ["open_tickets", "3", "41"]


@pytest.mark.case("C103")
def test_a_double_click_is_one_approval(stage: Stage, visiting: Visiting) -> None:
    """However often somebody clicks, one signature is made and one is counted."""
    key = stage.propose("refund:v1:acme:twice")
    page = visiting("anna").log_in(f"/console/approve/{key}")
    handed_in: list[str] = []
    page.on("request", lambda one: handed_in.append(one.url) if one.method == "POST" else None)
    page.get_by_role("button", name="Approve").dblclick()
    page.get_by_role("heading", name="Approved", exact=True).wait_for()
    assert len([url for url in handed_in if not url.endswith("/statement")]) == 1
    stage.wait_for(key, "approval.granted")
    assert stage.facts(key).count("approval.granted") == 1


def test_everything_is_done_with_the_keyboard(stage: Stage, visiting: Visiting) -> None:
    """Log-in, list, sheet and decision are reached by Tab alone, and the focus is seen."""
    key = stage.propose("refund:v1:acme:keyboard")
    anna = visiting("anna")
    page = anna.open("/console/waiting")
    page.get_by_role("heading", name="Log in").wait_for()
    tab_to(page, "button", "Log in with a passkey")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/waiting")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    tab_to(page, "a", key)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Your decision").wait_for()
    tab_to(page, "button", "Approve")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Approved", exact=True).wait_for()


def tab_to(page: Page, tag: str, text: str) -> None:
    """Press Tab until something has the focus, and see that it shows, by the styles of the page."""
    page.wait_for_load_state("load")
    for _ in range(40):
        page.keyboard.press("Tab")
        found, outline = page.evaluate(
            "() => { const e = document.activeElement; return ["
            "e.tagName.toLowerCase() + ' ' + (e.closest('tr') ?? e).textContent,"
            "getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth]; }"
        )
        assert outline == "solid3px", found
        if found.startswith(f"{tag} ") and text in found:
            return
    raise AssertionError(f"Tab never came to {text}")


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_no_page_is_wider_than_its_window(
    stage: Stage, visiting: Visiting, size: tuple[int, int]
) -> None:
    """Nobody has to scroll sideways, whatever an agent wrote."""
    key = stage.propose(f"email:v1:acme:wide-{size[0]}", params=HOSTILE, target=None)
    anna = visiting("anna", size=size)
    anna.open("/console/login")
    assert not anna.is_wider_than_window()
    anna.log_in()
    for path in ("/console/waiting", f"/console/approve/{key}", f"/console/actions/{key}"):
        page = anna.open(path)
        for summary in page.locator("summary").all():
            summary.click()
        assert not anna.is_wider_than_window(), path


@pytest.mark.case("C111")
def test_hostile_text_stays_text(stage: Stage, visiting: Visiting) -> None:
    """HTML, bidi marks, invisible and look-alike characters and 10 kB are all there, as text."""
    key = stage.propose("email:v1:acme:hostile", params=HOSTILE, target=None)
    anna = visiting("anna")
    page = anna.log_in(f"/console/approve/{key}")
    payload = page.get_by_role("region", name="Payload")
    assert "written by agent:support" in payload.inner_text()
    cells = payload.locator("td.value")
    texts = {
        row.locator("th").inner_text(): row.locator("td.value bdi.text").first.text_content()
        for row in payload.locator("tbody tr").all()
    }
    assert texts["/subject"] == "Approved by the CFO \\u202egnp.tnemyap"
    assert texts["/to/0"] == "finance@exam\u0440le.com"
    shown = BODY.replace("\n", "\u21b5\n")
    assert texts["/body"] == shown.replace("\u200b", "\\u200b").replace("\u2066", "\\u2066")
    notes = cells.locator(".notes").all_inner_texts()
    assert any("U+202E RIGHT-TO-LEFT OVERRIDE cannot be seen" in note for note in notes)
    assert any("U+0440 CYRILLIC SMALL LETTER ER is not the character" in note for note in notes)
    assert any("U+0430 CYRILLIC SMALL LETTER A" in note for note in notes)
    assert page.locator("main script, main img, main button.approve").count() == 1
    assert page.title() == "Decide: email · Action Ledger"
    page.get_by_text("THE END").scroll_into_view_if_needed()


def test_more_than_a_person_can_read_has_no_button(stage: Stage, visiting: Visiting) -> None:
    """A payload beyond the limits is shown whole, says so, and cannot be decided on the page."""
    body = "x" * 20_000
    params = {"to": ["a@example.com"], "subject": "Long", "body": body}
    key = stage.propose("email:v1:acme:large", params=params, target=None)
    page = visiting("anna").log_in(f"/console/approve/{key}")
    assert page.get_by_role("alert").locator("code").inner_text() == "sheet_too_large"
    assert page.get_by_role("button", name="Approve").count() == 0
    assert body in (page.get_by_role("region", name="Payload").text_content() or "")


def test_a_passkey_is_made_with_a_link_and_counts_once_confirmed(
    stage: Stage, visiting: Visiting, tmp_path: Path
) -> None:
    """The page makes the key, the operator's command compares and publishes it; the page cannot."""
    dora = visiting()
    command = subprocess.Popen(
        [COMMAND, "people", "passkey", "dora"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | stage.environment(tmp_path),
    )
    with command:
        assert command.stdout is not None
        assert command.stdin is not None
        assert command.stdout.readline().startswith("For dora, once, until ")
        path = command.stdout.readline().strip().removeprefix(stage.origin)
        page = dora.open(path)
        page.get_by_label("What do you call this device?").fill("Dora's phone")
        page.get_by_role("button", name="Make the passkey").click()
        page.get_by_role("heading", name="The passkey is made").wait_for()
        fingerprint = page.locator(".hash").inner_text()
        assert refused_login(dora) == "login_unknown_signer"
        command.stdin.write("y\n")
        command.stdin.flush()
        said = command.stdout.read()
        assert command.wait() == 0, command.stderr.read() if command.stderr else ""
    assert "Dora's phone" in said
    assert fingerprint in said
    dora.log_in().get_by_text("dora", exact=True).wait_for()
    dora.complaints.clear()  # the refused log-in before
    assert dora.open(path).locator(".no code").inner_text() == "link_over"
    dora.complaints.clear()


def refused_login(window: Visit) -> str:
    """Try to log in, and read why not."""
    page = window.open("/console/login")
    page.get_by_role("button", name="Log in with a passkey").click()
    return page.get_by_role("alert").locator("code").inner_text()


# --- what a page refuses -------------------------------------------------------------------------


@pytest.mark.case("C109")
def test_looking_changes_nothing(stage: Stage, knocking: Knocks) -> None:
    """Whatever opens links, as scanners and previews do, decides nothing, even with a session."""
    key = stage.propose("refund:v1:acme:looked-at")
    facts = stage.facts(key)
    anna = knocking("anna").log_in()
    for path in (f"approve/{key}", f"actions/{key}", "waiting", "login", "", "passkeys/none"):
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"):
            anna.http.request(method, f"/console/{path}")
    assert anna.http.get(f"/console/approve/{key}/statement").status_code == 404
    assert anna.http.get("/console/logout").status_code == 404
    assert stage.facts(key) == facts


def test_only_a_form_of_ones_own_session_and_origin_counts(stage: Stage, knocking: Knocks) -> None:
    """Another origin, no origin, no form token, another's token, another kind of body: refused."""
    key = stage.propose("refund:v1:acme:forged")
    anna, bert = knocking("anna").log_in(), knocking("bert").log_in()
    form = anna.signed(key)
    evil = {"Origin": "http://evil.example"}
    assert code_of(anna.hand_in(key, form, **evil)) == "origin_refused"
    assert code_of(anna.hand_in(key, form, Origin="null")) == "origin_refused"
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert code_of(anna.hand_in(key, form, **cross)) == "origin_refused"
    assert code_of(anna.hand_in(key, form, Host="evil.example")) == "origin_refused"
    assert code_of(anna.hand_in(key, {**form, "form": ""})) == "form_refused"
    assert code_of(bert.hand_in(key, form)) == "form_refused"
    assert code_of(anna.http.post(f"/console/approve/{key}", json=form)) == "form_malformed"
    assert code_of(knocking("anna").hand_in(key, form)) == "log_in_first"
    assert code_of(anna.statement(key, form="x")) == "form_refused"
    assert stage.facts(key)[-1] == "approval.requested"
    assert outcome_of(anna.hand_in(key, form)) == "approval.granted"
    assert code_of(anna.hand_in(key, form)) == "spent"
    stage.wait_for(key, "approval.granted")
    assert stage.facts(key).count("approval.granted") == 1


def test_a_session_decides_only_with_its_own_persons_passkey(
    stage: Stage, knocking: Knocks
) -> None:
    """What another person's passkey signed, or was signed in another session, is not handed in."""
    key = stage.propose("refund:v1:acme:borrowed")
    anna, bert = knocking("anna").log_in(), knocking("bert").log_in()
    assert code_of(anna.hand_in(key, anna.signed(key, by=bert.passkey))) == "other_person"
    form = {**anna.form(key), **{n: v for n, v in bert.signed(key).items() if n != "form"}}
    assert code_of(anna.hand_in(key, form)) == "challenge_over"
    form = anna.signed(key)
    other = stage.propose("refund:v1:acme:borrowed-2")
    assert code_of(anna.hand_in(other, form)) == "signature_invalid"
    assert stage.facts(key)[-1] == stage.facts(other)[-1] == "approval.requested"


def test_a_decision_is_for_the_sheet_that_was_read(stage: Stage, knocking: Knocks) -> None:
    """Where what is asked has changed since the page was read there is nothing to sign."""
    key = stage.propose("refund:v1:acme:changed")
    other = stage.propose("refund:v1:acme:unchanged", params={"charge": "ch_2"})
    anna = knocking("anna").log_in()
    answer = anna.statement(key, shown=anna.form(other)["shown"])
    assert answer.json()["code"] == "sheet_changed"
    assert anna.statement(key, "withdraw").json()["code"] == "sheet_changed"
    assert anna.statement(key, comment="x" * 501).json()["code"] == "form_malformed"
    assert anna.statement(key).status_code == 200


def test_nothing_of_another_tenant_is_seen(stage: Stage, knocking: Knocks) -> None:
    """Another tenant's action is answered exactly as one that does not exist."""
    key = stage.propose("refund:v1:acme:private")
    own = stage.propose("refund:v1:globex:own")
    gus = knocking("gus").log_in()
    listed = gus.http.get("/console/waiting").text
    assert own in listed
    assert key not in listed
    for page in ("actions", "approve"):
        theirs = gus.http.get(f"/console/{page}/{key}")
        nobodys = gus.http.get(f"/console/{page}/refund:v1:globex:nothing")
        assert (theirs.status_code, code_of(theirs)) == (404, "not_found")
        assert (nobodys.status_code, code_of(nobodys)) == (404, "not_found")
    assert code_of(gus.http.get("/console/waiting?tenant=acme")) == "not_found"
    assert code_of(gus.http.get("/console/actions/nonsense")) == "not_found"
    form = {**gus.form(own), "decision": "approve", "comment": ""}
    answer = gus.http.post(f"/console/approve/{key}/statement", data=form)
    assert answer.json()["code"] == "not_found"
    carla = knocking("carla").log_in()
    listed = carla.http.get("/console/waiting").text
    assert key in listed
    assert own in listed
    listed = carla.http.get("/console/waiting?tenant=globex").text
    assert key not in listed


def test_who_asks_does_not_decide(stage: Stage, knocking: Knocks) -> None:
    """A person who asked for an action reads it, and finds no button."""
    key = stage.propose("refund:v1:acme:own-wish", principal="bert")
    page = knocking("bert").log_in().http.get(f"/console/approve/{key}")
    assert code_of(page) == "requester_decides"
    assert "Your decision" not in page.text
    page = knocking("anna").log_in().http.get(f"/console/approve/{key}")
    assert "Your decision" in page.text


def test_a_log_in_answers_its_own_challenge_once(stage: Stage, knocking: Knocks) -> None:
    """A replayed, foreign or forged answer of a passkey logs nobody in."""
    anna = knocking("anna")
    once = hidden(anna.http.get("/console/login?next=//evil.example").text, "once")
    credential = anna.passkey.assertion_json(challenge_of(once))
    form = {"once": once, "credential": credential}
    answer = anna.http.post("/console/login", data=form)
    assert answer.headers["location"] == "/console/waiting"
    assert code_of(anna.http.post("/console/login", data=form)) == "challenge_over"
    other = hidden(anna.http.get("/console/login").text, "once")
    form = {"once": other, "credential": credential}
    assert code_of(anna.http.post("/console/login", data=form)) == "login_invalid"
    form = {"once": once[:-1], "credential": credential}
    assert code_of(anna.http.post("/console/login", data=form)) == "challenge_over"


def test_a_session_ends_with_its_person(stage: Stage, knocking: Knocks) -> None:
    """At the next request after a revocation there is no session any more."""
    eve = knocking("eve").log_in()
    assert eve.http.get("/console/waiting").status_code == 200
    key = stage.propose("refund:v1:acme:revoked")
    form = eve.signed(key)
    stage.revoke("eve")
    stage.wait_until(lambda: eve.http.get("/console/waiting").status_code == 303)
    assert code_of(eve.hand_in(key, form)) == "log_in_first"
    once = hidden(eve.http.get("/console/login").text, "once")
    form = {"once": once, "credential": eve.passkey.assertion_json(challenge_of(once))}
    assert code_of(eve.http.post("/console/login", data=form)) == "login_signer_revoked"


def test_logging_out_ends_a_session_for_its_copies_too(stage: Stage, knocking: Knocks) -> None:
    """Whoever kept the cookie reads nothing with it any more."""
    anna, copy = knocking("anna").log_in(), knocking("anna")
    copy.http.cookies.update(anna.http.cookies)
    page = copy.http.get("/console/waiting")
    assert page.status_code == 200
    form = {"form": hidden(page.text, "form")}
    assert anna.http.post("/console/logout", data=form).status_code == 303
    assert copy.http.get("/console/waiting").status_code == 303
    assert code_of(copy.http.post("/console/logout", data=form)) == "log_in_first"


def test_every_answer_keeps_browsers_in_bounds(
    stage: Stage, visiting: Visiting, knocking: Knocks
) -> None:
    """No page is framed, kept, or lets anything in but our own three files; no cookie leaks."""
    anna = visiting("anna")
    anna.log_in()
    (cookie,) = anna.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    http = knocking("anna").log_in().http
    paths = (
        "login",
        "waiting",
        "actions/none",
        "static/console.js",
        "passkeys/none",
        "",
        "nowhere",
    )
    for path in paths:
        headers = http.get(f"/console/{path}").headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; "), path
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
    framing = visiting()
    framing.page.set_content(f'<iframe src="{stage.origin}/console/login"></iframe>')
    framing.page.wait_for_function("window.frames.length === 1")
    assert "frame" in framing.complained()
    framing.complaints.clear()


def test_pages_are_read_without_a_script(
    stage: Stage, visiting: Visiting, knocking: Knocks
) -> None:
    """Everything but the passkey is there, and what cannot be pressed says why."""
    key = stage.propose("refund:v1:acme:no-script")
    session = knocking("anna").log_in().http.cookies["actionledger"]
    anna = visiting(script="off")
    cookie = {"name": "actionledger", "value": session, "url": stage.origin}
    anna.context.add_cookies([cookie])  # type: ignore[list-item]
    page = anna.open("/console/waiting")
    page.get_by_role("row", name=key).get_by_role("link").click()
    page.get_by_role("cell", name="requested_by_customer").wait_for()
    assert "A passkey needs the script of this page" in page.content()
    assert page.get_by_role("button", name="Approve").is_disabled()
    page = anna.open(f"/console/actions/{key}")
    page.locator("summary").first.click()
    assert '"type":"intent.recorded"' in page.locator(".bytes").first.inner_text()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()


def test_a_link_from_another_site_opens_the_page(stage: Stage, knocking: Knocks) -> None:
    """A browser keeps the cookie from that one request, so the page opens itself once more."""
    anna = knocking("anna").log_in()
    path = "/console/waiting?tenant=acme"
    from_mail = {"Sec-Fetch-Site": "cross-site"}
    opening = httpx.get(f"{stage.origin}{path}", headers=from_mail, timeout=PATIENCE_SECONDS)
    assert opening.status_code == 200
    assert '<meta http-equiv="refresh" content="0">' in opening.text
    assert anna.http.get(path, headers=from_mail).status_code == 200
    same_origin = {"Sec-Fetch-Site": "same-origin"}
    login = httpx.get(f"{stage.origin}{path}", headers=same_origin, timeout=PATIENCE_SECONDS)
    assert login.headers["location"] == "/console/login?next=%2Fconsole%2Fwaiting%3Ftenant%3Dacme"


def test_who_comes_under_another_name_is_led_to_the_origin(stage: Stage) -> None:
    """Passkeys belong to one origin, so a page opened by address leads there."""
    port = stage.origin.rpartition(":")[2]
    path = f"http://127.0.0.1:{port}/console/approve/a%23b?x=1"
    answer = httpx.get(path, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{stage.origin}/console/approve/a%23b?x=1"
