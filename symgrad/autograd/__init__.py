"""Reverse-mode differentiation of what was recorded: `backward`, `grad`, grad modes, `Function`, checks."""

from symgrad.autograd import functional as functional, graph as graph
from symgrad.autograd.anomaly import (
    detect_anomaly as detect_anomaly,
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
    set_detect_anomaly as set_detect_anomaly,
)
from symgrad.autograd.backward import backward as backward, grad as grad
from symgrad.autograd.function import Function as Function
from symgrad.autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from symgrad.autograd.gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
from symgrad.autograd.hooks import install as _install
from symgrad.autograd.variable import Variable as Variable

_install()
