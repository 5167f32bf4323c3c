"""Handwritten digits, read by a small convolutional net: over 97% of those that it has not seen, in a few seconds.

What is learnt: layers put together with `nn.Sequential`, batches from a `DataLoader`, and `sg.Model`, which has `fit`, `evaluate` and
`predict`, a progress bar, metrics, callbacks and a history, so that no loop has to be written. The 1797 images of 8 x 8 pixels come with
scikit-learn.
"""

from __future__ import annotations

import numpy as np
from common import BLUE, GREEN, ORANGE, RED, canvas, options, save
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg
from symgrad import nn, optim
from symgrad.training import LearningRateScheduler
from symgrad.utils.data import DataLoader, TensorDataset


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip


def data():
    """Images and labels to learn from, and a quarter of them held out."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
    return (sg.from_numpy(x), sg.from_numpy(y)), (sg.from_numpy(x_test), sg.from_numpy(y_test))


def picture(path, history, images, labels, predicted, sure, accuracy):
    figure, (curves, tiles, table) = canvas(f"Digits: {accuracy:.1%} of {len(labels)} held-out images are read right", (3.8, 3.4, 3.8))
    epochs = range(1, 1 + len(history["loss"]))
    curves.plot(epochs, history["accuracy"], color=ORANGE, label="training (with dropout)")
    curves.plot(epochs, history["val_accuracy"], color=BLUE, label="held out")
    curves.set(xlabel="epoch", ylabel="accuracy", title="Training", ylim=(None, 1.01), xticks=epochs[::-4])
    curves.legend(frameon=False, loc="lower right")

    doubtful = sure.argsort()[:20].tolist()
    framed = [np.pad(images[i, 0], ((4, 0), (2, 2))) for i in doubtful]
    page = np.vstack([np.hstack(framed[row : row + 5]) for row in range(0, 20, 5)])
    tiles.imshow(page, cmap="gray_r")
    for place, i in enumerate(doubtful):
        right = predicted[i] == labels[i]
        text = f"{predicted[i].item()}" if right else f"{predicted[i].item()}, not {labels[i].item()}"
        tiles.text(12 * (place % 5) + 1.5, 12 * (place // 5) + 2.5, text, color=GREEN if right else RED, fontsize=9)
    tiles.set(xticks=(), yticks=(), title="The 20 it is least sure of")
    tiles.spines[:].set_visible(False)

    counts = sg.zeros(10, 10, dtype=sg.int64).index_put_((labels, predicted), sg.ones_like(labels), accumulate=True)
    table.imshow(counts, cmap="Blues")
    for row, column in counts.nonzero().tolist():
        count = counts[row, column].item()
        table.text(column, row, count, ha="center", va="center", fontsize=8, color="white" if row == column else RED)
    table.set(xticks=range(10), yticks=range(10), xlabel="read as", ylabel="is", title="Confusion matrix")
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, epochs=(20, 2))
    sg.manual_seed(0)
    seen, held_out = data()
    batches = DataLoader(TensorDataset(*seen), batch_size=64, shuffle=True)
    net = network()
    optimizer = optim.Adam(net.parameters())
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, epochs=args.epochs, steps_per_epoch=len(batches))

    model = sg.Model(net, optimizer, loss="cross_entropy", metrics=["accuracy"])
    callbacks = [LearningRateScheduler(schedule, per="batch")]
    history = model.fit(batches, epochs=args.epochs, validation_data=held_out, callbacks=callbacks).history
    model.summary()

    images, labels = held_out
    sure, predicted = model.predict(images, verbose=0).softmax(1).max(1)
    accuracy = (predicted == labels).float().mean().item()
    print(f"{accuracy:.2%} of {len(labels)} held-out digits are read right")
    picture(args.output, history, images, labels, predicted, sure, accuracy)
    return {"accuracy": accuracy, "history": history}


if __name__ == "__main__":
    main()
