from __future__ import annotations

from typing import Any

import pytest
from scavenger_cli.exits import ExitCode
from scavenger_cli.remedies import as_cli_error, invalid_fields, missing
from scavenger_kube.errors import ApiError, Unavailable, error_for_status

from .conftest import status

FORBIDDEN = (
    'scavengerjobs.scavenger.dev is forbidden: User "ada" cannot {verb} resource "{resource}" '
    'in API group "scavenger.dev" {where}'
)


def refusal(code: int, reason: str, message: str = "", **details: Any) -> ApiError:
    return error_for_status(status(code, reason, message, details=details))


@pytest.mark.parametrize(
    ("error", "message", "remedy", "code"),
    [
        (
            Unavailable(message="https://10.0.0.1:6443: Connection refused"),
            "cannot reach the API server: https://10.0.0.1:6443: Connection refused",
            "is the cluster running",
            ExitCode.ERROR,
        ),
        (
            refusal(
                403, "Forbidden", FORBIDDEN.format(verb="list", resource="scavengerjobs", where="at the cluster scope")
            ),
            "ada may not list scavengerjobs in the whole cluster",
            "name a namespace with -n",
            ExitCode.ERROR,
        ),
        (
            refusal(
                403,
                "Forbidden",
                FORBIDDEN.format(verb="create", resource="scavengerjobs", where='in the namespace "lab"'),
            ),
            "ada may not create scavengerjobs in namespace lab",
            "ClusterRole scavenger-jobs-edit there",
            ExitCode.ERROR,
        ),
        (
            refusal(403, "Forbidden", 'admission webhook "w" denied the request: queue night is closed'),
            'refused: admission webhook "w" denied the request: queue night is closed',
            "",
            ExitCode.ERROR,
        ),
        (
            refusal(404, "NotFound", name="lab", kind="namespaces"),
            "there is no namespace lab",
            "create",
            ExitCode.NOT_FOUND,
        ),
        (refusal(404, "NotFound", name="a", kind="pods"), "there is no pod a", "", ExitCode.NOT_FOUND),
        (
            refusal(404, "NotFound", "page not found"),
            "this cluster does not know ScavengerJobs",
            "helm",
            ExitCode.ERROR,
        ),
        (refusal(409, "AlreadyExists", name="a"), "a exists already", "another name", ExitCode.ERROR),
        (refusal(409, "Conflict", "modified"), "another client changed", "run the command again", ExitCode.ERROR),
        (refusal(429, "TooManyRequests", "slow down"), "answers slow down (429)", "in a moment", ExitCode.ERROR),
        (refusal(401, "Unauthorized"), "does not accept the credentials", "log in again", ExitCode.ERROR),
    ],
)
def test_every_refusal_is_a_sentence_with_a_remedy(error: ApiError, message: str, remedy: str, code: ExitCode) -> None:
    found = as_cli_error(error)
    assert message in found.message
    assert remedy in found.remedy
    assert found.code is code


def test_fields_in_the_words_of_their_rules() -> None:
    causes = [
        {"field": "spec.parallelism", "message": 'Invalid value: "0": must be 1 or more'},
        {"field": "spec.parallelism", "message": 'Invalid value: "0": must be 1 or more'},
        {"field": "<nil>", "message": "some validation rules were not checked because the object was invalid"},
        {"field": "", "message": "metadata.name: no dots"},
        {"field": "spec.queue", "message": "Forbidden: can change only while no pod of the job exists"},
    ]
    assert invalid_fields(refusal(422, "Invalid", "no", name="a", causes=causes)) == [
        "a is not valid:",
        "  spec.parallelism: must be 1 or more",
        "  the object: metadata.name: no dots",
        "  spec.queue: Forbidden: can change only while no pod of the job exists",
    ]


def test_unknown_fields() -> None:
    message = (
        'cannot be handled: strict decoding error: unknown field "spec.imag", unknown field "spec.foo", '
        'unknown field "spec.requests", unknown field "spec.resources.cpu"'
    )
    assert invalid_fields(refusal(400, "BadRequest", message), "a") == [
        "a is not valid:",
        "  unknown field spec.imag: did you mean image?",
        "  unknown field spec.foo; remove it",
        "  unknown field spec.requests; write resources.requests",
        "  unknown field spec.resources.cpu; write resources.requests.cpu",
    ]


def test_close_matches() -> None:
    found = missing("ScavengerJob", "simulatoin", ["simulation", "simulation-2", "other"])
    assert found.remedy == "did you mean simulation or simulation-2?"
    assert missing("ScavengerQueue", "x", ["night"]).remedy == "`kubectl sj queue list` shows what there is"
