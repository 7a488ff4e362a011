"""The query and key vectors that the neuron view shows, caught while the model runs."""

import inspect

import torch

MOST_NEURON_TOKENS = 128


def tokenize(model, tokenizer, sentence_a, sentence_b):
    """Return what the tokenizer makes of the texts, where the model is."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a loaded model, for example a BertModel, not {type(model).__name__}. "
            "The order is neuron_view(model, tokenizer, sentence_a)."
        )
    for name, sentence in (("sentence_a", sentence_a), ("sentence_b", sentence_b)):
        if not isinstance(sentence, str) and not (name == "sentence_b" and sentence is None):
            raise TypeError(f"{name} must be a text, not {type(sentence).__name__}.")
        if sentence is not None and not sentence.strip():
            raise ValueError(f"{name} is empty, so there is nothing to draw. Give a text, or leave it out.")
    inputs = tokenizer(sentence_a, sentence_b, return_tensors="pt")
    count = inputs["input_ids"].shape[1]
    if count > MOST_NEURON_TOKENS:
        most = f"the neuron view draws at most {MOST_NEURON_TOKENS}"
        raise ValueError(f"{count} tokens would freeze the browser; {most}. Cut the text.")
    if sentence_b is not None and 1 not in inputs.get("token_type_ids", torch.zeros(1, 1)):
        raise ValueError("The tokenizer does not mark sentence B in token_type_ids. Leave sentence_b out.")
    device = next((weight.device for weight in model.parameters()), "cpu")
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def catch_vectors(model, inputs):
    """Run the model and return the query and key vectors of every head, each (layers, heads, tokens, head_dim)."""
    caught = {"query": [], "key": []}
    hooks, num_heads = [], None
    for path, part in model.named_modules():
        parent, _, name = path.rpartition(".")
        if name in caught and isinstance(part, torch.nn.Linear):
            layer = model.get_submodule(parent)
            num_heads = getattr(layer, "num_attention_heads", None) or getattr(layer, "num_heads", None)
            hooks.append(part.register_forward_hook(lambda _, __, out, into=caught[name]: into.append(out)))
    modes = [(part, part.training) for part in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            outputs = model(**inputs, **_ask_for_attention(model))
    finally:
        for part, training in modes:
            part.training = training
        for hook in hooks:
            hook.remove()
    shapes = {tuple(vector.shape) for vectors in caught.values() for vector in vectors}
    if not num_heads or len(shapes) != 1 or len(caught["query"]) != len(caught["key"]):
        raise TypeError(
            f"neuron_view finds no linear layers named query and key, of one size, in {type(model).__name__}. "
            "Pass a BertModel of transformers or the course's Encoder."
        )
    # (layers, 1, tokens, hidden_size) to (layers, heads, tokens, head_dim)
    query, key = (
        torch.stack(vectors).unflatten(-1, (num_heads, -1)).squeeze(1).transpose(1, 2).cpu()
        for vectors in caught.values()
    )
    _require_made_by_softmax(query, key, getattr(outputs, "attentions", None) or ())
    return query, key


def _ask_for_attention(model):
    """Return what asks a model of transformers for its weights; the course's Encoder returns them unasked."""
    known = inspect.signature(model.forward).parameters.values()
    asked = any(word.name == "output_attentions" or word.kind == word.VAR_KEYWORD for word in known)
    return {"output_attentions": True} if asked else {}


def _require_made_by_softmax(query, key, attentions):
    """Refuse a model that adds something to its scores, since the page computes softmax(q·k/√d).

    attentions: a tensor for each layer, or None where the weights are not known (fused attention).
    """
    scores = query.double() @ key.double().transpose(-2, -1) / query.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)  # (layers, heads, query, key)
    if not weights.isfinite().all():
        raise ValueError("The query and key vectors hold NaN or infinity. Load the model's weights again.")
    known = [(one[0].cpu(), own) for one, own in zip(attentions, weights, strict=False) if one is not None]
    apart = max(((one - own).abs().max().item() for one, own in known), default=0.0)
    tolerance = 0.001 if query.dtype in (torch.float32, torch.float64) else 0.05
    if apart > tolerance:
        raise ValueError(
            f"The model's attention weights differ from softmax(q·k/√d) by up to {apart:.3f}, so this view would "
            "show numbers that are not the model's. It adds something to its scores, such as relative positions."
        )
