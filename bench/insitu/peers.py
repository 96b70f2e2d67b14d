"""bench/insitu/peers.py: the hand-over of handover.c by other means, between two processes, each bound to a CPU of
its own.

  peers.py sst BYTES STEPS            ADIOS2's SST engine (needs the package adios2)
  peers.py shared_memory BYTES STEPS  Python's multiprocessing.shared_memory, with a flag on which the consumer spins

In each step the producer writes the time into the first element of its array and hands the array over; the consumer
reads the element and compares. Prints "KIND BYTES SECONDS" for each step after the first tenth; for shared_memory also
shared_memory_flag, counted from the end of the producer's copy."""
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing import shared_memory

import numpy

KIND, BYTES, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CPUS = sorted(os.sched_getaffinity(0))
PAUSE_S = 0.002  # between steps: gives the consumer time to start waiting


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def report(kind, nanoseconds):
    for value in nanoseconds[STEPS // 10:]:
        print(f"{kind} {BYTES} {value * 1e-9:.9f}")
    sys.stdout.flush()


# ---- ADIOS2 SST ----

def sst_io(adios2, is_writer):
    io = adios2.Adios().declare_io("hand-over")
    io.set_engine("SST")
    if is_writer:
        for name, value in {"RendezvousReaderCount": "1", "QueueLimit": "1", "QueueFullPolicy": "Block"}.items():
            io.set_parameter(name, value)
    return io


def sst_produce(name):
    import adios2
    import adios2.bindings as low
    values = numpy.ones(BYTES // 8, dtype=numpy.int64)
    io = sst_io(adios2, True)
    x = io.define_variable("x", values, [values.size], [0], [values.size])
    engine = io.open(name, low.Mode.Write)
    for _ in range(STEPS):
        time.sleep(PAUSE_S)
        values[0] = now()
        engine.begin_step()
        engine.put(x, values, low.Mode.Sync)
        engine.end_step()
    engine.close()


def sst_consume(name):
    import adios2
    import adios2.bindings as low
    values = numpy.zeros(BYTES // 8, dtype=numpy.int64)
    io = sst_io(adios2, False)
    engine = io.open(name, low.Mode.Read)
    taken = []
    while engine.begin_step() == low.StepStatus.OK:
        engine.get(io.inquire_variable("x"), values, low.Mode.Sync)
        taken.append(now() - int(values[0]))
        engine.end_step()
    engine.close()
    report("sst", taken)


# ---- multiprocessing.shared_memory ----

def shared_arrays(segment):
    """step number, step that was read, when the copy was done; the array"""
    return (numpy.ndarray(24, dtype=numpy.int64, buffer=segment.buf),
            numpy.ndarray(BYTES // 8, dtype=numpy.int64, buffer=segment.buf, offset=192))


def shared_produce(name):
    segment = shared_memory.SharedMemory(name=name)
    words, to = shared_arrays(segment)
    values = numpy.ones(BYTES // 8, dtype=numpy.int64)
    for step in range(1, STEPS + 1):
        while words[8] != step - 1:
            pass
        time.sleep(PAUSE_S / 20)
        values[0] = now()
        to[:] = values
        words[16] = now()
        words[0] = step
    del words, to
    segment.close()


def shared_consume(name):
    segment = shared_memory.SharedMemory(name=name)
    words, values = shared_arrays(segment)
    taken, flagged = [], []
    for step in range(1, STEPS + 1):
        while words[0] != step:
            pass
        seen = int(values[0])
        moment = now()
        taken.append(moment - seen)
        flagged.append(moment - int(words[16]))
        words[8] = step
    report("shared_memory", taken)
    report("shared_memory_flag", flagged)
    del words, values
    segment.close()


def bound(cpu, function, name):
    os.sched_setaffinity(0, [cpu])
    function(name)


def run(produce, consume, name):
    spawn = multiprocessing.get_context("spawn")
    sides = [spawn.Process(target=bound, args=(cpu, side, name))
             for cpu, side in ((CPUS[0], produce), (CPUS[1], consume))]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
    return max(abs(side.exitcode) for side in sides)


def main():
    if len(CPUS) < 2:
        sys.exit("peers: two CPUs are needed")
    if KIND == "sst":
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)  # where the sides find each other
            sys.exit(run(sst_produce, sst_consume, "hand-over"))
    segment = shared_memory.SharedMemory(create=True, size=BYTES + 192)
    segment.buf[:BYTES + 192] = bytes(BYTES + 192)
    try:
        sys.exit(run(shared_produce, shared_consume, segment.name))
    finally:
        segment.close()
        segment.unlink()


if __name__ == "__main__":
    main()
