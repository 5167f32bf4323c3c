"""Layers and models."""

from symgrad.nn import functional as functional, init as init, parameter as parameter, utils as utils
from symgrad.nn.activation import *
from symgrad.nn.attention import *
from symgrad.nn.cell import *
from symgrad.nn.container import ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from symgrad.nn.convolution import *
from symgrad.nn.distance import *
from symgrad.nn.dropout import *
from symgrad.nn.embedding import *
from symgrad.nn.linear import *
from symgrad.nn.loss import *
from symgrad.nn.module import Module as Module
from symgrad.nn.normalization import *
from symgrad.nn.padding import *
from symgrad.nn.parameter import Buffer as Buffer, Parameter as Parameter
from symgrad.nn.parameter_container import ParameterDict as ParameterDict, ParameterList as ParameterList
from symgrad.nn.pooling import *
from symgrad.nn.rearranging import *
from symgrad.nn.recurrent import *
from symgrad.nn.transformer import *

from symgrad.nn import modules as modules  # isort: skip
