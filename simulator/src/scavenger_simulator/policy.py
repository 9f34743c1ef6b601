"""The policies that are compared: how it is decided who goes, and when. Names, no decisions."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """How a run decides. All but `plain`, `none` and `oracle` admit alike; see docs/simulator.md."""

    OURS = "ours"
    """As the services do, with the settings as they are."""
    YIELD = "yield"
    """Ours, yielding at the checkpoint."""
    NO_YIELD = "no-yield"
    """Ours, without yielding at the checkpoint."""
    CLUSTER_WIDE = "cluster-wide"
    """Ours, with levels of the cluster alone."""
    PER_NODE = "per-node"
    """Ours, with levels for each node as well."""
    FIXED = "fixed-70-80-85"
    """Ours, with the levels that hold before there is a history."""
    LINEAR = "linear"
    """Ours, with fixed levels and a straight line for the percentage."""
    YOUNGEST = "youngest"
    """No prioritizer: whoever started last goes first, as with kube-scheduler and Slurm."""
    NEWEST_ADMISSION = "newest-admission"
    """No prioritizer: whoever was admitted last goes first, as with Kueue."""
    RANDOM = "random"
    """No prioritizer: whoever the dice say."""
    PLAIN = "plain"
    """None of our services: Jobs of a low PriorityClass, and kube-scheduler as it comes."""
    NONE = "none"
    """No scavenging."""
    ORACLE = "oracle"
    """Knows the future: no policy does more without delaying ordinary pods (`oracle`)."""
