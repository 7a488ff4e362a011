"""Exercises that name the mistake: `check_<exercise>(attempt)` says what is wrong with a learner's code.

Each check runs the attempt on a few small inputs and compares what comes back with PyTorch, transformers or a value
that is known beforehand: never with the course's own code. If it differs, the check computes what each known
misconception would give on the same inputs, and names the one that fits. The inputs are chosen so that no two of them
coincide. `trials`, `right` and `mistakes` in each check are these three; `judge` does the rest.

A check never raises and shows no traceback. It returns a `Verdict` also for code that raises, runs for ever, returns
something else, or changes its inputs.

`progress("02")` says how many exercises of a notebook have passed since the kernel started.

The checks stand in one module for each notebook, what several share in shared.py. The engine is judge.py: it runs an
attempt (running.py), reads what comes back (answers.py), and where no formula fits, it names the symptom (symptoms.py)
and says what is right so far (hints.py). The words of the misconceptions stand in misconceptions.toml.
"""

# ruff: noqa: F401  # handed on to the notebooks
from .judge import progress
from .notebook_01 import check_pad_batch, check_sentence_b_start, check_wordpiece
from .notebook_02 import check_attention, check_softmax, check_weights_of_head
from .notebook_03 import (
    check_causal_mask,
    check_padding_mask,
    check_scaled_dot_product_attention,
    check_window_mask,
)
from .notebook_04 import check_multi_head_attention, check_split_heads
from .notebook_05 import check_encoder_layer, check_layer_norm, check_position_encoding
from .notebook_06 import check_previous_token_head, check_strongest_head, check_working_share
from .notebook_07 import check_best_head, check_same_word_share, check_separator_share
from .notebook_08 import check_query_key_product, check_strongest_neurons, check_weights_of_token
from .notebook_09 import check_cross_attention, check_greedy_decode, check_shift_right
from .notebook_10 import check_guesses, check_held_out_best, check_paired_interval
from .notebook_11 import check_cache_bytes, check_layer_flops, check_online_step
from .notebook_12 import check_induction_score, check_path_cut, check_without_head
