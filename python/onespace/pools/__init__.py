"""Pools of workers that are tasks of this space: arguments and results of calls are read in place, not copied.

worker_group.py  the workers of a pool, the queue of calls, and the handling of results and of workers that end
worker_main.py   the program of a worker
messages.py      calls and results as pickles, and the memory that they refer to
executor.py      onespace.Executor
pool.py          onespace.Pool
"""
