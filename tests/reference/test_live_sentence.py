"""Our sentence embeddings against BERT of transformers and poolings in plain torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

from cases import BERT, build, padded, save  # noqa: E402
from tiny import byte_level, write_dense, write_sentence_transformer  # noqa: E402

from batch_calibration.scoring.dual_encoder import DualEncoder  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402

TEXTS = ["slow", "very fine", "not even desperate and bleak " * 5, "a zebra"]
POOLINGS = {
    "cls": lambda h, mask: h[:, 0],
    "max": lambda h, mask: h.masked_fill(mask[..., None] == 0, -torch.inf).amax(1),
    "mean": lambda h, mask: (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
    "mean_sqrt_len_tokens": lambda h, mask: (
        (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).sqrt()
    ),
    "weightedmean": lambda h, mask: (
        (h * (mask * mask.cumsum(1))[..., None]).sum(1) / (mask * mask.cumsum(1)).sum(1)[:, None]
    ),
    "lasttoken": lambda h, mask: torch.stack(
        [row[count - 1] for row, count in zip(h, mask.sum(1).int(), strict=True)]
    ),
}


@pytest.mark.parametrize("folders", [(), ("2_Normalize", "3_Dense")])
@pytest.mark.parametrize("mode", POOLINGS)
def test_sentence_embeddings(mode, folders, tmp_path):
    name = "bert_plain"
    raw = {"model_type": "bert", **BERT[name], "vocab_size": 400}
    write_sentence_transformer(tmp_path, {"pooling_mode": mode}, *folders, network=raw)
    theirs = build(name, seed=8, vocabulary=400)
    save(name, theirs, tmp_path)
    ids = [byte_level().encode(text).ids[: raw["max_position_embeddings"]] for text in TEXTS]
    tokens, mask = padded(ids)
    with torch.no_grad():
        expected = POOLINGS[mode](theirs(tokens, attention_mask=mask).last_hidden_state, mask)
        if folders:
            tensors = write_dense(tmp_path / "3_Dense", (7, raw["hidden_size"]))
            dense = torch.nn.Linear(raw["hidden_size"], 7)
            state = {key.split(".")[1]: torch.tensor(x) for key, x in tensors.items()}
            dense.load_state_dict(state)
            expected = torch.tanh(dense(torch.nn.functional.normalize(expected, dim=-1)))
        expected = torch.nn.functional.normalize(expected, dim=-1).numpy()
    vectors, _ = DualEncoder(load_checkpoint(tmp_path)).embed(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
