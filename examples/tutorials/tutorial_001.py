"""Making tensors, their operations, Variable and Function as old code has them."""

import numpy
import numpy as np

import symgrad as torch
from symgrad.autograd import Variable

# --- making tensors -----------------------------------------------------------------------------------------------------------------
torch.manual_seed(5)
x = torch.empty(5, 3)
print(torch.empty(5, 3).shape)
print(torch.rand(3, 4))
print(torch.randn(5, 3))
print(torch.randn(2, 3).type())
print(torch.zeros(5, 3))
print(torch.ones(5, 3))
print(torch.ones(5, 3, dtype=torch.long))
print(torch.tensor([1, 2, 3]))
print(x.new_ones(5, 4))
print(torch.full([4, 3], 9))
print(torch.full([4, 3], 9.0))
print(x.new_ones(5, 4, dtype=torch.int))
print(torch.randn_like(x, dtype=torch.float))
print(torch.ones_like(x))
print(torch.zeros_like(x))
print(torch.Tensor(3, 4).shape)
print(torch.Tensor(3, 4).uniform_(0, 1))
print(torch.Tensor(3, 4).normal_(0, 1))
print(torch.Tensor(3, 4).fill_(5))
print(torch.arange(1, 3, 0.4))

# --- operations ---------------------------------------------------------------------------------------------------------------------
a = torch.ones(2, 3)
b = torch.ones(2, 3)
print(a + b)
c = torch.add(a, b)
result = torch.empty(2, 3)
torch.add(a, b, out=result)
print(c, result)
print(a.add(b), a)
a.add_(b)
print(a)
print(a.t())
print(a.t_())
print(a.shape)

tensor = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])
print(torch.max(tensor, 1))
print(np.max(tensor.numpy(), 1))
print(torch.clamp(tensor, 2, 5, out=None))
print(np.maximum(tensor.numpy(), 2))

a = torch.ones(3, 4)
b = a.numpy()
b[0, 0] = 7
print(a)
a = numpy.ones((4, 3))
b = torch.from_numpy(a)
b[0, 0] = 7
print(a, b.dtype)

# --- Variable -----------------------------------------------------------------------------------------------------------------------
x = Variable(torch.Tensor([3, 6, 4]), requires_grad=True)
y = Variable(torch.Tensor([5, 3, 6]), requires_grad=True)
print(x.shape, x.size(), x.data, x.grad, x.requires_grad, x.is_leaf, x.grad_fn)
z = x + y
print(z.grad_fn is not None, z.is_leaf)
z.backward(gradient=torch.Tensor([0.1, 1, 10]))
print(x.grad, y.grad)
d = z.detach()
print(d.requires_grad, d.is_leaf)
z.detach_()
print(z.requires_grad, z.is_leaf)
handle = x.register_hook(lambda grad: grad * 2)
(x * 1).sum().backward()
print(x.grad)
handle.remove()


loss = x.sum()
try:
    print(loss.data[0])
except IndexError as error:
    print(str(error).split(".")[0])


# --- Function -----------------------------------------------------------------------------------------------------------------------
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


dtype = torch.FloatTensor
N, D_in, H, D_out = 64, 1000, 100, 10
torch.manual_seed(0)
x = Variable(torch.randn(N, D_in).type(dtype), requires_grad=False)
y = Variable(torch.randn(N, D_out).type(dtype), requires_grad=False)
w1 = Variable(torch.randn(D_in, H).type(dtype), requires_grad=True)
w2 = Variable(torch.randn(H, D_out).type(dtype), requires_grad=True)

learning_rate = 1e-6
for t in range(500):
    relu = MyReLU.apply
    y_pred = relu(x.mm(w1)).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    if t < 3 or t == 499:
        digits = ".0e" if t == 499 else ".3g"
        print(t, f"{loss.data.item():{digits}}")
    loss.backward()
    w1.data -= learning_rate * w1.grad.data
    w2.data -= learning_rate * w2.grad.data
    w1.grad.data.zero_()
    w2.grad.data.zero_()
