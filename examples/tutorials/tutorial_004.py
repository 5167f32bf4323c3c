"""Views, devices, and the Jacobian product behind backward."""

import symgrad as torch

# --- tensors ------------------------------------------------------------------------------------------------------------------------
torch.manual_seed(0)
x = torch.rand(5, 3)
y = x.view(-1, 15)
print(y)
y[0, 0] = 7  # the same memory
print(x[0])
value = y[0, 1].item()
print(round(value, 4))
z = torch.zeros(5, 3)
z.copy_(x)
print(z)

if torch.cuda.is_available():
    device = torch.device("cuda")
    y = torch.ones_like(x, device=device)
    x = x.to(device)
    z = x + y
    print(z)
    print(z.to("cpu", torch.double))
print(torch.ones(1, 1).to("cpu", torch.double))

# --- autograd -----------------------------------------------------------------------------------------------------------------------
x = torch.ones(2, 2, requires_grad=True)
y = x + 2
print(y)
y = y * y
print(y)
x = x**2
print(x)

x = torch.ones(2, 2, requires_grad=True)
print(x.grad_fn)
with torch.no_grad():
    print((x + 2).requires_grad)

# y = 3/4 (x + 2)**2 summed, so dy/dx = 3/2 (x + 2)
x = torch.tensor(([[2.0, 4.0], [3.0, 5.0]]), requires_grad=True)
y = 3 * (x + 2) ** 2
l = y.mean()  # noqa: E741
print(l)
l.backward()
print(x.grad)

# the product of a Jacobian, transposed, with a vector
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x
y.backward(torch.tensor([1.0, 0.1, 0.01]))
print(x.grad)

try:
    (x * 2).backward()
except RuntimeError as error:
    print(f"RuntimeError: {error}")
