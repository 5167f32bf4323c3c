"""Layers and models."""

from symgrad.nn import functional as functional, init as init, parameter as parameter, utils as utils
from symgrad.nn.activation import ReLU as ReLU, Sigmoid as Sigmoid, Tanh as Tanh
from symgrad.nn.container import ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from symgrad.nn.linear import Flatten as Flatten, Identity as Identity, Linear as Linear
from symgrad.nn.loss import L1Loss as L1Loss, MSELoss as MSELoss
from symgrad.nn.module import Module as Module
from symgrad.nn.parameter import Buffer as Buffer, Parameter as Parameter
from symgrad.nn.parameter_container import ParameterDict as ParameterDict, ParameterList as ParameterList

from symgrad.nn import modules as modules  # isort: skip
