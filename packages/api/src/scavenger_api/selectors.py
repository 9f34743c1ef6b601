"""metav1.LabelSelector, with the rules that the API server itself has for it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from scavenger_api.model import Model, cel, validations

MAX_REQUIREMENTS: Final = 16
MAX_KEY: Final = 253 + len("/") + 63

_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_DOMAIN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"

LabelValue = Annotated[str, Field(max_length=63, pattern=f"^({_NAME})?$")]


class LabelSelectorRequirement(Model):
    """A condition on one label."""

    key: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_KEY,
            json_schema_extra=validations(
                cel(
                    f"self.matches('^({_DOMAIN}/)?{_NAME}$')",
                    "write the key of a label: up to 63 letters, digits, '-', '_' and '.', with or without a domain "
                    "and a slash before it, as team or example.com/team",
                )
            ),
        ),
    ]
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In, NotIn: the label has one of the values, or none of them. Exists, DoesNotExist: whether there is the label."""
    values: Annotated[tuple[LabelValue, ...] | None, Field(max_length=64)] = None
    """Values of the label, with the operators In and NotIn."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "operators In and NotIn need at least one value, Exists and DoesNotExist take none; "
                "add values, or remove them",
                field_path=".values",
            )
        )
    )


class LabelSelector(Model):
    """Labels that something must have: all of matchLabels, and every condition of matchExpressions."""

    match_labels: Annotated[dict[str, LabelValue] | None, Field(max_length=MAX_REQUIREMENTS)] = None
    """Labels with exactly these values."""
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...] | None, Field(max_length=MAX_REQUIREMENTS)] = None
    """Conditions on labels, all of which must hold."""
