"""Helpers: clipping of gradients, parameters as one vector or computed from others, sequences of different lengths."""

from symgrad.nn.utils import parametrizations as parametrizations, parametrize as parametrize, rnn as rnn
from symgrad.nn.utils.clip_grad import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from symgrad.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector, vector_to_parameters as vector_to_parameters
from symgrad.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm, spectral_norm as spectral_norm
from symgrad.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm, weight_norm as weight_norm
