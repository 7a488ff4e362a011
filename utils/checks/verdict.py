"""What a check says: a `Verdict` of one attempt, and `progress` in a notebook."""

import html
import importlib
from dataclasses import dataclass

from .words import FOLDER, address_of, is_symptom, said_of

NOT_ATTEMPTED = "not attempted yet"
# Colours for a light and a dark page alike (Okabe and Ito 2008); a sign and a word say the same.
LOOK = {"passed": ("✓", "#009E73"), "not yet": ("✗", "#D55E00"), NOT_ATTEMPTED: ("○", "#808080")}
PASSED = set()  # the exercises that have passed since the kernel started; stored nowhere else


@dataclass(frozen=True)
class Verdict:
    """What a check says: `passed`, the name of the `misconception` or None ("a + b" of two), a `message`.

    `look` is where to look, a notebook's number and a heading in it, or None.
    """

    exercise: str
    passed: bool
    misconception: str | None
    message: str
    look: tuple | None = None

    def _head(self):
        """Return sign, words and colour of the first line."""
        state = "passed" if self.passed else NOT_ATTEMPTED if self.message == NOT_ATTEMPTED else "not yet"
        words = f"{self.exercise}: {state}" + (f" ({self.misconception})" if self.misconception else "")
        return LOOK[state][0], words, LOOK[state][1]

    def _place(self):
        """Return in words where to look."""
        return f"notebook {self.look[0]}, section “{self.look[1]}”"

    def __repr__(self):
        sign, words, _ = self._head()
        told = [] if self.message == NOT_ATTEMPTED else [self.message]
        told += [f"Where to look: {self._place()}."] if self.look else []
        return "\n".join([f"{sign} {words}", *told])

    def _repr_html_(self):
        sign, words, colour = self._head()
        told = [] if self.message == NOT_ATTEMPTED else html.escape(self.message).split("\n")
        if self.look:
            place, address = html.escape(self._place()), address_of(*self.look)
            link = f'<a href="{html.escape(address)}">{place}</a>' if address else place
            told.append(f"Where to look: {link}.")
        return boxed(colour, "<br>".join([f"<b>{sign} {html.escape(words)}</b>", *told]))


def boxed(colour, words):
    """Return a line or more of HTML in a box of this colour."""
    style = f"border-left: 6px solid {colour}; background: {colour}22; padding: 8px 12px; max-width: 50em"
    return f'<div style="{style}">{words}</div>'


def refused(exercise, seen, name=None, hint=""):
    """Return the `Verdict` of a wrong attempt. A name without a row is left out; a `hint` stands where none says all."""
    names = name.split(" + ") if name else []
    told = [said_of(exercise, one) for one in names]
    if not told or any(words is None for words, _ in told):
        name, told = None, [("", said_of(exercise, None)[1])]
    words = "\nAnd: ".join(words for words, _ in told)
    hint = hint if not name or is_symptom(name) else ""
    return Verdict(exercise, False, name, "\n".join(filter(None, [seen, words, hint])), told[0][1])


@dataclass(frozen=True)
class Progress:
    """How many exercises of a notebook have `passed` since the kernel started, and which are `open`."""

    passed: tuple
    open: tuple

    def __repr__(self):
        count = f"{len(self.passed)} of {len(self.passed + self.open)}"
        line = f"{count} exercises passed since the kernel started."
        return f"{line} Open: {', '.join(self.open)}." if self.open else line

    def _repr_html_(self):
        return boxed(LOOK[NOT_ATTEMPTED if self.open else "passed"][1], repr(self))


def progress(number):
    """Return the `Progress` in the notebook with this number, such as "02" or 2; a ValueError if there is none."""
    name = f"notebook_{number:0>2}"
    if not (FOLDER / f"{name}.py").exists():
        raise ValueError(f"There are no exercises of a notebook {number}. Give its number, such as 02.")
    checks = vars(importlib.import_module(f".{name}", __package__))
    names = [name.removeprefix("check_") for name in checks if name.startswith("check_")]
    done = tuple(name for name in names if name in PASSED)
    return Progress(done, tuple(name for name in names if name not in PASSED))
