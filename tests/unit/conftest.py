from __future__ import annotations

from tests.unit.effort import register_profiles

register_profiles()
