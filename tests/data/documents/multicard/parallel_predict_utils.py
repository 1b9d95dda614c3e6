"""The tutorial on multi-card inference, its processes and pipes: every snippet as it stands there, in their order."""

import logging
from multiprocessing import Pipe, Process

from mslite_engine import MSLitePredict

# define message id
ERROR = 0
PREDICT = 1
REPLY = 2
BUILD_FINISH = 3
EXIT = 4


def predict_process_func(pipe_child_end, model_path, device_id):
    # subprocess init and build model using MSLitePredict
    try:
        predict_worker = MSLitePredict(model_path, device_id)
        pipe_child_end.send((BUILD_FINISH, ""))
    except Exception as e:
        logging.exception(e)
        pipe_child_end.send((ERROR, str(e)))
        raise

    try:
        while True:
            # model predict in subprocess
            msg_type, msg = pipe_child_end.recv()
            if msg_type == EXIT:
                print(f"Receive exit message {msg} and start to exit", flush=True)
                break
            if msg_type != PREDICT:
                raise RuntimeError(f"Expect to receive EXIT or PREDICT message for child process!")
            inputs = msg
            result = predict_worker.run(inputs)
            pipe_child_end.send((REPLY, result))
    except Exception as e:
        logging.exception(e)
        pipe_child_end.send((ERROR, str(e)))
        raise


class ParallelPredictUtils:
    # main process init
    def __init__(self, model_path, device_num):
        self.model_path = model_path
        self.device_num = device_num
        self.pipe_parent_end = []
        self.pipe_child_end = []
        self.process = []
        for _ in range(device_num):
            pipe_end_0, pipe_end_1 = Pipe()
            self.pipe_parent_end.append(pipe_end_0)
            self.pipe_child_end.append(pipe_end_1)

    def build_model(self):
        for device_id in range(self.device_num):
            # create subprocess
            process = Process(target=predict_process_func,
                              args=(self.pipe_child_end[device_id], self.model_path, device_id,))
            process.start()
            self.process.append(process)
            msg_type, msg = self.pipe_parent_end[device_id].recv()
            if msg_type == ERROR:
                raise RuntimeError(f"Failed to build model {device_id}, exception occur: {msg}")
            assert msg_type == BUILD_FINISH
            print(f"Success to build model {device_id}", flush=True)

    def run_predict(self, inputs):
        # send PREDICT command to subprocess and receive result
        result = []
        for i in range(self.device_num):
            self.pipe_parent_end[i].send((PREDICT, inputs[i]))

        for i in range(self.device_num):
            msg_type, msg = self.pipe_parent_end[i].recv()
            if msg_type == ERROR:
                raise RuntimeError(f"Failed to call predict, exception occur: {msg}")
            assert msg_type == REPLY
            result.append(msg)
        return result

    def finalize(self):
        # finalize subprocess
        for i in range(self.device_num):
            self.pipe_parent_end[i].send((EXIT, ""))
        for i in range(self.device_num):
            self.process[i].join()
