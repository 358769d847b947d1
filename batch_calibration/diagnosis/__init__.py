"""The bias of scores, its uncertainty, and the correction to use."""

from batch_calibration.diagnosis.advice import LEAVE as LEAVE
from batch_calibration.diagnosis.advice import Advice as Advice
from batch_calibration.diagnosis.advice import load_advice as load_advice
from batch_calibration.diagnosis.advice import save_advice as save_advice
from batch_calibration.diagnosis.comparison import Comparison as Comparison
from batch_calibration.diagnosis.comparison import MethodResult as MethodResult
from batch_calibration.diagnosis.comparison import compare as compare
from batch_calibration.diagnosis.diagnose import diagnose as diagnose
from batch_calibration.diagnosis.diagnosis import Diagnosis as Diagnosis
from batch_calibration.diagnosis.recommend import recommend as recommend
