"""The exercises: right attempts pass, wrong ones (and mutants) are refused, and their mistake is named."""

import copy
import html
import random
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch
from attempts import FRESH, PEER, RIGHT, WRONG
from mutants import mutants
from torch import nn

import course
from utils import checks
from utils.attention import scaled_dot_product_attention
from utils.checks import running, verdict, words
from utils.checks.answers import first_difference
from utils.checks.exercise import Exercise, Mutant, alternatives
from utils.checks.modules import ModuleExercise
from utils.checks.shared import fill_weights
from utils.checks.verdict import LOOK, NOT_ATTEMPTED, Verdict

CHECKS = {check.name: check for name, check in vars(checks).items() if name.startswith("check_")}
EXERCISES = list(CHECKS)
CLASSES = [name for name, check in CHECKS.items() if isinstance(check, ModuleExercise)]
ATTENTION = nn.functional.scaled_dot_product_attention

FLOAT64 = pytest.param(torch.float64, marks=pytest.mark.slow)
each_exercise = pytest.mark.parametrize("exercise", EXERCISES)


def check(exercise, attempt):
    """Return the verdict, whatever the attempt; a message holds no traceback and nothing of the course."""
    verdict = CHECKS.get(exercise, exercise)(attempt)
    assert isinstance(verdict, Verdict)
    told = verdict.message
    assert not re.search(r"\d\.\d{4,}|Traceback| at 0x|\.venv|site-packages", told), verdict
    assert str(course.ROOT) not in told, verdict
    return verdict


def as_attempt(exercise, function):
    """Return a function as it is, or a class whose forward it is."""
    if exercise not in CLASSES:
        return function
    return type("Attempt", (RIGHT[exercise][0],), {"forward": lambda self, *inputs: function(*inputs)})


def test_each_exercise_has_rows_attempts_and_a_peer():
    tables, exercises = words.table(), set(EXERCISES)
    assert tables.keys() - {"words", "symptoms", "groups"} == exercises, "a table of a .toml for each check"
    assert RIGHT.keys() == PEER.keys() == exercises, "right attempts and a peer for each in tests/attempts"
    assert all(len(attempts) >= 3 for attempts in RIGHT.values()), "three right ones, written differently"
    used = {group for table in tables.values() for group in table.get("also", ())}
    assert used == tables["groups"].keys(), "each group of rows serves an exercise"
    wordless = {name for e in exercises for name, row in words.rows(tables[e]).items() if not row.words}
    needless = {name for name in words.rows(tables["words"]) if name not in wordless and not is_raised(name)}
    assert not needless, f"nobody needs these words under [words]: {needless}"
    assert all(getattr(checks, f"check_{name}") is check for name, check in CHECKS.items())


@each_exercise
def test_rows_can_be_read(exercise):
    own, *groups = words.tables_of(exercise)
    for name, row in own.items():
        said, _ = words.said_of(exercise, name)
        assert said, f"{name} has no words"
        shown = row.edits or name in CHECKS[exercise].signs or any(name in group for group in groups)
        shown = shown or words.is_symptom(name) or is_raised(name)
        assert shown, f"{name} has words, and nothing shows it: give it edits or a sign, or drop the row"
    for row in (row for table in (own, *groups) for row in table.values()):
        assert all(len(edit) <= 110 for edit in row.edits), f"over 110 columns: {max(row.edits, key=len)}"


def is_raised(name):
    """Say whether the code of the checks gives this name by itself."""
    sources = [path.read_text(encoding="utf-8") for path in (course.ROOT / "utils" / "checks").glob("*.py")]
    return any(f'"{name}"' in source for source in sources)


@each_exercise
@pytest.mark.parametrize("dtype", [torch.float32, FLOAT64], ids=str)
def test_right_attempts_pass(exercise, dtype):
    """Also where the notebook has set another default, as 05 does."""
    torch.set_default_dtype(dtype)
    try:
        verdicts = [check(exercise, attempt) for attempt in RIGHT[exercise]]
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(verdict.passed and verdict.misconception is None for verdict in verdicts), verdicts


@each_exercise
def test_solution_equals_its_peer(exercise):
    """PyTorch, transformers or a hand-worked value, on every trial: the outside is the judge."""
    own = CHECKS[exercise]
    own.trials  # noqa: B018  # made before the numbers of chance begin
    for place, trial in enumerate(own.trials):
        if exercise in CLASSES:
            arguments, *inputs = trial
            module = fill_weights(own.solution(*arguments)).eval().requires_grad_(False)
            right, expected = own.read(module(*inputs)), own.read(PEER[exercise](module, *inputs))
        else:
            right = own.foreseen(own.solution, "", place)
            expected = own.read(own.call(PEER[exercise], *trial))
        assert right is not None and own.close(trial, right, expected), f"trial {place}: {right}, {expected}"


@pytest.mark.slow
@each_exercise
def test_each_edit_is_refused_under_its_own_name(exercise):
    rows = words.tables_of(exercise)[0].items()
    own = {(name, edit) for name, row in rows for many in row.edits for edit in alternatives(many)}
    for name, edit, made in CHECKS[exercise].mutants:
        if (name, edit) in own:
            verdict = check(exercise, made)
            assert not verdict.passed, f"{name}: {edit!r} passes as right"
            assert verdict.misconception == name, f"{name}: {edit!r} is named otherwise: {verdict}"


@each_exercise
def test_each_mistake_has_an_attempt_that_is_named(exercise):
    attempted = {name: attempts for (home, name), attempts in WRONG.items() if home == exercise}
    lacking = words.tables_of(exercise)[0].keys() - attempted.keys()
    assert not lacking, f'nobody makes {lacking}: write wrong("{exercise}", …) in attempts, or drop the row'
    for name, attempts in attempted.items():
        for attempt in attempts:
            verdict = check(exercise, attempt)
            named = (verdict.passed, verdict.misconception)
            assert named == (False, name), f"{attempt.__name__} makes {name}. Now:\n{verdict}"
            said, look = words.said_of(exercise, name)
            assert verdict.look == look and said in verdict.message
            seen = verdict.message.replace(said, "")
            assert re.search(r"\d|nan|\[|'|True|False", seen), "a number or text from the attempt"


def without_names(exercise, trials=None):
    """Return an exercise that tries no edit, which is quick: what is refused gets no name by a formula."""
    quick = copy.copy(CHECKS[exercise])
    quick.mutants, quick.trials = [], trials or quick.trials
    return quick


def with_fresh_trials(exercise):
    """Return the exercise with inputs of its own, or with noise on the numbers of its trials."""
    draws = torch.Generator().manual_seed(0)

    def noisy(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.abs().max() < 9:
            return value + torch.randn(value.shape, generator=draws)
        return value

    trials = FRESH.get(exercise) or [tuple(map(noisy, trial)) for trial in CHECKS[exercise].trials]
    again = without_names(exercise, trials)
    again._known = {}
    return again


@pytest.mark.slow
@each_exercise
def test_mutants_of_right_attempts_are_refused_or_right(exercise, monkeypatch):
    """Three of each right attempt; `make bench ARGS=checks` makes all. Each that passes is right."""
    monkeypatch.setattr(running, "LIMIT", 6)  # a loop over all rows takes one second, on a busy machine two
    whole, again = without_names(exercise), with_fresh_trials(exercise)
    first = without_names(exercise, whole.trials[:1])  # which tells most of them apart
    for text, mutant in mutants(exercise, 3):
        if check(first, mutant).passed and check(whole, mutant).passed:
            assert again(mutant).passed, text


class Small(Exercise):
    """An exercise of this file: its rows are given, not read."""

    def __init__(self, solution, trials, edits):
        super().__init__(solution, lambda: trials)
        self.mutants = [Mutant(name, edit, self.edited(edit)) for name, edit in edits]


def number(value):
    return value * 2 + 1


@pytest.mark.parametrize(
    "answers, name",
    [([1, 3, 5], "less"), ([1, 3, 7], None), ([2, 3, 7], None), ([1, 3, torch.nan], "less")],
    ids=["all", "not where it is right", "not one of them", "one cannot be seen"],
)
@pytest.mark.filterwarnings("error")  # what an edited solution warns of is not the learner's
def test_an_edit_names_what_no_answer_contradicts(answers, name):
    edits = [("less", "+ 1 => - torch.tensor(value**0)")]  # which torch warns of
    small = Small(number, [(torch.ones(1) * n,) for n in (1, 2, 3)], edits)
    told = [small.told(place, torch.ones(1) * one, small.foreseen) for place, one in enumerate(answers)]
    assert small.named(told, small.foreseen) == name


def test_two_mistakes_at_once_are_both_named():
    trial = torch.arange(20.0)
    edits = {"doubled": "* 2 => * 3", "moved": "+ 1 => + 2", "turned": "* 2 => * -2"}
    small = Small(number, [(trial,)], edits.items())
    assert small.named([small.told(0, trial * 3 + 2, small.foreseen)], small.foreseen) == "doubled + moved"
    assert small.named([small.told(0, trial * 3 + 7, small.foreseen)], small.foreseen) is None


@pytest.mark.parametrize("found", [{}, {"softmax": {"home": ["02", "Softmax"]}}], ids=["none", "home only"])
def test_a_mistake_without_words_is_refused_without_a_name(found, monkeypatch):
    monkeypatch.setattr(words, "table", lambda: found | {"groups": {}})
    said = verdict.refused("softmax", "Seen.", "sign_turned")
    assert (said.passed, said.misconception, said.message) == (False, None, "Seen.")


def test_hand_worked_numbers_of_a_message():
    """Labels 5 6 7 2 and 8 9 2 0 behind the start 1 are 1 5 6 7 and 1 8 9 2: the largest difference is 7."""
    seen = check("shift_right", lambda labels, start_id: labels).message
    assert seen.startswith("Tried with labels = [[5, 6, 7, 2], [8, 9, 2, 0]], start_id = 1. The number at ")
    assert "[0, 0] of your ids is 5; expected is 1." in seen, "4 apart: the first of more than 3.5"
    seen = check("causal_mask", lambda n: torch.ones(n, n).bool()).message
    assert seen.startswith("Tried with n = 5. At [0, 1] your mask is True; expected is False.")
    even = check("softmax", lambda scores: torch.full(scores.shape, 0.25)).message  # for 3 keys
    assert "A row of your weights sums to 0.75." in even
    assert "row of your" not in check("softmax", lambda scores: torch.zeros_like(scores).softmax(-1)).message
    for other, said in ((0.403, "0.403"), (0.4012, "0.401 and a little more")):  # in three decimals
        assert first_difference(torch.tensor([1.0, 0.401]), torch.tensor([1, other])) == ([1], "0.401", said)
    mine, right = torch.tensor([torch.nan, 1.0, torch.nan, 9.0]), torch.tensor([torch.nan, 1.0, 0.5, 1.0])
    assert first_difference(mine, right) == ([2], "nan", "0.50"), "nan differs most, but not from nan"


def test_places_to_look_are_cells_of_the_notebooks():
    cells = {path.name: {cell.id: cell.source for cell in course.read(path).cells} for path in course.paths()}
    for exercise, table in words.table().items():
        for rows in [table] if exercise != "groups" else table.values():
            home = [rows["home"]] if "home" in rows else []
            for number, heading in home + [row.look for row in words.rows(rows).values() if row.look]:
                address = words.address_of(number, heading)
                assert address, f"{exercise}: notebook {number} has no “{heading}”"
                name, cell = address.split("#cell-id=")
                assert f"# {heading}\n" in cells[name][cell] + "\n" and name.startswith(number)
                assert number <= table.get("home", ["99"])[0], f"{exercise}: “{heading}” comes later"


def test_link_leads_to_the_cell_where_there_is_one(monkeypatch):
    """In Colab, which knows no notebook beside this one, only if the course is published."""
    look = "03", "Minus infinity"
    verdict = Verdict("softmax", False, None, "a < b", look)
    assert repr(verdict).endswith("\na < b\nWhere to look: notebook 03, section “Minus infinity”.")
    (name, cell) = re.search(r'<a href="(03_masking.ipynb)#cell-id=(\w+)"', verdict._repr_html_()).groups()
    monkeypatch.setitem(sys.modules, "google.colab", None)
    published = "https://colab.research.google.com/github/someone/"
    for owner, begins in (("-owner-", None), ("someone", published)):
        words.address_of.cache_clear()
        settings = {"tool": {"course": {"repository": f"{owner}/course"}}}
        monkeypatch.setattr(words.tomllib, "loads", lambda text, settings=settings: settings)
        address = words.address_of(*look)
        assert address is begins or re.fullmatch(f"{begins}.*{name}#scrollTo={cell}", address)
        assert ("<a " in verdict._repr_html_()) == bool(begins)
    words.address_of.cache_clear()


def raises(error):
    def attempt(*inputs):
        raise error

    return attempt


@pytest.mark.slow
@each_exercise
def test_stubs_are_not_attempted_yet(exercise):
    def with_docstring(*inputs):
        """Say."""

    def to_do(*inputs):
        raise NotImplementedError("to do")

    def dots(*inputs): ...

    stubs, called = [with_docstring, to_do, dots], raises(NotImplementedError())
    if exercise in CLASSES:
        stubs = [type("Stub", (nn.Module,), {"forward": stub}) for stub in stubs]
        stubs += [type("Stub", (RIGHT[exercise][0],), {name: called}) for name in ("__init__", "forward")]
        stubs += [type("Empty", (nn.Module,), {})]
    else:
        stubs += [called]
    for stub in [None, ..., *stubs]:
        assert check(exercise, stub) == Verdict(exercise, False, None, NOT_ATTEMPTED)


@each_exercise
def test_errors_are_told_with_the_line(exercise):
    def attempt(*inputs):
        raise ValueError("the   axes <b>")

    verdict = check(exercise, as_attempt(exercise, attempt))
    assert (verdict.passed, verdict.misconception) == (False, None)
    assert "Your code raised ValueError: the axes <b>\nIt happened in line" in verdict.message
    assert 'raise ValueError("the   axes <b>")' in verdict.message
    assert "<b>\n" not in verdict._repr_html_() and html.escape("<b>") in verdict._repr_html_()


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


ODD = [
    *(None, {}, {"a": 1}, set(), object(), Hostile(), "text", ["a"], [], (), [[1, 2], [3]], True, 3, -1, 2.5),
    *(float("nan"), 1e300, [1e300] * 2, np.zeros((2, 3)), np.array(["a"]), [torch.zeros(2), 1], (None, None)),
    *((torch.zeros(2, 4, 3), None), torch.tensor(1.0), torch.empty(0), torch.zeros(1, 2, 3, 4, 5, 6)),
    *(torch.zeros(2, dtype=torch.complex64), torch.eye(3).to_sparse(), torch.full((4, 4), torch.nan)),
    *(nn.Linear(2, 2), nn.Linear, torch.nn.functional.relu, print, object),
]


@pytest.mark.slow
@each_exercise
def test_odd_values_are_refused(exercise):
    """As what an attempt returns, and as the attempt itself."""
    quick = without_names(exercise)
    for value in ODD:
        for attempt in (as_attempt(exercise, lambda *inputs, value=value: value), value):
            verdict = check(quick, attempt)
            assert not verdict.passed, verdict


def attends(change):
    """Return an attempt at `attention` whose right output is changed."""
    return lambda *inputs: change(ATTENTION(*inputs))


def gives(result):
    return lambda *inputs: result


def ignores_no_mask(query, key, value, mask=None):
    return ATTENTION(query, key, value) * (1 if mask is None else 2)


def right_once(texts):
    return RIGHT["merge_pair"][0](texts) if texts[0] == ["t", "o"] else [["spam"]] * len(texts)


def forgot_to_return(seq_len):
    mask = torch.ones(seq_len, seq_len).tril()  # noqa: F841


ERRORS = SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), MemoryError()
NAN, MASKED = torch.full((3, 7, 5), torch.nan), "scaled_dot_product_attention"
TOLD = [
    ("attention", attends(lambda out: 3 * out), "your output. Each number is 3.00 times the right one"),
    ("attention", attends(lambda out: 0.5 + out), "Each number is 0.50 too large"),
    ("attention", attends(torch.neg), "Only the sign is wrong."),
    ("attention", attends(lambda out: out.roll(1, -2)), "stand in another order"),
    ("attention", attends(lambda out: out.mT), "It would be right with its axes 1 and 2 exchanged"),
    ("attention", gives({"a": 1}), "type dict"),
    ("attention", gives(torch.zeros(1, 2)), "(1, 2); (3, 7, 5) is expected"),
    ("attention", gives(NAN), " 105 of your 105 numbers are nan."),
    ("as_extreme", lambda *given: 100 * RIGHT["as_extreme"][0](*given), "Your number is 100.00 times"),
    ("merge_pair", lambda words: re.sub(1, 2, words), 'of your cell: ("merge_pair", lambda words: re.sub('),
    ("attention", attends(torch.Tensor.tolist), "is a list. Return a tensor: torch."),
    ("attention", attends(torch.Tensor.numpy), "is a NumPy array. Return a tensor: torch."),
    ("attention", gives(None), "None (is a `return` missing?)"),
    ("causal_mask", forgot_to_return, "is a `return` missing?"),
    ("causal_mask", lambda n: torch.ones(n, device="meta").to("cpu"), "NotImplementedError"),  # PyTorch's own
    (MASKED, ignores_no_mask, "answer without a mask, the shape of your output. Look at the lines that use"),
    ("softmax", lambda s: torch.where(torch.arange(4)[:, None] < 1, s, 0).softmax(-1), "Only row 0 is right"),
    ("softmax", lambda s: (2 * s).softmax(-1), "each row sums to 1. Look at the scores"),
    ("softmax", lambda s: (s, s), "You returned a pair of tensors. Return one tensor"),
    ("merge_pair", right_once, "Right so far: the answer to 1 of"),
    ("pad_batch", gives([1, 2, 3]), "has 3 parts. Expected are 2"),
    ("strongest_dimensions", gives([2.5, 1]), "holds 2.50. Whole numbers"),
    ("shift_right", gives((torch.arange(2),) * 2), "a pair of tensors. Expected are whole numbers, the ids."),
    ("sentence_b_start", gives([1, 2, 3]), "holds 3 numbers. One is expected"),
    ("strongest_head", gives([1, 2, 3]), "holds 3 numbers. Two are expected"),
    ("attention", lambda q, k, v: scaled_dot_product_attention(q, k[..., :1], v), "(q, k[..., :1], v)"),
    *(("causal_mask", raises(error), f"Your code raised {type(error).__name__}") for error in ERRORS),
    *((name, print, "Give the class itself") for name in CLASSES),
    *((name, type("Plain", (), {"forward": print}), "no nn.Module") for name in CLASSES),
]


@pytest.mark.parametrize("exercise, attempt, said", TOLD)
def test_without_a_name_what_came_back_and_what_is_right_so_far_is_told(exercise, attempt, said):
    verdict = check(exercise, attempt)
    assert not verdict.passed and said in verdict.message
    assert not verdict.misconception or words.is_symptom(verdict.misconception), verdict


class Floats(RIGHT["multi_head_attention"][0]):
    def forward(self, x, mask=None):
        return super().forward(x.float(), mask)


SYMPTOMS = [
    ("causal_mask", "not_a_tensor", lambda n: [[True] * n] * n),
    ("causal_mask", "nothing_returned", lambda n: print(end="")),
    ("sentence_b_start", "not_numbers", gives("three")),
    ("longest_text", "many_numbers_as_one_truth", lambda *sizes: 1 if torch.tensor([1, 2]) else 0),
    ("split_heads", "sizes_do_not_fit", lambda x, n: x.view(*x.shape[:2], n, 64).transpose(1, 2)),
    ("split_heads", "axis_is_not_there", lambda x, n: x.transpose(2, 3)),
    ("softmax", "all_moved", lambda s: s.softmax(-1) + 1),
    ("softmax", "nearly_right", lambda s: s.softmax(-1).half()),
    ("softmax", "differs_from_call_to_call", torch.rand_like),
    ("softmax", "wrong_dtype_for_this", lambda s: s.long().softmax(-1)),
    ("softmax", "right_in_float32_only", lambda s: s.softmax(-1) if s.dtype == torch.float32 else s),
    ("attention", "two_dtypes", lambda q, k, v: ATTENTION(q.float(), k.float(), v)),
    ("multi_head_attention", "two_dtypes", Floats),
    ("merge_pair", "runs_backwards", lambda texts: [word[::-1] for word in RIGHT["merge_pair"][0](texts)]),
]


@pytest.mark.parametrize("exercise, name, attempt", SYMPTOMS)
def test_a_mistake_without_a_formula_is_named_by_its_symptom(exercise, name, attempt):
    """By the type that came back, by the error, or by how the answer differs."""
    verdict = check(exercise, attempt)
    assert (verdict.passed, verdict.misconception) == (False, name), verdict
    assert "float64" in verdict.message or name not in ("two_dtypes", "right_in_float32_only")


def test_short_inputs_are_told_and_what_does_something_is_not_taken_for_a_stub():
    to_do = raises(NotImplementedError())
    assert check("causal_mask", lambda n: sum([1]) and to_do()).message == NOT_ATTEMPTED
    assert check("to_halves", lambda w, n, back=False: to_do() if back else w).message != NOT_ATTEMPTED
    assert not running.untouched(type("Slip", (nn.Module,), {"foward": forgot_to_return}))
    assert check("sentence_b_start", lambda token_type_ids: 3).message != NOT_ATTEMPTED
    seen = check("sentence_b_start", lambda token_type_ids: token_type_ids.index(1)).message
    assert "Tried with token_type_ids = [0, 0, 0, 0]. Your code raised ValueError" in seen
    assert "Tried" not in check("attention", lambda q, k, v: q).message, "its inputs are long"


def test_progress_counts_what_has_passed_since_the_kernel_started(monkeypatch):
    passed = set()
    monkeypatch.setattr(verdict, "PASSED", passed)
    monkeypatch.setattr("utils.checks.exercise.PASSED", passed)
    since = "exercises passed since the kernel started."
    assert repr(checks.progress("02")) == f"0 of 3 {since} Open: softmax, attention, weights_of_head."
    check("softmax", torch.sigmoid)
    check("causal_mask", RIGHT["causal_mask"][0])
    assert not checks.progress("02").passed
    for exercise in ("softmax", "attention"):
        check(exercise, RIGHT[exercise][0])
        check(exercise, None)  # a stub that runs again takes nothing back
    assert checks.progress("02").open == ("weights_of_head",)
    check("weights_of_head", RIGHT["weights_of_head"][0])
    assert repr(checks.progress("02")) == f"3 of 3 {since}"
    assert LOOK["passed"][1] in checks.progress("02")._repr_html_()
    assert checks.progress(2) == checks.progress("02")
    with pytest.raises(ValueError, match="notebook 99"):
        checks.progress("99")


def loops_for_ever(*inputs):
    while True:
        pass


@pytest.mark.parametrize("exercise", [*CLASSES, "causal_mask"])
@pytest.mark.parametrize("method", ["__init__", "forward"])
def test_endless_loops_are_stopped(exercise, method, monkeypatch):
    """Also where the check itself runs in a thread; its own thread ends, and no signal is touched."""
    assert running.LIMIT == 10
    monkeypatch.setattr(running, "LIMIT", 0.3)
    attempt = loops_for_ever
    if exercise in CLASSES:
        attempt = type("Endless", (RIGHT[exercise][0],), {method: loops_for_ever})
    before, verdicts = (threading.active_count(), signal.getsignal(signal.SIGINT)), []
    caller = threading.Thread(target=lambda: verdicts.append(check(exercise, attempt)))
    caller.start()
    caller.join()
    assert "still running after 0.3 seconds of computing and was stopped" in verdicts[0].message
    assert (verdicts[0].passed, verdicts[0].misconception) == (False, None)
    assert (threading.active_count(), signal.getsignal(signal.SIGINT)) == before
    if hasattr(signal, "getitimer"):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_list_that_grows_for_ever_is_stopped_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(running, "MEMORY", 0.1)
    given, most = running.memory(), []

    def grows(seq_len):
        ids = []
        while True:
            ids.append(1)
            most[:] = [len(ids)]

    said = check("causal_mask", grows).message
    assert "had taken 0.1 GiB of memory and was stopped. Does a list grow" in said
    assert given and most[0] * 8 < 2**30


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give a process as much as it asks for")
@pytest.mark.parametrize("ends", [10**8, 10**10])
def test_one_call_that_takes_all_memory_ends(ends, monkeypatch):
    """Also one that takes it piece by piece. The limit is given back."""
    import resource

    monkeypatch.setattr(running, "MOST", 0.2)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert "Your code raised MemoryError" in check("causal_mask", lambda seq_len: list(range(ends))).message
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_what_cannot_be_stopped_does_not_hold_up_the_verdict(monkeypatch):
    """A loop that swallows every exception, and a long call into C."""
    monkeypatch.setattr(running, "LIMIT", 0.2)
    done, start = threading.Event(), time.monotonic()

    def swallows(*inputs):
        while not done.is_set():
            try:
                sum(range(1000))
            except BaseException:
                continue

    for attempt in (swallows, lambda seq_len: time.sleep(20)):
        assert "still running" in check("causal_mask", attempt).message
    done.set()
    assert time.monotonic() - start < 15


def test_random_state_and_dtype_are_given_back():
    def spoils(query, key, value):
        torch.set_default_dtype(torch.float16)
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        return torch.rand(2) + random.random() + np.random.rand()

    def state():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = state()
    check("attention", spoils)
    assert state() == before and torch.get_default_dtype() == torch.float32


def test_what_an_attempt_prints_is_shown_and_gradients_are_not_forbidden(capsys):
    def chatty(query, key, value):
        print("with gradients:", torch.is_grad_enabled())
        return nn.functional.scaled_dot_product_attention(query.requires_grad_(), key, value)

    verdict = check("attention", chatty)
    assert verdict.passed and capsys.readouterr().out.startswith("with gradients: True\n")
    assert "gradients" not in verdict.message


def test_verdict_is_shown_in_words_and_colour():
    for sign, colour, said, shown in (
        ("✓", "#009E73", "passed", Verdict("softmax", True, None, "a < b\nc")),
        ("✗", "#D55E00", "not yet (overflow)", Verdict("softmax", False, "overflow", "a < b\nc")),
        ("○", "#808080", "not attempted yet", Verdict("softmax", False, None, NOT_ATTEMPTED)),
    ):
        page, told = shown._repr_html_(), shown.message != NOT_ATTEMPTED
        assert repr(shown) == f"{sign} softmax: {said}" + ("\na < b\nc" if told else "")
        assert f"<b>{sign} softmax: {said}</b>" + ("<br>a &lt; b<br>c</div>" if told else "</div>") in page
        assert colour in page
        assert not re.search(r"(?<![-\w])color:", page), "the page's own colour of text: light or dark"


def test_checks_import_neither_the_course_nor_what_takes_seconds():
    """A check never compares with the course's own code; transformers is imported when a check needs it."""
    forbidden = re.compile(r"^ *(from|import) (\.\.|utils)|^(from|import) (transformers|tokenizers)", re.M)
    for path in (course.ROOT / "utils" / "checks").glob("*.py"):
        assert not forbidden.search(path.read_text(encoding="utf-8")), path
