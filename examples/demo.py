"""One Python function, three lives: eager tensors, a formula, a compiled kernel; and the three agree.

Run it after `pip install .`: it takes a few seconds, most of them to load SymPy and JAX.
"""

import numpy as np

import symgrad as sg


def loss(x, w1, w2, y):
    """Two layers, and the squared error."""
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


def wave(t):
    """A function of one number."""
    return t * t.sin() + (-(t**2)).exp() / 2


def title(text):
    print(f"\n{text}\n{'─' * len(text)}")


def show(function, *args, wrt):
    """The gradient of `function` in the argument `wrt`, three times."""
    title("1. Eager: it runs now, is recorded, and backward() fills .grad")
    names = function.__code__.co_varnames[: len(args)]
    leaf = args[names.index(wrt)]
    function(*args).backward()
    print(leaf.grad)

    title("2. Symbolic: the same recording as a formula")
    derivation = sg.derive(function, wrt=wrt)(*args)
    print(derivation)
    _, by_formula = derivation(*args)

    title("3. Compiled: the same graph as JAX source, run by XLA")
    fast = sg.compile(function)
    _, by_kernel = fast.value_and_grad(*args, wrt=wrt)
    print(fast.source("grad", wrt=wrt).rstrip())

    title("All three agree")
    eager = leaf.grad.numpy()
    for name, gradient in (("formula", by_formula), ("kernel", by_kernel)):
        difference = np.abs(gradient.numpy() - eager).max()
        print(f"{name:>8} against eager: largest difference {difference:.1e}")
        assert np.allclose(gradient.numpy(), eager, rtol=1e-12, atol=1e-12)


def main():
    sg.set_default_dtype(sg.float64)
    sg.manual_seed(0)
    print("A function of one number: t sin(t) + exp(-t²)/2")
    show(wave, sg.tensor(0.7, requires_grad=True), wrt="t")
    print("\n\nThe loss of a network of two layers")
    x, y = sg.randn(4, 3), sg.randn(4, 2)
    w1, w2 = sg.randn(3, 5, requires_grad=True), sg.randn(5, 2, requires_grad=True)
    show(loss, x, w1, w2, y, wrt="w1")


if __name__ == "__main__":
    main()
