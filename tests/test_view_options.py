"""The options that all views share: what is refused, and for each what the page or its picture shows."""

import inspect
from functools import partial

import pytest
import test_browser
from test_browser import framed, ground_and_text, lines
from view_samples import KINDS, Words, names, small_bert, weights

from utils import views
from utils.views import head_view, model_view
from utils.views.options import OPTIONS

open_page, paper, show = test_browser.open_page, test_browser.paper, test_browser.show  # fixtures
A, T = weights(), names(4)
DRAW = {kind: partial(getattr(views, f"{kind}_view"), A, T) for kind in KINDS}
DRAW["neuron"] = partial(views.neuron_view, small_bert(), Words(), "w5")
# Each with what the answer says.
REFUSED = {
    ("display_mode", "Dark"): '"auto", "light" or "dark", not \'Dark\'',
    ("html_action", "show"): '"view", "return" or left out, not \'show\'',
    ("picture", "no"): "True or False, not 'no'",
}


@pytest.mark.parametrize(("option", "said"), REFUSED.items(), ids=[name for name, _ in REFUSED])
def test_an_option_that_does_not_fit_is_refused_by_each_view(option, said):
    for kind in OPTIONS[option[0]].views:
        with pytest.raises((TypeError, ValueError), match=f"{option[0]} is {said}"):
            DRAW[kind](**dict([option]))


@pytest.mark.parametrize("kind", KINDS)
def test_each_option_is_an_argument_of_its_views_and_in_their_docstrings(kind):
    view = getattr(views, f"{kind}_view")
    for name, option in OPTIONS.items():
        assert (name in inspect.signature(view).parameters) == (kind in option.views)
        assert view.__doc__.count(f"    {name}: ") == (kind in option.views)
        assert {name for name, _ in REFUSED} >= {name}
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        DRAW[kind](colour=1)


GROUNDS = [("color-scheme: dark", "light", "auto", "dark"), ("color-scheme: light", "dark", "auto", "light")]
GROUNDS += [(None, "dark", "auto", "dark"), ("color-scheme: light dark", "dark", "auto", "dark")]
GROUNDS += [("color-scheme: dark", "dark", "light", "light"), ("color: black", "dark", "auto", "light")]
# No scheme is named:
GROUNDS += [("background: #121212", "light", "auto", "dark"), ("background: #fff", "dark", "auto", "light")]


@pytest.mark.browser
@pytest.mark.parametrize(("style", "browser", "mode", "ground"), GROUNDS)
def test_a_view_is_dark_where_its_notebook_is(show, monkeypatch, style, browser, mode, ground):
    """style: what a notebook says in its CSS; None is a saved page. browser: what the reader has set."""
    view = head_view(A, T, heads=[0], display_mode=mode)
    shown = framed(view, monkeypatch, f"style='{style}'") if style else view
    frame = show(shown, color_scheme=browser).frames[-1]
    frame.wait_for_selector(f"html.{ground} #vis canvas", state="attached")
    assert ground_and_text(frame, ground)
    frame.get_by_role("button", name="Mean of all heads").click()
    assert {colour for colour, *_ in lines(frame)} == {{"light": "#202020", "dark": "#cccccc"}[ground]}


def test_html_action_is_bertvizs_and_a_view_in_a_loop_is_displayed_where_it_is_asked_to_be(monkeypatch):
    assert head_view(A, T, html_action="return").data == head_view(A, T).html
    assert head_view(A, T, None, True, None, None, None, None, None, None, None, None, "return").data
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    assert all(make(A, T, html_action="view") is None for make in (head_view, model_view) * 2)
    assert len(shown) == 4 and shown[0].html


def test_the_picture_can_be_left_out(monkeypatch):
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    for draw in DRAW.values():
        assert "<img" not in draw(picture=False)._repr_mimebundle_()[0]["text/html"]
