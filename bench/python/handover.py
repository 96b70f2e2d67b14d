"""bench/python/handover.py: the time from when an array is ready in one Python program until another reads it.

  handover.py WAY BYTES STEPS PAUSE

In each step the producer writes the time into the first element of an array in its ordinary heap and hands the array
over; the consumer reads that element and compares. Each is bound to a CPU. PAUSE: seconds between steps. Between tasks
WAY is one of:

  channel        onespace.Producer and Consumer
  flag           the array was imported before; the consumer spins on a word of another array until the step is ready
  export         each step exports the array under a new name, which the consumer imports
and between processes of multiprocessing:
  shared_memory  a copy into a segment, a word of it as flag, and a copy out of it
  pipe           Connection.send_bytes and recv_bytes_into, which copy too
  sst            ADIOS2's engine SST; needs the package adios2

Prints "KIND BYTES SECONDS" for each step after the first tenth; for shared_memory also shared_memory_in, until the
segment is read, without the copy out of it. "same BYTES 1" if the consumer's array was the producer's memory."""
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing import shared_memory

import numpy as np

WAY, BYTES, STEPS, PAUSE_S = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
READY, TAKEN, ADDRESS, WORDS = 0, 8, 16, 24  # indices of single words, each in a cache line of its own
TIMEOUT_S = 60


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def pause():
    """Busy-waits, so that the CPU does not go idle."""
    end = now() + int(PAUSE_S * 1e9)
    while now() < end:
        pass


def report(kind, nanoseconds):
    for value in nanoseconds[STEPS // 10:]:
        print(f"{kind} {BYTES} {value * 1e-9:.9f}")
    sys.stdout.flush()


def field():
    return np.ones(BYTES // 8, np.int64)


def address(array):
    return array.ctypes.data


def wait_for(words, index, value):
    while words[index] != value:
        pass


# ---- Tasks ----

def produce_channel(onespace, values, words):
    with onespace.Producer("steps", consumers=1) as channel:
        for number in range(1, STEPS + 1):
            wait_for(words, TAKEN, number - 1)
            pause()
            with channel.step(number) as step:
                step["field"] = values
                values[0] = now()


def consume_channel(onespace, _, words):
    taken = []
    with onespace.Consumer("steps", every=True, timeout=TIMEOUT_S) as channel:
        for number in range(1, STEPS + 1):
            step = channel.take(TIMEOUT_S)
            values = step["field"]
            ready = int(values[0])
            taken.append(now() - ready)
            same = address(values) == words[ADDRESS]
            step.release()
            words[TAKEN] = number
    return taken, same


def produce_flag(onespace, values, words):
    with onespace.export("field", values):
        for number in range(1, STEPS + 1):
            wait_for(words, TAKEN, number - 1)
            pause()
            values[0] = now()
            words[READY] = number
        wait_for(words, TAKEN, STEPS)


def consume_flag(onespace, producer, words):
    taken = []
    values = onespace.import_array(producer, "field", timeout=TIMEOUT_S)
    for number in range(1, STEPS + 1):
        wait_for(words, READY, number)
        ready = int(values[0])
        taken.append(now() - ready)
        words[TAKEN] = number
    return taken, address(values) == words[ADDRESS]


def produce_export(onespace, values, words):
    for number in range(1, STEPS + 1):
        pause()
        values[0] = now()
        with onespace.export(f"field {number}", values):
            wait_for(words, TAKEN, number)


def consume_export(onespace, producer, words):
    taken = []
    for number in range(1, STEPS + 1):
        values = onespace.import_array(producer, f"field {number}", timeout=TIMEOUT_S)
        ready = int(values[0])
        taken.append(now() - ready)
        words[TAKEN] = number
    return taken, address(values) == words[ADDRESS]


def run_as_tasks():
    """The root starts both sides; the producer's id is the consumer's argument."""
    import onespace
    cpus = sorted(os.sched_getaffinity(0))
    again = [os.path.abspath(__file__), *sys.argv[1:5]]
    producer = onespace.spawn_python(*again, "produce", cpus=cpus[:1])
    consumer = onespace.spawn_python(*again, "consume", str(producer.id), cpus=cpus[1:2])
    return max(abs(consumer.wait()), abs(producer.wait()))


def run_side(side):
    import onespace
    if side == "produce":
        values, words = field(), np.zeros(WORDS, np.int64)
        words[ADDRESS] = address(values)
        with onespace.export("words", words):
            globals()[f"produce_{WAY}"](onespace, values, memoryview(words))
            wait_for(memoryview(words), TAKEN, STEPS)
        return
    producer = int(sys.argv[6])
    words = memoryview(onespace.import_array(producer, "words", timeout=TIMEOUT_S))
    taken, same = globals()[f"consume_{WAY}"](onespace, producer, words)
    report(WAY, taken)
    print(f"same {BYTES} {int(same)}")


# ---- Processes ----

def parts_of(segment):
    return segment.buf[:WORDS * 8].cast("q"), np.ndarray(BYTES // 8, np.int64, segment.buf, WORDS * 8)


def produce_shared_memory(segment, _):
    words, shared = parts_of(segment)
    values = field()
    for number in range(1, STEPS + 1):
        wait_for(words, TAKEN, number - 1)
        pause()
        values[0] = now()
        shared[:] = values
        words[READY] = number


def consume_shared_memory(segment, _):
    words, shared = parts_of(segment)
    values = field()
    taken, read_there = [], []
    for number in range(1, STEPS + 1):
        wait_for(words, READY, number)
        ready = int(shared[0])
        read_there.append(now() - ready)
        values[:] = shared
        ready = int(values[0])
        taken.append(now() - ready)
        words[TAKEN] = number
    report("shared_memory", taken)
    report("shared_memory_in", read_there)


def produce_pipe(_, connection):
    values = field()
    for _ in range(STEPS):
        connection.recv_bytes()
        pause()
        values[0] = now()
        connection.send_bytes(values)


def consume_pipe(_, connection):
    values = field()
    taken = []
    for _ in range(STEPS):
        connection.send_bytes(b"next")
        connection.recv_bytes_into(values)
        ready = int(values[0])
        taken.append(now() - ready)
    report("pipe", taken)


def sst_io(is_writer):
    import adios2
    io = adios2.Adios().declare_io("hand-over")
    io.set_engine("SST")
    if is_writer:
        for name, value in {"RendezvousReaderCount": "1", "QueueLimit": "1", "QueueFullPolicy": "Block"}.items():
            io.set_parameter(name, value)
    return io


def produce_sst(*_):
    import adios2.bindings as bindings
    values, io = field(), sst_io(True)
    x = io.define_variable("x", values, [values.size], [0], [values.size])
    engine = io.open("stream", bindings.Mode.Write)
    for _ in range(STEPS):
        pause()
        values[0] = now()
        engine.begin_step()
        engine.put(x, values, bindings.Mode.Sync)
        engine.end_step()
    engine.close()


def consume_sst(*_):
    import adios2.bindings as bindings
    values, io, taken = field(), sst_io(False), []
    engine = io.open("stream", bindings.Mode.Read)
    while engine.begin_step() == bindings.StepStatus.OK:
        engine.get(io.inquire_variable("x"), values, bindings.Mode.Sync)
        ready = int(values[0])
        taken.append(now() - ready)
        engine.end_step()
    engine.close()
    report("sst", taken)


def bound(cpu, side, *arguments):
    os.sched_setaffinity(0, [cpu])
    globals()[f"{side}_{WAY}"](*arguments)
    sys.stdout.flush()
    os._exit(0)  # collecting a segment while arrays refer to it prints an error


def run_as_processes():
    context = multiprocessing.get_context("spawn")
    cpus = sorted(os.sched_getaffinity(0))
    segment = shared_memory.SharedMemory(create=True, size=BYTES + WORDS * 8)
    segment.buf[:] = bytes(segment.size)
    try:
        ends = context.Pipe()
        sides = [context.Process(target=bound, args=(cpus[i], side, segment, ends[i]))
                 for i, side in enumerate(("produce", "consume"))]
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)  # where the sides of SST find each other
            for side in sides:
                side.start()
            for side in sides:
                side.join()
            os.chdir("/")
        return max(abs(side.exitcode) for side in sides)
    finally:
        segment.close()
        segment.unlink()


if __name__ == "__main__":
    if len(sys.argv) > 5:
        run_side(sys.argv[5])
    else:
        sys.exit(run_as_processes() if WAY in ("shared_memory", "pipe", "sst") else run_as_tasks())
