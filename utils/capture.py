"""What a model multiplies when it attends: queries, keys, scale and what is added, caught while it runs.

transformers lets its users register an attention function of their own. The one here keeps what it is given
and computes attention from it. The course's own modules are caught at their `attend`. Either way the model
has to give the same output as without, so what is caught is all that makes its weights.
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass

import torch

HALVES = (torch.bfloat16, torch.float16)  # of whose numbers the third decimal says nothing
NAME = "caught_by_the_course"  # under which transformers knows the attention function
MASKED = torch.finfo(torch.float32).min  # in place of a score: may not be attended to
LOW = -9000  # what is added to a score below this masks it: models have numbers of their own, to -10,000


@dataclass
class Stack:
    """The attentions of one kind, layer over layer: weights = softmax(softcap(scale · q·k) + added)."""

    name: str  # All, where it is the only kind, else Encoder, Decoder or Cross
    query: torch.Tensor  # (layers, heads, query, head_dim), turned by position already if the model does so
    key: torch.Tensor  # (layers, key heads, key, head_dim); as many query heads in a row share one
    scale: torch.Tensor  # (layers,)
    added: torch.Tensor | None  # (layers, 1 or heads, query, key): masks and position biases
    softcap: float | None = None  # scores are kept within ± this, by tanh
    sinks: torch.Tensor | None = None  # (layers, heads): the score of a further key, whose weight is left out
    layers: list[int] = None  # which layers of the model these are
    dtype: torch.dtype = torch.float32  # that the model computes in
    remarks: tuple[str, ...] = ()  # what a reader of its weights has to know

    @property
    def has_own_scale(self):
        """Whether scores are scaled by anything but 1/√head_dim."""
        return bool((self.scale - self.query.shape[-1] ** -0.5).abs().max() > 1e-9)

    @property
    def has_bias(self):
        """Whether anything but a mask is added to scores."""
        return self.added is not None and bool((self.added[self.added > MASKED] != 0).any())

    def formula(self, layer):
        """Return what is done to q·k before softmax, in a few signs: "/ √32", "× 0.25 + bias"."""
        scaled = f"× {self.scale[layer]:.3g}" if self.has_own_scale else f"/ √{self.query.shape[-1]}"
        capped = f"within ±{self.softcap:g}" if self.softcap else ""
        return " ".join(part for part in (scaled, capped, "+ bias" if self.has_bias else "") if part)

    def key_of(self, head):
        """Return the key head of a query head."""
        return head * self.key.shape[1] // self.query.shape[1]

    def is_masked(self, layer, head, query, key):
        """Whether this query may not attend to this key."""
        return self.added is not None and self._added(layer, head)[query, key].item() == MASKED

    def attend(self, layer, head):
        """Return the scores and the weights of one head, both (query, key), in float64."""
        key = self.key[layer, self.key_of(head)].double()
        scores = self.query[layer, head].double() @ key.T * self.scale[layer]
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.added is not None:
            scores = scores + self._added(layer, head)
        if self.sinks is None:
            return scores, scores.softmax(dim=-1)
        sink = self.sinks[layer, head].double().expand(len(scores), 1)  # (query, 1)
        return scores, torch.cat([scores, sink], dim=-1).softmax(dim=-1)[:, :-1]

    def _added(self, layer, head):
        return self.added[layer, head % self.added.shape[1]]  # (query, key)


@torch.no_grad()
def catch(model, inputs):
    """Run the model on its inputs, a dict, and return a `Stack` for each kind of attention in it.

    The model runs twice, in evaluation mode, as it is and caught. It is left as it was. Raises TypeError or
    ValueError when its attention cannot be caught, with what to do in its place.
    """
    modes = [(part, part.training) for part in model.modules()]
    try:
        model.eval()
        expected = _run(model, inputs)
        try:
            with _catching(model) as calls:
                found = _run(model, inputs)
        except Exception as error:  # as it is, the model ran
            raise TypeError(_refusal(model, f"cannot run with its attention caught ({error})")) from error
    finally:
        for part, training in modes:
            part.training = training
    if not calls:
        if not any("att" in type(part).__name__.lower() for part in model.modules()):
            raise TypeError(f"{type(model).__name__} has no attention, so no view of attention can show it.")
        own = "computes its attention in its own way, where it cannot be caught"
        raise TypeError(_refusal(model, own, returns=bool(getattr(expected, "attentions", None))))
    stacks = _stacks(model, calls)
    calls.clear()  # transformers keeps the function that fills it
    _require_same(model, stacks, _tensors(expected), _tensors(found))
    return stacks


def _run(model, inputs):
    """Run the model, with the same random numbers each time, for models that draw some."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model(**inputs)


@contextmanager
def _catching(model):
    """Let the model attend by `_attend` in this `with` block, and give the list that notes the calls."""
    calls = []
    # transformers asks the config of a part for an attention function.
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}.values()
    configs = [config for config in configs if hasattr(config, "_attn_implementation_internal")]
    before = [config._attn_implementation_internal for config in configs]
    own = [part for part in model.modules() if hasattr(part, "attend")]
    attends = [vars(part).get("attend") for part in own]
    if configs:
        _register(calls)
    try:
        for config in configs:
            config._attn_implementation_internal = NAME
        for part in own:
            part.attend = _attend_for_course(part, calls)
        yield calls
    finally:
        for config, choice in zip(configs, before, strict=True):
            config._attn_implementation_internal = choice
        for part, attend in zip(own, attends, strict=True):
            vars(part).pop("attend")  # that of the class is back
            if attend is not None:
                part.attend = attend


def _register(calls):
    """Tell transformers of an attention function that notes its calls, and that its masks are to be added."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    def attend(module, query, key, value, attention_mask, scaling=None, **more):
        added = _sum(more.get("position_bias"), _to_add(attention_mask, query, key))
        softcap = more.get("softcap")
        sinks = more.get("s_aux", getattr(module, "sinks", None))
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        output, attn_weights = _attend(calls, module, query, key, value, scaling, added, softcap, sinks)
        return output.transpose(1, 2).contiguous(), attn_weights  # output (batch, query, heads, head_dim)

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)


def _attend_for_course(part, calls):
    """Return an `attend` for a `MultiHeadAttention` of the course, or for what is derived from it."""

    def attend(query, key, value, mask):
        bias = getattr(part, "position_bias", lambda *sizes: None)(query.shape[-2], key.shape[-2])
        added = _sum(bias, None if mask is None else _to_add(mask == 1, query, key))
        return _attend(calls, part, query, key, value, query.shape[-1] ** -0.5, added)

    return attend


def _sum(*parts):
    parts = [part for part in parts if part is not None]
    return sum(parts) if parts else None


def _to_add(mask, query, key):
    """Return what a mask adds to the scores: itself, or for a bool mask 0 and a very low number."""
    if mask is None:
        return None
    mask = mask[..., : key.shape[-2]]
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)


def _attend(calls, module, query, key, value, scale, added, softcap=None, sinks=None):
    """Note a call, and return the output (batch, heads, query, head_dim) and the weights of attention."""
    calls.append((module, query, key, scale, added, softcap, sinks))
    groups = query.shape[1] // key.shape[1]  # so many query heads share a key head
    if groups > 1:
        key, value = (shared.repeat_interleave(groups, dim=1) for shared in (key, value))
    scores = query @ key.transpose(-2, -1) * scale  # (batch, heads, query, key)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if added is not None:
        scores = scores + added
    if sinks is not None:
        sink = sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink.to(scores)], dim=-1)
    attn_weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    attn_weights = attn_weights[..., : key.shape[-2]].to(value.dtype)
    return attn_weights @ value, attn_weights


def _stacks(model, calls):
    """Return a `Stack` for each kind of attention: calls of modules whose paths differ by a number alone."""
    paths = {module: path for path, module in model.named_modules()}
    kinds = {}
    for call in calls:
        kinds.setdefault(re.sub(r"\d+", "#", paths[call[0]]), []).append(call)
    stacks = []
    for name, kind in zip(_names(model, kinds), kinds.values(), strict=True):
        modules, query, key, scale, added, softcap, sinks = zip(*kind, strict=True)
        layers = _layers(model, modules, [paths[module] for module in modules])
        if len({k.shape[1] for k in key}) > 1:  # not as many query heads share a key head in each layer
            pairs = zip(query, key, strict=True)
            key = [k.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for q, k in pairs]
        if len({(q.shape, k.shape) for q, k in zip(query, key, strict=True)}) > 1 or len(query[0]) != 1:
            shapes = ", ".join(str(shape) for shape in sorted({tuple(q.shape) for q in query}))
            raise ValueError(_refusal(model, f"has queries of the shapes {shapes}: windows, unequal sizes"))
        dtype = query[0].dtype
        query, key = torch.cat(query).cpu(), torch.cat(key).cpu()  # (layers, heads, tokens, head_dim)
        if not (query.isfinite().all() and key.isfinite().all()):
            raise ValueError("Query and key vectors hold NaN or infinity. Load the model's weights again.")
        if len(set(softcap)) > 1:
            raise ValueError(_refusal(model, "keeps its scores within other bounds in other layers"))
        scale = torch.tensor(scale, dtype=torch.float64, device="cpu")
        added = _stack_added(added, query, key)
        none = torch.full(query.shape[1:2], MASKED, dtype=torch.float32, device="cpu")
        filled = [none if one is None else one.float().cpu() for one in sinks]
        sinks = torch.stack(filled) if any(one is not None for one in sinks) else None
        stacks.append(Stack(name, query, key, scale, added, softcap[0], sinks, layers, dtype))
        stacks[-1].remarks = tuple(_remarks(model, stacks[-1]))
    return stacks


def _remarks(model, stack):
    """Say what a reader of the weights would else take for a mistake."""
    if stack.dtype in HALVES:
        kind = str(stack.dtype).removeprefix("torch.")
        yield f"the model computes in {kind}, so its own weights differ in the third decimal"
    if stack.sinks is not None and type(model).__name__.startswith("Granite"):
        yield "the sink is in these weights, and not in those that the model returns"


def missing(model, stacks):
    """Return which kinds of attention an encoder-decoder has that were not caught: it has its own way."""
    names = [stack.name for stack in stacks]
    sides = {part.rpartition(".")[2] for part, _ in model.named_modules()}
    if len(names) < 2 or not {"encoder", "decoder"} <= sides:
        return []
    return [name for name in ("Encoder", "Decoder", "Cross") if name not in names]


def _names(model, kinds):
    """Return what each kind of attention is called, by the path of its modules."""
    if len(kinds) == 1:
        return ["All"]
    names = []
    for path in kinds:
        side = re.search(r"\b(encoder|decoder)\b", path)
        is_cross = re.search(r"cross|encoder_attn|encdec", path.lower())
        names.append("Cross" if is_cross else side[0].title() if side else "Decoder")
    if "Cross" in names and "Decoder" not in names:  # the layers of a decoder that is made of an encoder's
        names = ["Decoder" if name == "Encoder" else name for name in names]
    if len(set(names)) < len(names):
        split = [path.split(".") for path in kinds]
        depth = next((i for i, parts in enumerate(zip(*split, strict=False)) if len(set(parts)) > 1), 0)
        parts = dict.fromkeys(".".join(["model", *path[: depth + 1]]) for path in split)
        raise ValueError(
            f"{type(model).__name__} attends in {', '.join(kinds)}, and a view shows one model. "
            f"Pass {' or '.join(parts)}, with its inputs."
        )
    return names


def _stack_added(added, query, key):
    """Return what is added to all scores, (layers, 1 or heads, query, key), or None for nothing."""
    if all(one is None for one in added):
        return None
    sizes = (query.shape[2], key.shape[2])
    added = [query.new_zeros(sizes) if one is None else one.double().cpu() for one in added]
    heads = max(one.shape[-3] if one.dim() > 2 else 1 for one in added)
    added = torch.cat([one.expand(1, heads, *sizes) for one in added])  # (layers, heads or 1, query, key)
    masked = added < LOW
    masked &= ~masked.all(dim=-1, keepdim=True)
    added = added.masked_fill(masked, MASKED).clamp(min=MASKED)
    return added if added.any() else None


def _tensors(output, path=()):
    """Return the tensors in what a model returns, by where they stand in it."""
    if isinstance(output, torch.Tensor):
        return {path: output}
    items = enumerate(output) if isinstance(output, tuple | list) else ()
    items = output.items() if isinstance(output, dict) else items
    return {key: one for place, part in items for key, one in _tensors(part, (*path, place)).items()}


def _refusal(model, what, returns=False):
    """Return why nothing is caught, and what to do. returns: whether the model returned its weights."""
    how = "this one does, as outputs.attentions"
    if not returns:
        load = 'loaded with attn_implementation="eager" and called with output_attentions=True'
        how = f"one of transformers does, {load}"
    return (
        f"{type(model).__name__} {what}, so there is no neuron view of it. "
        f"head_view and model_view draw the weights that a model returns: {how}."
    )


def _layers(model, modules, paths):
    """Return which layers of the model attend. Refuse a model in which one layer attends twice."""
    if len(set(paths)) < len(paths):  # one layer is used again and again, as in ALBERT
        count = getattr(getattr(modules[0], "config", None), "num_hidden_layers", len(paths))
        if count != len(paths):
            raise ValueError(_refusal(model, f"attends {len(paths)} times in {count} layers"))
        return list(range(count))
    numbers = [[int(number) for number in re.findall(r"\d+", path)] for path in paths]
    if len(paths) == 1 and not numbers[0]:
        return [0]
    # The first number that differs is the layer's; before it stands, say, the number of a stage.
    place = next((i for i, found in enumerate(zip(*numbers, strict=True)) if len(set(found)) > 1), 0)
    layers = [found[place] for found in numbers]
    if layers != sorted(set(layers)):
        raise ValueError(_refusal(model, f"attends in {', '.join(paths)}, which are not layers in a row"))
    return layers


def _require_same(model, stacks, expected, found):
    """Refuse a model whose output changes when its attention is computed from what was caught.

    A query that may attend to no key, as a pad on the left, is not compared: there each way of attending has
    an answer of its own.
    """
    masked = [stack.added < LOW for stack in stacks if stack.added is not None]
    compared = [~each.all(dim=-1).flatten(0, 1).any(dim=0)[None] for each in masked]  # (1, query)

    def cut(tensor):
        return tensor[next((each for each in compared if each.shape == tensor.shape[:2]), ...)]

    common = [(cut(tensor), cut(found[place])) for place, tensor in expected.items() if place in found]
    common = [pair for pair in common if pair[0].is_floating_point() and pair[0].numel()]
    if not common:
        raise TypeError(_refusal(model, "returns no tensor by which its attention could be checked"))
    for tensor, other in common:
        apart = (tensor.double() - other.double()).abs().max()
        tolerance = 1e-4 if tensor.dtype in (torch.float32, torch.float64) else 0.05
        if not apart <= tolerance * tensor.abs().max().clamp(min=1):
            what = f"gives an output that differs by {apart:.2g} when its attention is caught"
            raise ValueError(_refusal(model, what))
