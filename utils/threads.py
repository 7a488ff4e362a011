"""How many threads PyTorch computes in."""

from contextlib import contextmanager

import torch


@contextmanager
def one_thread():
    """Let PyTorch compute in one thread in this `with` block.

    Small tensors gain little from a second one, and lose much if the cores are shared: threads wait for one
    another at each operation. Also, the same sums are rounded alike on any number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
