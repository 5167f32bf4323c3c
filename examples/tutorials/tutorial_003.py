"""Automatic differentiation, the dynamic graph, leaves and hooks."""

import numpy as np

import symgrad as torch
from symgrad import nn

# --- tensors ------------------------------------------------------------------------------------------------------------------------
for kind in (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
    print(torch.tensor([1, 0], dtype=kind))
print(torch.double is torch.float64, torch.float is torch.float32, torch.long is torch.int64, torch.int is torch.int32)
scalar, vector, matrix = torch.tensor(True), torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
print(scalar.dim(), vector.dim(), matrix.dim(), scalar.shape, vector.size(), matrix.shape)
print(vector.view(2, 2))
try:
    matrix.t().view(4)
except RuntimeError as error:
    print(str(error).split("(")[0])
print(matrix.t().reshape(4))
array = np.zeros(3)
tensor = torch.from_numpy(array)
np.add(array, 1, out=array)
print(tensor)
print(torch.tensor(1.5).item(), matrix.tolist(), matrix.clone().numpy())

# --- backward of a scalar: f(x) = a*x**2 + b*x + c -----------------------------------------------------------------------------------
x = torch.tensor(0.0, requires_grad=True)
a = torch.tensor(1.0)
b = torch.tensor(-2.0)
c = torch.tensor(1.0)
y = a * torch.pow(x, 2) + b * x + c
y.backward()
dy_dx = x.grad
print(dy_dx)

# --- backward of several values -----------------------------------------------------------------------------------------------------
x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
y = a * torch.pow(x, 2) + b * x + c
gradient = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
print("x:\n", x)
print("y:\n", y)
y.backward(gradient=gradient)
x_grad = x.grad
print("x_grad:\n", x_grad)

x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
y = a * torch.pow(x, 2) + b * x + c
z = torch.sum(y * gradient)
print("x:", x)
print("y:", y)
z.backward()
x_grad = x.grad
print("x_grad:\n", x_grad)

# --- autograd.grad, second derivatives ----------------------------------------------------------------------------------------------
x = torch.tensor(0.0, requires_grad=True)
y = a * torch.pow(x, 2) + b * x + c
dy_dx = torch.autograd.grad(y, x, create_graph=True)[0]
print(dy_dx.data)
dy2_dx2 = torch.autograd.grad(dy_dx, x)[0]
print(dy2_dx2.data)

# --- a minimum by an optimizer ------------------------------------------------------------------------------------------------------
x = torch.tensor(0.0, requires_grad=True)
optimizer = torch.optim.SGD(params=[x], lr=0.01)


def f(x):
    result = a * torch.pow(x, 2) + b * x + c
    return result


for _ in range(500):
    optimizer.zero_grad()
    y = f(x)
    y.backward()
    optimizer.step()
print("y=", f(x).data, ";", "x=", x.data)

# --- the graph is gone after backward -----------------------------------------------------------------------------------------------
torch.manual_seed(0)
w = torch.tensor([[3.0, 1.0]], requires_grad=True)
b = torch.tensor([[3.0]], requires_grad=True)
X = torch.randn(10, 2)
Y = torch.randn(10, 1)
Y_hat = X @ w.t() + b
loss = torch.mean(torch.pow(Y_hat - Y, 2))
loss.backward(retain_graph=True)
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print(str(error).split("(")[0])
print(w.grad, b.grad)

# --- leaves -------------------------------------------------------------------------------------------------------------------------
x = torch.tensor(3.0, requires_grad=True)
y1 = x + 1
y2 = 2 * x
loss = (y1 - y2) ** 2
loss.backward()
print("loss.grad:", None if not loss.is_leaf and not loss.retains_grad else loss.grad)
print(x.grad)
print(x.is_leaf)
print(y1.is_leaf)
print(y2.is_leaf)
print(loss.is_leaf)

# --- hooks --------------------------------------------------------------------------------------------------------------------------
x = torch.tensor(3.0, requires_grad=True)
y1 = x + 1
y2 = 2 * x
loss = (y1 - y2) ** 2
y1.register_hook(lambda grad: print("y1 grad: ", grad))
y2.register_hook(lambda grad: print("y2 grad: ", grad))
loss.retain_grad()
loss.backward()
print("loss.grad:", loss.grad)
print("x.grad:", x.grad)


# --- a module -----------------------------------------------------------------------------------------------------------------------
class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()  # noqa: UP008
        self.w = nn.Parameter(torch.randn(2, 1))
        self.b = nn.Parameter(torch.zeros(1, 1))

    def forward(self, x):
        y = x @ self.w + self.b
        return y


net = Net()
print(net)
print(net(torch.ones(2, 2)))
print([(name, p.shape) for name, p in net.named_parameters()])
