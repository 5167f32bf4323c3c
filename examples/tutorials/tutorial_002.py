"""From NumPy to nn: one network, written eight ways."""

import random

import numpy as np

import symgrad as torch

N, D_in, H, D_out = 64, 1000, 100, 10
learning_rate = 1e-6


def show(t, loss):
    if t < 3 or t == 199:
        print(t, f"{float(loss):.3g}")


# --- warm-up: NumPy -----------------------------------------------------------------------------------------------------------------
rng = np.random.RandomState(0)
x, y = rng.randn(N, D_in), rng.randn(N, D_out)
w1, w2 = rng.randn(D_in, H), rng.randn(H, D_out)
for t in range(200):
    h = x.dot(w1)
    h_relu = np.maximum(h, 0)
    y_pred = h_relu.dot(w2)
    loss = np.square(y_pred - y).sum()
    show(t, loss)

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.T.dot(grad_y_pred)
    grad_h_relu = grad_y_pred.dot(w2.T)
    grad_h = grad_h_relu.copy()
    grad_h[h < 0] = 0
    grad_w1 = x.T.dot(grad_h)
    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

# --- tensors and autograd -----------------------------------------------------------------------------------------------------------
device, dtype = torch.device("cpu"), torch.float
torch.manual_seed(0)
x = torch.randn(N, D_in, device=device, dtype=dtype)
y = torch.randn(N, D_out, device=device, dtype=dtype)
w1 = torch.randn(D_in, H, device=device, dtype=dtype, requires_grad=True)
w2 = torch.randn(H, D_out, device=device, dtype=dtype, requires_grad=True)
for t in range(200):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    show(t, loss.item())
    loss.backward()
    with torch.no_grad():
        w1 -= learning_rate * w1.grad
        w2 -= learning_rate * w2.grad
        w1.grad.zero_()
        w2.grad.zero_()


# --- a new Function -----------------------------------------------------------------------------------------------------------------
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


relu = MyReLU.apply
loss = (relu(x.mm(w1)).mm(w2) - y).pow(2).sum()
loss.backward()
print(f"{w1.grad.norm().item():.3g}")

# --- nn -----------------------------------------------------------------------------------------------------------------------------
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(D_in, H),
    torch.nn.ReLU(),
    torch.nn.Linear(H, D_out),
)
print(model)
loss_fn = torch.nn.MSELoss(reduction="sum")
learning_rate = 1e-4
for t in range(200):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    show(t, loss.item())
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= learning_rate * param.grad

# --- optim --------------------------------------------------------------------------------------------------------------------------
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(D_in, H), torch.nn.ReLU(), torch.nn.Linear(H, D_out))
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
for t in range(200):
    loss = loss_fn(model(x), y)
    show(t, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# --- a module of one's own ----------------------------------------------------------------------------------------------------------
class TwoLayerNet(torch.nn.Module):
    def __init__(self, D_in, H, D_out):
        super(TwoLayerNet, self).__init__()  # noqa: UP008  (as the tutorial has it)
        self.linear1 = torch.nn.Linear(D_in, H)
        self.linear2 = torch.nn.Linear(H, D_out)

    def forward(self, x):
        h_relu = self.linear1(x).clamp(min=0)
        y_pred = self.linear2(h_relu)
        return y_pred


torch.manual_seed(0)
model = TwoLayerNet(D_in, H, D_out)
print(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for t in range(200):
    loss = loss_fn(model(x), y)
    show(t, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# --- control flow and weight sharing ------------------------------------------------------------------------------------------------
class DynamicNet(torch.nn.Module):
    def __init__(self, D_in, H, D_out):
        super(DynamicNet, self).__init__()  # noqa: UP008
        self.input_linear = torch.nn.Linear(D_in, H)
        self.middle_linear = torch.nn.Linear(H, H)
        self.output_linear = torch.nn.Linear(H, D_out)

    def forward(self, x):
        h_relu = self.input_linear(x).clamp(min=0)
        for _ in range(random.randint(0, 3)):
            h_relu = self.middle_linear(h_relu).clamp(min=0)
        y_pred = self.output_linear(h_relu)
        return y_pred


torch.manual_seed(0)
random.seed(0)
model = DynamicNet(D_in, H, D_out)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
for t in range(200):
    loss = loss_fn(model(x), y)
    show(t, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
