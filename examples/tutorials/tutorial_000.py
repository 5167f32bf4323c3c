"""Tensors, backpropagation by hand, what autograd keeps and frees, and new Functions."""

import symgrad as torch
from symgrad.autograd import Function

# --- tensors and in-place operations ------------------------------------------------------------------------------------------------
x = torch.ones(2, 2)
y = x.add_(1)  # a trailing underscore: in place, same memory
print(x, y is x)
n = x.numpy()
n[0, 0] = 5  # shared with NumPy
print(x)
z = torch.from_numpy(n)
z.mul_(2)
print(n)

# --- backpropagation by hand --------------------------------------------------------------------------------------------------------
torch.manual_seed(0)
dtype = torch.float
device = torch.device("cpu")
N, D_in, H, D_out = 64, 1000, 100, 10
x = torch.randn(N, D_in, device=device, dtype=dtype)
y = torch.randn(N, D_out, device=device, dtype=dtype)
w1 = torch.randn(D_in, H, device=device, dtype=dtype)
w2 = torch.randn(H, D_out, device=device, dtype=dtype)

learning_rate = 1e-6
for t in range(500):
    h = x.mm(w1)
    h_relu = h.clamp(min=0)
    y_pred = h_relu.mm(w2)

    loss = (y_pred - y).pow(2).sum().item()
    if t < 3 or t == 499:
        digits = ".0e" if t == 499 else ".3g"
        print(t, f"{loss:{digits}}")

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.t().mm(grad_y_pred)
    grad_h_relu = grad_y_pred.mm(w2.t())
    grad_h = grad_h_relu.clone()
    grad_h[h < 0] = 0
    grad_w1 = x.t().mm(grad_h)

    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

# --- what autograd promises ---------------------------------------------------------------------------------------------------------
# 1. buffers: z = y**2 with y = 2x**2 + x at x = 3 has dz/dy = 42, dy/dx = 13
x = torch.tensor(3.0, requires_grad=True)
y = 2 * x**2 + x
z = y**2
y.retain_grad()
z.backward()
print(y.grad, x.grad)

# 2. what is computed from a tensor that requires grad requires grad
a, b = torch.ones(2), torch.ones(2, requires_grad=True)
print((a + a).requires_grad, (a + b).requires_grad, ((a + b) * 2).requires_grad)

# 3. buffers are freed by backward, where there were any
x = torch.ones(2, requires_grad=True)
product = (x * x).sum()
product.backward()
try:
    product.backward()
except RuntimeError as error:
    print(str(error).split("(")[0])
total = (x + 1).sum()  # add and sum keep nothing
total.backward()
total.backward()
print(x.grad)

# 4. no in-place operations on leaves that require grad, nor on what a derivative needs
try:
    x += 1
except RuntimeError as error:
    print(error)
y = x * 2
z = y * y
y += 1
try:
    z.sum().backward()
except RuntimeError as error:
    print(str(error).split(":")[0])

# 5. no_grad
with torch.no_grad():
    print((x * 2).requires_grad)

# 6. detach
y = (x * 2).detach()
print(y.grad_fn, y.is_leaf, y.requires_grad)


# --- extending --------------------------------------------------------------------------------------------------------------------
class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0).squeeze(0)
        return grad_input, grad_weight, grad_bias


input = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
weight = torch.tensor([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]], requires_grad=True)
bias = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
output = LinearFunction.apply(input, weight, bias)
print(output)
output.sum().backward()
print(input.grad, weight.grad, bias.grad)
LinearFunction.apply(input.detach(), weight).sum().backward()  # no bias, no gradient for the input
print(weight.grad)


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


x = torch.tensor([0.0, 1.0], requires_grad=True)
y = Exp.apply(x)
print(y)
y.sum().backward()
print(x.grad)


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


torch.manual_seed(0)
x = torch.randn(N, D_in, device=device, dtype=dtype)
y = torch.randn(N, D_out, device=device, dtype=dtype)
w1 = torch.randn(D_in, H, device=device, dtype=dtype, requires_grad=True)
w2 = torch.randn(H, D_out, device=device, dtype=dtype, requires_grad=True)
for t in range(500):
    relu = MyReLU.apply
    y_pred = relu(x.mm(w1)).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    if t < 3 or t == 499:
        digits = ".0e" if t == 499 else ".3g"
        print(t, f"{loss.item():{digits}}")
    loss.backward()
    with torch.no_grad():
        w1 -= learning_rate * w1.grad
        w2 -= learning_rate * w2.grad
        w1.grad.zero_()
        w2.grad.zero_()
