"""Optimizer: groups of parameters, their options, and the state kept for each."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from symgrad.autograd import enable_grad, set_grad_enabled
from symgrad.autograd.hooks import RemovableHandle
from symgrad.counted import GuardedHooks, GuardedList
from symgrad.functional import view_as_real
from symgrad.lines import warn
from symgrad.mode import is_tracing, local
from symgrad.optim.holdings import GuardedOptions, OptimizerGuard, make_guarded
from symgrad.optim.options import Group, State, counter
from symgrad.tensor import Tensor, is_leaf_tensor
from symgrad.tracer import Tracer

Parameters: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]

_HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")
_BEFORE_IT_EXISTED = {"fused": None, "foreach": None, "momentum": 0}  # what a state dict without this option means; False for others


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step` between its hooks."""

    @functools.wraps(step)
    def call(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not self._opt_called:
            self._opt_called = True
        if not self._hooks["step_pre"] and not self._hooks["step_post"]:
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        for hook in self._hooks["step_pre"].values():
            changed = hook(self, given, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            given, kwargs = changed
        result = step(*given, **kwargs)
        for hook in self._hooks["step_post"].values():
            hook(self, given, kwargs)
        return result

    call.hooked = True  # type: ignore[attr-defined]
    return call


class Optimizer:
    """Subclasses give defaults, `_begin`, which makes the state of a parameter, and `_move`, which takes a step with one parameter."""

    _as_reals = True  # whether a complex parameter is moved as pairs of real numbers
    _numbers: tuple[str, ...] = ("step",)  # in the state of each parameter, and mostly the same for all

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {params.type()}")
        self.state: defaultdict[Any, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """What is not kept when an optimizer is copied or pickled."""
        self._hooks: dict[str, OrderedDict[int, Any]] = {name: GuardedHooks() for name in _HOOKS}
        self._opt_called = self._scheduled = False
        self._traced = is_tracing()
        """Whether it was made while a function was traced."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_hooks" not in self.__dict__:
            self._prepare()
        for name, value in state.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, make_guarded(name, value))

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            groups.append(f"\nParameter Group {i}\n{''.join(options)}")
        return f"{type(self).__name__} ({''.join(groups)})"

    # --- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own; what is not given is taken from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {param_group.__class__}")
        group = GuardedOptions({**self.defaults, **param_group, **_named(param_group["params"])})
        for p in group["params"]:
            self._check_parameter(p)
        if len(group["params"]) != len(set(group["params"])):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see"
                " github.com/pytorch/pytorch/issues/40967 for more information",
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                words = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    f"all optimizer param groups should be with/without names. cannot add param group {words} to the optimizer"
                )
        if not {p for other in self.param_groups for p in other["params"]}.isdisjoint(group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {p.__class__.__name__}")
        if not (self.defaults.get("differentiable") or is_leaf_tensor(p) or p.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    # --- steps

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:  # whatever was there: a traced step does not depend on it
                    p.grad = None
                elif p.grad is not None:
                    p.grad.detach_()
                    p.grad.zero_()

    @_hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient. A closure is evaluated first, and its loss returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                if local.mode.capture is not None:
                    local.mode.capture.guard_module(self, OptimizerGuard)
                    local.mode.capture.record_undo(
                        functools.partial(_restore, self.state, {p: dict(kept) for p, kept in self.state.items()})
                    )
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        kept, plain, capture = self.state, not group["differentiable"], local.mode.capture
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            state = kept.get(p)
            if not state:
                state = self._begun(p, group)
                if state:
                    kept[p] = state
                    state = kept[p]
            if group["maximize"]:
                g = -g
            if capture is not None and plain and not p.is_complex():
                self._trace(capture, p, g, state, group)
            elif plain and not p.is_complex():
                self._move(p, g, state, group)
            else:
                self._step_parameter(p, g, state, group)

    def _trace(self, tracer: Tracer, p: Any, g: Any, state: State, group: Group) -> None:
        """Move a parameter in a traced function. What an optimizer of ours does it does in the same way for all parameters of a type."""
        kept = list(state.values())
        for name in self._numbers:
            if isinstance(state.get(name), Tensor):
                tracer.merge_equal_scalars((id(group), name), state[name])
        if all([isinstance(x, Tensor) for x in kept]) and self._move.__module__.startswith("symgrad."):
            tracer.trace_once((id(group), *state), [p, g, *kept], functools.partial(self._move, p, g, state, group))
        else:
            self._move(p, g, state, group)

    def _begun(self, p: Any, group: Group) -> State:
        """The state of a parameter before its first step. Where that step is traced it is made as if it had been there before: the program
        is then that of all later steps, too. But who makes an optimizer in the traced function wants new state at every run."""
        mode = local.mode
        if mode.capture is None or self._traced or not mode.capture.effects:
            return self._begin(p, group)
        capture = mode.swap_capture(None)
        try:
            return self._init_equal_scalars(p, group)
        finally:
            mode.swap_capture(capture)

    def _step_parameter(self, p: Any, g: Any, state: State, group: Group) -> None:
        if group["differentiable"]:  # what was recorded of the state so far is not written to
            state.update({name: value.clone() for name, value in state.items() if isinstance(value, Tensor)})
        if self._as_reals and p.is_complex():
            p, g = view_as_real(p), view_as_real(g)
            state = {name: view_as_real(value) if value.is_complex() else value for name, value in state.items()}
        self._move(p, g, state, group)

    def functional_step(self, params: Iterable[Any], grads: Iterable[Any], state: Any = None) -> tuple[list[Any], list[State]]:
        """The step as a function: new parameters and new state. Nothing is changed, and derivatives go through it.

        Parameters stand in the order in which the optimizer has its own, whose options they get; `state` is what the last call returned.
        """
        groups = [group for group in self.param_groups for _ in group["params"]]
        if local.mode.capture is not None:  # of the copies of groups that are made here nobody would see that they change
            local.mode.capture.add_guard(lambda: [(k, v) for group in self.param_groups for k, v in group.items() if k != "params"])
        moved, states = [], []
        for p, g, kept, group in zip(params, grads, state or [None] * len(groups), groups, strict=True):
            p = p.clone()
            kept = {**(kept or self._begin(p, group))}
            self._step_parameter(p, -g if group["maximize"] else g, kept, {**group, "differentiable": True})
            moved.append(p)
            states.append(kept)
        return moved, states

    def _begin(self, p: Any, group: Group) -> State:
        raise NotImplementedError

    def _init_equal_scalars(self, p: Any, group: Group) -> State:
        """The same, such that the first step does what the later ones do, if there is such a state."""
        return self._begin(p, group)

    def _move(self, p: Any, g: Any, state: State, group: Group) -> None:
        raise NotImplementedError

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """Options and state with parameters replaced by their position."""
        for hook in self._hooks["state_dict_pre"].values():
            hook(self)
        order: dict[Any, int] = {}
        for i, p in enumerate(p for group in self.param_groups for p in group["params"]):
            order.setdefault(p, i)
        groups = [{**_without(group, "params"), "params": [order[p] for p in group["params"]]} for group in self.param_groups]
        kept: dict[Any, Any] = self.state  # whatever users put there
        plain = {key: dict(value) if isinstance(value, dict) else value for key, value in kept.items()}
        packed = {order[key] if isinstance(key, Tensor) else key: value for key, value in plain.items()}
        state_dict: dict[str, Any] = {"state": packed, "param_groups": groups}
        for hook in self._hooks["state_dict_post"].values():
            state_dict = _or(hook(self, state_dict), state_dict)
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options, and the state as a copy, in the types of the parameters."""
        state_dict = state_dict.copy()
        for hook in self._hooks["load_state_dict_pre"].values():
            state_dict = _or(hook(self, state_dict), state_dict)
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if [len(g["params"]) for g in saved] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        groups = [self._loaded_group(new, old) for new, old in zip(saved, self.param_groups, strict=True)]
        state: defaultdict[Any, State] = defaultdict(dict)
        numbers = [i for group in saved for i in group["params"]]
        params = dict(zip(numbers, (p for group in groups for p in group["params"]), strict=True))
        for key, value in state_dict["state"].items():
            state[params.get(key, key)] = _loaded_state(params[key], value) if key in params else value
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._hooks["load_state_dict_post"].values():
            hook(self)

    def _loaded_group(self, saved: Group, group: Group) -> Group:
        missing = {name: _BEFORE_IT_EXISTED.get(name, False) for name in self.defaults if name not in saved}
        names = {"param_names": group["param_names"]} if "param_names" in group else {}
        return {**missing, **names, **copy.deepcopy(_without(saved, "params")), "params": group["params"]}

    # --- hooks

    def _register(self, kind: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[kind])
        self._hooks[kind][handle.id] = hook
        if prepend:
            self._hooks[kind].move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` is called before every step; a pair that it returns replaces args and kwargs."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` is called after every step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer)` is called before `state_dict` is made."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer, state_dict)` may change the state dict or return another."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer, state_dict)` may change what is about to be loaded, or return another."""
        return self._register("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer)` is called after a state dict was loaded."""
        return self._register("load_state_dict_post", hook, prepend)


def _restore(state: Any, before: dict[Any, State]) -> None:
    """The state of an optimizer as it was before a step that failed; tensors are put back by whoever traced it."""
    for p in [p for p in state if p not in before]:
        del state[p]
    state.update(before)


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _without(group: Group, name: str) -> Group:
    return {key: value for key, value in group.items() if key != name}


def _named(params: Any) -> dict[str, list[Any]]:
    """Parameters as a list, and the list of their names if they were given as pairs."""
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change between"
            " runs. Please use a list instead."
        )
    listed = [params] if isinstance(params, Tensor) else list(params)
    names = [pair[0] for pair in listed if isinstance(pair, tuple)]
    if not names:
        return {"params": GuardedList(listed)}
    if len(names) != len(listed):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return {"params": GuardedList(p for _, p in listed), "param_names": names}


def _loaded_state(p: Tensor, value: Any, name: str = "") -> Any:
    """A copy of what is kept for a parameter, in its type; the counter of steps keeps its own."""
    if isinstance(value, dict):
        return {key: _loaded_state(p, item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_loaded_state(p, item) for item in value)
    if not isinstance(value, Tensor):
        return counter(value) if name == "step" else copy.deepcopy(value)
    return value.detach().to(p.dtype if name != "step" and p.is_floating_point() else value.dtype, copy=True)
