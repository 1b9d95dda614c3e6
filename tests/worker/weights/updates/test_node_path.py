"""Names of weights and the nodes that they mean."""

from __future__ import annotations

import pytest

from rankmesh.worker.weights.updates.names import node_path, scope_path

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("matmul1.weight", "/matmul1"),
        ("encoder.layers.0.fc1.weight", "/encoder/layers.0/fc1"),
        (
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_q_lora.down.weight",
            "/down_blocks.0/attentions.0/transformer_blocks.0/attn1/to_q",
        ),
        (
            "unet.up_blocks.1.attentions.2.transformer_blocks.0.attn2.processor.to_out_lora.up.weight",
            "/up_blocks.1/attentions.2/transformer_blocks.0/attn2/to_out.0",
        ),
        (
            "down_blocks.0.attentions.0.proj_in.lora.down.weight",
            "/down_blocks.0/attentions.0/proj_in",
        ),
        ("mid_block.attentions.0.proj_in.lora.up.weight", "/mid_block/attentions.0/proj_in"),
        (
            "unet.mid_block.attentions.0.attn1.to_k.lora_linear_layer.up.weight",
            "/mid_block/attentions.0/attn1/to_k",
        ),
        (
            "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_q.lora_down.weight",
            "/down_blocks.0/attentions.1/transformer_blocks.0/attn1/to_q",
        ),
        (
            "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_out_0.alpha",
            "/down_blocks.0/attentions.1/transformer_blocks.0/attn1/to_out.0",
        ),
        (
            "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_ff_net_0_proj.lora_up.weight",
            "/down_blocks.0/attentions.1/transformer_blocks.0/ff/net.0/proj",
        ),
        (
            "lora_te_text_model_encoder_layers_3_self_attn_q_proj.lora_up.weight",
            "/text_model/encoder/layers.3/self_attn/q_proj",
        ),
        (
            "lora_te1_text_model_encoder_layers_11_mlp_fc1.alpha",
            "/text_model/encoder/layers.11/mlp/fc1",
        ),
        (
            "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_k.lora_down.weight",
            "/down_blocks.1/attentions.0/transformer_blocks.0/attn1/to_k",
        ),
        ("lora_unet_middle_block_1_proj_in.lora_down.weight", "/mid_block/attentions.0/proj_in"),
        (
            "lora_unet_output_blocks_5_1_transformer_blocks_1_attn2_to_v.lora_up.weight",
            "/up_blocks.1/attentions.2/transformer_blocks.1/attn2/to_v",
        ),
    ],
)
def test_a_weights_node(name: str, path: str) -> None:
    assert node_path(name) == path


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("Default/fc1-Dense/MatMul-op0", "/fc1"),
        (
            "Default/encoder-Encoder/layers-CellList/0-Layer/fc1-Dense/MatMul-op3",
            "/encoder/layers.0/fc1",
        ),
        ("Default/MatMul-op0", "/"),
        ("/down_blocks.0/attentions.0/to_q/MatMul", "/down_blocks.0/attentions.0/to_q"),
    ],
)
def test_a_nodes_own_path(scope: str, path: str) -> None:
    assert scope_path(scope) == path
