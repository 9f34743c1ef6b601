"""The training: its whole state, a step, and both ways between a state and bytes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

from scavenger_pytorch.gang import Gang
from scavenger_pytorch.model import Text, build, loss

_LEARNING_RATE: Final = 3e-3


class OtherTrainingError(Exception):
    """The checkpoint is that of another training."""


@dataclass(frozen=True)
class Parameters:
    """What the losses depend on, beside the number of steps; it cannot change from start to start."""

    seed: int
    batch: int
    """Windows of a step, of all members together."""
    text: str
    """SHA-256 of it."""
    members: int
    """Sums over another number of members are rounded otherwise, and each has random numbers of its own."""


@dataclass(frozen=True)
class Wishes:
    """What a member wants after a step, or all of them: one who wants it is enough."""

    stop: bool
    save: bool


class Training:
    """A member's part of a training. All members have the same weights after each step."""

    def __init__(self, parameters: Parameters, text: Text, gang: Gang) -> None:
        """Begin it."""
        self.parameters = parameters
        self._text = text
        self._gang = gang
        torch.manual_seed(parameters.seed)
        self._model = build(len(text.characters))
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=_LEARNING_RATE)
        # The same weights for all, and from here on random numbers of its own for each.
        torch.manual_seed(parameters.seed + 1 + gang.index)
        self._order_generator = torch.Generator().manual_seed(parameters.seed)
        self._order = torch.empty(0, dtype=torch.int64)
        self._position = 0
        self.losses: list[float] = []

    @property
    def step(self) -> int:
        """How many steps are made."""
        return len(self.losses)

    def advance(self, wishes: Wishes) -> Wishes:
        """Make a step; what the gang wants now, the same for each member. Raises LostError."""
        starts = self._next_starts()
        self._optimizer.zero_grad()
        own = loss(self._model, *self._text.windows(starts[self._gang.index :: self._gang.size]))
        own.backward()
        gradients = [parameter.grad for parameter in self._model.parameters()]
        # All that is to be summed goes in one message: a step takes the time of one round.
        told = torch.tensor([own.item(), float(wishes.stop), float(wishes.save)])
        summed = self._gang.sum(torch.cat([*(gradient.flatten() for gradient in gradients), told]))
        mean = summed / self._gang.size
        begin = 0
        for gradient in gradients:
            gradient.copy_(mean[begin : begin + gradient.numel()].view_as(gradient))
            begin += gradient.numel()
        self._optimizer.step()
        self.losses.append(mean[begin].item())
        return Wishes(stop=bool(summed[begin + 1] > 0), save=bool(summed[begin + 2] > 0))

    def encode(self) -> bytes:
        """The state of all members; every one of them must call it after the same step. Raises LostError."""
        state = {
            "parameters": asdict(self.parameters),
            "model": self._model.state_dict(),
            # Without its settings, which are known; and torch 1.13 reads no floats where it reads nothing but weights.
            "optimizer": self._optimizer.state_dict()["state"],
            "order": self._order,
            "position": self._position,
            "order_random": self._order_generator.get_state(),
            "random": self._gang.gather(torch.get_rng_state()),
            "losses": torch.tensor(self.losses, dtype=torch.float64),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return buffer.getvalue()

    def decode(self, content: bytes) -> None:
        """Go on from a state. Raises OtherTrainingError."""
        state: Mapping[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        if state["parameters"] != asdict(self.parameters):
            raise OtherTrainingError(f"begun with {state['parameters']}, and not with {asdict(self.parameters)}")
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state["optimizer"]})
        self._order = state["order"]
        self._position = state["position"]
        self._order_generator.set_state(state["order_random"])
        torch.set_rng_state(state["random"][self._gang.index])
        self.losses = state["losses"].tolist()

    def result(self) -> str:
        """JSON: the loss of each step in nats, to the last bit, and the checksum of the weights."""
        checksum = hashlib.sha256()
        for name, weights in self._model.state_dict().items():
            checksum.update(name.encode() + weights.numpy().tobytes())
        found = {"losses": self.losses, "members": self._gang.size, "weights": checksum.hexdigest()}
        return json.dumps(found, indent=1) + "\n"

    def _next_starts(self) -> torch.Tensor:
        """The windows of the next step; each window once in an epoch, whose order is random."""
        batch = self.parameters.batch
        if self._position + batch > len(self._order):
            self._order = torch.randperm(len(self._text), generator=self._order_generator)
            self._position = 0
        self._position += batch
        return self._order[self._position - batch : self._position]
