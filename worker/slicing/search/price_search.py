"""Price search: the lowest price of a stored byte whose greedy plan fits the memory target."""

from __future__ import annotations

from .choice_task import Choice, ChoiceTask
from .greedy import GreedySearch


def cheapest(task: ChoiceTask) -> Choice:
    """The greedy choice at the lowest price that fits; the smallest one where none does."""
    search = GreedySearch(task.graph, task.found, task.costs)
    low, high, last = task.prices()

    def at(price: float) -> Choice:
        choice = task.priced(search.solve(price))
        task.step()
        return choice

    if task.memory is not None:
        fastest = at(0.0)
        if task.fits(fastest.prediction):
            return fastest
    found = at(high)
    if not task.fits(found.prediction):
        return min((found, at(last)), key=lambda one: one.prediction.heaviest)
    while high / low > 2:
        middle = (low * high) ** 0.5
        choice = at(middle)
        if task.fits(choice.prediction):
            found, high = choice, middle
        else:
            low = middle
    return found
