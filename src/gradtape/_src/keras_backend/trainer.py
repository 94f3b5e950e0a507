"""Keras' trainer: `fit`, `evaluate`, `predict` and their batches, with a tape around every training step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module, optimizers as optimizers_module, tree
from keras.src.backend import config
from keras.src.losses import loss as loss_module
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

from gradtape._src.distribute.context import get_strategy, has_strategy
from gradtape._src.distribute.input import batches_of_worker
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.keras_backend.execution import (
    CompiledSteps,
    EagerSteps,
    Step,
    as_result,
    as_tensor,
    concatenated,
)
from gradtape._src.keras_backend.process_files import ProcessFiles
from gradtape._src.keras_backend.replicas import ReplicatedStep
from gradtape._src.keras_backend.sparse_data import SparseBatches, is_for_host
from gradtape._src.variable import is_distributed


def _first(batches: EpochIterator) -> Iterator[tuple[Any, Any, list[Any]]]:
    """The first batch, for building a model. NumPy's random state is preserved, so that the order of a shuffled epoch
    does not depend on whether the model was built before.
    """
    state = np.random.get_state()
    try:
        start, end, data = next(iter(batches))
        first = data[0] if isinstance(data, (list, tuple)) else next(data)
    finally:
        np.random.set_state(state)
    yield start, end, [first]


class Trainer(base_trainer.Trainer):
    """The part of Keras models that trains them."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Step | None = None
        self.test_function: Step | None = None
        self.predict_function: Step | None = None
        self._distribute_strategy = get_strategy() if has_strategy() else None

    @property
    def distribute_strategy(self) -> Any:
        """The strategy in whose scope the model was created, or the active one."""
        return self._distribute_strategy or get_strategy()

    # -- one batch ---------------------------------------------------------------------------------------------------
    def train_step(self, data: Any) -> Any:
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True) if self._call_has_training_arg else self(x)
            loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
            scaled = loss if self.optimizer is None else self.optimizer.scale_loss(loss)
        self._loss_tracker.update_state(loss_module.unscale_loss_for_distribution(loss), sample_weight=_batch_size(x))
        weights = self.trainable_weights
        if weights:
            gradients: Any = tape.gradient(scaled, weights)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> Any:
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False) if self._call_has_training_arg else self(x)
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        self._loss_tracker.update_state(loss_module.unscale_loss_for_distribution(loss), sample_weight=_batch_size(x))
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self(x, training=False) if self._call_has_training_arg else self(x)

    def _aggregate_additional_loss(self, loss: Any) -> Any:
        return loss_module.scale_loss_for_distribution(super()._aggregate_additional_loss(loss))

    # -- before the first batch --------------------------------------------------------------------------------------
    def _build_on(self, batches: EpochIterator | None = None, data_batch: Any = None) -> None:
        """Create the variables of layers, metrics and optimizer."""
        from keras.src.models.model import Model

        try:
            with self.distribute_strategy.scope():
                self._symbolic_build(iterator=None if batches is None else _first(batches), data_batch=data_batch)
        except RuntimeError:
            # A model without `call` has its own `train_step`, which creates what it needs, as with TensorFlow.
            if type(self).call is not Model.call:
                raise
        if batches is not None:
            batches.reset()

    # -- functions of batches ----------------------------------------------------------------------------------------
    def _executed(self, step: Step, all_results: bool = False) -> Step:
        """A function of the batches of one execution."""
        strategy = self.distribute_strategy
        self._require_one_scope(strategy)
        if strategy.extended.is_distributed:
            step = ReplicatedStep(step, strategy, all_results)
        return EagerSteps(step, all_results) if self.run_eagerly else CompiledSteps(step, all_results)

    def _require_one_scope(self, strategy: Any) -> None:
        """Raise an error if the model was created outside of the scope that it was compiled in."""
        tracked = [] if self._loss_tracker is None else self._loss_tracker.variables
        if any(is_distributed(v._value) for v in tracked) and not strategy.extended.wraps:
            raise ValueError(
                f"The model {self.name!r} was compiled in the scope of a strategy, but was not created in the "
                "distribution strategy scope: its variables have no copies for the replicas. Create and compile it "
                "in the same `with strategy.scope():` block."
            )

    def make_train_function(self, force: bool = False) -> Any:
        if self.train_function is None or force:
            self.train_function = self._executed(self.train_step)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        if self.test_function is None or force:
            self.test_function = self._executed(self.test_step)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        if self.predict_function is None or force:
            self.predict_function = self._executed(self.predict_step, all_results=True)
        return self.predict_function

    # -- epochs ------------------------------------------------------------------------------------------------------
    @traceback_utils.filter_traceback
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        self._assert_compile_called("fit")
        most = config.max_epochs()
        if most and most < epochs:
            warnings.warn(f"Limiting epochs to {most}", stacklevel=2)
            epochs = most
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        batches = self._batches(
            x, y, sample_weight, batch_size, steps_per_epoch, shuffle=shuffle, class_weight=class_weight
        )
        self._build_on(batches)
        with ProcessFiles(callbacks) as files:
            callbacks = self._callback_list(callbacks, batches, verbose, epochs, add_history=True)
            validate = None
            if validation_data is not None:
                validate = self._validation(
                    validation_data, validation_batch_size or batch_size, validation_steps, callbacks
                )
            self.stop_training = False
            self.make_train_function()
            callbacks.on_train_begin()
            files.restored()
            numbers = range(self._initial_epoch or initial_epoch, epochs)
            logs = self._train_epochs(numbers, batches, callbacks, validate, validation_freq)
            if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
                self.optimizer.finalize_variable_values(self.trainable_weights)
            self._eval_epoch_iterator = None
            callbacks.on_train_end(logs=logs)
        return self.history

    def _train_epochs(self, epochs: range, batches: Any, callbacks: Any, validate: Any, frequency: Any) -> Any:
        """Train for several epochs, or until a callback stops the training; return the logs of the last one."""
        logs: dict[str, Any] = {}
        for epoch in epochs:
            self.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            logs = self._train_epoch(batches, callbacks)
            if validate is not None and self._should_eval(epoch, frequency):
                logs.update({f"val_{name}": value for name, value in validate().items()})
            callbacks.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        return logs

    def _batches(
        self, x: Any, y: Any, sample_weight: Any, batch_size: int | None, steps: int | None, **options: Any
    ) -> EpochIterator:
        """The data in batches, in groups for one execution each; in order unless `shuffle` is set."""
        options = {"shuffle": False, **options}
        if self.distribute_strategy.extended.is_distributed:
            x = batches_of_worker(x, self.distribute_strategy)
        if is_for_host((x, y, sample_weight)):  # Keras' own slices of them would not be sparse, or fail
            data = data_adapter_utils.pack_x_y_sample_weight(x, y, sample_weight)
            x = SparseBatches(data if isinstance(data, tuple) else (data,), batch_size or 32, options.pop("shuffle"))
            y = sample_weight = batch_size = None
        return EpochIterator(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps,
            steps_per_execution=self.steps_per_execution,
            **options,
        )

    def _train_epoch(self, batches: EpochIterator, callbacks: Any) -> dict[str, Any]:
        logs: Any = {}
        for first, last, data in batches:
            callbacks.on_train_batch_begin(first)
            logs = self.train_function(data)  # type: ignore[misc]
            callbacks.on_train_batch_end(last, logs)
            if self.stop_training:
                break
        return dict(pythonify_logs(self._get_metrics_result_or_logs(logs)))

    def _validation(self, data: Any, batch_size: int | None, steps: int | None, callbacks: Any) -> Callable[[], Any]:
        """A function that evaluates on the validation data; its iterator is created once and reused in every epoch."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        self._eval_epoch_iterator = None

        def validate() -> Any:
            if self._eval_epoch_iterator is None:
                self._eval_epoch_iterator = self._batches(x, y, sample_weight, batch_size, steps)
            return self.evaluate(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=batch_size,
                steps=steps,
                callbacks=callbacks,
                return_dict=True,
                _use_cached_eval_dataset=True,
            )

        return validate

    @traceback_utils.filter_traceback
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        self._assert_compile_called("evaluate")
        cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        batches = self._eval_epoch_iterator if cached else None
        if batches is None:
            batches = self._batches(x, y, sample_weight, batch_size, steps)
        self._build_on(batches)
        callbacks = self._callback_list(callbacks, batches, verbose, 1)
        self.make_test_function()
        self.stop_evaluating = False
        callbacks.on_test_begin()
        self.reset_metrics()
        logs: Any = {}
        for first, last, data in batches:
            callbacks.on_test_batch_begin(first)
            logs = self.test_function(data)  # type: ignore[misc]
            callbacks.on_test_batch_end(last, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        callbacks.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        batches = self._batches(x, None, None, batch_size, steps)
        callbacks = self._callback_list(callbacks, batches, verbose, 1)
        self.make_predict_function()
        self.stop_predicting = False
        callbacks.on_predict_begin()
        parts: list[Any] = []
        for first, last, data in batches:
            callbacks.on_predict_batch_begin(first)
            outputs = tree.map_structure(as_result, self.predict_function(data))  # type: ignore[misc]
            parts.append(outputs)  # callbacks, in another thread, would gather the parts of other processes again
            callbacks.on_predict_batch_end(last, {"outputs": outputs})
            if self.stop_predicting:
                break
        callbacks.on_predict_end()
        return concatenated(parts)

    # -- single batches ----------------------------------------------------------------------------------------------
    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same time. "
                    f"Received: sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        data = (x, y, sample_weight)
        self._build_on(data_batch=tree.map_structure(as_tensor, data))
        return self._on_batch(self.make_train_function(), data, return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        self._assert_compile_called("test_on_batch")
        data = (x, y, sample_weight)
        self._build_on(data_batch=tree.map_structure(as_tensor, data))
        return self._on_batch(self.make_test_function(), data, return_dict)

    def _on_batch(self, function: Step, data: Any, return_dict: bool) -> Any:
        self.reset_metrics()
        logs = pythonify_logs(function([data]))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        return tree.map_structure(as_result, self.make_predict_function()([(x,)]))

    def _callback_list(self, callbacks: Any, batches: Any, verbose: Any, epochs: int, **options: Any) -> Any:
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        return callbacks_module.CallbackList(
            callbacks,
            add_progbar=verbose != 0 and os.environ.get("GRADTAPE_PROGRESS") != "0",  # `gradtape launch` sets it
            verbose=verbose,
            epochs=epochs,
            steps=batches.num_batches,
            model=self,
            **options,
        )


def _batch_size(x: Any) -> int:
    first = next(leaf for leaf in tree.flatten(x) if leaf is not None)
    return int(first.shape[0])
