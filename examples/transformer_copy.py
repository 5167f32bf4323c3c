"""A transformer that copies, or reverses: it is told which, sees ten digits, and has to write them down.

    input   R 3 1 4 1 5 9 2 6 5 3 . . . . . . . . . .
    answer                        3 5 6 2 9 5 1 4 1 3

What is learnt: token and position embeddings, `nn.TransformerEncoder`, a learning rate that rises and falls. And how the net does it:
the first layer lets every blank look at the command; in the last layer each blank looks at the one digit that it has to write,
along the diagonal for a copy, against it for a reversal.
"""

from __future__ import annotations

from common import BLUE, GREY, canvas, options, save

import symgrad as sg
from symgrad import nn, optim

LENGTH, DIGITS = 10, 10
BLANK, COPY, REVERSE = DIGITS, DIGITS + 1, DIGITS + 2


class Copier(nn.Module):
    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.token = nn.Embedding(DIGITS + 3, width)
        self.position = nn.Embedding(1 + 2 * LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.output = nn.Linear(width, DIGITS)

    def embed(self, tokens):
        return self.token(tokens) + self.position(sg.arange(tokens.shape[1]))

    def forward(self, tokens):
        """A score for every digit, at each of the blanks."""
        return self.output(self.encoder(self.embed(tokens))[:, -LENGTH:])

    def attention(self, tokens):
        """Who looks at whom in the last layer: (batch, from, to), the mean over the heads."""
        h = self.embed(tokens)
        *first, last = self.encoder.layers
        for layer in first:
            h = layer(h)
        return last.self_attn(h, h, h)[1]


def task(count):
    """Commands, digits and blanks; and what has to be in place of the blanks."""
    digits = sg.randint(0, DIGITS, (count, LENGTH))
    command = sg.randint(COPY, REVERSE + 1, (count, 1))
    blanks = sg.full((count, LENGTH), BLANK)
    return sg.cat((command, digits, blanks), 1), sg.where(command == COPY, digits, digits.flip(1))


def accuracy(scores, answer):
    return (scores.argmax(2) == answer).float().mean().item()


def train(model, steps):
    """The accuracy on the batch of every step, before it was learnt from."""
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    history = []
    for step in range(steps):
        tokens, answer = task(64)
        scores = model(tokens)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), answer.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        history.append(accuracy(scores, answer))
        if step % 50 == 0 or step == steps - 1:
            print(f"  step {step:3d}   loss {loss.item():.4f}   accuracy {history[-1]:.1%}")
    return history


def written(tokens):
    return ["0123456789.CR"[token] for token in tokens.tolist()]


def picture(path, history, model, result):
    figure, (curve, *maps) = canvas(f"A transformer copies and reverses: {result:.1%} of the digits right", (3.8, 3.3, 3.3))
    curve.plot(history, color=BLUE)
    curve.axhline(0.1, color=GREY, linestyle=":", linewidth=1)
    curve.text(len(history), 0.11, "by chance", color=GREY, ha="right", fontsize=8)
    curve.set(xlabel="step", ylabel="share of the digits that are right", ylim=(0, 1.03), title="Accuracy on new sequences")
    digits = sg.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]])
    for panel, command, name in zip(maps, (COPY, REVERSE), ("copy", "reverse"), strict=True):
        tokens = sg.cat((sg.tensor([[command]]), digits, sg.full((1, LENGTH), BLANK)), 1)
        with sg.no_grad():
            looks, answer = model.attention(tokens)[0, -LENGTH:, : 1 + LENGTH], model(tokens).argmax(2)[0]
        panel.imshow(looks, cmap="Blues", vmin=0, vmax=1)
        panel.set(xlabel="what is looked at: command and digits", ylabel="what is written", title=f"Attention in the last layer: {name}")
        panel.set_xticks(range(1 + LENGTH), written(tokens[0, : 1 + LENGTH]))
        panel.set_yticks(range(LENGTH), written(answer))
        panel.title.set_fontsize(11)
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, steps=(400, 60))
    sg.manual_seed(0)
    model = Copier()
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    history = train(model, args.steps)
    model.eval()
    with sg.no_grad():
        tokens, answer = task(2000)
        result = accuracy(model(tokens), answer)
    print(f"accuracy on 2000 new sequences: {result:.2%}")
    picture(args.output, history, model, result)
    return {"accuracy": result, "history": history}


if __name__ == "__main__":
    main()
