"""The description of the HTTP door is the one that is committed, and says everything."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.http.app import bare_app
from gateway.http.bodies import ProposeBody

COMMITTED = Path("docs/openapi.json")


@pytest.fixture
def document() -> dict[str, Any]:
    """Describe the app as it is now."""
    return bare_app().openapi()


def test_the_committed_description_is_the_current_one(document: dict[str, Any]) -> None:
    """Make it again with `python -m gateway.http.openapi > docs/openapi.json`."""
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == document


def test_every_operation_is_named_and_summed_up(document: dict[str, Any]) -> None:
    """Generated clients get names that people would choose."""
    names = {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if operation["summary"] and operation["tags"]
    }
    assert names == {
        "propose",
        "getAction",
        "getTimeline",
        "cancel",
        "askAgain",
        "listReviews",
        "getReview",
        "listOrphans",
        "getOrphan",
        "noteOrphan",
        "reportOutcome",
        "reportStep",
        "getRun",
        "listRuns",
        "listCeilings",
        "openSaga",
        "getSaga",
        "cancelSaga",
        "listSagas",
        "getBatch",
        "decide",
        "listApprovals",
        "getApproval",
        "receiveWebhook",
        "isAlive",
        "isReady",
        "getMetrics",
    }


def test_every_reference_in_it_leads_somewhere(document: dict[str, Any]) -> None:
    """Schemas of bodies that the routes read by themselves are there too."""
    schemas = document["components"]["schemas"]

    def check(value: object) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref")
            if reference is not None:
                assert reference.removeprefix("#/components/schemas/") in schemas
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(document)
    assert {"ProposeBody", "CancelBody", "ActionView", "Problem", "TimelineView"} <= set(schemas)
    assert "HTTPValidationError" not in schemas


def test_the_example_of_an_intent_is_valid(document: dict[str, Any]) -> None:
    """Whoever copies it gets an action."""
    schema = document["components"]["schemas"]["ProposeBody"]
    (example,) = schema["examples"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
        example
    )
    assert ProposeBody.model_validate(example).operation == "charge"


def test_who_may_ask_is_said_of_every_operation(document: dict[str, Any]) -> None:
    """Everything about actions asks for a bearer, what people look at for a log-in of theirs; what
    they sign, webhooks and operations need neither.
    """
    assert document["security"] == [{"apiKey": []}]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            security = operation.get("security", document["security"])
            for_agents = ("/v1/actions", "/v1/runs", "/v1/ceilings", "/v1/sagas", "/v1/batches")
            assert ({"apiKey": []} in security) is path.startswith(for_agents)
            own = ("/v1/approvals", "/v1/reviews", "/v1/orphans")
            for_people = path.startswith(own) or path.endswith("/ask")
            assert ({"login": []} in security) is for_people
