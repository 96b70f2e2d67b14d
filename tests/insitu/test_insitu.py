"""tests/insitu/test_insitu.py: channels (onespace/insitu.h) between tasks that `onespace run` starts, and as `onespace
ps` shows them."""
import os
import re
import subprocess
import time

import pytest

from jobs import RUN
from observe import PS, as_json

WAIT, SKIP, COPY = "0", "1", "2"
LATEST, EVERY = "0", "1"
ENDED = "No data available"
SPACE = f"insitu-{os.getpid()}"  # `onespace ps NAME` finds those of other tests too


@pytest.fixture
def insitu(guests):
    return guests("insitu")


def start(job, *argv):
    return job.start([*RUN, "--space", SPACE, *argv], stdin=subprocess.PIPE)


def look(job):
    space, = as_json(job.run([*PS, "--json", SPACE]))
    return space


def channel_of(job):
    channel, = look(job)["channels"]
    return channel


@pytest.mark.parametrize("policy", [WAIT, COPY])
def test_analysis_joins_a_running_space(job, insitu, policy):
    producer = start(job, insitu, "produce", "data", policy, "2", "200", "1")
    consumer = start(job, insitu, "consume", "data", EVERY)
    producer.wait_for("published")
    producer.process.stdin.close()
    consumer.finish().expect(shows=f"200 steps, the last 200: {ENDED}")
    producer.finish().expect()


def test_consumers_are_started_with_the_producer(job, insitu):
    result = job.run([*RUN, insitu, "produce", "data", WAIT, "1", "50", "2", ":",
                      "-n", "2", insitu, "consume", "data", EVERY])
    assert result.code == 0 and result.out.count(f"50 steps, the last 50: {ENDED}") == 2, result


def test_producers_death_reaches_an_analysis_that_joined(job, insitu):
    """The second step can be published when the first has been given back."""
    producer = start(job, insitu, "produce", "data", WAIT, "1", "2", "1")
    consumer = start(job, insitu, "consume", "data", EVERY)
    producer.wait_for("published")
    producer.process.kill()
    result = consumer.finish()
    assert re.search(r"^([12]) steps, the last \1: Owner died$", result.out, re.M), result
    producer.process.stdin.close()
    producer.finish()


def test_ps_shows_channels_and_lag(job, insitu):
    producer = start(job, insitu, "produce", "data", WAIT, "4", "1")
    producer.wait_for("published")
    holder = start(job, insitu, "hold", "data", EVERY)
    holder.wait_for("holds 1")
    channel = channel_of(job)
    tasks = {task["id"] for task in look(job)["tasks"]}
    assert channel["name"] == "data" and channel["state"] == "open" and channel["policy"] == "wait"
    assert (channel["depth"], channel["steps"], channel["skipped"], channel["step"]) == (4, 1, 0, 1)
    consumer, = channel["consumers"]
    assert {channel["producers"][0], consumer["id"]} <= tasks and consumer["id"] not in channel["producers"]
    assert (consumer["mode"], consumer["behind"], consumer["holding"]) == ("every", 0, 1)
    table = job.run([*PS, SPACE]).out
    assert "channel data: open, policy wait, depth 4, 1 rank" in table, table
    assert f"consumer id {consumer['id']} takes every: 0 behind, holds 1" in table, table
    for command in (holder, producer):
        command.process.stdin.close()
        command.finish()


def test_ps_shows_how_far_a_consumer_is_behind(job, insitu):
    holder = start(job, insitu, "hold", "data", LATEST)
    producer = start(job, insitu, "produce", "data", COPY, "3", "1000", "1")
    holder.wait_for("holds")
    producer.wait_for("published")
    channel = channel_of(job)
    held = int(holder.so_far().out.split()[1])
    assert channel["steps"] == 1000 and channel["consumers"][0]["behind"] == 1000 - held, channel
    producer.process.kill()
    until = time.monotonic() + 180
    while channel_of(job)["state"] != "broken" and time.monotonic() < until:
        time.sleep(0.05)
    assert channel_of(job)["state"] == "broken"
    holder.process.stdin.write(b"check\n")
    holder.process.stdin.close()
    assert "whole" in holder.finish().out
    producer.process.stdin.close()
    producer.finish()


def test_ps_of_a_space_without_channels(job, started):
    run = started("sh", "-c", "echo ready; read x")
    space, = as_json(job.run([*PS, "--json", str(run.pid)]))
    assert space["channels"] == []
