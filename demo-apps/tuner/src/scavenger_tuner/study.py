"""Study files: YAML that stands for many configurations, every combination of its lists."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from scavenger_tuner.core.trial import Configuration

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]


class StudyError(ValueError):
    """A study file that cannot be read; the message names the field."""


class Study(BaseModel):
    """What a study file says. temperatures: kelvin. time_step: femtoseconds. steps: of each configuration."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    study: Name
    models: Annotated[tuple[Name, ...], Field(min_length=1)]
    molecules: Annotated[int, Field(ge=1, le=10_000_000)]
    temperatures: Annotated[tuple[Annotated[float, Field(gt=0, le=2000)], ...], Field(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...], Field(min_length=1)]
    steps: Annotated[int, Field(ge=1, le=10**12)]
    time_step: Annotated[float, Field(gt=0, le=10)] = 2.0

    @classmethod
    def read(cls, path: Path) -> Self:
        """The study in a file. Raises StudyError, OSError."""
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise StudyError(f"{path}: {explain(error)}") from error

    def configurations(self) -> list[Configuration]:
        """Every combination, the seeds last: all models and temperatures have a result as soon as can be."""
        return [
            Configuration(model, self.molecules, temperature, seed, self.steps, self.time_step)
            for seed, model, temperature in product(self.seeds, self.models, self.temperatures)
        ]


def explain(error: Exception) -> str:
    """What is wrong, in a line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    return " ".join(str(error).split())
