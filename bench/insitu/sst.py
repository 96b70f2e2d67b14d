"""bench/insitu/sst.py: the hand-over of handover.c by ADIOS2's SST engine, between two processes, each bound to a CPU.
Needs the package adios2.

  sst.py BYTES STEPS

In each step the producer writes the time into the first element of its array and puts it; the consumer gets the array
and compares. Prints "sst BYTES SECONDS" for each step after the first tenth."""
import multiprocessing
import os
import sys
import tempfile
import time

import adios2
import adios2.bindings as bindings
import numpy

BYTES, STEPS = int(sys.argv[1]), int(sys.argv[2])
NAME = "hand-over"
PAUSE_S = 0.002  # between steps: gives the consumer time to start waiting


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def declare_io(is_writer):
    io = adios2.Adios().declare_io(NAME)
    io.set_engine("SST")
    if is_writer:
        for name, value in {"RendezvousReaderCount": "1", "QueueLimit": "1", "QueueFullPolicy": "Block"}.items():
            io.set_parameter(name, value)
    return io


def produce():
    values = numpy.ones(BYTES // 8, dtype=numpy.int64)
    io = declare_io(True)
    x = io.define_variable("x", values, [values.size], [0], [values.size])
    engine = io.open(NAME, bindings.Mode.Write)
    for _ in range(STEPS):
        time.sleep(PAUSE_S)
        values[0] = now()
        engine.begin_step()
        engine.put(x, values, bindings.Mode.Sync)
        engine.end_step()
    engine.close()


def consume():
    values = numpy.zeros(BYTES // 8, dtype=numpy.int64)
    io = declare_io(False)
    engine = io.open(NAME, bindings.Mode.Read)
    latencies = []
    while engine.begin_step() == bindings.StepStatus.OK:
        engine.get(io.inquire_variable("x"), values, bindings.Mode.Sync)
        latencies.append(now() - int(values[0]))
        engine.end_step()
    engine.close()
    for value in latencies[STEPS // 10:]:
        print(f"sst {BYTES} {value * 1e-9:.9f}")
    sys.stdout.flush()


def run_bound(cpu, function):
    os.sched_setaffinity(0, [cpu])
    function()


def main():
    cpus = sorted(os.sched_getaffinity(0))
    spawn = multiprocessing.get_context("spawn")
    sides = [spawn.Process(target=run_bound, args=(cpu, side)) for cpu, side in zip(cpus, (produce, consume))]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)  # where the sides find each other
        for side in sides:
            side.start()
        for side in sides:
            side.join()
    sys.exit(max(abs(side.exitcode) for side in sides))


if __name__ == "__main__":
    main()
