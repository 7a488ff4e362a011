"""What several test files share."""

import pytest


@pytest.fixture(scope="session")
def bert():
    """The tokenizer and the model of the course, in float64 and for evaluation."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from utils.models import checkpoint

    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager", dtype=torch.float64)
    return AutoTokenizer.from_pretrained(checkpoint()), model.eval()


@pytest.fixture(scope="session")
def bert_attention(bert):
    """The attention of every layer on one text, and its tokens."""
    tokenizer, model = bert
    inputs = tokenizer(
        "My friend told me about this class and I love it so far! She was right.", return_tensors="pt"
    )
    attentions = tuple(layer.detach() for layer in model(**inputs, output_attentions=True).attentions)
    return attentions, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
