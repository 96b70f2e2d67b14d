"""Control of a running simulation: its parameters are changed while it runs.

    onespace run --on-failure kill ./plate 100000 : python3 control_plate.py TEMPERATURE

Takes each step of examples/plate.c, in place, and sets the power of its burner such that the mean temperature
becomes the one that is asked for; then stops the simulation. Parameters go the other way through a channel of their
own, whose consumer is the simulation: it takes them between two steps, so a step is computed with one set of them."""
import sys

import onespace


def main(wanted):
    # The plate is left first: then the simulation goes on, and takes the last parameters, which the control waits for.
    with onespace.Producer("plate-control", consumers=1) as control, \
            onespace.Consumer("plate", every=True, timeout=60) as plate:
        sent = 0

        def send(**parameters):
            nonlocal sent
            sent += 1
            with control.step(sent, timeout=60) as step:
                for name, value in parameters.items():
                    step.attribute(name, float(value))

        for step in plate:
            mean = onespace.Mesh(step).fields["temperature"].values.mean()
            step.release()  # before the simulation is waited for
            if abs(mean - wanted) < 0.01 * wanted:
                print(f"step {step.number}: {mean:.2f} degC, after {sent} changes of the power")
                send(power=0, stop=1)
                break
            send(power=100 * (wanted - mean) / wanted, stop=0)


main(float(sys.argv[1]))
