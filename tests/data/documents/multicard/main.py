"""The tutorial on multi-card inference, its main program: two cards, one half of the batch for each."""

import time

import numpy as np
from parallel_predict_utils import ParallelPredictUtils

mindir_path = "./SD2.1_size512_bs1.mindir"

if __name__ == "__main__":
    sample = np.random.rand(2, 4, 64, 64).astype(np.float32)
    timestep = np.array(50).astype(np.float32)
    encoder_hidden_states = np.random.rand(2, 77, 1024).astype(np.float32)

    # data slice
    input_data_0 = [sample[0], timestep, encoder_hidden_states[0]]
    input_data_1 = [sample[1], timestep, encoder_hidden_states[1]]
    input_data_all = [input_data_0, input_data_1]

    parallel_predict = ParallelPredictUtils(mindir_path, 2)
    parallel_predict.build_model()
    start = time.time()
    predict_result = parallel_predict.run_predict(input_data_all)
    end = time.time()
    print("Total predict time = ", end - start, flush=True)
    parallel_predict.finalize()
    print("=========== success ===========", flush=True)
