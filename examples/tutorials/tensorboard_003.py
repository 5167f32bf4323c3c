"""Tutorial 003's picture of a graph in TensorBoard (1.3.5), and the nodes that TensorBoard reads from the file.

Needs the extra `symgrad[tensorboard]`. To look at it: `tensorboard --logdir ./data/tensorboard`; in a notebook `%load_ext tensorboard`,
or `from tensorboard import notebook; notebook.start("--logdir ./data/tensorboard")`.
"""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import symgrad as torch
from symgrad import nn
from symgrad.utils.tensorboard import SummaryWriter


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, 1))
        self.b = nn.Parameter(torch.zeros(1, 1))

    def forward(self, x):
        y = x @ self.w + self.b
        return y


net = Net()

writer = SummaryWriter("./data/tensorboard")
writer.add_graph(net, input_to_model=torch.rand(10, 2))
writer.close()

for node in EventAccumulator("./data/tensorboard").Reload().Graph().node:
    shape = [dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim]
    print(f"{node.name}: {node.op}{list(node.input)} -> {shape}")
