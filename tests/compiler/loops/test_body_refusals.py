"""What the body of a loop or branch cannot do: the error names the line and the way out, and nothing has changed."""

import pytest
from doubles import tensor

import symgrad as sg
from symgrad.errors import GraphError, TraceError


def test_a_question_in_a_body_names_the_line_and_the_way_out():
    def step(c, x):
        if c.sum() > 0:
            return c, x
        return x, c

    with pytest.raises(sg.errors.TraceError, match=r"test_body_refusals.py:\d+: bool\(tensor\).*body of a loop.*sg.cond\(pred"):
        sg.compile(lambda x: sg.scan(step, x[0], x))(tensor(3, 2))
    with pytest.raises(sg.errors.TraceError, match=r"item\(\).*compute with tensors"):
        sg.compile(lambda x: sg.scan(lambda c, v: (c * v.sum().item(), v), x[0], x))(tensor(3, 2))


@pytest.mark.parametrize("wrap", [lambda f: f, sg.compile], ids=["eager", "compiled"])
def test_a_carry_that_changes_its_type_is_named(wrap):
    with pytest.raises(TypeError, match=r"carry\['h'\] must keep its shape and dtype: it is float64\[3\], then float64\[1, 3\].*_refusals"):
        wrap(lambda x: sg.scan(lambda c, _: ({"h": c["h"][None], "n": c["n"]}, None), {"h": x, "n": 0}, length=2))(tensor(3))
    with pytest.raises(TypeError, match=r"carry\[1\] must keep its shape and dtype: it is int64\[\], then float64\[\]"):
        wrap(lambda x: sg.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + x.sum()), (x, 0)))(tensor(3))
    with pytest.raises(TypeError, match=r"carry must keep its form: a tuple of 2 is wanted, a dict of \['a'\] came"):
        wrap(lambda x: sg.scan(lambda c, _: ({"a": x}, None), (x, x), length=2))(tensor(3))
    with pytest.raises(TypeError, match=r"f must return \(carry, y\)"):
        wrap(lambda x: sg.scan(lambda c, v: c, x, x))(tensor(3))


def test_branches_of_different_types_are_named():
    f = sg.compile(lambda x: sg.cond(x.sum() > 0, lambda: (x, x), lambda: (x, x.sum())))
    with pytest.raises(TypeError, match=r"result\[1\].*true_fn \(.*gives float64\[3\], false_fn gives float64\[\]"):
        f(tensor(3))


def test_lengths_that_do_not_fit():
    with pytest.raises(ValueError, match=r"xs\[1\] has 4 entries along its first dimension where 3 are wanted"):
        sg.scan(lambda c, x: (c, None), sg.zeros(1), (sg.zeros(3), sg.zeros(4)))
    with pytest.raises(ValueError, match="length= must say"):
        sg.scan(lambda c, x: (c, None), sg.zeros(1))
    with pytest.raises(ValueError, match="no first dimension"):
        sg.scan(lambda c, x: (c, None), sg.zeros(1), sg.zeros(()))
    with pytest.raises(TypeError, match="max_steps"):
        sg.while_loop(lambda c: c < 1, lambda c: c, sg.zeros(()), max_steps=-1)
    with pytest.raises(TypeError, match="one truth value"):
        sg.cond(sg.zeros(2), lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match=r"carry is .*str"):
        sg.scan(lambda c, x: (c, None), "text", length=1)


def test_random_numbers_in_a_loop_of_unknown_length_within_another_are_refused_and_none_is_used_up():
    sg.manual_seed(3)
    step = lambda c, x: (sg.while_loop(lambda c: c.sum() < 9, lambda c: c + sg.randn(2), c), None)
    f = sg.compile(lambda x: sg.scan(step, x[0], x)[0])
    with pytest.raises(sg.errors.TraceError, match=r"test_body_refusals.py:\d+: random numbers.*pass them as xs"):
        f(sg.ones(3, 2))
    found = sg.randn(2)
    sg.manual_seed(3)
    assert found.tolist() == sg.randn(2).tolist()


def test_writes_to_what_is_outside_are_refused():
    total = sg.zeros(2)

    def step(c, x):
        total.add_(x)
        return c, None

    with pytest.raises(sg.errors.TraceError, match="a part of the carry"):
        sg.compile(lambda x: sg.scan(step, x[0], x)[0])(sg.ones(3, 2))
    assert total.tolist() == [0, 0]
    norm = sg.nn.BatchNorm1d(2)
    with pytest.raises(sg.errors.TraceError, match="running statistics"):
        sg.compile(lambda x: sg.scan(lambda c, v: (norm(v), None), x[0], x)[0])(sg.ones(3, 4, 2))
    assert norm.num_batches_tracked.item() == 0


def test_gradients_that_are_set_in_a_body_are_refused():
    w = tensor(2)

    def step(c, x):
        w.grad = c * 2
        return c + x, None

    with pytest.raises(sg.errors.TraceError, match="as a result instead"):
        sg.compile(lambda x: sg.scan(step, x[0], x)[0])(tensor(3, 2))
    with pytest.raises(sg.errors.TraceError, match="body of a loop"):
        sg.compile(lambda x: sg.scan(lambda c, v: ((c * w).sum().backward(), None), x[0], x)[0])(tensor(3, 2))
    assert w.grad is None


def test_a_tensor_that_leaves_a_body_by_the_side_is_refused():
    kept = []

    def step(c, x):
        kept.append(c * 2)
        return c + x, None

    with pytest.raises(sg.errors.TraceError, match="kept outside"):
        sg.compile(lambda x: sg.scan(step, x[0], x)[0])(sg.ones(3, 2))


def test_the_mode_of_a_module_inside_a_body_is_looked_at():
    layer = sg.nn.Sequential(sg.nn.Linear(2, 2), sg.nn.Dropout(0.5)).eval()
    f = sg.compile(lambda x: sg.scan(lambda c, v: (layer(c) + v, None), x[0], x)[0])
    x = sg.ones(3, 2)
    f(x)
    layer.train()
    sg.manual_seed(1)
    found = f(x)
    sg.manual_seed(1)
    assert sg.allclose(found, f.signature.function(x))
    assert len(f.recompiles()) == 2


@pytest.mark.parametrize("init", [sg.zeros(2), sg.zeros(2, dtype=sg.int64)])
def test_what_a_step_gets_is_not_written_to(init):
    def f(xs):
        return sg.scan(lambda c, x: (c.add_(x), None), init, xs)[0]

    with pytest.raises(TraceError, match=r"test_body_refusals.py:\d+: what a step gets is written to in place"):
        sg.compile(f)(sg.ones(3, 2, dtype=init.dtype))

    def g(xs):
        return sg.scan(lambda c, x: (c.clone().add_(x), None), init, xs)[0]

    assert sg.compile(g)(sg.ones(3, 2, dtype=init.dtype)).tolist() == [3, 3]


def test_bounds_are_whole_numbers():
    for bounds in ((0, 2.5), (0.0, 2)):
        with pytest.raises(TypeError, match="fori_loop: bounds are whole numbers, or tensors of them, got float"):
            sg.fori_loop(*bounds, lambda i, c: c * 2, sg.ones(2))


def test_a_loop_without_a_derivative_is_named_by_its_line():
    fast = sg.compile(lambda x: sg.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, x).sum())
    for ask in (lambda: fast.grad(sg.ones(2)), lambda: fast(sg.ones(2, requires_grad=True)).backward()):
        with pytest.raises(GraphError, match=r"test_body_refusals.py:\d+: a while_loop has no derivative in reverse"):
            ask()
