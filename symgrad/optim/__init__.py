"""Optimizers."""

from symgrad.optim.adam import Adam as Adam
from symgrad.optim.optimizer import Optimizer as Optimizer
from symgrad.optim.sgd import SGD as SGD
