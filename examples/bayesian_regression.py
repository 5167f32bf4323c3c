"""Bayesian regression by Hamiltonian Monte Carlo: a band of curves in place of one.

What is learnt: `autograd.grad` serves whoever needs a gradient, not only optimizers. Here it is the force in a mechanical system whose
potential is the negative log posterior; rolling along its trajectories draws weights from the posterior. Many chains are one batch:
each row of the gradient of a sum over chains belongs to one chain. The posterior of this model is a known Gaussian, and the samples
have to agree with it.
"""

from __future__ import annotations

import numpy as np
from common import BLUE, GREEN, GREY, RED, canvas, options, save

import symgrad as sg

DEGREE, NOISE, PRIOR = 5, 0.2, 1.0  # of the polynomial; standard deviations of the data and of the weights
CHAINS, STEP, LEAPS = 8, 0.04, 30
WARM_UP = 100  # draws on the way from the start to where the posterior is; they do not count


def features(x):
    """Legendre polynomials up to DEGREE, by their recurrence."""
    columns = [sg.ones_like(x), x]
    for n in range(1, DEGREE):
        columns.append(((2 * n + 1) * x * columns[n] - n * columns[n - 1]) / (n + 1))
    return sg.stack(columns, 1)


def potential(weights, design, y):
    """The negative log posterior of each row of weights, up to a constant."""
    missed = y - weights @ design.T
    return missed.square().sum(1) / (2 * NOISE**2) + weights.square().sum(1) / (2 * PRIOR**2)


def leapfrog(position, momentum, energy):
    """Follow the trajectory for LEAPS steps, with half a kick at either end."""

    def kick(momentum, size):
        position.requires_grad_()
        (gradient,) = sg.autograd.grad(energy(position).sum(), position)
        position.requires_grad_(False)
        return momentum - size * gradient

    momentum = kick(momentum, STEP / 2)
    for leap in range(LEAPS):
        position = position + STEP * momentum
        momentum = kick(momentum, STEP if leap < LEAPS - 1 else STEP / 2)
    return position, momentum


def sample(energy, position, draws):
    """One state of all chains after another: (draws, chains, weights), and the share of the proposals that was taken."""
    states, accepted = [], 0.0
    for draw in range(WARM_UP + draws):
        momentum = sg.randn(position.shape, dtype=position.dtype)
        new_position, new_momentum = leapfrog(position, momentum, energy)
        before = energy(position) + momentum.square().sum(1) / 2
        after = energy(new_position) + new_momentum.square().sum(1) / 2
        taken = sg.rand(len(position), dtype=position.dtype) < (before - after).exp()
        position = sg.where(taken.unsqueeze(1), new_position, position)
        states.append(position)
        accepted += taken.double().mean().item()
        if draw % 300 == 0:
            print(f"  draw {draw:4d}   potential {energy(position).mean().item():.2f}")
    return sg.stack(states[WARM_UP:]), accepted / (WARM_UP + draws)


def exact_posterior(design, y):
    """Mean and covariance: the precision is XᵀX / noise² + I / prior²."""
    covariance = sg.linalg.inv(design.T @ design / NOISE**2 + sg.eye(design.shape[1], dtype=design.dtype) / PRIOR**2)
    return covariance @ design.T @ y / NOISE**2, covariance


def picture(path, x, y, states, mean, covariance):
    figure, (bands, trace, corner) = canvas("Bayesian regression by Hamiltonian Monte Carlo", (4.6, 3.4, 3.4))
    grid = sg.linspace(-1, 1, 201, dtype=x.dtype)
    curves = states.flatten(0, 1) @ features(grid).T
    low, high = sg.quantile(curves[::7], sg.tensor([0.025, 0.975], dtype=x.dtype), dim=0)
    spread = (features(grid) @ covariance * features(grid)).sum(1).sqrt()
    bands.fill_between(grid, low, high, color=BLUE, alpha=0.25, label="95% of the sampled curves")
    bands.plot(grid, curves.mean(0), color=BLUE, label="their mean")
    for sign, label in ((-1, "exact 95% band"), (1, None)):
        bands.plot(grid, features(grid) @ mean + sign * 1.96 * spread, color=RED, linestyle="--", linewidth=1.2, label=label)
    bands.scatter(x, y, s=14, color=GREY, zorder=3, label="data")
    bands.set(xlabel="x", ylabel="y", xticks=(-1, -0.5, 0, 0.5, 1), title="Posterior of the curve")
    bands.legend(frameon=False, fontsize=8)

    for weight, colour in ((1, BLUE), (3, GREEN)):
        trace.plot(states[:200, 0, weight], color=colour, linewidth=0.8, label=f"$w_{weight}$")
        trace.axhline(mean[weight].item(), color=RED, linestyle="--", linewidth=1.2)
    trace.set(xlabel="draw", title="One chain; exact means dashed")
    trace.legend(frameon=False, ncols=2, loc="center")

    first, second = 0, 2
    corner.scatter(states[::10, :, first].flatten(), states[::10, :, second].flatten(), s=5, color=BLUE, alpha=0.3, label="samples")
    angle = np.linspace(0, 2 * np.pi, 100)
    root = np.linalg.cholesky(covariance.numpy()[np.ix_((first, second), (first, second))])
    for deviations in (1, 2):
        ellipse = mean.numpy()[[first, second], None] + deviations * root @ np.stack([np.cos(angle), np.sin(angle)])
        corner.plot(*ellipse, color=RED, linestyle="--", label="exact: 1 and 2 standard deviations" if deviations == 1 else None)
    corner.set(xlabel="$w_0$", ylabel="$w_2$", ylim=(-1.6, 0.7), title="Joint posterior of two weights")
    corner.legend(frameon=False, fontsize=8)
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, draws=(1500, 100))
    sg.manual_seed(0)
    u = sg.rand(24, dtype=sg.float64)
    x = sg.cat([0.4 * u[:8] - 1, 0.8 * u[8:] + 0.2])  # nothing between -0.6 and 0.2
    y = sg.sin(4 * x) + NOISE * sg.randn(24, dtype=sg.float64)
    design = features(x)
    mean, covariance = exact_posterior(design, y)

    print(f"{CHAINS} chains of {args.draws} draws, {LEAPS} leapfrog steps each")
    states, accepted = sample(lambda w: potential(w, design, y), sg.randn(CHAINS, DEGREE + 1, dtype=sg.float64), args.draws)
    samples = states.flatten(0, 1)
    deviation = covariance.diagonal().sqrt()
    mean_error = ((samples.mean(0) - mean) / deviation).abs().max().item()
    covariance_error = ((sg.cov(samples.T) - covariance) / sg.outer(deviation, deviation)).abs().max().item()
    print(f"{accepted:.0%} of the proposals were accepted")
    print(f"sampled mean is within {mean_error:.3f} standard deviations of the exact mean, in every weight")
    print(f"sampled covariance is within {covariance_error:.3f} of the exact one, in units of the standard deviations")
    picture(args.output, x, y, states, mean, covariance)
    return {"accepted": accepted, "mean_error": mean_error, "covariance_error": covariance_error}


if __name__ == "__main__":
    main()
