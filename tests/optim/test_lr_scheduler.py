"""Schedules of the learning rate: rates, saved states, tensors as rates, warnings, errors. Plateaus and momenta have files of their own."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
from scheduler_cases import EPOCHS, SCHEDULES, advance, optimizer_of

import symgrad as sg
from symgrad import optim
from symgrad.optim import lr_scheduler


def sgd(lr=0.4, **options):
    return optim.SGD([sg.ones(2, requires_grad=True)], lr=lr, **options)


def rates(scheduler, steps=100):
    """The rate of the first group before every step."""
    seen = []
    for n in range(steps):
        seen.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        advance(scheduler, n)
    return seen


def two_groups(name="SGD"):
    return optimizer_of(sg, [sg.ones(2, requires_grad=True) for _ in range(2)], name)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_pytorchs(name):
    make, wanted = SCHEDULES[name]
    seen = rates(make(lr_scheduler, two_groups()))
    assert [seen[epoch] for epoch in EPOCHS] == pytest.approx(wanted, rel=1e-12, abs=1e-17)


CLOSED_FORMS = {  # of the rate at epoch n
    "StepLR": (lambda o: lr_scheduler.StepLR(o, 4, 0.5), lambda n: 0.4 * 0.5 ** (n // 4)),
    "MultiStepLR": (lambda o: lr_scheduler.MultiStepLR(o, [3, 9]), lambda n: 0.4 * 0.1 ** ((n >= 3) + (n >= 9))),
    "ConstantLR": (lambda o: lr_scheduler.ConstantLR(o, 0.25, 6), lambda n: 0.4 * (0.25 if n < 6 else 1)),
    "LinearLR": (lambda o: lr_scheduler.LinearLR(o, 0.2, 0.8, 10), lambda n: 0.4 * (0.2 + 0.06 * min(n, 10))),
    "ExponentialLR": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda n: 0.4 * 0.9**n),
    "PolynomialLR": (lambda o: lr_scheduler.PolynomialLR(o, 15, 2), lambda n: 0.4 * (1 - min(n, 15) / 15) ** 2),
    "CosineAnnealingLR": (lambda o: lr_scheduler.CosineAnnealingLR(o, 12, 0.1), lambda n: 0.1 + 0.15 * (1 + math.cos(math.pi * n / 12))),
    "CosineAnnealingWarmRestarts": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 6), lambda n: 0.2 * (1 + math.cos(math.pi * (n % 6) / 6))),
    "LambdaLR": (lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (n + 1)), lambda n: 0.4 / (n + 1)),
    "MultiplicativeLR": (lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: n / (n + 1)), lambda n: 0.4 / (n + 1)),
    "ChainedScheduler": (
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.StepLR(o, 4, 0.5)]),
        lambda n: 0.4 * 0.9**n * 0.5 ** (n // 4)),
    "SequentialLR": (
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.1, 99), lr_scheduler.ExponentialLR(o, 0.9)], [5]),
        lambda n: 0.04 if n < 5 else 0.4 * 0.9 ** (n - 5)),
    "CyclicLR": (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 4, cycle_momentum=False), lambda n: 0.1 + 0.1 * (4 - abs(n % 8 - 4))),
    "OneCycleLR": (
        lambda o: lr_scheduler.OneCycleLR(o, 1.0, 21, pct_start=11 / 21, anneal_strategy="linear", cycle_momentum=False, div_factor=10,
                                          final_div_factor=1),
        lambda n: 0.1 + 0.09 * (10 - abs(n - 10))),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_rates_have_a_closed_form(name):
    make, formula = CLOSED_FORMS[name]
    assert rates(make(sgd()), 20) == pytest.approx([formula(n) for n in range(20)], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", [name for name in CLOSED_FORMS if name not in ("ChainedScheduler", "SequentialLR", "MultiplicativeLR")])
def test_a_given_epoch_is_gone_to(name):
    make, formula = CLOSED_FORMS[name]
    scheduler = make(sgd())
    scheduler.optimizer.step()
    if name == "CosineAnnealingWarmRestarts":
        scheduler.step(7)
    else:
        with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step\\(\\)` was not necessary"):
            scheduler.step(7)
    assert scheduler.get_last_lr() == pytest.approx([formula(7)])
    assert scheduler.last_epoch == 7


def test_fractions_of_an_epoch():
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(sgd(), 2, T_mult=3)
    for epoch, (place, length) in {0.5: (0.5, 2), 1.75: (1.75, 2), 2.5: (0.5, 6), 7.5: (5.5, 6), 9: (1, 18)}.items():
        scheduler.step(epoch)
        assert scheduler.get_last_lr() == pytest.approx([0.2 * (1 + math.cos(math.pi * place / length))])
    assert scheduler.last_epoch == 9


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_saved_schedule_goes_on(name):
    make, _ = SCHEDULES[name]
    whole = make(lr_scheduler, two_groups())
    wanted = rates(whole, 40)
    first = make(lr_scheduler, two_groups())
    rates(first, 15)
    second = make(lr_scheduler, two_groups())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert "optimizer" not in first.state_dict()
    seen = []
    for n in range(15, 40):
        seen.append(second.optimizer.param_groups[0]["lr"])
        second.optimizer.step()
        advance(second, n)
    assert seen == wanted[15:]
    assert second.get_last_lr() == whole.get_last_lr()
    assert second.last_epoch == whole.last_epoch if name != "ChainedScheduler" else True


def test_state_of_a_schedule():
    scheduler = lr_scheduler.StepLR(sgd(), 3)
    rates(scheduler, 2)
    assert scheduler.state_dict() == {
        "step_size": 3, "gamma": 0.1, "base_lrs": [0.4], "last_epoch": 2, "_step_count": 3, "_is_initial": False,
        "_get_lr_called_within_step": False, "_last_lr": [0.4],
    }  # fmt: skip


def test_functions_are_not_saved_but_their_attributes_are():
    class Factor:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base**epoch

    first = lr_scheduler.LambdaLR(two_groups(), [Factor(0.5), lambda epoch: 1.0])
    assert first.state_dict()["lr_lambdas"] == [{"base": 0.5}, None]
    second = lr_scheduler.LambdaLR(two_groups(), [Factor(0.9), lambda epoch: 2.0])
    second.load_state_dict(first.state_dict())
    rates(second, 1)
    assert second.get_last_lr() == [0.2, 0.04]


def test_a_schedule_is_pickled_with_its_optimizer():
    scheduler = lr_scheduler.CosineAnnealingLR(sgd(), 10)
    rates(scheduler, 3)
    other = pickle.loads(pickle.dumps(scheduler))
    assert rates(other, 5) == rates(scheduler, 5)
    assert other.optimizer is not scheduler.optimizer


# --- a rate that is a tensor


def test_a_rate_that_is_a_tensor_is_written_to():
    rate = sg.tensor(0.5, dtype=sg.float64)
    optimizer = sgd(rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    (last,) = scheduler.get_last_lr()
    optimizer.step()
    scheduler.step()
    assert (last.item(), rate.item(), scheduler.base_lrs[0].item()) == (0.25, 0.125, 0.5)


# --- warnings and errors


def test_the_schedule_before_the_optimizer_is_warned_of_once():
    scheduler = lr_scheduler.StepLR(sgd(), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    scheduler.step()
    assert scheduler.last_epoch == 2


def test_steps_from_before_the_schedule_do_not_count():
    optimizer = sgd()
    optimizer.step()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="Detected call"):
        scheduler.step()


def test_a_step_that_was_replaced_is_warned_of():
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_asking_for_the_next_rate_is_warned_of():
    scheduler = lr_scheduler.StepLR(sgd(), 3)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        assert scheduler.get_lr() == [0.4]


def test_a_schedule_of_ones_own():
    class Half(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    assert rates(Half(sgd()), 3) == [0.4, 0.2, 0.1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda s, o: s.StepLR(3, 2), TypeError, "int is not an Optimizer"),
        (lambda s, o: s.LRScheduler(o), NotImplementedError, None),
        (lambda s, o: s.StepLR(o, 2, last_epoch=3), KeyError, r"param 'initial_lr' is not specified in param_groups\[0\]"),
        (lambda s, o: s.ConstantLR(o, 2), ValueError, "Constant multiplicative factor expected to be between 0 and 1."),
        (lambda s, o: s.LinearLR(o, 0), ValueError, "Starting multiplicative factor expected to be greater than 0"),
        (lambda s, o: s.LinearLR(o, 1, 2), ValueError, "Ending multiplicative factor expected to be between 0 and 1."),
        (lambda s, o: s.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda s, o: s.MultiplicativeLR(o, 3), TypeError, "lr_lambda should be a function, but got int"),
        (lambda s, o: s.SequentialLR(o, [], []), ValueError, "SequentialLR expects at least one scheduler, but got no scheduler."),
        (lambda s, o: s.SequentialLR(o, [3], []), TypeError, "SequentialLR at index 0 should have `optimizer` as its attribute."),
        (lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]), ValueError, "number of schedulers 1 and the number of milestones"),
        (lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]), ValueError, "does not support `ReduceLROnPlateau` scheduler"),
        (lambda s, o: s.ChainedScheduler([s.StepLR(sgd(), 1), s.StepLR(o, 1)]), ValueError, "to belong to the same optimizer"),
        (lambda s, o: s.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0."),
        (lambda s, o: s.ReduceLROnPlateau(o, "low"), ValueError, "mode low is unknown!"),
        (lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold mode x is unknown!"),
        (lambda s, o: s.ReduceLROnPlateau(o, min_lr=[1, 2]), ValueError, "expected 1 min_lrs, got 2"),
        (lambda s, o: s.CosineAnnealingWarmRestarts(o, 0), ValueError, "Expected positive integer T_0, but got 0"),
        (lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 0), ValueError, "Expected integer T_mult >= 1, but got 0"),
        (lambda s, o: s.CosineAnnealingWarmRestarts(o, 1).step(-1), ValueError, "Expected non-negative epoch, but got -1"),
        (lambda s, o: s.OneCycleLR(o, 1), ValueError, r"You must define either total_steps OR \(epochs AND steps_per_epoch\)"),
        (lambda s, o: s.OneCycleLR(o, 1, epochs=2, steps_per_epoch=0), ValueError, "Expected positive integer steps_per_epoch, but got 0"),
        (lambda s, o: s.OneCycleLR(o, 1, 9, pct_start=2), ValueError, "Expected float between 0 and 1 pct_start, but got 2"),
        (lambda s, o: s.OneCycleLR(o, 1, 9, anneal_strategy="x"), ValueError, "anneal_strategy must be one of 'cos' or 'linear'"),
        (lambda s, o: s.OneCycleLR(o, [1, 2], 9), ValueError, "max_lr must have the same length as optimizer.param_groups. max_lr has 2"),
        (lambda s, o: rates(s.OneCycleLR(o, 1, 4), 6), ValueError, "Tried to step 5 times. The specified number of total steps is 4"),
        (lambda s, o: s.CyclicLR(o, 1, 2, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
        (lambda s, o: s.CyclicLR(optim.Adagrad([sg.ones(1)]), 1, 2), ValueError, "optimizer must support momentum or beta1"),
    ],
)  # fmt: skip
def test_refused(make, error, words):
    with pytest.raises(error, match=words):
        make(lr_scheduler, sgd())


def test_a_schedule_that_is_refused_changes_no_group():
    optimizer = optim.Adagrad([sg.ones(1, requires_grad=True)])
    before = dict(optimizer.param_groups[0])
    with pytest.raises(ValueError, match="optimizer must support momentum"):
        lr_scheduler.OneCycleLR(optimizer, 1, 9)
    assert optimizer.param_groups[0] == before


def test_a_resumed_line_goes_on_from_the_rate_it_finds():
    optimizer = sgd(0.2)
    optimizer.param_groups[0]["initial_lr"] = 0.4
    scheduler = lr_scheduler.LinearLR(optimizer, 0.25, 1.0, total_iters=6, last_epoch=1)  # at 0.4 (0.25 + 2 / 8)
    assert rates(scheduler, 3) == pytest.approx([0.2, 0.25, 0.3])


def test_the_amplitude_of_a_cycle_is_that_of_the_momentum_too():
    optimizer = sgd(momentum=0.5)
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, step_size_up=1, mode="triangular2", base_momentum=0.5, max_momentum=0.9)
    momenta = []
    for _ in range(6):
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    assert momenta == pytest.approx([0.9, 0.5, 0.9, 0.7, 0.9, 0.8])


# --- all schedules

RESUMED = {  # with the arguments of CLOSED_FORMS
    "StepLR": (4, 0.5), "MultiStepLR": ([3, 9],), "ConstantLR": (0.25, 6), "LinearLR": (0.2, 0.8, 10), "ExponentialLR": (0.9,),
    "PolynomialLR": (15, 2), "CosineAnnealingLR": (12, 0.1), "LambdaLR": (lambda n: 1 / (n + 1),),
    "MultiplicativeLR": (lambda n: n / (n + 1),),
}  # fmt: skip


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("epoch", [1, 5, 8])
def test_a_schedule_is_resumed_at_its_last_epoch(name, epoch):
    """The schedule is made again beside an optimizer whose groups have the rate that comes next."""
    _, formula = CLOSED_FORMS[name]
    optimizer = sgd(formula(epoch + 1))
    optimizer.param_groups[0]["initial_lr"] = 0.4
    scheduler = getattr(lr_scheduler, name)(optimizer, *RESUMED[name], last_epoch=epoch)
    if name in ("StepLR", "MultiStepLR", "ConstantLR") and formula(epoch) != formula(epoch + 1):
        optimizer.param_groups[0]["lr"] = formula(epoch + 1)  # they multiply at the epoch at which they are made
    assert scheduler.last_epoch == epoch + 1
    assert scheduler.base_lrs == [0.4]
    assert rates(scheduler, 6) == pytest.approx([formula(n) for n in range(epoch + 1, epoch + 7)], rel=1e-12)


def test_a_resumed_cosine_tells_its_rate_from_the_first_one():
    optimizer = sgd(0.123)
    optimizer.param_groups[0]["initial_lr"] = 0.4
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 12, 0.1, last_epoch=2)
    with pytest.warns(UserWarning, match="get_last_lr"):
        assert scheduler.get_lr() == pytest.approx([CLOSED_FORMS["CosineAnnealingLR"][1](3)])


OF_AN_OPTIMIZER = [name for name in vars(lr_scheduler) if name.endswith(("LR", "Restarts", "Plateau")) and name != "SequentialLR"]


@pytest.mark.parametrize("name", OF_AN_OPTIMIZER)
def test_what_is_no_optimizer_is_refused(name):
    arguments = {
        "StepLR": (3,), "MultiStepLR": ([3],), "ExponentialLR": (0.5,), "CosineAnnealingLR": (3,), "CosineAnnealingWarmRestarts": (3,),
        "LambdaLR": (abs,), "MultiplicativeLR": (abs,), "CyclicLR": (0.1, 0.2), "OneCycleLR": (0.1, 9),
    }  # fmt: skip
    alike = type("Net", (), {"param_groups": [{"lr": 0.5}], "defaults": {"momentum": 0}})()
    for given, word in ((3, "int"), (alike, "Net")):
        with pytest.raises(TypeError, match=f"{word} is not an Optimizer"):
            getattr(lr_scheduler, name)(given, *arguments.get(name, ()))
    assert alike.param_groups == [{"lr": 0.5}]


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_last_rates_are_those_of_the_groups(name):
    make, formula = CLOSED_FORMS[name]
    scheduler = make(sgd())
    assert scheduler.get_last_lr() == pytest.approx([formula(0)])
    rates(scheduler, 7)
    assert scheduler.get_last_lr() == [group["lr"] for group in scheduler.optimizer.param_groups] == pytest.approx([formula(7)])


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_a_rate_that_is_a_tensor_follows_every_schedule(name):
    make, formula = CLOSED_FORMS[name]
    rate = sg.tensor(0.4, dtype=sg.float64)
    scheduler = make(sgd(rate))
    seen = []
    for _ in range(12):
        seen.append(rate.item())
        scheduler.optimizer.step()
        scheduler.step()
    assert scheduler.optimizer.param_groups[0]["lr"] is rate
    assert seen == pytest.approx([formula(n) for n in range(12)], rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda s, o: s.ConstantLR(o, 1.0),
        lambda s, o: s.ConstantLR(o, 0.5, 0),
        lambda s, o: s.LinearLR(o, 1.0, 0.5),
        lambda s, o: s.LinearLR(o, 0.5, 1.0),
        lambda s, o: s.LinearLR(o, 0.5, 0.0),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 1),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 1, eta_min=0),
        lambda s, o: s.OneCycleLR(o, 0.5, 4, pct_start=0.0),
        lambda s, o: s.OneCycleLR(o, 0.5, 4, pct_start=1.0),
        lambda s, o: s.OneCycleLR(o, 0.5, 1, cycle_momentum=False, pct_start=0.0),
        lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="none", scale_fn=abs),
        lambda s, o: s.ChainedScheduler([s.StepLR(o, 1)], o),
        lambda s, o: s.ReduceLROnPlateau(o, factor=0.999, min_lr=(0.1,)),
    ],
)
def test_limits_that_are_allowed(make):
    scheduler = make(lr_scheduler, sgd(momentum=0.5))
    assert all(math.isfinite(rate) for rate in scheduler.get_last_lr())


def test_a_factor_of_zero_is_a_rate_of_zero():
    assert rates(lr_scheduler.ConstantLR(sgd(), 0.0, 9), 3) == [0.0, 0.0, 0.0]


def test_schedules_inside_of_schedules_inside():
    """The first steps of the schedules in a chain are taken back, too: they have taken two more than one before the milestone."""
    optimizer = sgd()
    chain = lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(optimizer, 0.5), lr_scheduler.ConstantLR(optimizer, 0.1, 99)])
    optimizer.step()
    scheduler = lr_scheduler.SequentialLR(optimizer, [chain, lr_scheduler.StepLR(optimizer, 2, 0.5)], [3])
    seen = rates(scheduler, 7)
    assert seen[3:] == pytest.approx([0.4, 0.4, 0.2, 0.2])
    assert [scheduler.last_epoch, *(part.last_epoch for part in chain._schedulers)] == [7, 2, 2]


def test_epochs_of_the_schedules_in_a_sequence():
    optimizer = sgd()
    parts = [lr_scheduler.ConstantLR(optimizer, 0.5, 9), lr_scheduler.ExponentialLR(optimizer, 0.5), lr_scheduler.StepLR(optimizer, 9)]
    scheduler = lr_scheduler.SequentialLR(optimizer, parts, [2, 4])
    epochs = []
    for _ in range(6):
        optimizer.step()
        scheduler.step()
        epochs.append((scheduler.last_epoch, *(part.last_epoch for part in parts)))
    assert epochs == [(1, 1, -1, -1), (2, 1, 0, -1), (3, 1, 1, -1), (4, 1, 1, 0), (5, 1, 1, 1), (6, 1, 1, 2)]


@pytest.mark.parametrize("make", [lambda o: lr_scheduler.StepLR(o, 3), lambda o: lr_scheduler.ExponentialLR(o, 0.5)])
def test_steps_are_counted(make):
    scheduler = make(sgd())
    assert scheduler._step_count == 1
    rates(scheduler, 4)
    assert (scheduler._step_count, scheduler.last_epoch) == (5, 4)
