"""The tutorial on distributed inference, its GPU flow: every snippet as it stands there; inputs made from arrays."""

import argparse

import mindspore_lite as mslite
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--model_path", type=str)
args = parser.parse_args()

# init context
context = mslite.Context()

# set GPU target and distributed info
context.target = ["gpu"]
context.gpu.device_id = context.gpu.rank_id
context.gpu.provider = "tensorrt"

model_path = args.model_path.replace(".mindir", f"{context.gpu.rank_id}.mindir")

# create Model and build Model
model = mslite.Model()
model.build_from_file(model_path, mslite.ModelType.MINDIR, context)

np_inputs = [np.ones(input_i.shape, dtype=np.float32) for input_i in model.get_inputs()]

# np_inputs is a list or tuple of numpy array
inputs = [mslite.Tensor(np_input) for np_input in np_inputs]

# execute inference
outputs = model.predict(inputs)

# get output and print
for output in outputs:
    name = output.name.rstrip()
    data_size = output.data_size
    element_num = output.element_num
    print("tensor's name is:%s data size is:%s tensor elements num is:%s" %
          (name, data_size, element_num))
    data = output.get_data_to_numpy()
    data = data.flatten()
    print("output data is:", end=" ")
    for i in range(10):
        print(data[i], end=" ")
    print("")
