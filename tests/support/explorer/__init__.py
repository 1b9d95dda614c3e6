"""Explorer of interleavings: runs lock-free code through all orders in which processes may access
shared memory, and finds those that end wrongly.

The real classes run over a memory of a model (`machine.py`). Every access to a word, every sleep
and every wake is one step, and `explore` (`exploration.py`) tries every order of the steps of two
or three parties, with the death of a party at any step. The memory of a dead party stays.

Only sequential consistency is explored: each access takes effect at once, for all parties. So a
missing fence is not found; a wrong order of accesses in the program is. A party is one thread in a
process of its own, and all that it shares with others is in the memory of the model. Copies of
bytes take effect in two halves. Clocks advance with each look, and by 100 s where all parties wait.

    from explorer.exploration import explore
    from explorer.machine import Machine

    machine = Machine(steps)              # the modules that use the model's futex, mmap, os, ...
    with machine:
        fd = machine.file("steps", 4096)  # or what the class itself creates
        def teller() -> Act:              # makes its views, which is no step
            mine = Steps(fd)
            return lambda: mine.publish(7)  # every access in here is a step
        def reader() -> Act:
            mine = Steps(fd)
            return lambda: mine.take()
        found = explore(machine, {"teller": teller, "reader": reader}, right)

`right` gets the results of the parties at each end, and raises AssertionError where they are wrong.
An error that a party raises, and a sleep from which no party wakes, are found as well. The error,
`Interleaving`, has the steps that lead there. `mortal=["teller"]` lets that party die, and
`preemptions=2` leaves out orders with more than two switches away from a party that could go on.
In a loop, `machine.forget(number)` says that a party's own state is `number` alone: orders that
differ in nothing else are then explored once. Without it their number grows with each turn.
A party may watch another (`machine.await_death`) and end it (`machine.kill`), as a supervisor does.
"""
