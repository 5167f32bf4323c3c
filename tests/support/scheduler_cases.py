"""Schedules with their options, and the rates of PyTorch's at some epochs, of a group that starts at 0.4."""

from __future__ import annotations

import math

EPOCHS = (0, 1, 2, 3, 7, 10, 25, 50, 99)


class Fading:
    """A factor that is an object."""

    def __init__(self):
        self.base = 0.97

    def __call__(self, epoch):
        return self.base**epoch


SCHEDULES = {
    "StepLR": (
        lambda s, o: s.StepLR(o, 7),
        [0.4, 0.4, 0.4, 0.4, 0.04000000000000001, 0.04000000000000001, 0.00040000000000000013, 4.000000000000002e-08,
         4.0000000000000035e-15],
    ),
    "StepLR gamma": (
        lambda s, o: s.StepLR(o, step_size=3, gamma=0.7),
        [0.4, 0.4, 0.4, 0.27999999999999997, 0.19599999999999998, 0.1372, 0.02305920399999999, 0.0013293172227840384,
         3.0923974878829706e-06],
    ),
    "MultiStepLR": (
        lambda s, o: s.MultiStepLR(o, [2, 10, 10, 40], gamma=0.5),
        [0.4, 0.4, 0.2, 0.2, 0.2, 0.05, 0.05, 0.025, 0.025],
    ),
    "ConstantLR": (
        lambda s, o: s.ConstantLR(o),
        [0.13333333333333333, 0.13333333333333333, 0.13333333333333333, 0.13333333333333333, 0.4, 0.4, 0.4, 0.4, 0.4],
    ),
    "ConstantLR long": (
        lambda s, o: s.ConstantLR(o, factor=0.3, total_iters=30),
        [0.12, 0.12, 0.12, 0.12, 0.12, 0.12, 0.12, 0.4, 0.4],
    ),
    "LinearLR": (
        lambda s, o: s.LinearLR(o),
        [0.13333333333333333, 0.18666666666666668, 0.24000000000000002, 0.2933333333333334, 0.4, 0.4, 0.4, 0.4, 0.4],
    ),
    "LinearLR down": (
        lambda s, o: s.LinearLR(o, start_factor=0.9, end_factor=0.1, total_iters=40),
        [0.36000000000000004, 0.35200000000000004, 0.34400000000000003, 0.336, 0.304, 0.27999999999999997, 0.16, 0.03999999999999998,
         0.03999999999999998],
    ),
    "ExponentialLR": (
        lambda s, o: s.ExponentialLR(o, gamma=0.95),
        [0.4, 0.38, 0.361, 0.34295, 0.2793349184374999, 0.23949477569535144, 0.11095582924873351, 0.030777990110685244,
         0.002492854408561682],
    ),
    "PolynomialLR": (
        lambda s, o: s.PolynomialLR(o),
        [0.4, 0.32000000000000006, 0.24000000000000002, 0.16000000000000003, 0.0, 0.0, 0.0, 0.0, 0.0],
    ),
    "PolynomialLR power": (
        lambda s, o: s.PolynomialLR(o, total_iters=60, power=2.5),
        [0.4, 0.38354108675125986, 0.36749535088462104, 0.3518592758476036, 0.293340170024145, 0.25357525810424375, 0.10395657826520201,
         0.004536092116265149, 0.0],
    ),
    "CosineAnnealingLR": (
        lambda s, o: s.CosineAnnealingLR(o, T_max=20),
        [0.4, 0.3975376681190276, 0.39021130325903075, 0.3782013048376736, 0.2907980999479094, 0.20000000000000004, 0.05857864376269046,
         0.19999999999999993, 0.002462331880972425],
    ),
    "CosineAnnealingLR eta_min": (
        lambda s, o: s.CosineAnnealingLR(o, T_max=35, eta_min=0.01),
        [0.4, 0.3992149873290717, 0.39686626977673284, 0.39297275783569147, 0.36275831390311486, 0.32658051136245314,
         0.08341948863754702, 0.16160841787851862, 0.03760248524763612],
    ),
    "WarmRestarts": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=9),
        [0.4, 0.3879385241571817, 0.3532088886237956, 0.30000000000000004, 0.046791111376204425, 0.3879385241571817,
         0.046791111376204425, 0.16527036446661394, 0.4],
    ),
    "WarmRestarts longer": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=2, eta_min=0.001),
        [0.4, 0.36189889037780204, 0.26214889037780204, 0.13885110962219802, 0.36189889037780204, 0.2005, 0.2005, 0.2768453447568354,
         0.31776315783234843],
    ),
    "LambdaLR": (
        lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        [0.4, 0.2, 0.13333333333333333, 0.1, 0.05, 0.03636363636363637, 0.015384615384615385, 0.00784313725490196, 0.004],
    ),
    "LambdaLR each": (
        lambda s, o: s.LambdaLR(o, [Fading(), lambda epoch: 0.5]),
        [0.4, 0.388, 0.37636000000000003, 0.3650692, 0.32319313791245197, 0.29496965075797127, 0.18678988210174868, 0.08722615013896293,
         0.019609281618723974],
    ),
    "MultiplicativeLR": (
        lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 if epoch < 20 else 1.01),
        [0.4, 0.36000000000000004, 0.32400000000000007, 0.2916000000000001, 0.1913187600000001, 0.13947137604000007,
         0.05735825275135421, 0.07355805850662189, 0.119778142349549],
    ),
    "SequentialLR": (
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=10), s.CosineAnnealingLR(o, 30), s.ExponentialLR(o, 0.9)], [10, 40]),
        [0.04000000000000001, 0.07600000000000001, 0.11200000000000003, 0.14800000000000005, 0.2920000000000001, 0.4,
         0.20000000000000004, 0.13947137604000007, 0.0007986712444064153],
    ),
    "SequentialLR restarts": (
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.CosineAnnealingWarmRestarts(o, 7), s.StepLR(o, 5)], [3, 60]),
        [0.04000000000000001, 0.04000000000000001, 0.04000000000000001, 0.4, 0.15549581320873715, 0.4, 0.38019377358048384,
         0.07530203962825331, 4.000000000000002e-08],
    ),
    "ChainedScheduler": (
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 8), s.ExponentialLR(o, 0.97), s.StepLR(o, 30)]),
        [0.04000000000000001, 0.03880000000000001, 0.03763600000000001, 0.036506920000000005, 0.0323193137912452, 0.2949696507579712,
         0.18678988210174863, 0.008722615013896292, 1.9609281618723975e-05],
    ),
    "ReduceLROnPlateau": (
        lambda s, o: s.ReduceLROnPlateau(o, patience=3),
        [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.004000000000000001, 4.000000000000002e-09],
    ),
    "ReduceLROnPlateau abs": (
        lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=0.01, threshold_mode="abs", cooldown=4, min_lr=[0.01, 0.002]),
        [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.2, 0.0125, 0.01],
    ),
    "ReduceLROnPlateau max": (
        lambda s, o: s.ReduceLROnPlateau(o, "max", factor=0.8, patience=5, eps=0.01),
        [0.4, 0.4, 0.4, 0.4, 0.32000000000000006, 0.32000000000000006, 0.16384000000000007, 0.06710886400000003, 0.042949672960000025],
    ),
    "ReduceLROnPlateau max abs": (
        lambda s, o: s.ReduceLROnPlateau(o, "max", factor=0.8, patience=9, threshold=0.1, threshold_mode="abs"),
        [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.25600000000000006, 0.16384000000000007, 0.05368709120000003],
    ),
    "OneCycleLR": (
        lambda s, o: s.OneCycleLR(o, max_lr=0.5, total_steps=100),
        [0.020000000000000018, 0.021406890282953728, 0.025611066629579238, 0.032563238916127446, 0.08576108193844861,
         0.14758197423205038, 0.47781810072102965, 0.396946725287866, 2e-06],
    ),
    "OneCycleLR linear": (
        lambda s, o: s.OneCycleLR(o, max_lr=[0.5, 0.1], epochs=20, steps_per_epoch=6, anneal_strategy="linear", pct_start=0.4),
        [0.02, 0.03021276595744681, 0.04042553191489362, 0.05063829787234042, 0.09148936170212765, 0.12212765957446808,
         0.2753191489361702, 0.47916675, 0.13889033333333334],
    ),
    "OneCycleLR three": (
        lambda s, o: s.OneCycleLR(o, 0.5, total_steps=110, three_phase=True, div_factor=10, final_div_factor=100),
        [0.04999999999999999, 0.051083436498755685, 0.05432331190927314, 0.05968842446025302, 0.10107264799338417, 0.14999669757058948,
         0.4489273520066158, 0.23110467754637115, 0.0062904000328052965],
    ),
    "OneCycleLR momentum": (
        lambda s, o: s.OneCycleLR(o, 0.5, 100, base_momentum=0.7, max_momentum=[0.9, 0.99], three_phase=True, anneal_strategy="linear"),
        [0.02, 0.036551724137931035, 0.05310344827586207, 0.0696551724137931, 0.13586206896551725, 0.18551724137931033,
         0.4337931034482758, 0.15241379310344827, 1.9999999999985307e-06],
    ),
    "OneCycleLR rate alone": (
        lambda s, o: s.OneCycleLR(o, 0.5, total_steps=100, cycle_momentum=False),
        [0.020000000000000018, 0.021406890282953728, 0.025611066629579238, 0.032563238916127446, 0.08576108193844861,
         0.14758197423205038, 0.47781810072102965, 0.396946725287866, 2e-06],
    ),
    "CyclicLR": (
        lambda s, o: s.CyclicLR(o, 0.01, 0.3, step_size_up=8),
        [0.01, 0.04625, 0.08249999999999999, 0.11874999999999998, 0.26375, 0.22749999999999998, 0.26375, 0.08249999999999999,
         0.11874999999999998],
    ),
    "CyclicLR triangular2": (
        lambda s, o: s.CyclicLR(o, 0.01, [0.3, 0.2], 6, 10, mode="triangular2", base_momentum=0.6, max_momentum=0.95),
        [0.01, 0.05833333333333333, 0.10666666666666665, 0.155, 0.271, 0.184, 0.11149999999999999, 0.02208333333333333, 0.012265625],
    ),
    "CyclicLR exp_range": (
        lambda s, o: s.CyclicLR(o, 0.01, 0.3, 8, mode="exp_range", gamma=0.98, cycle_momentum=False),
        [0.01, 0.045524999999999996, 0.07962899999999998, 0.11235462999999997, 0.23028685406135516, 0.1877133354980414,
         0.16312917518139503, 0.03640230180631596, 0.02471671092199427],
    ),
    "CyclicLR function": (
        lambda s, o: s.CyclicLR(o, 0.01, 0.3, 8, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"),
        [0.01, 0.028124999999999997, 0.034166666666666665, 0.0371875, 0.04171875, 0.02977272727272727, 0.019759615384615382,
         0.01142156862745098, 0.0110875],
    ),
}  # fmt: skip


def optimizer_of(lib, params, name="SGD"):
    """Two groups with rates of their own."""
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.02}]
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    return getattr(lib.optim, name)(groups, lr=0.4, **options)


def advance(scheduler, n):
    """The step after epoch n: a plateau wants a metric, here one that falls, stays, and is noisy."""
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(math.exp(-n / 10) + 0.05 * math.sin(n * n))
    else:
        scheduler.step()
