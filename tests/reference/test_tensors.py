"""Tensors of torch wherever scores may come: a part of `make reference`, which has torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: run `make reference`")

from batch_calibration import InputError, accuracy, calibrate, predict, summary  # noqa: E402
from batch_calibration.estimator import LabelBiasCorrector  # noqa: E402

ROWS = torch.tensor([[-1.0, -3.0], [-2.0, -2.5]] * 6)
GOLD = torch.tensor([0, 1] * 6)
EXPECTED = calibrate(ROWS.numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("gradient", [False, True])
def test_a_tensor_gives_a_tensor(dtype, gradient):
    scores = ROWS.to(dtype).requires_grad_(gradient)
    corrected = calibrate(scores)
    assert isinstance(corrected, torch.Tensor)
    assert corrected.dtype == torch.float32 and corrected.device == scores.device
    np.testing.assert_allclose(corrected.numpy(), EXPECTED, atol=1e-6)
    assert scores.requires_grad == gradient
    corrected += 1.0  # it can be written to


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_predictions_metrics_and_the_estimator_take_tensors(dtype):
    scores = ROWS.to(dtype).requires_grad_()
    assert predict(scores).tolist() == ROWS.argmax(-1).tolist()
    corrected = calibrate(scores)
    assert float(accuracy(corrected, GOLD)) == 1.0
    assert float(accuracy(corrected.argmax(-1), GOLD)) == 1.0
    assert summary(corrected, GOLD)["accuracy"] == 1.0
    assert LabelBiasCorrector().fit(scores).predict(scores).tolist() == GOLD.tolist()


def test_parameters_and_tensors_that_are_no_scores():
    assert isinstance(calibrate(torch.nn.Parameter(ROWS)), torch.Tensor)
    with pytest.raises(InputError, match="got Tensor of bool: "):
        calibrate(ROWS > -2)
    with pytest.raises(InputError, match="which are probabilities: pass from_probs=True"):
        calibrate(ROWS.softmax(-1))
    with pytest.raises(InputError, match="got Tensor"):
        calibrate(ROWS.to_sparse())
