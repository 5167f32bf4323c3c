"""A net that is another one at every step: its depth is drawn by lot, and its middle layers share their weights.

What is learnt: the graph is what ran, so loops, `if` and dice of plain Python may stand in `forward`. A weight that is used three
times gets the sum of three gradients. One set of weights learns to serve at every depth from 0 to 3.
"""

from __future__ import annotations

import random

from common import BLUE, GREEN, GREY, ORANGE, PURPLE, canvas, options, save

import symgrad as sg
from symgrad import nn, optim

DEPTHS = range(4)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


class DynamicNet(nn.Module):
    """input, then 0 to 3 times the same middle layer, then output."""

    def __init__(self, d_in, hidden, d_out):
        super().__init__()
        self.input_linear = nn.Linear(d_in, hidden)
        self.middle_linear = nn.Linear(hidden, hidden)
        self.output_linear = nn.Linear(hidden, d_out)

    def forward(self, x, depth=None):
        if depth is None:
            depth = random.choice(DEPTHS)
        self.depth = depth
        h = self.input_linear(x).clamp(min=0)
        for _ in range(depth):
            h = self.middle_linear(h).clamp(min=0)
        return self.output_linear(h)


def nodes(tensor):
    """How many operations were recorded on the way to a tensor."""
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return len(seen)


def train(model, x, y, steps):
    """The depth and the loss of every step."""
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for step in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        history.append((model.depth, loss.item()))
        if step % 400 == 0 or step < 4:
            print(f"  step {step:4d}   depth {model.depth}   {nodes(loss):2d} nodes recorded   loss {loss.item():.4f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return history


def picture(path, history, model, x, y):
    figure, (left, right) = canvas("A dynamic net: random depth, shared weights", (5, 4.4))
    for depth, colour in zip(DEPTHS, COLOURS, strict=True):
        points = [(step, loss) for step, (drawn, loss) in enumerate(history) if drawn == depth]
        left.plot(*zip(*points, strict=True), color=colour, linewidth=1, label=f"depth {depth}")
        right.plot(x.flatten(), model(x, depth).detach().flatten(), color=colour, linewidth=1.8, label=f"depth {depth}")
    left.set(yscale="log", xlabel="step", ylabel="mean squared error", title="Loss of the depth that was drawn")
    left.legend(frameon=False)
    right.scatter(x.flatten()[::4], y.flatten()[::4], s=12, color=GREY, zorder=0, label="data")
    right.set(xlabel="x", ylabel="y", title="One set of weights, four nets")
    right.legend(frameon=False)
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, steps=(4000, 600))
    sg.manual_seed(0)
    random.seed(0)
    x = sg.linspace(-1, 1, 200).unsqueeze(1)
    y = sg.sin(5 * x) * sg.exp(-x) / 2 + 0.05 * sg.randn(200, 1)

    model = DynamicNet(1, 64, 1)
    print(model)
    history = train(model, x, y, args.steps)
    losses = [nn.functional.mse_loss(model(x, depth), y).item() for depth in DEPTHS]
    print("mean squared error by depth: " + ", ".join(f"{loss:.4f}" for loss in losses) + "; the noise alone is 0.0025")
    picture(args.output, history, model, x, y)
    return {"losses": losses, "history": history}


if __name__ == "__main__":
    main()
