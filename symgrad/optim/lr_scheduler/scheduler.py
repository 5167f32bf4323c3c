"""LRScheduler: what all schedules share. Attributes have PyTorch's names, so that state dicts can be exchanged."""

from __future__ import annotations

import functools
from typing import Any

from symgrad.escapes import PythonAction
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.optim.optimizer import Optimizer
from symgrad.optim.options import Group
from symgrad.tensor import Tensor

MORE = " See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make sure to call"
    " `optimizer.step()` before `lr_scheduler.step()`." + MORE
)
TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite"
    " order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first value of the"
    " learning rate schedule." + MORE
)
EPOCH_GIVEN = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use `scheduler.step()` to"
    " step the scheduler. During the deprecation, if epoch is different from None, the closed form is used instead of the new chainable"
    " form, where available. Please open an issue if you are unable to replicate your use case:"
    " https://github.com/pytorch/pytorch/issues/new/choose."
)


def told(scheduler: Any) -> None:
    """A schedule goes on: of a function that is being traced, that is what no program does again."""
    capture = local.mode.capture
    if capture is not None:
        groups = [(group, dict(group)) for group in scheduler.optimizer.param_groups]
        capture.record_undo(functools.partial(_put_back, [(vars(scheduler), dict(vars(scheduler))), *groups]))
        capture.refuse_replay(PythonAction.SCHEDULER_STEP)


def _put_back(kept: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    for own, before in kept:
        own.update(before)


def require_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{optimizer.__class__.__name__} is not an Optimizer")


def values(optimizer: Optimizer, name: str) -> list[Any]:
    """An option of every group; a tensor is copied, since it is written to later."""
    return [copied(group[name]) for group in optimizer.param_groups]


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def assign(group: Group, name: str, value: Any) -> None:
    """An option that is a tensor stays the same tensor."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[name] = value


def one_each(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for every group, from one for all or a list."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {groups}."
        )
    return [copied(v) for v in value]


class LRScheduler:
    """Subclasses give `get_lr`, the rates of all groups for `last_epoch`, from the rates as they are now or from `base_lrs`.

    `_get_closed_form_lr`, where there is one, gives them from `base_lrs` alone.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n1. You're trying to resume training from a checkpoint but haven't properly loaded the"
                    " optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if not optimizer._scheduled:
            optimizer._scheduled, optimizer._opt_called = True, False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule of this kind stopped."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates of all groups as the schedule last set them."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next rates of all groups; called by `step`."""
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")
        return self._rates()

    def _rates(self) -> list[Any]:
        raise NotImplementedError

    def _times(self, factor: float) -> list[Any]:
        """The rates as they are now, times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list[Any]:
        return values(self.optimizer, "lr")

    def step(self, epoch: int | None = None) -> None:
        """Go on by an epoch, or by whatever the schedule counts."""
        told(self)
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "hooked"):
                warn(OVERRIDDEN)
            elif not self.optimizer._opt_called:
                warn(TOO_EARLY)
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_GIVEN)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set(self.get_lr if closed_form is None else closed_form)

    def _set(self, rates: Any) -> None:
        self._get_lr_called_within_step = True
        try:
            new = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, new, strict=True):
            assign(group, "lr", rate)
        self._last_lr = values(self.optimizer, "lr")
