"""The two-layer net of the PyTorch tutorial, trained twice: with the gradients of autograd, and with those of a formula.

What is learnt: `backward()` runs the recorded graph backwards and fills `.grad`; `sg.derive` turns the same Python function
into the closed form of its gradients, which can be read, and run in place of autograd. Both walk the same path.
"""

from __future__ import annotations

from common import BLUE, ORANGE, RED, canvas, options, save

import symgrad as sg

N, D_IN, H, D_OUT = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def loss(x, w1, w2, y):
    """A linear layer, ReLU, a linear layer; the squared error."""
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


def by_autograd(x, w1, w2, y):
    value = loss(x, w1, w2, y)
    value.backward()
    gradients = w1.grad, w2.grad
    w1.grad = w2.grad = None
    return value.detach(), gradients


def train(gradients_of, steps, x, w1, w2, y):
    """Gradient descent from the given weights, with `gradients_of` to compute the loss and its gradients."""
    w1, w2 = (w.detach().clone().requires_grad_() for w in (w1, w2))
    losses = []
    for step in range(steps):
        value, (gradient1, gradient2) = gradients_of(x, w1, w2, y)
        losses.append(value.item())
        with sg.no_grad():
            w1 -= LEARNING_RATE * gradient1
            w2 -= LEARNING_RATE * gradient2
        if step % 100 == 0 or step == steps - 1:
            print(f"  step {step:3d}   loss {losses[-1]:.3g}")
    return losses


def picture(path, autograd, formula, gradient, gradient_by_formula, derivation):
    figure, (left, right) = canvas("Two-layer net: autograd and the formula walk the same path", (4.6, 4.8))
    left.semilogy(autograd, color=BLUE, linewidth=4, alpha=0.5, label="gradients of autograd")
    left.semilogy(formula, color=RED, linewidth=1.5, linestyle="--", label="gradients of the formula")
    left.set(xlabel="step", ylabel="squared error", title="Loss")
    left.legend(frameon=False)

    line = derivation.latex().splitlines()[2].rstrip(" \\").replace("&", "").replace(r"\left", "").replace(r"\right", "")
    right.axline((0, 0), slope=1, color=ORANGE, linewidth=1, zorder=0)
    right.scatter(*(g.flatten()[::50] / 1e4 for g in (gradient, gradient_by_formula)), s=6, color=BLUE, alpha=0.4)
    right.set(xlabel="by autograd / 10⁴", ylabel="by the formula / 10⁴", title="Gradient in $w_1$, every 50th element")
    right.text(0.03, 0.9, f"${line}$", transform=right.transAxes)
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, steps=(500, 100))
    sg.manual_seed(0)
    x, y, w1, w2 = sg.randn(N, D_IN), sg.randn(N, D_OUT), sg.randn(D_IN, H, requires_grad=True), sg.randn(H, D_OUT, requires_grad=True)

    derivation = sg.derive(loss, wrt=("w1", "w2"))(x, w1, w2, y)
    print(derivation)
    _, (gradient, _) = by_autograd(x, w1, w2, y)
    _, (gradient_by_formula, _) = derivation(x, w1, w2, y)
    difference = ((gradient_by_formula - gradient).norm() / gradient.norm()).item()
    print(f"the two gradients in w1 differ by {difference:.1e} of their norm")

    print("training with autograd")
    autograd = train(by_autograd, args.steps, x, w1, w2, y)
    print("training with the formula")
    formula = train(derivation, args.steps, x, w1, w2, y)
    print(f"loss {autograd[0]:.3g} -> {autograd[-1]:.3g} with autograd, {formula[-1]:.3g} with the formula")
    picture(args.output, autograd, formula, gradient, gradient_by_formula, derivation)
    return {"difference": difference, "autograd": autograd, "formula": formula}


if __name__ == "__main__":
    main()
