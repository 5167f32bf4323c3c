"""A training with dropout, a shuffled loader and Adam, which a checkpoint interrupts. Run as a program, it goes on from one."""

from __future__ import annotations

import sys

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 16)
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        return self.last(F.dropout(self.first(x).tanh(), 0.5, self.training))


class Training:
    def __init__(self, seed):
        sg.manual_seed(seed)
        self.net = Net()
        self.optimizer = sg.optim.Adam(self.net.parameters(), lr=0.05, weight_decay=0.01, amsgrad=True)
        self.scheduler = sg.optim.lr_scheduler.MultiStepLR(self.optimizer, [1, 3], gamma=0.3)
        self.generator = sg.Generator().manual_seed(seed)
        data = sg.rand(20, 3, generator=sg.Generator().manual_seed(1))
        self.loader = DataLoader(TensorDataset(data, data.prod(1, keepdim=True)), batch_size=4, shuffle=True, generator=self.generator)
        self.losses = []

    def run(self, epochs):
        for _ in range(epochs):
            for x, y in self.loader:
                loss = F.mse_loss(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
            self.scheduler.step()
        return self

    def save(self, path):
        checkpoint = {
            "net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
            "losses": self.losses, "random": sg.get_rng_state(), "generator": self.generator.get_state(),
        }  # fmt: skip
        sg.save(checkpoint, path)

    def load(self, path):
        checkpoint = sg.load(path)
        self.net.load_state_dict(checkpoint["net"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scheduler.load_state_dict(checkpoint["scheduler"])
        self.losses = checkpoint["losses"]
        sg.set_rng_state(checkpoint["random"])
        self.generator.set_state(checkpoint["generator"])
        return self


if __name__ == "__main__":
    Training(99).load(sys.argv[1]).run(2).save(sys.argv[2])
