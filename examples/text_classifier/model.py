"""Models of the text classifier: fits a weight for each word to a few sentences, and writes them.

python model.py      writes classify.onnx and softmax.onnx into the current folder
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save_model
from tokenizer import BUCKETS, WORDS, tokenize

SENTENCES = {
    "what a wonderful day": 1,
    "I love this great film": 1,
    "an excellent and happy surprise": 1,
    "good food, friendly people": 1,
    "the best book of the year": 1,
    "what a terrible day": 0,
    "I hate this boring film": 0,
    "an awful and sad surprise": 0,
    "bad food, rude people": 0,
    "the worst book of the year": 0,
}


def fitted(rounds: int = 200) -> NDArray[np.float32]:
    """A weight for each word and class, by logistic regression: [BUCKETS, 2]."""
    ids = tokenize(np.array([one.encode() for one in SENTENCES], object))
    wanted = np.eye(2, dtype=np.float32)[list(SENTENCES.values())]
    weights = np.zeros((BUCKETS, 2), np.float32)
    for _ in range(rounds):
        powers = np.exp(weights[ids].sum(1))
        errors = wanted - powers / powers.sum(1, keepdims=True)
        np.add.at(weights, ids, 0.1 * errors[:, None])
        weights[0] = 0
    return weights


def save(name: str, nodes: list[object], given: object, result: object, *constants: object) -> None:
    """Write a model of one input and one output."""
    graph = helper.make_graph(nodes, name, [given], [result], list(constants))
    opset = helper.make_opsetid("", 17)
    save_model(helper.make_model(graph, opset_imports=[opset], ir_version=8), f"{name}.onnx")


def main() -> None:
    """Write both models."""
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", WORDS])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["texts", 2])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["texts", 2])
    save(
        "classify",
        [
            helper.make_node("Gather", ["weights", "ids"], ["found"]),
            helper.make_node("ReduceSum", ["found", "words"], ["scores"], keepdims=0),
        ],
        ids,
        scores,
        numpy_helper.from_array(fitted(), "weights"),
        numpy_helper.from_array(np.array([1]), "words"),
    )
    softmax = helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1)
    save("softmax", [softmax], scores, probabilities)


if __name__ == "__main__":
    main()
