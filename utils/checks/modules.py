"""Exercises whose solution is a class: the learner's weights are loaded into it, and into the edited ones."""

import copy
from contextlib import suppress
from itertools import combinations

import torch
from torch import nn

from .answers import Unreadable, kind_of, output_and_weights
from .exercise import Exercise, Told
from .running import is_stub, run_attempt, tried, why_not_run
from .shared import fill_weights
from .symptoms import of_error


class ModuleExercise(Exercise):
    """An exercise whose solution is a class: the learner's weights are loaded into it and into the edited ones.

    A trial is (arguments of the class, *inputs of forward). `state(module, *arguments)` returns the weights of a
    learner's module by the names of the solution's, or raises `Unreadable`.
    """

    def __init__(self, solution, trials, state, read=output_and_weights, signs=None, library=()):
        super().__init__(solution, trials, read, signs, library)
        self.state = state
        self.weights = None  # those of the last attempt, with which `_known` was computed

    def shown(self, arguments, *inputs):
        """Return the inputs of forward."""
        return inputs

    def prepared(self, attempt):
        """Return what runs the learner's module on a trial, or None for a stub, and what foresees."""
        sizes = dict.fromkeys(arguments for arguments, *_ in self.trials)
        modules = {arguments: built(attempt, arguments) for arguments in sizes}
        if None in modules.values():
            return None, None
        states = {arguments: self.state(module, *arguments) for arguments, module in modules.items()}
        sizes = [misfit(state, self.solution(*arguments).state_dict()) for arguments, state in states.items()]
        self.misfit = next(filter(None, sizes), None)
        if self.misfit and not all(sizes):
            raise Unreadable(self.misfit, "sizes_of_one_model")
        weights = [weight.tolist() for state in states.values() for weight in state.values()]
        if weights != self.weights:
            self.weights, self._known = weights, {}

        def run(arguments, *inputs):
            return self.call(modules[arguments].to(inputs[0].dtype), *inputs)

        def answer(made, arguments, *inputs):
            module = made(*arguments).eval()
            self.fill(module, states[arguments])
            return self.answer_of(module, inputs)

        def foresee(made, edit, place):
            if (edit, place) not in self._known:
                self._known[edit, place] = tried(answer, made, *self.trials[place])
            return self._known[edit, place]

        return run, foresee

    def fill(self, module, state):
        """Put a learner's weights into a solution or an edited one."""
        module.load_state_dict(state, strict=False)

    def shows(self, edit):
        """Say whether an edit of a group finds what it changes in this solution."""
        with suppress(ValueError):
            return bool(self.edited(edit))
        return False

    def told(self, place, result, foresee):
        """Return the result of one trial as `Told`; no answer is right where the weights have other sizes."""
        if not self.misfit:
            return super().told(place, result, foresee)
        answer = tried(self.read, result)
        return Told(place, self.trials[place], self.misfit, answer, {})


def misfit(state, wanted):
    """Return a sentence about the first layer of a learner's class whose sizes differ from the solution's, or None."""
    for name, weight in wanted.items():
        layer, _, part = name.rpartition(".")
        if name not in state:
            return f"Your class has no layer `{layer}`; {len(wanted) // 2} layers are needed."
        if part == "weight" and state[name].shape != weight.shape:
            (gives, takes), (right_gives, right_takes) = state[name].shape, weight.shape
            mine = f"Your layer `{layer}` takes {takes} numbers and makes {gives}"
            return f"{mine}; here it has to take {right_takes} and to make {right_gives}."
    return None


def built(attempt, arguments):
    """Return the learner's module with repeatable weights in eval mode, None for a stub, or raise `Unreadable`."""
    if not isinstance(attempt, type):
        raise Unreadable(f"Give the class itself. This is {kind_of(attempt)}.", "not_the_class")
    if not issubclass(attempt, nn.Module):
        raise Unreadable(f"Your class {attempt.__name__} is no nn.Module.", "no_module")
    ran = run_attempt(attempt, [arguments])
    if is_stub(ran.error):
        return None
    if not ran.results:
        raise Unreadable(why_not_run(ran), of_error(ran.error))
    try:
        return fill_weights(ran.results[0][1]).eval()
    except Exception as error:
        raise Unreadable(f"Its weights cannot be set: {type(error).__name__}.") from error


def by_name(module, *names):
    """Return the weights of these linear layers of a learner's module, by the solution's names."""
    apart(module, names, "one_layer_twice")
    parts = {name: linear_layer(module, name) for name in names}
    return {
        f"{name}.{part}": value
        for name in names
        for part, value in zip(("weight", "bias"), parts[name], strict=True)
    }


def apart(module, names, mistake):
    """Raise `Unreadable`, with the name of this mistake, if two of these names stand for the same layer."""
    for one, other in combinations(names, 2):
        if getattr(module, one, None) is getattr(module, other, None) is not None:
            raise Unreadable(f"Your `{one}` and `{other}` are 1 layer, not 2.", mistake)


def linear_layer(module, name):
    """Return weight and bias of a linear layer with this name, or raise `Unreadable`; a missing bias is 0."""
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        said = f"Your {type(module).__name__} needs a linear layer named `{name}`, and has none."
        raise Unreadable(said, "layer_missing")
    weight = layer.weight.detach()
    return weight, torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()


def changed(module, part, *names):
    """Return a module in which these linear layers have no "bias", or a "weight" as it is stored: for edits."""
    module = copy.deepcopy(module)
    for layer in (getattr(module, name) for name in names):
        layer.bias.data *= part != "bias"
        layer.weight.data = layer.weight.data.T if part == "weight" else layer.weight.data
    return module
