"""Data parallelism by processes: a batch of two on two devices, one half each, at the same time.

The joined halves are the result of the whole batch. Started by run.sh, which makes model.onnx, and
converts it to model/SD2.1_size512_bs1.mindir: a model for half of the batch.
"""

import time

import numpy as np
import onnxruntime
from parallel_predict_utils import ParallelPredictUtils

MODEL = "./model/SD2.1_size512_bs1.mindir"
DEVICES = 2

random = np.random.default_rng(0)
sample = random.standard_normal((DEVICES, 4, 64, 64), np.float32)
timestep = np.array(50, np.float32)
encoder_hidden_states = random.standard_normal((DEVICES, 77, 1024), np.float32)


def on_all_devices() -> np.ndarray:
    """The batch, cut along its first axis. The parts lack that axis, but have all bytes."""
    engine = ParallelPredictUtils(MODEL, DEVICES)
    try:
        engine.build_model()
        began = time.time()
        results = engine.run_predict(
            [[sample[i], timestep, encoder_hidden_states[i]] for i in range(DEVICES)]
        )
        print("Total predict time = ", time.time() - began, flush=True)
    finally:
        engine.finalize()
    return np.concatenate([outputs[0] for outputs in results])


def on_one_device() -> np.ndarray:
    """The same batch in one piece, by onnxruntime and the model that was converted."""
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    arrays = [sample, timestep.reshape(1), encoder_hidden_states]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


if __name__ == "__main__":
    predict_result = on_all_devices()
    np.testing.assert_allclose(predict_result, on_one_device(), rtol=1e-4, atol=1e-5)
    print("=========== success ===========")
