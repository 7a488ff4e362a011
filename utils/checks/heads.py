"""What the checks of notebooks 06 and 07 share: planted heads, a search for one, and shares of attention."""

import torch

from .answers import LAYER_HEAD, Unreadable, whole_numbers
from .shared import made_numbers


def planted(layers, heads, seq, plants, start=0):
    """Return attention weights, a tuple of (1, heads, query, key), in which some heads do what was planted.

    `plants` maps (layer, head) to {(query, key): weight}; the other keys of that row share what is left. All other
    heads spread their weights.
    """
    weights = (made_numbers(layers, heads, seq, seq, start=start) / 4).softmax(dim=-1)
    for (layer, head), cells in plants.items():
        fixed, free = torch.zeros(seq, seq), weights[layer, head].clone()
        for (query, key), weight in cells.items():
            fixed[query, key], free[query, key] = weight, 0
        left = 1 - fixed.sum(dim=-1, keepdim=True)
        weights[layer, head] = fixed + free * left / free.sum(dim=-1, keepdim=True)
    return tuple(weights[:, None].unbind(0))


def place(table):
    """Return the answer that names the largest number of a table (layers, heads)."""
    return {LAYER_HEAD: torch.tensor(divmod(table.argmax().item(), table.shape[1]))}


def read_place(raw):
    """Read two whole numbers, the layer and the head. One alone is read too: that mistake has a name."""
    numbers = whole_numbers(LAYER_HEAD)(raw)
    count = numbers[LAYER_HEAD].numel()
    if count > 2:
        said = f"Your result holds {count} numbers. Two are expected: the layer and the head."
        raise Unreadable(said, "several_numbers")
    return numbers


def search(cases, table, mistakes, last=None):
    """Return trials, right answer and mistakes of a search for a head, as `judge` wants them.

    Each of `cases`: the inputs and the right (layer, head), known beforehand. `table(*inputs)` gives the number of
    each head, (layers, heads). To the `mistakes` of the exercise come the ways to choose wrongly in that table. The
    `last` ones name a head by chance now and then, so the others are tried before.
    """
    trials = [inputs for inputs, _ in cases]
    known = {id(inputs[0]): torch.tensor(told) for inputs, told in cases}

    def right(*inputs):
        return {LAYER_HEAD: known[id(inputs[0])]}

    def moved(by):
        return lambda *inputs: {LAYER_HEAD: known[id(inputs[0])] + torch.tensor(by)}

    def counted(rows, columns):
        """Cut the index that counts through the table as if it had so many rows and columns."""

        def cut(*inputs):
            numbers = table(*inputs)
            index = numbers.argmax().item()
            sizes = {"layers": len(numbers), "heads": numbers.shape[1], 12: 12}
            return {LAYER_HEAD: torch.tensor([index // sizes[rows], index % sizes[columns]])}

        return cut

    def best_of(choose):
        return lambda *inputs: {LAYER_HEAD: torch.tensor(choose(table(*inputs)))}

    def within(layers, heads=slice(None)):
        """Search in a part of the table only."""

        def search(*inputs):
            numbers = table(*inputs)
            part = torch.full_like(numbers, -torch.inf)
            part[layers, heads] = numbers[layers, heads]
            return place(part)

        return search

    def in_best_layer(numbers):
        layer = numbers.sum(dim=1).argmax()
        return [layer, numbers[layer].argmax()]

    common = {
        "counted_from_one": [moved([1, 1]), moved([1, 0]), moved([0, 1])],
        "layer_and_head_swapped": [lambda *inputs: {LAYER_HEAD: known[id(inputs[0])].flip(0)}],
        "never_compared": [
            lambda *inputs: {LAYER_HEAD: torch.tensor(table(*inputs).shape) - 1},
            lambda *inputs: {LAYER_HEAD: torch.tensor([0, 0])},
        ],
        "one_number_twice": [
            lambda *inputs: {LAYER_HEAD: known[id(inputs[0])][[0, 0]]},
            lambda *inputs: {LAYER_HEAD: known[id(inputs[0])][[1, 1]]},
        ],
        "second_best": [best_of(lambda t: divmod(t.flatten().topk(2).indices[1].item(), t.shape[1]))],
        "layer_or_head_alone": [
            lambda *inputs: {LAYER_HEAD: known[id(inputs[0])][0]},
            lambda *inputs: {LAYER_HEAD: known[id(inputs[0])][1]},
        ],
        "flat_index": [lambda *inputs: {LAYER_HEAD: table(*inputs).argmax()}],
        "divided_by_layers": [
            counted(*pair) for pair in (("layers", "layers"), ("heads", "layers"), ("layers", "heads"))
        ],
        "fixed_number_of_heads": [counted(12, 12)],
        "layer_and_head_apart": [
            best_of(lambda t: [t.sum(1).argmax(), t.sum(0).argmax()]),
            best_of(in_best_layer),
        ],
        "one_layer_only": [within(slice(1)), within(slice(-1, None))],
        "part_of_table": [
            within(*part) for cut in (slice(1, None), slice(-1)) for part in ((cut,), (slice(None), cut))
        ],
        "weakest_instead": [lambda *inputs: place(-table(*inputs))],
    }
    return trials, right, mistakes | common | (last or {})


def share(table):
    """Return the answer that is a table (layers, heads) of shares."""
    return {"share": table}


def wrong_tables(right):
    """Return how a right table of shares comes back in another shape; `right(*inputs)` gives the answer."""

    def turned(change):
        return lambda *inputs: share(change(right(*inputs)["share"]))

    return {
        "heads_before_layers": [turned(lambda table: table.T)],
        "one_layer_only": [turned(lambda t: t[0]), turned(lambda t: t[-1]), turned(lambda t: t[:1])],
        "batch_axis_kept": [turned(lambda table: table[:, None]), turned(lambda table: table[None])],
        "share_of_the_rest": [turned(lambda table: 1 - table)],
        "one_number_for_all": [turned(lambda table: table.mean())],
        "mean_over_heads": [turned(lambda table: table.mean(0)), turned(lambda table: table.mean(1))],
    }


def shape_of_shares(test):
    """Return a sign: whether the shape of an answer passes `test(shape, layers, heads, seq)`."""

    def shows(inputs, answer):
        layers, (_, heads, seq, _) = len(inputs[0]), inputs[0][0].shape
        return test(tuple(answer["share"].shape), layers, heads, seq)

    return shows


# What the shape of a table of shares shows, whatever its numbers are.
WRONG_SHAPES = {
    "one_number_for_all": shape_of_shares(lambda shape, layers, heads, seq: shape == ()),
    "batch_axis_kept": shape_of_shares(
        lambda shape, layers, heads, seq: len(shape) == 3 and sorted(shape) == sorted((1, layers, heads))
    ),
    "query_axis_kept": shape_of_shares(lambda shape, layers, heads, seq: shape == (layers, heads, seq)),
}


def wrong_shares(right, chosen):
    """Return how the share that goes to some keys is added up wrongly; `chosen(*inputs)` lists these keys."""

    def of(reduce):
        """Reduce the weights on the keys, (layers, heads, query, chosen)."""
        return lambda *inputs: share(reduce(torch.cat(inputs[0])[..., chosen(*inputs)]))

    def of_rows(reduce):
        return lambda *inputs: share(reduce(torch.cat(inputs[0])[:, :, chosen(*inputs)]))

    def some_queries(places):
        def compute(*inputs):
            weights = torch.cat(inputs[0])[..., chosen(*inputs)].sum(dim=-1)  # (layers, heads, query)
            return share(weights[..., places(chosen(*inputs), weights.shape[-1])].mean(dim=-1))

        return compute

    def without_itself(*inputs):
        weights, keys = torch.cat(inputs[0]), chosen(*inputs)
        return share((weights * (1 - torch.eye(weights.shape[-1])))[..., keys].sum(-1).mean(-1))

    def hits(*inputs):
        most = torch.cat(inputs[0]).argmax(dim=-1)  # (layers, heads, query)
        return share(torch.isin(most, torch.tensor(chosen(*inputs))).double().mean(dim=-1))

    def ratio(shares):
        return shares / (1 - shares)

    def divided_by_all(reduce):
        return lambda *inputs: share(
            reduce(torch.cat(inputs[0])[..., chosen(*inputs)]) / inputs[0][0].shape[-1]
        )

    shapes = wrong_tables(right)
    shapes["mean_over_heads"] += [of(lambda w: w.sum(-1).mean(0)), of(lambda w: w.sum(-1).mean(1))]
    return shapes | {
        "other_than_mean": [
            of(lambda w, name=name: getattr(w.sum(-1), name)(-1)) for name in ("amax", "amin", "prod", "std")
        ]
        + [of(lambda w: w.sum(-1).median(-1).values)],
        "itself_left_out": [without_itself],
        "hits_counted": [hits, lambda *inputs: share(hits(*inputs)["share"] * inputs[0][0].shape[-1])],
        "ratio_to_the_rest": [lambda *inputs: share(ratio(right(*inputs)["share"]))],
        "mean_over_keys": [of(lambda w: w.mean((-2, -1)))],
        "sum_over_queries": [of(lambda w: w.sum((-2, -1)))],
        "sum_and_mean_exchanged": [of(lambda w: w.mean(-1).sum(-1))],
        "query_axis_kept": [of(lambda w: w.sum(-1))],
        "largest_instead_of_sum": [of(lambda w: w.amax(-1).mean(-1)), of(lambda w: w.amax((-2, -1)))],
        "queries_for_keys": [
            of_rows(lambda w: w.sum(-2).mean(-1)),
            of_rows(lambda w: w.sum(-1).mean(-1)),
            *(of_rows(lambda w, name=name: getattr(w, name)((-2, -1))) for name in ("mean", "sum")),
        ],
        "queries_left_out": [
            some_queries(lambda keys, seq: list(range(1, seq - 1))),
            some_queries(lambda keys, seq: list(range(1, seq))),
            some_queries(lambda keys, seq: list(range(seq - 1))),
            some_queries(lambda keys, seq: keys),
            some_queries(lambda keys, seq: [0]),
            some_queries(lambda keys, seq: [seq - 1]),
            some_queries(lambda keys, seq: [query for query in range(seq) if query not in keys]),
            divided_by_all(lambda w: w[:, :, 1:-1].sum((-2, -1))),
        ],
    }


def shares_of_keys(weights, of_keys):
    """Return for each head the sum over some keys, as a mean over the queries: (layers, heads)."""
    return torch.cat(weights)[..., of_keys].sum(dim=-1).mean(dim=-1)
