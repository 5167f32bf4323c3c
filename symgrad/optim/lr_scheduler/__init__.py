"""Schedules of the learning rate."""

from symgrad.optim.lr_scheduler.combined import ChainedScheduler as ChainedScheduler, SequentialLR as SequentialLR
from symgrad.optim.lr_scheduler.cosine import (
    CosineAnnealingLR as CosineAnnealingLR,
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from symgrad.optim.lr_scheduler.cycles import CyclicLR as CyclicLR, OneCycleLR as OneCycleLR
from symgrad.optim.lr_scheduler.factors import (
    ConstantLR as ConstantLR,
    ExponentialLR as ExponentialLR,
    LinearLR as LinearLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)
from symgrad.optim.lr_scheduler.functions import LambdaLR as LambdaLR, MultiplicativeLR as MultiplicativeLR
from symgrad.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from symgrad.optim.lr_scheduler.scheduler import LRScheduler as LRScheduler

_LRScheduler = LRScheduler  # the name that it once had
