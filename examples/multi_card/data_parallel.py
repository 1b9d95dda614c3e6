"""Data parallelism in one line: the same as main.py, by rankmesh.DataParallel.

DataParallel starts a process per device, splits each batch and joins the results. Started by
run.sh, which converts model/SD2.1_size512_bs1.mindir: a model for half of the batch.
"""

import numpy as np
from main import MODEL, encoder_hidden_states, on_one_device, sample, timestep

from rankmesh import DataParallel

if __name__ == "__main__":
    with DataParallel(MODEL, devices=[0, 1]) as model:
        predict_result = model.predict(sample, timestep, encoder_hidden_states)["out_sample"]
    np.testing.assert_allclose(predict_result, on_one_device(), rtol=1e-4, atol=1e-5)
    print(f"DataParallel: {len(predict_result)} rows, as on one device")
