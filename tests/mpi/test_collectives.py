"""The collective operations of ranks in one space give what the MPI library's own give."""
import os
import re

import pytest

from jobs import RUN

LONG = os.environ.get("ONESPACE_LONG") == "1"
ROUNDS = os.environ.get("ONESPACE_ROUNDS") or ("30000" if LONG else "1000")
SEEDS = [os.environ["ONESPACE_SEED"]] if "ONESPACE_SEED" in os.environ else ["1", "2"]
TIME = 120 + int(ROUNDS) // 100
ON = [*RUN, "--collectives", "on"]
NAMED = "rank 0 sends 8192 bytes in a collective operation in which this rank expects 4096"


FORCED = "ONESPACE_COLLECTIVES_ALGORITHM"
ALGORITHMS = ["flat", "doubling", "tree", "large"]


def right(ranks):
    return [f"rank {i}: 0 wrong" for i in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("source", ["mpi_collectives_random", "mpi_collectives_moves"])
def test_results_are_right(job, guests, stock_mpi, source, ranks):
    program = guests.mpi(stock_mpi, source)
    for seed in SEEDS:
        result = job.run(stock_mpi.command(ranks, [*ON, program, ROUNDS, seed]), timeout=TIME, env=stock_mpi.env)
        assert result.code == 0 and result.lines == right(ranks), str(result)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("source, which", [("mpi_collectives_random", "1"), ("mpi_collectives_moves", "1"),
                                           ("mpi_collectives_functions", "layer"), ("mpi_collectives_pairs", "")])
def test_results_of_each_algorithm_are_right(job, guests, stock_mpi, source, which, algorithm):
    """Forced, because the layer chooses some of them for more than eight ranks with a CPU each only."""
    program, rounds = guests.mpi(stock_mpi, source), str(int(ROUNDS) // 4)
    arguments = [rounds, which] if which.isdigit() else [rounds, SEEDS[0], which]
    for ranks in (2, 3, 5, 8) if LONG else (5,):
        result = job.run(stock_mpi.command(ranks, [*ON, program, *arguments]), timeout=TIME,
                         env={**stock_mpi.env, FORCED: algorithm})
        assert result.code == 0 and sorted(result.lines) == right(ranks), str(result)


@pytest.mark.parametrize("sizes", [(2, 1), (2, 2, 1), (1, 1, 1, 2), (1, 2, 2, 1, 1), (2, 2, 2, 1, 1, 1)])
@pytest.mark.parametrize("source, which", [("moves", ""), ("functions", "dense"), ("functions", "alike"),
                                           ("pairs", "")])
def test_results_of_ranks_in_several_spaces_are_right(job, guests, stock_mpi, source, which, sizes):
    """As on several nodes; the MPI library carries the messages of their leaders, here through shared memory. Numbers
    of spaces that are a power of two, and others."""
    program, words = guests.mpi(stock_mpi, f"mpi_collectives_{source}"), []
    for i, size in enumerate(sizes):
        words += [":", "-n", str(size)] if i else []
        words += [*ON, "--space", f"{job.token}-{i}", program, "60", SEEDS[0], which]
    result = job.run(stock_mpi.command(sizes[0], words), timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and sorted(result.lines) == right(sum(sizes)), str(result)


def counted(result):
    found = re.search(r"all \d+ tasks together: .*; MPI collectives: (\d+);", result.err)
    return int(found[1]) if found else None


@pytest.mark.parametrize("ranks", [2, 3, 5, 8] if LONG else [3])
@pytest.mark.parametrize("source, which", [("mpi_collectives_functions", "layer"), ("mpi_collectives_pairs", "")])
def test_reductions_are_right(job, guests, stock_mpi, source, which, ranks):
    """And all of them are the layer's."""
    program, rounds = guests.mpi(stock_mpi, source), int(ROUNDS) // 4
    command = [*ON, "--stats", program, str(rounds), SEEDS[0], which]
    result = job.run(stock_mpi.command(ranks, command), timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and sorted(result.lines) == right(ranks), str(result)
    assert counted(result) == rounds * ranks, str(result)


def test_functions_with_different_counts_are_an_error(job, guests, stock_mpi):
    result = job.run(stock_mpi.command(2, [*ON, guests.mpi(stock_mpi, "mpi_collectives_functions"), "disagree"]),
                     timeout=60, env=stock_mpi.env)
    assert sorted(result.lines) == ["rank 0: an error", "rank 1: an error"], str(result)
    assert "passed another size or root" in result.err, str(result)


@pytest.mark.parametrize("which", ["on", "off"])
def test_large_counts(job, guests, stock_mpi, which):
    """By the layer, by the library, and where that has none by its functions with int counts."""
    program = guests.mpi(stock_mpi, "mpi_collectives_large")
    result = job.run(stock_mpi.command(3, [*RUN, "--collectives", which, program]), timeout=60, env=stock_mpi.env)
    assert result.code == 0 and sorted(result.lines) == right(3), str(result)


@pytest.mark.parametrize("name, source, which", [("mpich", "mpi_collectives_functions", "dense"),
                                                 ("openmpi", "mpi_collectives_functions", "alike"),
                                                 ("mpich", "mpi_collectives_pairs", ""),
                                                 ("openmpi", "mpi_collectives_pairs", "")])
def test_libraries_agree_with_the_check(job, guests, mpi_named, name, source, which):
    """What these programs expect is what the MPI library does, too. MPICH 4.0.2 does it with types that have gaps, but
    fails an assertion when it frees them."""
    mpi = mpi_named(name)
    command = [guests.mpi(mpi, source), str(int(ROUNDS) // 4), "1", which]
    result = job.run(mpi.command(2, command), timeout=TIME, env=mpi.env)
    assert result.code == 0 and sorted(result.lines) == right(2), str(result)


@pytest.mark.parametrize("source", ["mpi_collectives_random", "mpi_collectives_moves"])
def test_processes_agree_with_the_check(job, guests, mpi_named, source):
    """What the program expects is what the MPI library does. MPICH 4.0.2 crashes where the root of an MPI_Reduce in
    place is not rank 0, and truncates where the types of an MPI_Allgatherv differ in extent."""
    mpi = mpi_named("openmpi")
    program = guests.mpi(mpi, source)
    result = job.run(mpi.command(2, [program, ROUNDS]), timeout=TIME, env=mpi.env)
    assert result.code == 0 and result.lines == right(2), str(result)


@pytest.mark.parametrize("source", ["mpi_collectives", "mpi_onesided", "mpi_operations", "mpi_datatypes"])
def test_other_programs_run_as_before(job, guests, stock_mpi, source):
    program = guests.mpi(stock_mpi.needed_for(source), source)
    off, on = (job.run(stock_mpi.command(2, [*run, program]), timeout=60, env=stock_mpi.env) for run in (RUN, ON))
    assert (on.code, on.lines) == (off.code, off.lines) and on.code == 0, f"{off}\n{on}"


def test_death_of_a_rank_is_an_error_to_those_that_wait(job, guests, mpi_named):
    mpi = mpi_named("mpich")
    result = job.run(mpi.command(3, [*ON, guests.mpi(mpi, "mpi_collectives_random"), "die"], "-disable-auto-cleanup"),
                     timeout=60)
    assert [line for line in result.lines if line.startswith("rank")] == ["rank 0: an error", "rank 2: an error"], \
        str(result)
    assert "rank 1 of the communicator has ended" in result.err, str(result)


def test_counts_that_differ_are_named(job, guests, stock_mpi):
    """As in the MPI libraries the rank that gets too much has the error."""
    program = guests.mpi(stock_mpi, "mpi_collectives_random")
    result = job.run(stock_mpi.command(2, [*ON, program, "disagree"]), timeout=60, env=stock_mpi.env)
    assert "rank 0: no error" in result.err and "rank 1: truncated" in result.err, str(result)
    assert NAMED in result.err, str(result)


def test_gathers_of_sizes_that_differ_end(job, guests, stock_mpi):
    result = job.run(stock_mpi.command(3, [*ON, guests.mpi(stock_mpi, "mpi_collectives_moves"), "sizes"]), timeout=60,
                     env=stock_mpi.env)
    sizes = [(65536, 65536), (65536, 32768), (65536, 100), (32768, 65536), (100, 65536)]
    expected = [f"rank {rank}, {given} for {wanted}: {'no error' if rank or given <= wanted else 'truncated'}, 0 wrong"
                for rank in range(3) for given, wanted in [*sizes, sizes[0]]]
    assert result.code == 0 and sorted(result.lines) == sorted(expected), str(result)


@pytest.mark.parametrize("before, are_ours", [(("world",), True), (("copy",), False), (("copy", "100"), False),
                                              (("copy", "2100"), True), (("copy", "0", "1"), True)])
def test_auto_begins_where_it_pays(job, guests, mpi_named, before, are_ours):
    """With MPI_COMM_WORLD's first operation, and another communicator's first sum or many operations: the set-up takes
    as long as some dozens of them, but sums must not change their bits in between."""
    mpi = mpi_named("mpich")
    program = guests.mpi(mpi, "mpi_collectives_random")
    result = job.run(mpi.command(2, [*RUN, "--collectives", "auto", program, "disagree", *before]), timeout=60)
    assert (NAMED in result.err) == are_ours, str(result)


def test_auto_serves_the_first_reduction(job, guests, mpi_named):
    """Among the program's are MPI_Reduce in place with a root other than 0, in which MPICH 4.0.2 itself crashes."""
    mpi = mpi_named("mpich")
    command = [*RUN, "--collectives", "auto", guests.mpi(mpi, "mpi_collectives_random"), "200"]
    result = job.run(mpi.command(3, command), timeout=TIME)
    assert result.code == 0 and sorted(result.lines) == right(3), str(result)


def test_auto_leaves_jobs_with_processes_alone(job, guests, stock_mpi):
    """The ranks that are processes would not take part in what tasks agree on."""
    program = guests.mpi(stock_mpi, "mpi_collectives_moves")
    parts = [*stock_mpi.command(2, [*RUN, program, "200"]), ":", "-n", "1", program, "200"]
    result = job.run(parts, timeout=120, env=stock_mpi.env)
    assert result.code == 0 and sorted(result.lines) == right(3), str(result)


@pytest.mark.parametrize("which, counted", [("on", True), ("off", False)])
def test_statistics_count_them(job, guests, stock_mpi, which, counted):
    """Not those on the program's communicators of one rank."""
    program = guests.mpi(stock_mpi, "mpi_collectives_moves")
    result = job.run(stock_mpi.command(2, [*RUN, "--stats", "--collectives", which, program, "200"]), timeout=60,
                     env=stock_mpi.env)
    found = re.search(r"all 2 tasks together: .*; MPI collectives: (\d+);", result.err)
    assert found and (100 < int(found[1]) <= 400 if counted else found[1] == "0"), str(result)


DIFFERENT = [("count", "MPI_Bcast of 8192 bytes, root 0, and rank 1 MPI_Bcast of 4096 bytes, root 0"),
             ("root", "MPI_Bcast of 8 bytes, root 0, and rank 1 MPI_Bcast of 8 bytes, root 1"),
             ("operation", "MPI_Allreduce of 4 bytes with MPI_SUM, and rank 1 MPI_Allreduce of 4 bytes with MPI_MAX"),
             ("call", "MPI_Barrier, and rank 1 MPI_Allreduce of 4 bytes with MPI_SUM"),
             ("gather", "MPI_Gather of 8 bytes, root 0, and rank 1 MPI_Gather of 4 bytes, root 0"),
             ("gatherv", "MPI_Gather of 4 bytes, root 0, and rank 1 MPI_Gatherv, root 0"),
             ("scatter", "MPI_Scatter of 8 bytes, root 0, and rank 1 MPI_Scatter of 4 bytes, root 0"),
             ("allgatherv", "MPI_Allgatherv of 3 bytes, and rank 1 MPI_Allgatherv of 3 bytes, with other counts for "
                            "the ranks"),
             ("alltoall", "MPI_Alltoall of 4 bytes, and rank 1 MPI_Alltoall of 8 bytes"),
             ("alltoallv", "MPI_Alltoall of 4 bytes, and rank 1 MPI_Alltoallv"),
             ("reduce_scatter", "MPI_Reduce_scatter of 12 bytes with MPI_SUM, and rank 1 MPI_Reduce_scatter of 12 "
                                "bytes with MPI_SUM, with other counts for the ranks"),
             ("block", "MPI_Reduce_scatter of 12 bytes with MPI_SUM, and rank 1 MPI_Reduce_scatter_block of 4 bytes "
                       "with MPI_SUM")]
SAID = re.compile(r"collective calls differ: rank 0 has called (.*): all ranks must")


def test_check_names_calls_that_differ(job, guests, stock_mpi):
    """On all ranks the call fails, and the next one works; one says why."""
    command = [*ON, guests.mpi(stock_mpi, "mpi_collectives_differ"), *(what for what, _ in DIFFERENT)]
    result = job.run(stock_mpi.command(3, command), timeout=60, env={**stock_mpi.env, "ONESPACE_LOG": "check"})
    assert sorted(result.lines) == sorted(f"rank {i}, {what}: failed" for i in range(3) for what, _ in DIFFERENT), \
        str(result)
    assert SAID.findall(result.err) == [said for _, said in DIFFERENT], str(result)


@pytest.mark.parametrize("source", ["mpi_collectives_random", "mpi_collectives_moves"])
def test_check_passes_what_is_right(job, guests, stock_mpi, source):
    result = job.run(stock_mpi.command(3, [*ON, guests.mpi(stock_mpi, source), "300"]), timeout=120,
                     env={**stock_mpi.env, "ONESPACE_LOG": "check"})
    assert result.code == 0 and result.lines == right(3), str(result)


def test_named_operations_are_left_to_the_library(job, guests, mpi_named):
    """The program calls MPI_Bcast with counts that differ, which only the layer names."""
    mpi = mpi_named("mpich")
    program = guests.mpi(mpi, "mpi_collectives_random")
    for names, are_ours in ("Barrier,BCAST", False), ("gather,reduce", True):
        command = [*ON, "--collectives", f"off={names}", program, "disagree"]
        result = job.run(mpi.command(2, command), timeout=60)
        assert (NAMED in result.err) == are_ours, str(result)


def test_off_leaves_all_to_the_library(job, guests, mpi_named):
    mpi = mpi_named("mpich")
    program = guests.mpi(mpi, "mpi_collectives_random")
    result = job.run(mpi.command(2, [*RUN, "--collectives", "off", program, "disagree"]), timeout=60)
    assert NAMED not in result.err, str(result)


def test_auto_leaves_programs_with_a_gpu_alone(job, guests, mpi_named, tmp_path):
    """Its memory may be none that the CPU can read."""
    mpi = mpi_named("mpich")
    library, program = tmp_path / "libcuda.so.1", guests.mpi(mpi, "mpi_collectives_random")
    made = job.run(["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", library, "-x", "c", "/dev/null"])
    assert made.code == 0, str(made)
    for which, are_ours in ("auto", False), ("on", True):
        run = ["env", f"LD_PRELOAD={library}", *RUN, "--collectives", which]
        result = job.run(mpi.command(2, [*run, program, "disagree"]), timeout=60)
        assert (NAMED in result.err) == are_ours, f"{which}: {result}"
