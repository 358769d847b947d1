"""SigLIP in the dual encoder against transformers, live: `make reference`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

from PIL import Image  # noqa: E402
from test_live_clip import images  # noqa: E402
from tiny import byte_level  # noqa: E402
from tokenizers.processors import TemplateProcessing  # noqa: E402
from transformers import SiglipConfig, SiglipModel  # noqa: E402
from transformers.models.siglip.image_processing_pil_siglip import (  # noqa: E402
    SiglipImageProcessorPil,
)

from batch_calibration.scoring import ImageInputs  # noqa: E402
from batch_calibration.scoring.data.images import ImageFile  # noqa: E402
from batch_calibration.scoring.dual_encoder import DualEncoder  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402


def test_scores_of_siglip(shared, tmp_path):
    """Captions are padded to all positions, and cut with their end token kept."""
    torch.manual_seed(2)
    tower = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2)
    theirs = SiglipModel(SiglipConfig(
        text_config=tower | dict(vocab_size=400, max_position_embeddings=16, pad_token_id=0),
        vision_config=tower | dict(image_size=60, patch_size=16),
    )).eval()  # fmt: skip
    with torch.no_grad():
        theirs.logit_scale.fill_(2.3)
    tokenizer = byte_level()  # its first token is the end
    tokenizer.post_processor = TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", 0)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    processor = SiglipImageProcessorPil(size={"height": 60, "width": 60})
    for saver in (theirs, processor):
        saver.save_pretrained(tmp_path)
    images_read, labels = images(shared)[:13], ["banded texture", "a photo of", "slow"]
    texts = ["not even desperate and bleak " * 4, "fine"]
    scorer = DualEncoder(load_checkpoint(tmp_path), scale=0, batch_size=8)
    scores = scorer.score(ImageInputs([ImageFile(path) for path in images_read]), labels).log_probs
    vectors, _ = scorer.embed(texts)
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16, pad_id=0, pad_token="<|end|>")
    ids = torch.tensor([row.ids for row in tokenizer.encode_batch([*labels, *texts])])
    pixels = processor([Image.open(path) for path in images_read], return_tensors="pt")
    with torch.no_grad():
        answers = theirs(ids, **pixels)
        logits = answers.logits_per_image - theirs.logit_bias
    assert ids[3, -1] == 0 != ids[3, -2]  # cut, and not padded
    np.testing.assert_allclose(scores, logits[:, :3].numpy(), atol=1e-3)
    np.testing.assert_allclose(vectors, answers.text_embeds[3:].numpy(), atol=1e-5)
