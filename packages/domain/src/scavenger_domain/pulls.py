"""Images that a kubelet cannot have (kubelet/images/types.go)."""

from __future__ import annotations

from typing import Final

UNPULLED: Final = frozenset(("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"))
"""Reasons of a waiting container whose image was tried for and not had; the kubelet goes on trying."""

NO_IMAGE: Final = UNPULLED | {"InvalidImageName", "ImageInspectError", "SignatureValidationFailed"}
"""All reasons of a waiting container that has no image."""
