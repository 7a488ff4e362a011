"""The options that the views share: each with its default, its check and its words in the docstrings, in this one place.

A page reads an option as `view.NAME` in its JavaScript. A function of `pictures`, or a view, gets it by naming it among
its arguments.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps

from .page import View, make_page


@dataclass
class Option:
    """An argument of views. check: (name, value) -> None, raises ValueError or TypeError; says: its docstring."""

    default: object
    check: Callable
    says: str
    views: tuple = ("head", "model", "neuron", "text")


def one_of(*choices):
    """Return a check that refuses what is none of these. None stands for an option that is left out."""

    def check(name, value):
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            named = {choice: f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices}
            *first, last = (named | {None: "left out"} if None in choices else named).values()
            raise ValueError(f"{name} is {', '.join(first)} or {last}, not {value!r}.")

    return check


OPTIONS = {
    "display_mode": Option(
        "auto",
        one_of("auto", "light", "dark"),
        """the ground of the page, "light", "dark" or "auto": dark where the notebook says by its CSS that it is
        (`color-scheme`, as JupyterLab does) or its own ground is dark, else light; a saved page goes by the setting of
        the browser. The static picture is always light.""",
    ),
    "html_action": Option(
        None,
        one_of("view", "return", None),
        """"view" displays the view at once, in a loop too; "return", or nothing, returns it, as in bertviz.""",
    ),
    "picture": Option(
        True,
        one_of(True, False),
        "whether the output holds the static picture, which shows where no script runs. False is quicker.",
    ),
}


def with_options(make):
    """Give a view the options, by keyword after its other arguments, or where it names one itself.

    make: returns what is drawn, (text, menus, data, height, draw), as `make_page` and `View` take it.
    """
    kind, own = make.__name__.partition("_")[0], inspect.signature(make).parameters
    options = {name: option for name, option in OPTIONS.items() if kind in option.views}
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
        for name, option in options.items()
        if name not in own
    ]
    signature = inspect.Signature([*own.values(), *more])

    @wraps(make)
    def view(*given, **named):
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        chosen = {name: bound.arguments[name] for name in options}
        for name, value in chosen.items():
            options[name].check(name, value)
        text, menus, data, height, draw = make(**_only(own, bound.arguments))
        draw = partial(draw, **_only(inspect.signature(draw).parameters, chosen))
        html_action, picture = chosen.pop("html_action"), chosen.pop("picture")  # not the page's
        found = View(text, make_page(kind, text, menus, data | chosen), height, draw, picture)
        if html_action != "view":
            return found
        from IPython.display import display

        return display(found)

    view.__signature__ = signature
    view.__doc__ = make.__doc__.rstrip() + "\n\n    As in every view:\n"
    view.__doc__ += "".join(f"    {name}: {option.says}\n" for name, option in options.items())
    return view


def _only(names, arguments):
    return {name: value for name, value in arguments.items() if name in names}
