"""The checks of notebook 09: what a decoder reads, how it writes, and attention to another text."""

import torch
import torch.nn.functional as F

from .answers import Unreadable, whole_numbers
from .judge import judge, safely
from .shared import built, linear_layer, made_numbers, right_attention


@safely
def check_shift_right(attempt):
    """Check `attempt(labels, start_id)`: what the decoder reads while it learns these labels, (batch, seq).

    Peer: shift_tokens_right of the library's BART.
    """
    from transformers.models.bart.modeling_bart import shift_tokens_right

    trials = [(torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), 1), (torch.tensor([[4, 2, 0], [3, 7, 2]]), 9)]

    def answer(ids):
        return {"ids": ids}

    def right(labels, start_id):
        return answer(shift_tokens_right(labels, 0, start_id))

    def start(labels, start_id):
        return torch.full_like(labels[:, :1], start_id)

    mistakes = {
        "shifted_left": [
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, s)], dim=1)),
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, 0)], dim=1)),
            lambda x, s: answer(x.roll(-1, dims=1)),
            lambda x, s: answer(x[:, 1:]),
        ],
        "wraps_around": [lambda x, s: answer(x.roll(1, dims=1))],
        "one_too_long": [lambda x, s: answer(torch.cat([start(x, s), x], dim=1))],
        "start_replaces_first": [lambda x, s: answer(torch.cat([start(x, s), x[:, 1:]], dim=1))],
    }
    return judge("shift_right", attempt, trials, right, mistakes, whole_numbers("ids"))


# ------------------------------------------------------------------------------------------- greedy decoding

START, END, VOCABULARY = 1, 2, 9
STORY = [START, 5, 3, 5, 7, END]


@safely
def check_greedy_decode(attempt):
    """Check `attempt(next_logits, start_id, end_id, max_new_tokens)`: the ids written, a list.

    `next_logits(ids)` takes a list of ids and returns scores (len(ids), vocab_size): row i is about the token behind
    place i. The list may begin with the start token or not. It ends with the end token if that comes in time.
    """

    def right(next_logits, start, end, limit):
        return {"ids": STORY[1 : limit + 1]}

    def like(view=lambda ids: ids, row=-1, choose=torch.argmax, stops=True):
        def written(next_logits, start, end, limit):
            ids = [start]
            while len(ids) <= limit and not (stops and ids[-1] == end):
                ids.append(int(choose(next_logits(view(ids))[row])))
            return {"ids": ids[1:]}

        return written

    mistakes = {
        "reads_first_position": [like(row=0)],
        "forgets_what_was_written": [like(view=lambda ids: ids[-1:])],
        "does_not_stop_at_end": [like(stops=False)],
        "least_likely": [like(choose=torch.argmin)],
    }

    def read(raw):
        ids = [int(value) for value in whole_numbers("ids")(raw)["ids"].flatten()]
        return {"ids": ids[1:] if ids[:1] == [START] else ids}

    trials = [(next_logits, START, END, limit) for limit in (8, 3)]
    return judge("greedy_decode", attempt, trials, right, mistakes, read)


def next_logits(ids):
    """Return scores (len(ids), vocabulary) that write STORY; off the story, never its start or its end."""
    ids = [int(value) for value in torch.as_tensor(ids).flatten()]
    rows = made_numbers(len(ids), VOCABULARY) / 2
    for place in range(len(ids)):
        rows[place, favourite(ids[: place + 1])] = 4.0
        rows[place, (place * 2) % 3 + 6] -= 3.0
    return rows


def favourite(prefix):
    """Return the token that goes on with these."""
    if prefix == STORY[: len(prefix)] and len(prefix) < len(STORY):
        return STORY[len(prefix)]
    return 3 + (2 * sum(prefix) + len(prefix)) % 6


# ------------------------------------------------------------------------------------------- cross-attention


@safely
def check_cross_attention(attempt):
    """Check the class `attempt(hidden_size)` with `forward(hidden_state, memory)`: one head, no mask.

    It has linear layers `query`, `key` and `value`. hidden_state (batch, query, hidden_size) comes from the decoder,
    memory (batch, key, hidden_size) from the encoder. Peer: F.scaled_dot_product_attention on those layers.
    """
    hidden_size = 4
    module = built(attempt, hidden_size)
    layers = [linear_layer(module, name) for name in ("query", "key", "value")]
    if any(weight.shape != (hidden_size, hidden_size) for weight, _ in layers):
        sizes = ", ".join(str(tuple(weight.shape)) for weight, _ in layers)
        raise Unreadable(f"Each layer takes hidden_size numbers and makes as many. Yours are {sizes}.")

    def like(*sources):
        """Compute with query, key and value from these texts."""

        def compute(hidden_state, memory):
            states = {"decoder": hidden_state, "encoder": memory}
            parts = [F.linear(states[name], *layer) for name, layer in zip(sources, layers, strict=True)]
            return right_attention(*parts)

        return compute

    right = like("decoder", "encoder", "encoder")
    mistakes = {
        "keys_from_decoder": [like("decoder", "decoder", "encoder")],
        "values_from_decoder": [like("decoder", "encoder", "decoder")],
        "queries_from_encoder": [
            like("encoder", "encoder", "encoder"),
            like("encoder", "decoder", "decoder"),
            like("encoder", "encoder", "decoder"),
            like("encoder", "decoder", "encoder"),
        ],
        "memory_ignored": [like("decoder", "decoder", "decoder")],
    }
    # First as many target tokens as source tokens, so that a mistake runs to its end.
    trials = [
        (made_numbers(2, 3, hidden_size) / 2, made_numbers(2, 3, hidden_size, start=5) / 2),
        (made_numbers(1, 2, hidden_size, start=2), made_numbers(1, 5, hidden_size, start=4)),
    ]
    return judge("cross_attention", attempt, trials, right, mistakes, call=module)
