"""Kernels on raw arrays that NumPy does not have, called by the rows of the op table."""

from .convolution import (
    convolution as convolution,
    convolution_transpose as convolution_transpose,
    convolution_weight as convolution_weight,
)
from .pooling import (
    adaptive_avg_pool as adaptive_avg_pool,
    adaptive_avg_unpool as adaptive_avg_unpool,
    avg_pool as avg_pool,
    avg_unpool as avg_unpool,
    max_pool as max_pool,
    pool_gather as pool_gather,
    pool_scatter as pool_scatter,
    pooled_shape as pooled_shape,
)
from .recurrent import gru as gru, gru_back as gru_back, lstm as lstm, lstm_back as lstm_back, previous as previous
