"""Builders, fake API server and virtual clock for the tests; never shipped."""

from scavenger_testing.builders import (
    adopted_job_dict,
    condition,
    configmap_dict,
    job,
    job_dict,
    node,
    node_dict,
    pod,
    pod_dict,
    running,
    scavengerjob_dict,
    terminated,
)
from scavenger_testing.clock import PATIENCE, VirtualClock, eventually, settle
from scavenger_testing.fake_api import FakeApi

__all__ = [
    "PATIENCE",
    "FakeApi",
    "VirtualClock",
    "adopted_job_dict",
    "condition",
    "configmap_dict",
    "eventually",
    "job",
    "job_dict",
    "node",
    "node_dict",
    "pod",
    "pod_dict",
    "running",
    "scavengerjob_dict",
    "settle",
    "terminated",
]
