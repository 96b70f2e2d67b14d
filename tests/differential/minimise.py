"""tests/differential/minimise.py: leaves out of a program what its fault does not need."""


def without(steps, start, size):
    return steps[:start] + steps[start + size:]


def minimise(steps, fails, rounds=400):
    """The shortest program found that still fails: parts of half the length are left out, then of a quarter, and so on;
    in the end numbers become zero where they may. `rounds` bounds how often a program is tried."""
    size = len(steps) // 2
    while size and rounds > 0:
        start, shrunk = 0, False
        while start < len(steps) and rounds > 0:
            candidate = without(steps, start, size)
            rounds -= 1
            if candidate and fails(candidate):
                steps, shrunk = candidate, True
            else:
                start += size
        if not shrunk or size > 1:
            size //= 2
    return zeroes(steps, fails, rounds)


def zeroes(steps, fails, rounds):
    for i, step in enumerate(steps):
        for k in range(1, len(step)):
            if rounds <= 0 or step[k] == 0:
                continue
            candidate = [*steps]
            candidate[i] = (*steps[i][:k], 0, *steps[i][k + 1:])
            rounds -= 1
            if fails(candidate):
                steps = candidate
    return steps
