"""The engine: an exercise is a solution, trials, and edits of the solution's own source.

A known mistake is the solution with a few letters changed. Where an attempt and the solution differ on the trials, the
edited solutions run too: the mistake is the one that answers like the attempt. The edits stand in the .toml files.
"""

import copy
import functools
import inspect
import itertools
import re
import textwrap
import warnings
from contextlib import suppress
from typing import NamedTuple

import torch
from torch import nn

from .answers import Unreadable, agrees, has_no_number, kind_of, output_and_weights, overflown, what_differs
from .hints import right_so_far, tried_with
from .running import copied, is_stub, run_attempt, steady, tried, untouched, why_not_run
from .symptoms import of_error
from .verdict import NOT_ATTEMPTED, PASSED, Verdict, refused
from .words import last, tables_of

IN_FLOAT64 = "Right in float32. The same inputs came again in float64, as numbers of 64 bits. "
TOLD_BY_CHANCE = 12  # where fewer numbers are wrong, many mistakes fit by chance


class Told(NamedTuple):
    """One trial: its place and inputs, what is wrong with the answer (or None), the answer and the expected one."""

    place: int
    inputs: tuple
    seen: str | None
    answer: dict | None
    expected: dict
    name: str | None = None  # of what cannot be read


class Mutant(NamedTuple):
    """An edited solution: the name of the mistake, the edit, and the function or class."""

    name: str
    edit: str
    made: object


class Exercise:
    """A `solution` (a function), its trials, and the rows of its table; called with an attempt, it gives a `Verdict`.

    `trials()` returns a list of tuples of inputs; `read` makes an answer of what comes back, or raises `Unreadable`;
    `signs` name what no edit can show: a name -> test of (inputs, answer); who calls a function of the `library`
    passes, and hears that it is the library's. An edit reads "old => new"; several at once are joined by ";;"; one
    without "=>" replaces what the last line returns; "{{a || b}}" stands for two edits. What is rare stands in
    methods that a subclass may have of its own: `call`, `shown`, `close`, `same`, `says_something`, `nearest`.
    """

    def __init__(self, solution, trials, read=output_and_weights, signs=None, library=()):
        self.name = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", solution.__name__).lower()
        self.solution, self.read, self.signs, self.library = solution, read, signs or {}, set(library)
        self._trials, self._known = trials, {}

    @functools.cached_property
    def trials(self):
        """The inputs, a list of tuples."""
        with steady():
            return self._trials()

    def call(self, function, *trial):
        """Run an attempt, the solution or an edited one on a trial."""
        return function(*trial)

    def shown(self, *trial):
        """Return the inputs that the learner's own code gets."""
        return trial

    def close(self, inputs, mine, expected):
        """Say whether an answer is the expected one."""
        return agrees(mine, expected)

    def same(self, mine, foreseen):
        """Say whether an answer is what an edited solution gives."""
        return self.close(None, mine, foreseen)

    def says_something(self, name, inputs):
        """Say whether a trial can show a mistake, or contradict it."""
        return True

    # ---------------------------------------------------------------------------------------- edited solutions

    @functools.cached_property
    def source(self):
        """The solution's own source, without its comments."""
        return re.sub(r"  # .*", "", textwrap.dedent(inspect.getsource(self.solution)))

    @functools.cached_property
    def mutants(self):
        """The edited solutions, in the order in which they are tried."""
        tables = tables_of(self.name)
        edits = [
            (name, edit)
            for table in tables
            for name, row in table.items()
            for many in row.edits
            for edit in alternatives(many)
            if table is tables[0] or self.shows(edit)
        ]
        edits.sort(key=lambda one: one[0] in last(self.name))
        return [Mutant(name, edit, self.edited(edit)) for name, edit in edits]

    def shows(self, edit):
        """Say whether an edit of a group finds what it changes in this solution, and makes a wrong answer of it."""
        try:
            made = self.edited(edit)
        except ValueError:
            return False
        answers = [(self.foreseen(made, edit, place), place) for place in range(len(self.trials))]
        right = functools.partial(self.foreseen, self.solution, "")
        return any(a is not None and not self.close(self.trials[p], a, right(p)) for a, p in answers)

    def rewritten(self, edit):
        """Return the solution's source after an edit, or raise a ValueError if there is nothing to change."""
        source = self.source
        for step in edit.split(";;"):
            old, arrow, new = (part.strip(" ") for part in step.strip(" ").partition("=>"))
            if not arrow:
                old, new = source[source.rindex("return ") :].rstrip(), f"return {old}"
            if old not in source:
                raise ValueError(f"{self.name} has no {old!r} to edit, as its row {edit!r} asks")
            source = source.replace(old, new)
        return source

    def edited(self, edit):
        """Return the function or class that an edit makes of the solution."""
        names = dict(vars(inspect.getmodule(self.solution)))
        with warnings.catch_warnings(action="ignore"):
            exec(self.rewritten(edit), names)
        return names[self.solution.__name__]

    def foreseen(self, made, edit, place):
        """Return what a solution or an edited one answers on a trial, computed once; None where it cannot."""
        if (edit, place) not in self._known:
            self._known[edit, place] = tried(self.answer_of, made, self.trials[place])
        return self._known[edit, place]

    def answer_of(self, made, trial):
        """Return the answer of a solution or an edited one on a trial."""
        with steady(), torch.no_grad(), warnings.catch_warnings(action="ignore"):
            return self.read(self.call(made, *map(copied, trial)))

    # ---------------------------------------------------------------------------------------------- the verdict

    def __call__(self, attempt):
        """Return the `Verdict` of an attempt. It never raises, whatever dtype and seed the notebook has set."""
        try:
            with steady():
                verdict = None if untouched(attempt) else self.judge(attempt)
                verdict = verdict or Verdict(self.name, False, None, NOT_ATTEMPTED)
                PASSED.update([self.name] * verdict.passed)
                return verdict
        except Unreadable as unreadable:
            return refused(self.name, str(unreadable), unreadable.name)
        except Exception as error:  # whatever was handed in: no traceback of the course
            return refused(self.name, f"Your code cannot be checked: {type(error).__name__}.")

    def prepared(self, attempt):
        """Return what runs the attempt on a trial, or None for a stub; and what foresees (made, edit, place)."""
        if isinstance(attempt, type):
            raise Unreadable(f"A function is checked here, but {attempt.__name__} is a class.")
        if not callable(attempt):
            raise Unreadable(f"A function or a class is checked, but this is {kind_of(attempt)}.")
        return functools.partial(self.call, attempt), self.foreseen

    def judge(self, attempt):
        """Run the attempt on all trials and say what was seen; None of a stub."""
        run, foresee = self.prepared(attempt)
        ran = run and run_attempt(run, self.trials)
        if (
            not ran
            or (is_stub(ran.error) and not ran.results)
            or {place for place, one in ran.results if one is ...}
        ):
            return None
        told = [self.told(place, result, foresee) for place, result in ran.results]
        wrong = [one for one in told if one.seen]

        def tried_on(inputs):
            return tried_with(attempt, self.shown(*inputs)) if inputs else ""

        if wrong and all(one.answer and has_no_number(one.answer, one.expected) for one in told):
            return refused(self.name, tried_on(wrong[0].inputs) + wrong[0].seen, "nan_everywhere")
        raised = {*range(len(self.trials))} - {one.place for one in told} if ran.error else ()
        if wrong and (name := self.named(told, foresee, raised)):
            one = next((one for one in wrong if self.shows_sign(name, one)), wrong[0])
            return refused(self.name, tried_on(one.inputs) + one.seen, name)
        if ran.changed:
            return refused(self.name, f"After your code ran, {ran.changed}", "changes_its_input")
        hint, symptom = right_so_far([one for one in told if not ran.error or not one.seen], self.trials)
        seen_name = next((one.name for one in wrong if one.name), None)
        if ran.error or (ran.stopped and not wrong):
            said = tried_on(self.trials[ran.failed] if ran.error else ()) + why_not_run(ran)
            return refused(self.name, said, of_error(ran.error) or seen_name, hint)
        if wrong:
            name = seen_name or symptom
            if not name and self.differs_from_call_to_call(run, wrong[0].inputs):
                name = "differs_from_call_to_call"
            return refused(self.name, tried_on(wrong[0].inputs) + wrong[0].seen, name, hint)
        if found := self.wrong_in_float64(run, told):
            return refused(self.name, *found)
        said = f"Your answer was right on all {len(self.trials)} test inputs."
        if called := self.library & names_in(attempt):
            said += f" It is the library's own `{min(called)}`; the exercise asks how that is made."
        return Verdict(self.name, True, None, said)

    def told(self, place, result, foresee):
        """Return the result of one trial as `Told`."""
        inputs, expected = self.trials[place], foresee(self.solution, "", place)
        try:
            answer = self.read(result)
        except Unreadable as unreadable:
            return Told(place, inputs, str(unreadable), None, expected, unreadable.name)
        except Exception as error:  # whatever came back: no traceback of the course
            said = f"Your result is {kind_of(result)} and cannot be read: {type(error).__name__}."
            return Told(place, inputs, said, None, expected)
        if self.close(inputs, answer, expected):
            return Told(place, inputs, None, answer, expected)
        return Told(place, inputs, what_differs(answer, expected), answer, expected)

    def wrong_in_float64(self, run, told):
        """Return a sentence and a name if what was right is not right on the same inputs in float64."""
        pairs = [(one, in_float64(one.inputs)) for one in told]
        pairs = [(one, inputs) for one, inputs in pairs if inputs is not one.inputs]
        ran = run_attempt(run, [inputs for _, inputs in pairs], torch.float64)
        if ran.stopped:
            return IN_FLOAT64 + why_not_run(ran), None
        if ran.error:
            return IN_FLOAT64 + why_not_run(ran), of_error(ran.error) or "right_in_float32_only"
        if ran.changed:
            return f"{IN_FLOAT64}After your code ran, {ran.changed}", "changes_its_input"
        for place, result in ran.results:
            one = pairs[place][0]
            again = self.told(one.place, result, lambda *_, one=one: one.expected)
            if again.seen:
                return IN_FLOAT64 + again.seen, "right_in_float32_only"
        return None

    def differs_from_call_to_call(self, run, inputs):
        """Say whether the same inputs get different answers."""
        with suppress(Exception):  # it cannot be read
            first, *others = [self.read(result) for _, result in run_attempt(run, [inputs] * 3).results]
            return not all(agrees(other, first) for other in others)
        return False

    # ------------------------------------------------------------------------------------------------ the names

    def named(self, told, foresee, raised=()):
        """Return the name of the mistake that explains the answers, of two at once "one + other", or None.

        Where few answers are wrong, an edit also has to raise in those trials where the attempt `raised`.
        """
        read = [one for one in told if one.answer]
        read.sort(key=lambda one: not one.seen)  # the wrong ones tell most
        wrong = [one for one in read if one.seen]
        if not wrong or any(one.seen and one.name and not one.answer for one in told):
            return None
        if any(weights_first(one.answer, one.expected) for one in wrong):
            return "weights_first"
        if how_many(wrong) < TOLD_BY_CHANCE and len(wrong) < 3:
            read += [Told(place, self.trials[place], None, None, {}) for place in raised]
        return self.nearest(read, foresee) or self.shown_by_sign(wrong) or self.two_at_once(read, foresee)

    def nearest(self, read, foresee):
        """Return the name of the first mistake whose edit explains every answer, or whose edits do together."""
        for mutant in self.mutants:
            if self.explains([mutant], read, foresee):
                return mutant.name
        for name, several in itertools.groupby(self.mutants, key=lambda mutant: mutant.name):
            several = list(several)
            if len(several) > 1 and self.explains(several, read, foresee):
                return name
        return None

    def explains(self, mutants, read, foresee):
        """Say whether each wrong answer is that of one of these mutants, and each right one too where they run."""
        shown, name = False, mutants[0].name

        def shows(answer, one):
            return not self.close(one.inputs, answer, one.expected)

        for one in (one for one in read if " + " in name or self.says_something(name, one.inputs)):
            answers = [foresee(mutant.made, mutant.edit, one.place) for mutant in mutants]
            answers = [answer for answer in answers if answer is not None]
            if one.answer is None:
                if answers:
                    return False
            elif any(self.same(one.answer, answer) for answer in answers):
                shown = shown or bool(one.seen)
            elif not answers and not one.seen:  # the mistake cannot be made on these inputs
                continue
            elif not one.seen or not any(
                self.same(one.answer, overflown(a, one)) for a in answers if shows(a, one)
            ):
                return False
        return shown

    def shown_by_sign(self, wrong):
        """Return the name of the first sign that a wrong answer shows, or None."""
        return next((name for one in wrong for name in self.signs if self.shows_sign(name, one)), None)

    def shows_sign(self, name, one):
        """Say whether a wrong answer shows the sign of a mistake."""
        return name in self.signs and one.answer and tried(self.signs[name], one.inputs, one.answer)

    def two_at_once(self, read, foresee):
        """Return "one + other" if only one pair of mistakes explains every answer: of the first edits, or None."""
        if how_many([one for one in read if one.seen]) < TOLD_BY_CHANCE:
            return None
        few = [next(several) for _, several in itertools.groupby(self.mutants, lambda mutant: mutant.name)]
        found = run_attempt(lambda: [*self.pairs_that_explain(few, read, foresee)], [()]).results
        names = {name for _, pairs in found for name in pairs}
        return names.pop() if len(names) == 1 else None

    def pairs_that_explain(self, few, read, foresee):
        """Yield the names of each pair of these mutants that explains every answer, none of them by itself."""
        for one, other in itertools.combinations(few, 2):
            if one.name == other.name or "=>" not in one.edit:
                continue
            both = f"{one.edit} ;; {other.edit}"
            with suppress(Exception):  # the second finds nothing to change behind the first
                made = self.edited(both)
                pair = Mutant(f"{one.name} + {other.name}", both, made)
                runs = (foresee(made, both, told.place) is not None for told in read)
                if self.explains([pair], read, foresee) and all(runs):
                    yield pair.name


def alternatives(edit):
    """Return the edits that one with "{{a || b}}" stands for, one for each choice."""
    parts = re.split(r"{{(.*?)}}", edit, flags=re.DOTALL)
    choices = [
        [*map(str.strip, part.split("||"))] if place % 2 else [part] for place, part in enumerate(parts)
    ]
    return ["".join(one) for one in itertools.product(*choices)]


def in_float64(value):
    """Return tensors and modules of float32 in float64, also those in a tuple; all else as it is."""
    if isinstance(value, tuple):
        parts = tuple(map(in_float64, value))
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
    if isinstance(value, nn.Module) and list(value.parameters()):
        return copy.deepcopy(value).double()
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def how_many(wrong):
    """Return how many numbers stand in wrong answers; what is the same everywhere counts once."""
    values = [value for one in wrong for value in one.answer.values() if isinstance(value, torch.Tensor)]
    return sum(value.numel() if len(value.unique()) > 1 else 1 for value in values)


def weights_first(answer, expected):
    """Say whether output and weights stand in each other's place."""
    if not {"output", "weights"} <= answer.keys() & expected.keys():
        return False
    return agrees(answer, {"output": expected["weights"], "weights": expected["output"]})


def names_in(attempt):
    """Return the names that the code of a function, or of a class's forward, uses."""
    function = getattr(attempt, "forward", attempt) if isinstance(attempt, type) else attempt
    codes, found = [getattr(function, "__code__", None)], set()
    while codes:
        if code := codes.pop():
            found |= {*code.co_names}
            codes += [part for part in code.co_consts if inspect.iscode(part)]
    return found if hasattr(function, "__code__") else {getattr(function, "__name__", "")}
