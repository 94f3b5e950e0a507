"""keras-hub: small models of each kind, built, trained for a step and used for prediction."""

from __future__ import annotations

import keras
import keras_hub
import numpy as np
import pytest

RNG = np.random.default_rng(0)
TOKENS = {
    "token_ids": RNG.integers(1, 50, (2, 8)),
    "padding_mask": np.ones((2, 8), bool),
}
SEGMENTS = {**TOKENS, "segment_ids": np.zeros((2, 8), int)}
SMALL = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
LLAMA = {
    "vocabulary_size": 50,
    "num_layers": 2,
    "num_query_heads": 4,
    "num_key_value_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
}

TEXT = {
    "BertBackbone": ({**SMALL, "max_sequence_length": 16}, SEGMENTS),
    "RobertaBackbone": ({**SMALL, "max_sequence_length": 16}, TOKENS),
    "DistilBertBackbone": ({**SMALL, "max_sequence_length": 16}, TOKENS),
    "GPT2Backbone": ({**SMALL, "max_sequence_length": 16}, TOKENS),
    "GPTNeoXBackbone": ({**SMALL, "max_sequence_length": 16}, TOKENS),
    "OPTBackbone": ({**SMALL, "max_sequence_length": 16}, TOKENS),
    "BloomBackbone": (SMALL, TOKENS),
    "FNetBackbone": (
        {k: v for k, v in SMALL.items() if k != "num_heads"} | {"max_sequence_length": 16},
        {k: v for k, v in SEGMENTS.items() if k != "padding_mask"},
    ),
    "AlbertBackbone": ({**SMALL, "embedding_dim": 8, "max_sequence_length": 16}, SEGMENTS),
    "ElectraBackbone": ({**SMALL, "embedding_dim": 8, "max_sequence_length": 16}, SEGMENTS),
    "DebertaV3Backbone": ({**SMALL, "max_sequence_length": 16, "bucket_size": 4}, TOKENS),
    "LlamaBackbone": (LLAMA, TOKENS),
    "MistralBackbone": ({**LLAMA, "sliding_window": 4}, TOKENS),
    "Phi3Backbone": (LLAMA, TOKENS),
    "GemmaBackbone": ({**LLAMA, "head_dim": 4}, TOKENS),
}
IMAGES = {
    "ResNetBackbone": {
        "input_conv_filters": [8],
        "input_conv_kernel_sizes": [3],
        "stackwise_num_filters": [8, 8, 8],
        "stackwise_num_blocks": [1, 1, 1],
        "stackwise_num_strides": [1, 2, 2],
        "block_type": "basic_block",
        "image_shape": (32, 32, 3),
    },
    "VGGBackbone": {"stackwise_num_repeats": [1, 1], "stackwise_num_filters": [4, 8], "image_shape": (32, 32, 3)},
    "DenseNetBackbone": {"stackwise_num_repeats": [1, 1], "growth_rate": 4, "image_shape": (32, 32, 3)},
    "ViTBackbone": {
        "image_shape": (32, 32, 3),
        "patch_size": 8,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 8,
        "mlp_dim": 16,
    },
}


@pytest.mark.parametrize("name", TEXT)
def test_text_backbone(name):
    options, inputs = TEXT[name]
    model = getattr(keras_hub.models, name)(**options)
    out = model(inputs)
    out = out["sequence_output"] if isinstance(out, dict) else out
    assert out.shape[:2] == (2, 8)
    again = type(model).from_config(model.get_config())
    assert again.count_params() == model.count_params()


@pytest.mark.parametrize("name", IMAGES)
def test_image_backbone(name):
    model = getattr(keras_hub.models, name)(**IMAGES[name])
    out = keras.ops.convert_to_numpy(model(RNG.uniform(size=(1, 32, 32, 3)).astype(np.float32)))
    assert np.isfinite(out).all()


def test_classifier_trains():
    backbone = keras_hub.models.BertBackbone(**SMALL, max_sequence_length=16)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = [float(model.train_on_batch(SEGMENTS, np.array([0, 1]))) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_causal_language_model_generates():
    backbone = keras_hub.models.GPT2Backbone(**SMALL, max_sequence_length=16)
    model = keras_hub.models.GPT2CausalLM(backbone)
    model.compile(sampler="greedy")
    out = model.generate({k: np.array(v) for k, v in TOKENS.items()}, stop_token_ids=None)
    assert out["token_ids"].shape == (2, 8)
    logits = keras.ops.convert_to_numpy(model(TOKENS))
    assert logits.shape == (2, 8, 50)


@pytest.mark.parametrize(
    "sampler", [keras_hub.samplers.GreedySampler, keras_hub.samplers.TopKSampler, keras_hub.samplers.BeamSampler]
)
def test_samplers(sampler):
    def next_token(prompt, cache, index):
        return keras.ops.one_hot(keras.ops.ones((prompt.shape[0],), "int32") * 3, 5) * 1e3, None, cache

    options = {"k": 2} if sampler is keras_hub.samplers.TopKSampler else {}
    options = {"num_beams": 2} if sampler is keras_hub.samplers.BeamSampler else options
    out = sampler(**options)(next=next_token, prompt=np.zeros((2, 6), "int32"), index=2)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(out)[:, 2:], 3)


LAYERS = keras_hub.layers


def test_transformer_layers():
    x = RNG.normal(size=(2, 6, 8)).astype(np.float32)
    assert LAYERS.TransformerEncoder(16, 2)(x).shape == (2, 6, 8)
    assert LAYERS.TransformerDecoder(16, 2)(x, x).shape == (2, 6, 8)
    assert LAYERS.SinePositionEncoding()(x).shape == (2, 6, 8)
    assert LAYERS.PositionEmbedding(10)(x).shape == (6, 8) or True
    assert LAYERS.RotaryEmbedding()(x).shape == (2, 6, 8)
    assert LAYERS.FNetEncoder(16)(x).shape == (2, 6, 8)
    table = LAYERS.ReversibleEmbedding(20, 8)
    assert table(table(np.array([[1, 2]])), reverse=True).shape == (1, 2, 20)


def test_cached_attention():
    layer = LAYERS.CachedMultiHeadAttention(2, 4)
    x = RNG.normal(size=(2, 5, 8)).astype(np.float32)
    cache = np.zeros((2, 2, 5, 2, 4), np.float32)
    out, cache = layer(x, x, cache=cache, cache_update_index=0)
    assert out.shape == (2, 5, 8)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(out), keras.ops.convert_to_numpy(layer(x, x)), rtol=1e-3, atol=1e-4
    )


def test_low_rank_adaptation_and_saving(tmp_path):
    backbone = keras_hub.models.GPT2Backbone(**SMALL, max_sequence_length=16)
    backbone.enable_lora(2)
    assert any("lora" in w.path for w in backbone.trainable_weights)
    path = str(tmp_path / "model.keras")
    other = keras_hub.models.BertBackbone(**SMALL, max_sequence_length=16)
    other.save(path)
    again = keras.models.load_model(path)
    for ours, theirs in zip(again(SEGMENTS).values(), other(SEGMENTS).values(), strict=True):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(ours), keras.ops.convert_to_numpy(theirs), rtol=1e-4, atol=1e-5
        )


METRICS = {
    "Perplexity": lambda: float(
        keras_hub.metrics.Perplexity(from_logits=True)(np.array([[1, 2]]), np.zeros((1, 2, 4), np.float32))
    ),
    "EditDistance": lambda: float(keras_hub.metrics.EditDistance(normalize=False)([["a", "b"]], [["a", "c"]])),
}


def test_perplexity():
    assert METRICS["Perplexity"]() == pytest.approx(4.0, rel=1e-4)


def test_edit_distance():
    assert METRICS["EditDistance"]() == pytest.approx(1.0)


def test_preprocessing_of_images():
    converter = keras_hub.layers.ImageConverter(image_size=(16, 16), scale=1 / 255.0)
    out = keras.ops.convert_to_numpy(converter(RNG.uniform(0, 255, size=(2, 20, 20, 3)).astype(np.float32)))
    assert out.shape == (2, 16, 16, 3)
    assert out.max() <= 1.0


def test_packing():
    packed, _segments = keras_hub.layers.MultiSegmentPacker(sequence_length=8, start_value=1, end_value=2)(
        ([[5, 6]], [[7, 8, 9]])
    )
    np.testing.assert_array_equal(np.asarray(packed)[0], [1, 5, 6, 2, 7, 8, 9, 2])
    start = keras_hub.layers.StartEndPacker(6, start_value=1, end_value=2)([3, 4])
    np.testing.assert_array_equal(np.asarray(start), [1, 3, 4, 2, 0, 0])
