"""The Compose file: valid by the specification's schema, and one watched service per process."""

import json
import re
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.settings import Settings
from reconciler.webhooks import is_usable_secret
from tests.tree import ROOT

SCHEMA = "tests/vendor/compose-spec/compose-spec.json"
SERVERS = {"kafka": "apache/kafka:4.4.0", "postgres": "postgres:18"}
# Processes of the ledger itself; each may be killed at any point and comes back.
PROCESSES = ("processor", "executor", "inquirer", "reconciler", "projector", "gateway")
OURS = ("setup", *PROCESSES, "simulated-provider")


@cache
def validator() -> jsonschema.Draft201909Validator:
    """Build the validator of Compose files once."""
    schema = json.loads((ROOT / SCHEMA).read_text(encoding="utf-8"))
    return jsonschema.Draft201909Validator(schema)


def compose() -> Any:  # noqa: ANN401 - as free as YAML is; the schema judges it
    """Read the Compose file with its anchors resolved."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def test_the_compose_file_is_valid() -> None:
    """Compose accepts the file as it is."""
    assert [error.message for error in validator().iter_errors(compose())] == []


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [
        ("kafka", "imagee", "apache/kafka"),
        ("gateway", "depends_on", {"kafka": {"condition": "service_ready"}}),
        ("gateway", "healthcheck", {"tests": ["CMD", "true"]}),
    ],
)
def test_the_schema_refuses_mistakes(service: str, key: str, value: object) -> None:
    """A misspelt key or an unknown condition would be found."""
    document = compose()
    document["services"][service][key] = value
    assert list(validator().iter_errors(document)) != []


def test_there_is_one_service_per_process() -> None:
    """The two servers, the one-time set-up, every process and the simulated world, no more."""
    services = compose()["services"]
    assert set(services) == {*SERVERS, *OURS}
    for name, image in SERVERS.items():
        assert services[name]["image"] == image
    for name in OURS:
        assert services[name]["build"] == "."
        assert services[name]["command"] == ["run", name]


@pytest.mark.parametrize("name", [*SERVERS, *PROCESSES, "simulated-provider"])
def test_every_service_is_watched_and_comes_back(name: str) -> None:
    """Whatever runs on has a health check with limits and is started again after it died."""
    service = compose()["services"][name]
    assert service["restart"] == "unless-stopped"
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])


@pytest.mark.parametrize("name", PROCESSES)
def test_processes_start_after_servers_and_set_up(name: str) -> None:
    """No process meets a broker without topics or a database without its schema."""
    waits = compose()["services"][name]["depends_on"]
    assert waits == {
        "kafka": {"condition": "service_healthy"},
        "postgres": {"condition": "service_healthy"},
        "setup": {"condition": "service_completed_successfully"},
    }


@pytest.mark.parametrize("name", ["setup", *PROCESSES])
def test_processes_know_their_servers(name: str) -> None:
    """Kafka and Postgres are given by environment, and every name carries our prefix."""
    environment = compose()["services"][name]["environment"]
    assert environment["ACTIONLEDGER_KAFKA"] == "kafka:9092"
    assert "@postgres:5432/actionledger" in environment["ACTIONLEDGER_DATABASE"]
    assert all(key.startswith("ACTIONLEDGER_") for key in environment)


@pytest.mark.parametrize("name", OURS)
def test_processes_take_their_environment_as_it_is(name: str) -> None:
    """Every variable is a setting and every value is one, so no process stops at its start."""
    document = compose()
    secrets = ROOT / _defaults(document["configs"]["webhook-secrets"]["file"])
    environment = {
        variable: _defaults(str(value))
        for variable, value in document["services"][name]["environment"].items()
    }
    # The container sees the file elsewhere.
    mounted = document["services"][name]["configs"][0]["target"]
    assert environment["ACTIONLEDGER_WEBHOOK_SECRETS_FILE"] == mounted
    environment["ACTIONLEDGER_WEBHOOK_SECRETS_FILE"] = str(secrets)
    settings = Settings.from_environment(environment)
    assert is_usable_secret(settings.webhook_secrets["simulated", "main"][0])


def _defaults(text: str) -> str:
    """The text as Compose fills it in where no variable is set."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


def test_the_simulated_world_stands_outside() -> None:
    """The provider has neither Kafka nor the database: it learns of actions by being called."""
    environment = compose()["services"]["simulated-provider"]["environment"]
    assert not {"ACTIONLEDGER_KAFKA", "ACTIONLEDGER_DATABASE"} & set(environment)


def test_nothing_listens_beyond_the_machine() -> None:
    """Ports are published on loopback: trial passwords must not meet a network."""
    for service in compose()["services"].values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_data_outlives_the_containers() -> None:
    """The log, the tables and the provider's book lie on named volumes."""
    document = compose()
    mounted = {
        volume.partition(":")[0]
        for service in document["services"].values()
        for volume in service.get("volumes", [])
    }
    assert mounted == set(document["volumes"])
