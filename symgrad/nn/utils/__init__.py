"""Helpers around parameters and gradients, clipping, and all parameters as one vector; sequences of different lengths."""

from symgrad.nn.utils import rnn as rnn
from symgrad.nn.utils.clip_grad import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from symgrad.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector, vector_to_parameters as vector_to_parameters
