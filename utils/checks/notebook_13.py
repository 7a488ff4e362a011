"""The exercises of notebook 13: a block of four-bit numbers, drawing by min-p, the order of rows of queries and keys."""

import torch

from .answers import Unreadable, alone, whole_numbers
from .exercise import Exercise


def unpack_q4_1(blocks):
    head = blocks[:, :4].contiguous().view(torch.float16)  # (blocks, 2): numbers of 16 bits
    scale, smallest = head.float().split(1, dim=1)  # each (blocks, 1)
    low, high = blocks[:, 4:] & 15, blocks[:, 4:] >> 4  # each (blocks, 16)
    level = torch.cat([low, high], dim=1)  # (blocks, 32)
    return scale * level + smallest


def packed_trials():
    def packed(count, seed):
        levels = torch.randint(256, (count, 16), generator=torch.Generator().manual_seed(seed)).byte()
        scale = torch.arange(1, count + 1) / 16 + 0.5
        head = torch.stack([scale, -7 * scale + 0.25], dim=1).half()  # (count, 2)
        return torch.cat([head.view(torch.uint8), levels], dim=1)

    return [(packed(3, 0),), (packed(1, 1),), (packed(6, 2),)]


check_unpack_q4_1 = Exercise(unpack_q4_1, packed_trials, alone("numbers"))

DRAWS = 6000


def draw_min_p(logits, p):
    probability = logits.softmax(dim=-1)  # (draws, vocab_size)
    least = p * probability.amax(dim=-1, keepdim=True)  # (draws, 1): what a token must have to stay
    kept = probability.masked_fill(probability < least, 0.0)
    return torch.multinomial(kept, 1)[:, 0]


def drawn_trials():
    odds = torch.tensor([[0.08, 0.46, 0.04, 0.27, 0.15], [0.3, 0.1, 0.35, 0.05, 0.2]])
    logits = (7 * odds).log().repeat_interleave(DRAWS, dim=0)  # each row, so many times
    return [(logits, p) for p in (0.43, 0.26, 0.09, 0.8)]


def read_draws(result):
    """Read ids as how often each was drawn, of the first half of the rows and of the second."""
    raw, (draws, vocab_size) = result
    ids = whole_numbers("ids", lists=False)(raw)["ids"]
    if ids.shape != (draws,):
        said = f"Your result has the shape {tuple(ids.shape)}. Expected is an id for each row: ({draws},)."
        raise Unreadable(said)
    if ((ids < 0) | (ids >= vocab_size)).any():
        said = f"Your result holds ids from {ids.min():g} to {ids.max():g}; there are {vocab_size} tokens."
        raise Unreadable(said)
    drawn = torch.nn.functional.one_hot(ids.long(), vocab_size).view(2, -1, vocab_size)
    return {"frequencies": drawn.double().mean(1)}


class Drawing(Exercise):
    """Chance: two answers are the same if no token is drawn more often by 3 in 100."""

    def call(self, function, logits, p):
        return function(logits, p), logits.shape

    def close(self, inputs, mine, expected):
        return bool((mine["frequencies"] - expected["frequencies"]).abs().max() < 0.03)

    def differs_from_call_to_call(self, run, inputs):
        return False  # by chance

    def told(self, place, result, foresee):
        one = super().told(place, result, foresee)
        if not one.seen or not one.answer:
            return one
        mine, right = one.answer["frequencies"], one.expected["frequencies"]
        row, token = divmod((mine - right).abs().argmax().item(), right.shape[1])
        probability = one.inputs[0].softmax(dim=-1)[row * DRAWS, token]
        said = f"With p = {one.inputs[1]}, token {token}, of probability {probability:.2f}, was drawn in "
        said += f"{mine[row, token]:.0%} of the rows. Expected are about {right[row, token]:.0%}."
        return one._replace(seen=said)


SIGNS = {  # rows that are alike all got one token
    "one_draw_for_all": lambda inputs, answer: inputs[1] < 0.1 and (answer["frequencies"].mean(0).amax() == 1)
}
check_draw_min_p = Drawing(draw_min_p, drawn_trials, read_draws, SIGNS)


def to_halves(weight, num_heads, back=False):
    order = (num_heads, 2, -1) if back else (num_heads, -1, 2)  # the rows of a head, as they come in
    rows = weight.unflatten(0, order)  # (heads, head_dim / 2, 2, hidden_size), or back: 2, then head_dim / 2
    return rows.transpose(1, 2).flatten(0, 2)


def row_trials():
    sizes = [(24, 3, 3), (16, 5, 2), (32, 16, 4), (6, 2, 1)]
    made = [(torch.arange(rows * width).view(rows, width) / 8, heads) for rows, width, heads in sizes]
    return [(weight, heads, back) for weight, heads in made for back in (False, True)]


check_to_halves = Exercise(to_halves, row_trials, alone("weight"))
