"""A job that cannot start, or whose host, shim or rank is killed while it starts, ends at once, with one message.

Each test prints the seconds to its end. With ONESPACE_LONG=1 it fails if they are more than five, unless a job of
processes takes as long on this machine now."""
import collections
import contextlib
import os
import random
import re
import resource
import signal
import time

import pytest

from jobs import LONE_USER, ONESPACE, RUN, eventually

RANKS = 64
LONG = os.environ.get("ONESPACE_LONG") == "1"
ROUNDS = 50 if LONG else 1  # of each victim
BOUND_S = 5
GONE = "the host of the space is gone"
TIME = 180


def messages(result):
    return [line for line in result.err.split("\n") if line.startswith("onespace run:")]


def launch(job, ranks, program, of=None, **options):
    """As a launcher does that neither limits its ranks' number by its own descriptors nor ends all when one fails."""
    return [job.start([*RUN, "--space", "bounded", *program],
                      env={"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank),
                           "MPI_LOCALNRANKS": str(of or len(ranks))}, **options) for rank in ranks]


def finish(commands):
    results = [command.finish() for command in commands]
    return results, [message for result in results for message in messages(result) if "may not fit" not in message]


def seconds_of(action):
    began = time.monotonic()
    action()
    return time.monotonic() - began


def is_bounded(seconds, what, of_processes):
    """of_processes: does the same, or what is like it, with processes: the seconds."""
    print(f"{what}: ended after {seconds:.2f} s")
    if LONG and seconds > BOUND_S:
        usual = of_processes()
        assert seconds <= usual, f"{what}: ended after {seconds:.1f} s, a job of processes after {usual:.1f} s"


@contextlib.contextmanager
def bounded(what, of_processes):
    began = time.monotonic()
    yield
    is_bounded(time.monotonic() - began, what, of_processes)


def start_and_end(job, count):
    """The seconds for so many processes, one each by this process, as launch() starts ranks."""
    return seconds_of(lambda: [command.finish() for command in [job.start(["true"]) for _ in range(count)]])


@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_missing_program_is_reported_once(job, mpi_named, launcher):
    mpi = mpi_named(launcher)

    def run(*words):
        return job.run(mpi.command(RANKS, [*words, "/no/such/program"]), env=mpi.env)

    with bounded("missing program", lambda: seconds_of(run)):
        result = run(*RUN)
    assert result.code != 0, str(result)
    assert messages(result) == ["onespace run: /no/such/program: does not exist: Check the spelling, or install it."]


def test_rank_without_a_program_ends_the_others(job, guests):
    """Those that run are ended by the host, when their launcher does not."""
    others = launch(job, range(7), [guests("awaits")], of=8)
    with bounded("rank without a program", lambda: start_and_end(job, 8)):
        results, reported = finish(others + launch(job, [7], ["/no/such/program"], of=8))
    assert results[-1].code == 127 and all(result.code != 0 for result in results), list(map(str, results))
    assert len(reported) == 1 and "/no/such/program: does not exist" in reported[0], reported


def test_too_few_descriptors_are_reported_before_the_start(job, guests):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    with bounded("too few descriptors", lambda: start_and_end(job, RANKS)):
        results, reported = finish(launch(job, range(RANKS), [guests("awaits")], preexec_fn=limit))
    assert all(result.code == 1 and not result.out for result in results), list(map(str, results))
    assert len(reported) == 1, reported
    for words in ("64 ranks do not fit on this node", "88 descriptors", "there are 48 (ulimit -Hn), enough for 24",
                  "raise it: ulimit -Hn 1024"):
        assert words in reported[0], reported


def test_ranks_that_come_late_do_not_repeat_the_message(job, guests):
    """As on a busy machine: the host that has reported it waits for them while they come one after another, for ten
    seconds. If this test itself is later than that, it tries again."""
    assert eventually(lambda: ranks_come_late(job, guests)), "the machine is too busy"


def ranks_come_late(job, guests):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    results, reported, is_in_time, last = [], [], True, time.monotonic()
    for first in range(0, RANKS, 8):  # so few at a time that this test is seldom late
        began = time.monotonic()
        some = launch(job, range(first, first + 8), [guests("awaits")], of=RANKS, preexec_fn=limit)
        some_results, some_reported = finish(some)
        # The host may have heard of the ones before when they began, and of these only when they ended.
        is_in_time &= time.monotonic() - last < 9.5
        last = began
        results += some_results
        reported += some_reported
        time.sleep(0.5 if first + 8 < RANKS else 0)  # the host ends between them
    assert all(result.code == 1 and not result.out for result in results), list(map(str, results))
    assert not is_in_time or len(reported) == 1, reported
    return is_in_time


def test_too_little_memory_is_reported_once(job, guests):
    size = 1 << 30

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    with bounded("too little memory", lambda: start_and_end(job, RANKS)):
        results, reported = finish(launch(job, range(RANKS), ["--stack", "64M", guests("awaits")], preexec_fn=limit))
    assert all(result.code != 0 for result in results), list(map(str, results))
    assert len([line for line in reported if "ulimit -v" in line]) == 1, reported
    assert f"of {RANKS} ranks run; lift it: ulimit -v unlimited" in "".join(reported)
    assert len(reported) == 1, reported


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without other processes")
def test_too_few_processes_are_reported_once(job, guests):
    ranks = 24

    def become():
        os.setgid(LONE_USER)
        os.setuid(LONE_USER)
        # Last: a process that was beyond the limit when it became the user cannot execute a program. There is room for
        # the shims, some of which may try at once to start the host, but not for the tasks.
        resource.setrlimit(resource.RLIMIT_NPROC, (ranks + 18, ranks + 18))

    os.chown(job.runtime, LONE_USER, -1)
    if job.run([ONESPACE, "--version"], cwd="/", preexec_fn=become).code != 0:
        pytest.skip("the build directory is not open to other users")
    with bounded("too few processes", lambda: start_and_end(job, ranks)):
        results, reported = finish(launch(job, range(ranks), [guests("awaits")], cwd="/", preexec_fn=become))
    assert all(result.code != 0 and "ready" not in result.out for result in results), list(map(str, results))
    assert len(reported) == 1 and "raise whichever binds: ulimit -u" in reported[0], reported


def test_full_space_by_hand_is_reported(job):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))

    with bounded("full space by hand", lambda: start_and_end(job, 40)):
        result = job.run([*RUN, "-n", "40", "--stack", "64M", "sleep", "30"], preexec_fn=limit)
    assert result.code != 0 and len(messages(result)) == 1, str(result)
    assert "of 40 ranks run; lift it: ulimit -v unlimited" in result.err, str(result)


def of_host(job, name):
    return [process.pid for process in job.named(name) if process.argv[:1] == ["onespace-host"]]


def of_launcher(job):
    """The PIDs of the shims, without the children with which one starts the host."""
    processes = {process.pid: process for process in job.processes()}
    return [process.pid for process in processes.values()
            if process.name == "onespace" and process.argv[1:2] == ["run"] and
            processes.get(process.parent, process).name != "onespace"]


VICTIMS = {
    "host": lambda job: of_host(job, "onespace-host"),
    "reaper": lambda job: of_host(job, "onespace-reaper"),
    "shim": of_launcher,
    "rank": lambda job: [process.pid for process in job.named("awaits")],
}


PHASES = ("shims come", "tasks are made", "programs load", "ranks meet", "all run")


def progress(job, command):
    """How far the start of RANKS ranks is: its phase, and the counts that tell it."""
    out = command.so_far().out
    output = [out.count("up"), out.count("ready")]
    counts = [RANKS, RANKS] if output[0] == RANKS else [len(job.shims()), len(VICTIMS["rank"](job))]
    counts += output
    phase = ("all run" if counts[3] == RANKS else "ranks meet" if counts[2] == RANKS else
             "programs load" if counts[1] == RANKS else "tasks are made" if counts[1] else "shims come")
    return phase, counts


def kill_at(job, command, victim, far):
    """Kills one when the start is `far`, a sum of counts, or further. The phase in which it was, by what was seen right
    before, the counts, and the time; phase None: there was nobody to kill."""
    while True:
        phase, counts = progress(job, command)
        pids = VICTIMS[victim](job)
        if (sum(counts) >= far and pids) or command.process.poll() is not None:
            break
        time.sleep(0.005)
    try:
        os.kill(random.Random(far).choice(pids), signal.SIGKILL)
    except (IndexError, ProcessLookupError):
        return None, counts, 0
    return phase, counts, time.monotonic()


def killed_process(job, mpi):
    """The seconds in which a job of processes ends when one of its ranks is killed."""
    command = job.start(mpi.command(RANKS, ["sh", "-c", "echo ready; exec sleep 60"]), env=mpi.env)
    command.wait_for("ready", RANKS)
    ranks = []
    while not ranks:
        ranks = job.named("sleep")
    os.kill(ranks[0].pid, signal.SIGKILL)
    return seconds_of(command.finish)


def goes_on(command):
    """Whether all ranks get ready: where the killed host had none of them yet, their shims start another; and two
    shims may have started one each at the same time, one of which is not needed."""
    until = time.monotonic() + TIME
    while command.process.poll() is None and time.monotonic() < until:
        if command.so_far().out.count("ready") == RANKS:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_killed_while_it_starts(job, guests, mpi_named, launcher, victim, record_property):
    """At a random point of the start the job ends, and leaves nothing. With Open MPI when all have started: its
    launcher hangs when one of its processes, tasks or not, is killed while it starts others."""
    mpi = mpi_named(launcher)
    seed = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    phases = collections.Counter()
    for turn in range(ROUNDS):
        command = job.start(mpi.command(RANKS, [*RUN, guests("awaits")]), env=mpi.env)
        if launcher == "openmpi":
            command.wait_for("ready", RANKS)
            time.sleep(chance.uniform(0, 0.5))
        # Each of the four counts goes up to RANKS. One time in five when all of them have.
        far = min(chance.uniform(0, 5 * RANKS), 4 * RANKS) if launcher == "mpich" else 0
        phase, counts, killed = kill_at(job, command, victim, far)
        where = f"ONESPACE_SEED={seed}, round {turn}, {victim} killed at {phase}: shims, tasks, up, ready {counts}"
        print(where)
        phases[phase] += 1
        if victim == "host" and phase != "all run" and goes_on(command):
            command.signal(signal.SIGINT)
            command.finish()
            continue
        result = command.finish()
        assert phase, f"{where}\n{result}"
        is_bounded(time.monotonic() - killed, f"round {turn}, {victim} killed at {phase}",
                   lambda: killed_process(job, mpi))
        assert result.code != 0, f"{where}\n{result}"
        reported = [line for line in messages(result) if GONE in line or "reaper" in line]
        assert len(reported) <= (1 if victim in ("host", "reaper") else 0), f"{where}\n{result}"
    record_property("phases", dict(phases))
    print(f"{launcher}, {victim}:", ", ".join(f"{phase} {phases[phase]}" for phase in PHASES if phases[phase]))
    if ROUNDS > 1 and launcher == "mpich":
        # A rank is there from the second phase on. That programs load, and that ranks meet, may be over between two
        # looks at /proc.
        needed = {"tasks are made", "all run"} | ({"shims come"} if victim != "rank" else set())
        assert needed <= set(phases), phases


def test_lost_host_is_reported_once(job, guests):
    commands = launch(job, range(RANKS), [guests("awaits")])
    for command in commands:
        command.wait_for("ready")
    os.kill(of_host(job, "onespace-host")[0], signal.SIGKILL)
    with bounded("lost host", lambda: start_and_end(job, RANKS)):
        results, reported = finish(commands)
    assert all(result.code != 0 for result in results)
    assert len(reported) == 1 and GONE in reported[0], reported


def test_ranks_that_come_after_their_host_was_killed_do_not_wait(job, guests):
    """They start another host, which learns from the others' shims that their launch has failed."""
    ranks = 16
    early = launch(job, range(ranks // 2), [guests("awaits")], of=ranks)
    for command in early:
        command.wait_for("up")
    os.kill(of_host(job, "onespace-host")[0], signal.SIGKILL)
    with bounded("ranks after their host was killed", lambda: start_and_end(job, ranks)):
        results, reported = finish(early + launch(job, range(ranks // 2, ranks), [guests("awaits")], of=ranks))
    assert all(result.code != 0 and "ready" not in result.out for result in results), list(map(str, results))
    assert len(reported) == 1 and GONE in reported[0], reported


def mappings_allowed():
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        return int(file.read())


few_mappings = pytest.mark.skipif(mappings_allowed() > 1 << 20, reason="vm.max_map_count is too large to use up")
OUT_OF_MAPPINGS = "out of mappings (vm.max_map_count): "


def is_reported_of_mappings(message, ranks):
    allowed = mappings_allowed()
    match = re.search(r"(\d+) of (\d+) ranks run, and the largest has (\d+) of (\d+), which is enough for (\d+) such; "
                      r"raise it: sysctl -w vm.max_map_count=(\d+)$", message)
    assert OUT_OF_MAPPINGS in message and match, message
    running, of, largest, there, enough, wanted = map(int, match.groups())
    assert running <= of == ranks and allowed - 4096 < largest < allowed == there, message
    assert enough == there // largest and wanted >= ranks * largest, message


@few_mappings
@pytest.mark.parametrize("launcher", ["by itself", "mpich", "openmpi"])
def test_job_without_mappings_ends(job, guests, request, launcher):
    """While the ranks initialise: one has taken what there is, and all wait for one another."""
    ranks, program = 8, guests("fragments")
    if launcher == "by itself":
        commands = launch(job, range(ranks), [program, "waits"])
    else:
        mpi = request.getfixturevalue("mpi_named")(launcher)
        commands = [job.start(mpi.command(ranks, [*RUN, program, "waits"]), env=mpi.env)]
    commands[0].wait_for("out")
    with bounded("without mappings", lambda: start_and_end(job, ranks)):
        results, reported = finish(commands)
    assert all(result.code != 0 for result in results), list(map(str, results))
    assert len(reported) == 1, reported
    is_reported_of_mappings(reported[0], ranks)


@few_mappings
def test_mappings_that_run_out_inside_mpi_init_are_reported_once(job, guests, mpi_named):
    """What is left for each rank is what a small program takes, and less than MPICH does."""
    mpi, ranks = mpi_named("mpich"), 8
    program = [guests.mpi(mpi, "mpi_fragments"), str(mappings_allowed() // ranks - 40)]
    command = job.start(mpi.command(ranks, [*RUN, *program]), env=mpi.env)
    command.wait_for("out")
    with bounded("mappings run out inside MPI_Init", lambda: start_and_end(job, ranks)):
        result = command.finish()
    assert result.code != 0 and len(messages(result)) == 1, str(result)
    assert OUT_OF_MAPPINGS in messages(result)[0], str(result)


@few_mappings
def test_rank_that_fails_without_mappings_is_reported_once(job, guests, mpi_named):
    mpi = mpi_named("mpich")
    command = job.start(mpi.command(8, [*RUN, guests("fragments"), "fails"]), env=mpi.env)
    command.wait_for("out")
    with bounded("rank that fails without mappings", lambda: start_and_end(job, 8)):
        result = command.finish()
    assert result.code != 0 and len(messages(result)) == 1, str(result)
    is_reported_of_mappings(messages(result)[0], 8)


@few_mappings
def test_job_that_gives_its_mappings_back_goes_on(job, guests):
    results, reported = finish(launch(job, range(4), [guests("fragments"), "recovers"]))
    assert all(result.code == 0 for result in results), list(map(str, results))
    assert len(reported) <= 1 and all(OUT_OF_MAPPINGS in message for message in reported), reported


@few_mappings
def test_mappings_that_run_out_by_hand_are_reported(job, guests):
    """Nobody is ended: that is for whoever started them to decide."""
    command = job.start([*RUN, "-n", "2", guests("fragments"), "waits"])
    while OUT_OF_MAPPINGS not in command.so_far().err and command.process.poll() is None:
        time.sleep(0.01)
    command.signal(signal.SIGTERM)
    result = command.finish().expect(128 + signal.SIGTERM)
    reported = [message for message in messages(result) if OUT_OF_MAPPINGS in message]
    assert len(reported) == 1, str(result)
    is_reported_of_mappings(reported[0], 2)
