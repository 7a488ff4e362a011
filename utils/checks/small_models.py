"""The small model of attention alone that the checks of notebook 12 take apart."""

import torch.nn.functional as F
from torch import nn

from .shared import fill_weights


class Attention(nn.Module):
    """Causal attention with the names of the course's own; `silent` heads put out 0."""

    def __init__(self, num_heads, head_dim):
        super().__init__()
        self.num_heads = num_heads
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(num_heads * head_dim, num_heads * head_dim))

    def forward(self, hidden_state, silent=()):
        parts = [layer(hidden_state) for layer in (self.query, self.key, self.value)]
        parts = [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts]
        found = F.scaled_dot_product_attention(*parts, is_causal=True)
        for head in silent:
            found[:, head] = 0
        return self.output(found.transpose(1, 2).flatten(2))


class Attentions(nn.Module):
    """Layers of attention, each with a residual connection."""

    def __init__(self, layers, num_heads, head_dim):
        super().__init__()
        self.attentions = nn.ModuleList(Attention(num_heads, head_dim) for _ in range(layers))
        fill_weights(self)

    def forward(self, hidden_state, silent=()):
        for place, attention in enumerate(self.attentions):
            heads = [head for layer, head in silent if layer == place]
            hidden_state = hidden_state + attention(hidden_state, heads)
        return hidden_state
