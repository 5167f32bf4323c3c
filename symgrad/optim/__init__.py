"""Optimizers, and schedules of their learning rates."""

from symgrad.optim import lr_scheduler as lr_scheduler
from symgrad.optim.adadelta import Adadelta as Adadelta
from symgrad.optim.adagrad import Adagrad as Adagrad
from symgrad.optim.adam import Adam as Adam
from symgrad.optim.adamax import Adamax as Adamax
from symgrad.optim.adamw import AdamW as AdamW
from symgrad.optim.asgd import ASGD as ASGD
from symgrad.optim.lbfgs import LBFGS as LBFGS
from symgrad.optim.nadam import NAdam as NAdam
from symgrad.optim.optimizer import Optimizer as Optimizer
from symgrad.optim.radam import RAdam as RAdam
from symgrad.optim.rmsprop import RMSprop as RMSprop
from symgrad.optim.rprop import Rprop as Rprop
from symgrad.optim.sgd import SGD as SGD
