"""Pools of workers that are tasks of this space: what a call gets and returns is read in place, not copied.

messages.py   calls and results as pickles, and the memory that they refer to
program.py    the program of a worker, and how the parent's __main__ becomes importable there
worker.py     a worker as its parent sees it
crew.py       workers, the queue of calls, and what happens when a worker ends
executor.py   onespace.Executor
pool.py       onespace.Pool
"""
