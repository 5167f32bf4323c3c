"""Training a module: `Model` with fit, evaluate and predict, the callbacks and metrics that it takes, the history that it returns."""

from symgrad.training.callback import Callback as Callback, LambdaCallback as LambdaCallback
from symgrad.training.callbacks import (
    CSVLogger as CSVLogger,
    EarlyStopping as EarlyStopping,
    ModelCheckpoint as ModelCheckpoint,
    TerminateOnNaN as TerminateOnNaN,
)
from symgrad.training.history import History as History
from symgrad.training.learning_rate import LearningRateScheduler as LearningRateScheduler, ReduceLROnPlateau as ReduceLROnPlateau
from symgrad.training.metrics import (
    Accuracy as Accuracy,
    BinaryAccuracy as BinaryAccuracy,
    F1Score as F1Score,
    Mean as Mean,
    Metric as Metric,
    Precision as Precision,
    Recall as Recall,
    RootMeanSquaredError as RootMeanSquaredError,
    TopKAccuracy as TopKAccuracy,
)
from symgrad.training.model import Model as Model
from symgrad.training.progress import ProgressBar as ProgressBar
from symgrad.training.tensorboard import TensorBoard as TensorBoard
