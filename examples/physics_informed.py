"""A physics-informed net: Burgers' equation, solved without a single data point.

    u_t + u u_x = ν u_xx   for -1 < x < 1 and 0 < t < 1,   u(x, 0) = -sin πx,   u(±1, t) = 0

What is learnt: `autograd.grad(..., create_graph=True)` records the derivatives that it computes. So u_t, u_x and u_xx of a net can
stand in the loss, and `backward()` goes through all of them: third derivatives, in the end. The net is built to meet the initial and
boundary values; what is left to minimise is how far it misses the equation. The exact solution (Cole and Hopf's) is for the picture only.
"""

from __future__ import annotations

import math

import numpy as np
from common import BLUE, GREEN, GREY, ORANGE, canvas, options, save

import symgrad as sg
from symgrad import nn, optim

VISCOSITY = 0.05


class Solution(nn.Module):
    """-sin πx + t (1 - x²) net(x, t), which is right at t = 0 and at x = ±1, whatever the net says."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x, t):
        return -sg.sin(math.pi * x) + t * (1 - x**2) * self.net(sg.cat((x, t), 1))


def slope(y, *points):
    """The derivatives of y in each of the points, recorded so that they can be differentiated again."""
    return sg.autograd.grad(y.sum(), points, create_graph=True)


def residual(u, x, t):
    """How far u misses the equation at the points (x, t)."""
    for points in (x, t):
        points.requires_grad_()
    value = u(x, t)
    u_x, u_t = slope(value, x, t)
    (u_xx,) = slope(u_x, x)
    return u_t + value * u_x - VISCOSITY * u_xx


def exact(x, t):
    """Cole and Hopf's solution; its two integrals by Gauss-Hermite quadrature."""
    z, weight = np.polynomial.hermite.hermgauss(100)
    y = x[..., None] - np.sqrt(4 * VISCOSITY * t)[..., None] * z
    weight = weight * np.exp(-np.cos(math.pi * y) / (2 * math.pi * VISCOSITY))
    return -(weight * np.sin(math.pi * y)).sum(-1) / weight.sum(-1)


def train(u, steps, points=512):
    """Adam on the mean squared residual at points that are drawn anew in every step."""
    optimizer = optim.Adam(u.parameters(), lr=5e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for step in range(steps):
        x, t = 2 * sg.rand(points, 1) - 1, sg.rand(points, 1)
        loss = residual(u, x, t).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % 500 == 0 or step == steps - 1:
            print(f"  step {step:4d}   mean squared residual {losses[-1]:.2e}")
    return losses


def on_grid(u, x, t):
    """Solution and residual on a grid, as arrays."""
    points = [sg.tensor(a.ravel()[:, None], dtype=sg.float32) for a in np.broadcast_arrays(x, t)]
    missed = residual(u, *points).detach()
    return (a.numpy().reshape(len(x), -1) for a in (u(*points).detach(), missed))


def picture(path, x, t, value, missed, truth, error):
    figure, (left, middle, right) = canvas(f"Burgers' equation by a physics-informed net: relative error {error:.2%}", (3.8, 3.8, 3.8))
    for panel, shown, scheme, limit, title in (
        (left, value, "RdBu_r", 1, "Solution u"), (right, missed, "PuOr", np.abs(missed).max(), "Residual of the equation"),
    ):
        image = panel.contourf(t[0], x[:, 0], shown, levels=np.linspace(-limit, limit, 21), cmap=scheme)
        panel.set(xlabel="t", ylabel="x", title=title)
        figure.colorbar(image, ax=panel, ticks=np.linspace(-limit, limit, 5), format="%.2f")
    for moment, colour in zip((0, 25, 50, 100), (GREY, GREEN, ORANGE, BLUE), strict=True):
        middle.plot(x, truth[:, moment], color=colour, linewidth=4, alpha=0.4)
        middle.plot(x, value[:, moment], color=colour, linewidth=1.2, label=f"t = {t[0, moment]:.2f}")
    middle.set(xlabel="x", ylabel="u", title="Net (thin) on exact (broad)")
    middle.legend(frameon=False, loc="upper right")
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, steps=(4000, 300))
    sg.manual_seed(0)
    u = Solution(width=32)
    losses = train(u, args.steps)

    x, t = np.linspace(-1, 1, 101)[:, None], np.linspace(0, 1, 101)[None]
    value, missed = on_grid(u, x, t)
    truth = exact(x, t)
    error = np.linalg.norm(value - truth) / np.linalg.norm(truth)
    print(f"relative error against the exact solution: {error:.2%}")
    picture(args.output, x, t, value, missed, truth, error)
    return {"losses": losses, "error": error}


if __name__ == "__main__":
    main()
