"""A small language model: the next character of a text from those before it."""

from __future__ import annotations

from typing import Final

import torch

WINDOW: Final = 32
"""Characters that the model sees at a time."""
_EMBEDDED: Final = 32
_HIDDEN: Final = 96
_DROPOUT: Final = 0.2
"""Its random numbers are part of what a checkpoint has to keep."""


class Text:
    """A text as numbers: each character by its place among all that occur in it."""

    def __init__(self, text: str) -> None:
        """Raises ValueError where it is too short to learn from."""
        if len(text) <= 2 * WINDOW:
            raise ValueError(f"the text has {len(text)} characters; {2 * WINDOW + 1} are the least")
        self.characters = sorted(set(text))
        place = {character: number for number, character in enumerate(self.characters)}
        self._numbers = torch.tensor([place[character] for character in text])

    def __len__(self) -> int:
        """The number of windows."""
        return len(self._numbers) - WINDOW

    def windows(self, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The windows that begin there, and the characters that follow each of theirs: two tensors (starts, WINDOW)."""
        places = starts.unsqueeze(1) + torch.arange(WINDOW)
        return self._numbers[places], self._numbers[places + 1]


def build(characters: int) -> torch.nn.ModuleDict:
    """A model with random weights, of torch's own generator."""
    return torch.nn.ModuleDict(
        {
            "embedding": torch.nn.Embedding(characters, _EMBEDDED),
            "recurrent": torch.nn.GRU(_EMBEDDED, _HIDDEN, batch_first=True),
            "dropout": torch.nn.Dropout(_DROPOUT),
            "output": torch.nn.Linear(_HIDDEN, characters),
        }
    )


def loss(model: torch.nn.ModuleDict, seen: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of the following characters, in nats."""
    hidden, _ = model["recurrent"](model["embedding"](seen))
    scores = model["output"](model["dropout"](hidden))
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
