"""Datasets, samplers, and the DataLoader that makes batches of them."""

from symgrad.utils.data.collate import default_collate as default_collate, default_convert as default_convert
from symgrad.utils.data.dataloader import DataLoader as DataLoader
from symgrad.utils.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from symgrad.utils.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
from symgrad.utils.data.worker_info import get_worker_info as get_worker_info
