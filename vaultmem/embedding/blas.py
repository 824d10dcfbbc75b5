"""The cores: how many there are, and matrix products that use one of them each.

OpenBLAS, which comes with numpy, puts a thread on every core for each product, and while they
wait for each other they do not give up their core. Beside other work, or when several threads
embed at once, that costs many times the work itself (measured on two busy cores: 1 text a second
where one thread a product makes 25). Threads over texts use the cores better.
"""

import os

from threadpoolctl import threadpool_limits


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_thread_a_product() -> None:
    """From now on matrix products of numpy use the thread that asks for them and no other.

    For the whole process and for good: OpenBLAS knows no other limit, and to lift it while some
    thread is at work would undo it. numpy must have been imported.
    """
    threadpool_limits(limits=1, user_api="blas")
