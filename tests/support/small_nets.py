"""A net with parameters and buffers of both kinds, and when two tensors are the same."""

import numpy as np

import symgrad as sg
from symgrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("steps", sg.zeros(1))
        self.register_buffer("scratch", sg.zeros(1), persistent=False)
        self.scale = nn.Parameter(sg.ones(2))

    def forward(self, x):
        return self.second(sg.relu(self.first(x))) * self.scale


def same(a, b):
    return np.array_equal(a.detach().numpy(), b.detach().numpy())
