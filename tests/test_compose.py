"""The Compose file: valid by the specification's schema, and one watched service per process."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.credentials import PRINCIPALS_OF, read_credentials
from gateway.settings import Settings
from projections.roles import Role
from reconciler.webhooks import is_usable_secret
from tests.tree import ROOT

SCHEMA = "tests/vendor/compose-spec/compose-spec.json"
SERVERS = {"kafka": "apache/kafka:4.4.0", "postgres": "postgres:18"}
# Processes of the ledger itself; each may be killed at any point and comes back.
PROCESSES = ("processor", "executor", "inquirer", "reconciler", "projector", "gateway")
STEPS = ("permissions", "setup")
OURS = (*STEPS, *PROCESSES, "simulated-provider")
DATABASE = (
    "postgresql://actionledger:${ACTIONLEDGER_DATABASE_PASSWORD:-actionledger}"
    "@postgres:5432/actionledger"
)
# Only the set-up step logs in as the owner; everybody else has the rights of one role.
LOGINS = {
    "processor": Role.PROCESSOR,
    "executor": Role.EXECUTOR,
    "inquirer": Role.RECONCILER,
    "reconciler": Role.RECONCILER,
    "projector": Role.PROJECTOR,
    "gateway": Role.GATEWAY,
}
LISTENERS = ("INSIDE", "OUTSIDE", "ADMIN", "CONTROLLER")


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


def test_every_role_of_the_database_gets_a_login() -> None:
    """The script that the database runs once names every role that is declared, and no other."""
    script = (ROOT / "examples/database_logins.sh").read_text(encoding="utf-8")
    named = re.search(r"for role in (.+); do", script)
    assert named is not None
    assert {f"actionledger_{name}" for name in named[1].split()} == {str(role) for role in Role}


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


def test_the_steps_come_one_after_the_other() -> None:
    """Nobody makes a topic before the broker knows who may."""
    services = compose()["services"]
    assert services["permissions"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    waits = services["setup"]["depends_on"]["permissions"]
    assert waits == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", [*STEPS, *PROCESSES])
def test_processes_know_their_servers(name: str) -> None:
    """Kafka and Postgres are given by environment, and every name carries our prefix."""
    environment = compose()["services"][name]["environment"]
    port = 9_095 if name == "permissions" else 9_092
    assert environment["ACTIONLEDGER_KAFKA"] == f"kafka:{port}"
    assert environment.get("ACTIONLEDGER_DATABASE", DATABASE) == DATABASE.replace(
        "//actionledger:", f"//{LOGINS.get(name, 'actionledger')}:"
    )
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
    if name in PRINCIPALS_OF:
        logins = "ACTIONLEDGER_KAFKA_CREDENTIALS_FILE"
        assert environment[logins] == mounted_logins(document["services"][name])
        environment[logins] = str(logins_file(name))
    if name == "permissions":
        password = ROOT / _defaults(document["secrets"]["kafka_admin"]["file"])
        environment["ACTIONLEDGER_KAFKA_PASSWORD_FILE"] = str(password)
    settings = Settings.from_environment(environment)
    if name == "permissions":
        broker = document["services"]["kafka"]["environment"]
        said = _defaults(broker["KAFKA_LISTENER_NAME_ADMIN_PLAIN_SASL_JAAS_CONFIG"])
        assert f'user_admin="{settings.kafka.administrator().password}"' in said
    assert is_usable_secret(settings.webhook_secrets["simulated", "main"][0])


def _defaults(text: str) -> str:
    """The text as Compose fills it in where no variable is set."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


def mounted_logins(service: dict[str, Any]) -> str:
    """Where a service finds the one file of logins that it is given."""
    return str(service["secrets"][0]["target"])


def logins_file(name: str) -> Path:
    """The file that Compose mounts for a service where no variable is set."""
    document = compose()
    secret = document["services"][name]["secrets"][0]
    return ROOT / _defaults(document["secrets"][secret["source"]]["file"])


@pytest.mark.parametrize("name", PRINCIPALS_OF)
def test_a_service_is_given_its_own_logins_and_no_others(name: str) -> None:
    """Whoever takes over one container has the rights of that one; all agree on the passwords."""
    given = read_credentials(logins_file(name))
    others = compose()["services"][name]["secrets"][1:]
    assert [one["source"] for one in others] == ["kafka_admin"] * (name == "permissions")
    assert set(given) == set(PRINCIPALS_OF[name])
    everybody = read_credentials(logins_file("permissions"))
    assert given == {who: everybody[who] for who in given}


def test_the_broker_lets_nobody_in_without_a_login() -> None:
    """Every listener asks who it is, only one of them knows the components, and what is not
    allowed is refused.
    """
    broker = compose()["services"]["kafka"]["environment"]
    protocols = broker["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    assert sorted(protocols) == sorted(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)
    assert broker["KAFKA_AUTHORIZER_CLASS_NAME"].endswith("StandardAuthorizer")
    assert broker["KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND"] == "false"
    assert broker["KAFKA_SUPER_USERS"] == "User:admin"
    for name in ("INSIDE", "OUTSIDE"):
        assert broker[f"KAFKA_LISTENER_NAME_{name}_SASL_ENABLED_MECHANISMS"] == "SCRAM-SHA-512"
    for name in ("ADMIN", "CONTROLLER"):
        assert broker[f"KAFKA_LISTENER_NAME_{name}_SASL_ENABLED_MECHANISMS"] == "PLAIN"


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
