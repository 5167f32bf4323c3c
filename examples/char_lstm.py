"""A character LSTM: it reads an old rhyme letter by letter, and then goes on by itself.

What is learnt: `nn.LSTM` with two layers and a state that is carried along; windows cut out of a long text; clipped gradients; sampling
with a temperature. The rhyme is cumulative: each verse is the one before with a line in front. Inside a verse everything follows from
what was said, and the net is sure; which verse comes next lies further back than the windows reach, and there it has to guess.
"""

from __future__ import annotations

import numpy as np
from common import BLUE, GREY, canvas, options, save

import symgrad as sg
from symgrad import nn, optim

HOUSE = (
    ("house that Jack built", "lay in"), ("malt", "ate"), ("rat", "killed"), ("cat", "worried"), ("dog", "tossed"),
    ("cow with the crumpled horn", "milked"), ("maiden all forlorn", "kissed"), ("man all tattered and torn", "married"),
    ("priest all shaven and shorn", "woke"), ("rooster that crowed in the morn", "fed"), ("farmer sowing his corn", ""),
)  # fmt: skip


def rhyme():
    """All verses: "This is the dog that worried the cat that killed the rat that ..."."""
    verses = []
    for last in range(len(HOUSE)):
        lines = [f"This is the {HOUSE[last][0]}"]
        lines += [f"that {HOUSE[i][1]} the {HOUSE[i][0]}" for i in reversed(range(last))]
        verses.append("\n".join(lines) + ".\n")
    return "\n".join(verses)


class CharacterModel(nn.Module):
    """Letters in, scores for the next letter out."""

    def __init__(self, letters, width=64, layers=2):
        super().__init__()
        self.letters = letters
        self.embedding = nn.Embedding(len(letters), width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.output = nn.Linear(width, len(letters))

    def forward(self, codes, state=None):
        h, state = self.lstm(self.embedding(codes), state)
        return self.output(h), state

    def encode(self, text):
        return sg.tensor([self.letters.index(letter) for letter in text])

    @sg.no_grad()
    def sample(self, start, length, temperature=0.5):
        """Text that goes on after `start`, and the probability that each of its letters had."""
        text, sure, state = start, [1.0] * len(start), None
        codes = self.encode(start).unsqueeze(0)
        for _ in range(length):
            scores, state = self(codes, state)
            chances = (scores[0, -1] / temperature).softmax(0)
            codes = sg.multinomial(chances, 1).unsqueeze(0)
            text += self.letters[codes.item()]
            sure.append(chances[codes.item()].item())
        return text, sure


def train(model, text, steps, window=64, batch=32):
    """The loss of every step, in bits for a letter."""
    codes = model.encode(text)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    history = []
    for step in range(steps):
        places = sg.randint(0, len(codes) - window, (batch, 1)) + sg.arange(window + 1)
        letters = codes[places]
        scores, _ = model(letters[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), letters[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        history.append(loss.item() / np.log(2))
        if step % 50 == 0 or step == steps - 1:
            print(f"  step {step:3d}   {history[-1]:.2f} bits a letter   {model.sample('This is the ', 40)[0]!r}")
    return history


def picture(path, history, letters, text, sure):
    figure, (curve, page) = canvas("A character LSTM recites", (3.8, 6.4))
    curve.plot(history, color=BLUE)
    curve.axhline(np.log2(letters), color=GREY, linestyle=":", linewidth=1)
    curve.text(len(history), np.log2(letters) - 0.2, "all letters alike", color=GREY, ha="right", fontsize=8)
    curve.set(xlabel="step", ylabel="bits a letter", ylim=(0, None), title="Loss")

    shown, place = np.full((14, 44), np.nan), 0
    for row, line in enumerate(text.split("\n")[:14]):
        for column, letter in enumerate(line[:44]):
            shown[row, column] = sure[place + column]
            page.text(column, row, letter, ha="center", va="center", family="monospace", fontsize=8)
        place += len(line) + 1
    image = page.imshow(shown, cmap="Oranges_r", vmin=-0.6, vmax=1, aspect="auto", interpolation="nearest")
    page.set(xticks=(), yticks=(), title="What it wrote; dark where it was in doubt")
    page.spines[:].set_visible(False)
    figure.colorbar(image, ax=page, label="probability of the letter", boundaries=np.linspace(0, 1, 101), ticks=(0, 0.5, 1))
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, steps=(400, 30))
    sg.manual_seed(0)
    text = rhyme()
    model = CharacterModel(sorted(set(text)))
    print(f"{len(text)} letters, {len(model.letters)} of them different; {sum(p.numel() for p in model.parameters())} parameters")
    history = train(model, text, args.steps)
    written, sure = model.sample("This is the man", 400)
    words = written.split()[4:-1]
    known = sum(word in text.split() for word in words) / len(words)
    print(f"\n{written}\n\n{history[-1]:.2f} bits a letter; {known:.0%} of the words that it wrote are words of the rhyme")
    picture(args.output, history, len(model.letters), written, sure)
    return {"bits": history, "known": known, "text": written}


if __name__ == "__main__":
    main()
