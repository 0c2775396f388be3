"""Dockerfile and docker-compose.yml, as far as they can be checked without a container runtime.

Every variable, verb, option, queue, module and folder that they name exists; images are pinned; each service that others
wait for says when it is healthy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pipeline.cli.app import build_app
from pipeline.curate import STAGES
from pipeline.settings import setting_names
from workers.schedule import QUEUES

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
VERBS: Any = typer.main.get_command(build_app())
OWN = {name for name, service in SERVICES.items() if "build" in service}
WORKERS = {name for name in OWN if (SERVICES[name].get("command") or [""])[0] == "worker"}
KEYS = {
    "build", "image", "profiles", "environment", "volumes", "command", "entrypoint", "depends_on", "restart", "ports",
    "healthcheck", "mem_limit", "network_mode", "stop_grace_period",
}  # fmt: skip
"""Keys of the compose specification that are used here; a misspelt one would be ignored in silence."""


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (str(key), *texts(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    else:
        yield str(value)


def test_only_known_keys() -> None:
    assert {key for service in SERVICES.values() for key in service} <= KEYS
    assert set(COMPOSE) == {"services", "volumes", "x-lamina", "x-fleet", "x-worker"}


def test_every_variable_is_a_setting() -> None:
    named = {name for service in OWN for name in SERVICES[service]["environment"]}
    assert {name.removeprefix("LAMINA_").lower() for name in named} <= set(setting_names())
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text("utf-8")))
    assert used == {"LAMINA_SOURCES", "LAMINA_PASSWORD"}


@pytest.mark.parametrize("name", sorted(name for name in OWN if SERVICES[name].get("command")))
def test_every_command_is_one_of_ours(name: str) -> None:
    """Its verb and options exist and take what is given."""
    verb, *options = map(str, SERVICES[name]["command"])
    with VERBS.commands[verb].make_context(verb, options, obj=None) as parsed:
        assert parsed.params


def test_every_queue_is_served_and_exactly_one_worker_keeps_the_schedule() -> None:
    commands = [SERVICES[name]["command"] for name in WORKERS]
    served = {queue for command in commands for queue in command[command.index("--queues") + 1].split(",")}
    assert served == set(QUEUES)
    assert {stage.waits for stage in STAGES} <= served
    assert sum("--beat" in command for command in commands) == 1


def test_images_are_pinned() -> None:
    for name, service in SERVICES.items():
        image = service.get("image")
        assert (image is None) == (name in OWN)
        if image is not None:
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*", image), image
    assert re.search(r"^FROM python:3\.\d+-slim$", DOCKERFILE, re.MULTILINE)


def test_whoever_is_waited_for_says_when_it_is_healthy() -> None:
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert SERVICES[other]["healthcheck"]["test"]
            assert set(service["profiles"]) == set(SERVICES[other]["profiles"])


def test_addresses_name_services_and_volumes_are_declared() -> None:
    hosts = {
        host
        for text in texts(SERVICES)
        for host in re.findall(r"@(\w+):\d+|http://(\w+):\d+/?$", text)
        for host in host
    }
    assert {host for host in hosts if host and not host[0].isdigit()} <= set(SERVICES)
    used = {str(v).partition(":")[0] for service in SERVICES.values() for v in service.get("volumes", ())}
    assert {name for name in used if "/" not in name and "$" not in name} == set(COMPOSE["volumes"])


def test_nothing_is_open_to_other_machines() -> None:
    for service in SERVICES.values():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_image_holds_every_package() -> None:
    copied = set(re.findall(r"^COPY (\w+) \./\1$", DOCKERFILE, re.MULTILINE))
    assert copied == {"pipeline", "manifests", "workers"}
    assert all((ROOT / name / "__init__.py").is_file() for name in copied)
    assert 'ENTRYPOINT ["lamina"]' in DOCKERFILE
    assert "USER lamina" in DOCKERFILE
