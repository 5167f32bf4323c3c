"""What is no tensor, or no integer, where one has to be: a TypeError that names function, argument and place."""

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F

x = sg.ones(2, 3)


@pytest.mark.parametrize("wrong", [3, 2.5, [1.0, 2.0], None, "s", True])
@pytest.mark.parametrize(
    "function",
    [sg.sin, sg.sum, sg.logit, sg.reshape, sg.sort, sg.chunk, F.gelu, F.softmax, F.mse_loss, sg.linalg.inv],
    ids=lambda f: f.__name__,
)
def test_no_tensor_where_one_has_to_be(function, wrong):
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\).* must be Tensor, not {type(wrong).__name__}"):
        function(wrong, *((wrong,) if function is F.mse_loss else (2,) if function in (sg.reshape, sg.chunk, F.softmax) else ()))


def test_the_place_of_the_argument_is_named():
    with pytest.raises(TypeError, match=r"index_select\(\): argument 'index' \(position 3\) must be Tensor, not list"):
        sg.index_select(x, 0, [0])
    with pytest.raises(TypeError, match=r"cumsum\(\): argument 'dim' must be int, not float"):
        sg.cumsum(x, dim=1.5)
    with pytest.raises(TypeError, match=r"linear\(\): argument 'bias' \(position 3\) must be Tensor, not float"):
        F.linear(x, sg.ones(4, 3), 1.0)


def test_other_errors_keep_their_words():
    with pytest.raises(IndexError, match="Dimension out of range"):
        sg.cumsum(x, 5)
    assert sg.cumsum(x, np.int64(1)).tolist() == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
