"""Layers, optimizers, schedules and initializations with one option at a time of another value: some are valid, and some are not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from layer_programs import MODULES, Bench
from malformed_calls import NOT_COMPARED, Case, Library, call, options, values, with_one_replaced, written
from optimizer_cases import objective, start

import symgrad as sg

REQUIRED = [1, 0, -1, 0.5, "x", (2,), None]
"""Other values of arguments that have no default."""
SCHEDULES: dict[str, dict[str, Any]] = {
    "StepLR": {"step_size": 2},
    "MultiStepLR": {"milestones": [1, 3]},
    "LambdaLR": {"lr_lambda": lambda epoch: 0.5**epoch},
    "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.5},
    "ConstantLR": {},
    "LinearLR": {},
    "PolynomialLR": {},
    "ExponentialLR": {"gamma": 0.5},
    "CosineAnnealingLR": {"T_max": 3},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.4, "step_size_up": 2},
    "OneCycleLR": {"max_lr": 0.4, "total_steps": 6},
    "ReduceLROnPlateau": {"patience": 1},
}
"""Arguments of schedules behind the optimizer."""
INITIALIZED = {"dirac_": (4, 3, 3), "dirac": (4, 3, 3)}
"""Shapes of the tensors that initializations fill, if not (4, 3)."""
GIVEN = {"constant_": (0.5,), "constant": (0.5,), "sparse_": (0.5,), "sparse": (0.5,)}
"""Arguments of initializations behind the tensor."""


def replaced(f: Callable[..., Any], given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The given arguments, then with another value of each parameter of a function but its first, and their labels."""
    yield "valid:", given
    for p in inspect.signature(f).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name in NOT_COMPARED:
            continue
        for value in REQUIRED if p.default is p.empty else values(p.name, p.default):
            yield f"{p.name}={written(value)}", {**given, p.name: value}


def written_arguments(bench: Bench, text: str) -> dict[str, Any]:
    """The arguments in the text of a layer, by the names of the parameters."""
    name = text.partition("(")[0]
    args, kwargs = eval(text, {**bench.names, name: lambda *args, **kwargs: (args, kwargs)})
    return dict(inspect.signature(getattr(sg.nn, name)).bind(*args, **kwargs).arguments)


def layer_call(text: str, inputs: str, label: str) -> Callable[[Library], Any]:
    """The outputs of a layer with the argument replaced that the label names."""

    def run(library: Library) -> Any:
        bench, name = Bench(library.module), text.partition("(")[0]
        arguments = written_arguments(bench, text)
        changed = dict(replaced(getattr(sg.nn, name), {}))[label]
        library.module.manual_seed(3)
        layer = getattr(library.module.nn, name)(**{**arguments, **{key: library.own(value) for key, value in changed.items()}})
        return bench.call(layer, inputs)

    return run


def layer_cases() -> Iterator[tuple[str, list[Case]]]:
    """The first program of every layer, with one argument of its class replaced."""
    first: dict[str, str] = {}
    for text in MODULES:
        first.setdefault(text.partition("(")[0], text)
    for name, text in first.items():
        if not hasattr(sg.nn, name):
            continue  # a class method
        kinds = {p.kind for p in inspect.signature(getattr(sg.nn, name)).parameters.values()}
        if not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            yield f"nn.{name}", [(label, layer_call(text, MODULES[text][0], label)) for label, _ in replaced(getattr(sg.nn, name), {})]


def optimizer_call(name: str, given: dict[str, Any]) -> Callable[[Library], Any]:
    """Where a parameter is after three steps."""

    def run(library: Library) -> Any:
        p = start(library.module)
        options = {"params": [p], **{key: library.own(value) for key, value in given.items()}}
        optimizer = getattr(library.module.optim, name)(**options)
        for n in range(3):
            optimizer.step(lambda n=n: closure(library.module, optimizer, p, n))
        return p

    return run


def closure(module: Any, optimizer: Any, p: Any, n: int) -> Any:
    optimizer.zero_grad()
    loss = objective(module, p, n)
    loss.backward()
    return loss


def optimizer_cases() -> Iterator[tuple[str, list[Case]]]:
    for name, kind in vars(sg.optim).items():
        if inspect.isclass(kind) and issubclass(kind, sg.optim.Optimizer) and kind is not sg.optim.Optimizer:
            yield f"optim.{name}", [(label, optimizer_call(name, given)) for label, given in replaced(kind, {})]


def schedule_call(name: str, given: dict[str, Any]) -> Callable[[Library], Any]:
    """The rates of the first six epochs."""

    def run(library: Library) -> Any:
        optimizer = library.module.optim.SGD([start(library.module)], lr=0.8, momentum=0.9)
        arguments = {"optimizer": optimizer, **{key: library.own(value) for key, value in given.items()}}
        schedule, rates = getattr(library.module.optim.lr_scheduler, name)(**arguments), []
        for _ in range(6):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        return library.module.tensor(rates)

    return run


def schedule_cases() -> Iterator[tuple[str, list[Case]]]:
    for name, given in SCHEDULES.items():
        several = replaced(getattr(sg.optim.lr_scheduler, name), given)
        yield f"lr_scheduler.{name}", [(label, schedule_call(name, changed)) for label, changed in several]


def initialization_cases() -> Iterator[tuple[str, list[Case]]]:
    for name, f in vars(sg.nn.init).items():
        if not inspect.isfunction(f) or next(iter(inspect.signature(f).parameters)) != "tensor" or name.startswith("_"):
            continue
        label, args = f"init.{name}", (sg.zeros(INITIALIZED.get(name, (4, 3))), *GIVEN.get(name, ()))
        several = [("valid:", args), *with_one_replaced(label, args)]
        cases = [(kind, call(label, changed, {})) for kind, changed in several]
        yield label, cases + [(f"{key}={written(value)}", call(label, args, {key: value})) for key, value in options(f, len(args))]


def object_cases() -> Iterator[tuple[str, list[Case]]]:
    """Layers, optimizers, schedules and initializations, and their cases."""
    yield from layer_cases()
    yield from optimizer_cases()
    yield from schedule_cases()
    yield from initialization_cases()
