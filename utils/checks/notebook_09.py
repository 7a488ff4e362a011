"""The checks of notebook 09: what a decoder reads, how it writes, and attention to another text."""

import itertools

import torch
import torch.nn.functional as F

from .answers import Unreadable, whole_numbers
from .judge import judge, safely
from .notebook_04 import LAYERS, SUM_TO_ONE, read_attention
from .shared import (
    built,
    linear_layer,
    made_numbers,
    right_attention,
    scaled_scores,
    where_it_shows,
    wrong_attention,
)


@safely
def check_shift_right(attempt):
    """Check `attempt(labels, start_id)`: what the decoder reads while it learns these labels, (batch, seq).

    Peer: shift_tokens_right of the library's BART.
    """
    from transformers.models.bart.modeling_bart import shift_tokens_right

    trials = [
        (torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), 1),
        (torch.tensor([[4, 2, 0], [3, 7, 2], [7, 7, 2]]), 9),
        (torch.tensor([[6, 8], [3, 8], [3, 4], [2, 2]]).mT, 5),  # not contiguous
        (torch.tensor([[7, 3, 2]]), 4),
        (torch.tensor([[5, 2, 0, 0], [6, 7, 8, 2]]), 1),  # two pads
    ]

    def answer(ids):
        return {"ids": ids}

    def right(labels, start_id):
        return answer(shift_tokens_right(labels, 0, start_id))

    def start(labels, start_id):
        return torch.full_like(labels[:, :1], start_id)

    def started_with(start_id):
        return lambda x, s: right(x, start_id)

    def start_in_first_row(labels, start_id):
        shifted = labels.roll(1, dims=1)
        shifted[0, 0] = start_id
        return answer(shifted)

    mistakes = {
        "shifted_left": [
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, s)], dim=1)),
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, 0)], dim=1)),
            lambda x, s: answer(x.roll(-1, dims=1)),
            lambda x, s: answer(x[:, 1:]),
        ],
        "wraps_around": [lambda x, s: answer(x.roll(1, dims=1)), lambda x, s: answer(x.roll(1))],
        "one_too_long": [lambda x, s: answer(torch.cat([start(x, s), x], dim=1))],
        "start_replaces_first": [lambda x, s: answer(torch.cat([start(x, s), x[:, 1:]], dim=1))],
        "not_shifted": [lambda x, s: answer(x)],
        "start_id_ignored": [started_with(fixed) for fixed in (0, 1, 2)],
        "no_start": [lambda x, s: answer(x[:, :-1])],
        "start_at_end": [
            lambda x, s: answer(torch.cat([x[:, :-1], start(x, s)], dim=1)),
            lambda x, s: answer(torch.cat([x, start(x, s)], dim=1)),
        ],
        "shifted_along_batch": [
            lambda x, s: answer(x.roll(1, dims=0)),
            lambda x, s: answer(torch.cat([torch.full_like(x[:1], s), x[:-1]])),
            lambda x, s: answer(torch.cat([torch.full_like(x[:1], s), x])),
            lambda x, s: answer(torch.cat([start(x, s), x.roll(1, dims=0)[:, 1:]], dim=1)),
        ],
        "pads_replaced": [lambda x, s: answer((ids := right(x, s)["ids"]).masked_fill(ids == 0, s))],
        "start_added": [lambda x, s: answer(x + s), lambda x, s: answer(right(x, 0)["ids"] + s)],
        "turned_round": [lambda x, s: right(x.flip(1), s)],
        "rows_joined": [
            lambda x, s: answer(right(x, s)["ids"].flatten()),
            lambda x, s: answer(torch.cat([torch.tensor([s]), x.flatten()[:-1]]).reshape(x.shape)),
        ],
        "one_row_only": [
            lambda x, s: answer(right(x, s)["ids"][0]),
            lambda x, s: answer(right(x, s)["ids"][:1]),
        ],
        "shifted_by_two": [
            lambda x, s: right(right(x, s)["ids"], s),
            lambda x, s: answer(torch.cat([start(x, s), x[:, :1], x[:, :-2]], dim=1)),
            lambda x, s: answer(torch.cat([start(x, s), start(x, 0), x[:, :-2]], dim=1)),
        ],
        "start_only_in_first_row": [start_in_first_row],
        "end_token_dropped": [lambda x, s: right(x.masked_fill(x == 2, 0), s)],
    }
    return judge("shift_right", attempt, trials, right, mistakes, whole_numbers("ids", lists=False))


# ------------------------------------------------------------------------------------------- greedy decoding

START, VOCABULARY = 1, 10
STORIES = [[START, 5, 3, 5, 7, 4, 2], [START, 7, 5, 5, 3, 9]]  # each ends with an end token of its own


@safely
def check_greedy_decode(attempt):
    """Check `attempt(next_logits, start_id, end_id, max_new_tokens)`: the ids written, a list.

    `next_logits(ids)` takes a list of ids and returns scores (len(ids), vocab_size): row i is about the token behind
    place i. The list may begin with the start token or not. It ends with the end token if that comes in time.
    """
    writers = [writer(story) for story in STORIES]

    def right(next_logits, start, end, limit):
        story = STORIES[writers.index(next_logits)]
        return {"ids": story[1 : limit + 1]}

    def like(
        view=lambda ids: ids,
        pick=lambda scores: scores[-1].argmax(),
        stops=True,
        more=0,
        cut=False,
        first=None,
        fixed=None,
    ):
        def written(next_logits, start, end, limit):
            ids, end = [start if first is None else first], end if fixed is None else fixed
            while len(ids) <= limit + more and not (stops and ids[-1] == end):
                ids.append(int(pick(next_logits(view(ids)))))
            if cut == "end":
                return {"ids": [token for token in ids[1:] if token != end]}
            return {"ids": ids[1:-1] if cut else ids[1:]}

        return written

    mistakes = {
        "reads_first_position": [like(pick=lambda scores: scores[0].argmax())],
        "reads_one_place_too_early": [like(pick=lambda scores: scores[max(len(scores) - 2, 0)].argmax())],
        "reads_all_scores": [
            like(pick=lambda scores: scores.argmax()),
            like(pick=lambda scores: scores.sum(dim=0).argmax()),
            like(pick=lambda scores: scores.max(dim=0).values.argmax()),
        ],
        "argmax_over_positions": [like(pick=lambda scores: scores.argmax(dim=0)[-1])],
        "softmax_over_positions": [like(pick=lambda scores: scores.softmax(dim=0)[-1].argmax())],
        "value_instead_of_id": [
            like(pick=lambda scores: scores[-1].max()),
            like(pick=lambda scores: scores[-1].max(), stops=False),
        ],
        "start_forgotten": [like(view=lambda ids: ids[1:] or ids)],
        "forgets_what_was_written": [like(view=lambda ids: ids[-1:])],
        "does_not_stop_at_end": [like(stops=False), *(like(fixed=end) for end in (0, 2, 3))],
        "second_most_likely": [like(pick=lambda scores: scores[-1].topk(2).indices[1])],
        "start_fixed": [like(first=first) for first in (0, 2, 101)],
        "last_one_only": [lambda *inputs: {"ids": right(*inputs)["ids"][-1:]}],
        "repeats_dropped": [lambda *inputs: {"ids": list(dict.fromkeys(right(*inputs)["ids"]))}],
        "sorted": [lambda *inputs: {"ids": sorted(right(*inputs)["ids"])}],
        "stops_at_once": [lambda *inputs: {"ids": right(*inputs)["ids"][:1]}],
        "least_likely": [like(pick=lambda scores: scores[-1].argmin())],
        "start_counted": [like(more=-1)],
        "one_too_many": [like(more=1)],
        "limit_ignored": [like(more=50)],
        "end_token_dropped": [like(cut="end"), like(cut=True)],
    }

    def read(raw):
        ids = [int(value) for value in whole_numbers("ids")(raw)["ids"].flatten()]
        return {"ids": ids[1:] if ids[:1] == [START] else ids}

    trials = [
        (next_logits, START, story[-1], limit)
        for next_logits, story in zip(writers, STORIES, strict=True)
        for limit in (8, 4)
    ]
    return judge("greedy_decode", attempt, trials, right, mistakes, read)


def writer(story):
    """Return `next_logits(ids)`, which gives scores (len(ids), vocabulary) that write the story.

    Off the story they never write its start or its end. How large the largest score of a row is goes up and down, so
    that no row stands out among all.
    """

    def next_logits(ids):
        ids = [int(value) for value in torch.as_tensor(ids).flatten()]
        rows = made_numbers(len(ids), VOCABULARY) / 2
        for place in range(len(ids)):
            top = 4.0 + place // 2 + 2 * (place % 2)
            rows[place] += top - 1.5  # others come so near that a draw would take them often
            rows[place, favourite(story, ids[: place + 1])] = top
            rows[place, (place * 2) % 3 + 6] -= 3.0
        return rows

    return next_logits


def favourite(story, prefix):
    """Return the token that goes on with these."""
    if prefix == story[: len(prefix)] and len(prefix) < len(story):
        return story[len(prefix)]
    return 3 + (2 * sum(prefix) + len(prefix)) % 6


# ------------------------------------------------------------------------------------------- cross-attention


# What goes wrong here as it does where a text attends to itself.
ALIKE = ("no_scaling", "scaled_by_d", "scaled_by_sequence_length", "no_softmax")
ALIKE += ("softmax_over_queries", "softmax_over_batch", "other_divisor", "scores_changed", "softmax_twice")
ALIKE += ("scaled_by_a_constant", "sign_turned", "each_score_alone", "scaled_after_softmax")


@safely
def check_cross_attention(attempt):
    """Check the class `attempt(hidden_size)` with `forward(hidden_state, memory)`: one head, no mask.

    It has linear layers `query`, `key` and `value`. hidden_state (batch, query, hidden_size) comes from the decoder,
    memory (batch, key, hidden_size) from the encoder. Peer: F.scaled_dot_product_attention on those layers.
    """
    modules = {size: built(attempt, size) for size in (4, 6)}
    layers = {}
    for size, module in modules.items():
        layers[size] = [linear_layer(module, name) for name in LAYERS]
        if any(weight.shape != (size, size) for weight, _ in layers[size]):
            sizes = ", ".join(str(tuple(weight.shape)) for weight, _ in layers[size])
            said = f"Each layer takes hidden_size numbers, {size}, and makes as many. Yours are {sizes}."
            raise Unreadable(said, "layer_of_another_size")

    def call(hidden_state, memory):
        return modules[hidden_state.shape[-1]].to(memory.dtype)(hidden_state, memory)

    def parts(sources, order, hidden_state, memory):
        """Return query, key and value from these texts: d the decoder's, e the encoder's; a layer None is left out."""
        states = [{"d": hidden_state, "e": memory}[source] for source in sources]
        held = layers[hidden_state.shape[-1]]
        return [
            state if which is None else F.linear(state, *held[which])
            for state, which in zip(states, order, strict=True)
        ]

    def like(sources="dee", order=(0, 1, 2), attention=right_attention):
        return lambda hidden_state, memory: attention(*parts(sources, order, hidden_state, memory))

    def weights_first(query, key, value):
        answer = right_attention(query, key, value)
        return {"output": answer["weights"], "weights": answer["output"], "a pair": True}

    def weights_alone(query, key, value):
        return {"output": right_attention(query, key, value)["weights"], "a pair": False}

    def by_hand(query, key, value):
        powers = scaled_scores(query, key).exp()
        return {"output": powers / powers.sum(dim=-1, keepdim=True) @ value}

    def causal(query, key, value):
        mask = torch.ones(query.shape[-2], key.shape[-2]).tril().bool()
        return right_attention(query, key, value, mask)

    def multiplied(query, key, value):
        return right_attention(query * query.shape[-1], key, value)

    def from_both(hidden_state, memory):
        both = torch.cat([hidden_state, memory], dim=1)
        return like()(hidden_state, both)

    def with_input(hidden_state, memory):
        return {"output": hidden_state + like()(hidden_state, memory)["output"]}

    def without_bias(which):
        def compute(hidden_state, memory):
            held = layers[hidden_state.shape[-1]]
            states = (hidden_state, memory, memory)
            made = [
                F.linear(state, weight, None if place in which else bias)
                for place, (state, (weight, bias)) in enumerate(zip(states, held, strict=True))
            ]
            return right_attention(*made)

        return compute

    def transposed(hidden_state, memory):
        held = layers[hidden_state.shape[-1]]
        states = (hidden_state, memory, memory)
        return right_attention(*(state @ w + b for state, (w, b) in zip(states, held, strict=True)))

    def of_memory(change):
        return lambda hidden_state, memory: like()(hidden_state, change(memory, hidden_state))

    orders = set(itertools.product((0, 1, 2, None), repeat=3)) - {(0, 1, 2)}
    mistakes = {
        "query_key_swapped": [like("ede", (1, 0, 2))],
        "keys_from_decoder": [like("dde", (0, key, 2)) for key in (1, 0, None)],
        "values_from_decoder": [like("ded", (0, 1, value)) for value in (2, None)],
        "queries_from_encoder": [
            *(like(sources) for sources in ("eee", "eed", "ede")),
            *(like("eee", (query, 1, 2)) for query in (1, 2, None)),
        ],
        "arguments_exchanged": [like("edd")],
        "memory_ignored": [like("ddd")],
        **{
            f"{name}_unused": [
                like(order=order) for order in orders if [*order].count(None) == 1 and order[place] is None
            ]
            for place, name in enumerate(LAYERS)
        },
        "layers_unused": [like(order=order) for order in orders if [*order].count(None) > 1],
        "layers_mixed_up": [like(order=order) for order in orders if None not in order],
        "weights_first": [like(attention=weights_first)],
        "value_ignored": [like(attention=weights_alone), like("ded", (0, 1, 0))],
        "overflow_on_large_scores": [like(attention=by_hand)],
        "multiplied_by_root": [like(attention=multiplied)],
        "keys_from_both": [from_both],
        "causal_mask_added": [like(attention=causal)],
        "residual_added": [
            with_input,
            lambda hidden_state, memory: {"output": memory + like()(hidden_state, memory)["output"]},
        ],
        "part_of_memory": [
            of_memory(lambda m, h: m.mean(dim=1, keepdim=True)),
            of_memory(lambda m, h: m[:, : h.shape[1]]),
            of_memory(lambda m, h: m[:, :1]),
            of_memory(lambda m, h: m[:, -1:]),
            of_memory(lambda m, h: m[:, 1:]),
            of_memory(lambda m, h: m[:, :-1]),
            of_memory(lambda m, h: m[:1].expand_as(m)),
        ],
        "bias_forgotten": [without_bias(which) for which in [{0}, {1}, {2}, {0, 1}, {0, 1, 2}]],
        "matrix_not_transposed": [transposed],
        "output_changed": [
            lambda hidden_state, memory, change=change: {
                "output": change(like()(hidden_state, memory)["output"])
            }
            for change in (
                torch.relu,
                lambda x: F.layer_norm(x, x.shape[-1:]),
                lambda x: F.gelu(x),
                torch.tanh,
            )
        ],
    }
    alike = wrong_attention()
    for name in ALIKE:
        mistakes[name] = [like(attention=attention) for attention in alike[name]]
    # First as many target tokens as source tokens, so that a mistake runs to its end.
    trials = [
        (made_numbers(2, 3, 4) / 2, made_numbers(2, 3, 4, start=5) / 2),
        (made_numbers(3, 2, 4, start=2), made_numbers(3, 5, 4, start=4)),
        (made_numbers(2, 6, 5, start=6).mT, made_numbers(2, 6, 3, start=1).mT),  # not contiguous
        # scores that are too large for an exponential
        (made_numbers(1, 3, 4, start=6) * 30, made_numbers(1, 7, 4, start=3) * 30),
    ]

    def right(hidden_state, memory):
        return like()(hidden_state, memory) | {"the second tensor": SUM_TO_ONE}

    told = where_it_shows(mistakes, right, lambda hidden_state, memory: memory.abs().max() > 9)
    return judge("cross_attention", attempt, trials, right, told, read_attention, call=call)
