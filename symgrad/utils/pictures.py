"""Arrays and figures as pictures for TensorBoard."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image
from tensorboard.compat.proto.summary_pb2 import Summary

from symgrad.errors import require
from symgrad.typing import Array

_COLUMNS = 8


def picture(tag: str, array: Array, dataformats: str) -> Any:
    """Floats in [0, 1] or bytes as a PNG; `dataformats` orders the letters H and W, C if there are channels, N if there are several."""
    letters = dataformats.upper()
    require(
        set("HW") <= set(letters) <= set("NHWC") and len(set(letters)) == len(letters) == array.ndim and array.size,
        "size of input tensor and input format are different, or the format is no order of H, W, C and N."
        f" tensor shape: {array.shape}, input_format: {letters}",
        AssertionError,
    )
    array = array.transpose([letters.index(letter) for letter in "NHWC" if letter in letters])
    array = array if "C" in letters else array[..., np.newaxis]
    array = array.repeat(3, axis=-1) if array.shape[-1] == 1 else array  # grey
    array = _grid(array) if "N" in letters else array
    pixels = (array.astype(np.float32) * (1 if array.dtype == np.uint8 else 255)).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    height, width, channels = pixels.shape
    image = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=stream.getvalue())
    return Summary.Value(tag=tag, image=image)


def _grid(pictures: Array) -> Array:
    """Pictures side by side, in rows of eight; what is left of the last row is black."""
    count, height, width, channels = pictures.shape
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    cells = np.zeros((rows * columns, height, width, channels), pictures.dtype)
    cells[:count] = pictures
    return cells.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(rows * height, columns * width, channels)


def drawn(figure: Any, close: bool) -> Array:
    """The pixels (H, W, C) of a Matplotlib figure."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    shown = figure.canvas
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels: Array = np.array(canvas.buffer_rgba())[..., :3]
    figure.set_canvas(shown)  # the new canvas has taken its place
    if close:
        pyplot.close(figure)
    return pixels
