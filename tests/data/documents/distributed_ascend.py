"""The tutorial on distributed inference, its Ascend flow: every snippet as it stands there."""

import argparse

import mindspore_lite as mslite
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--model_path", type=str)
parser.add_argument("--device_id", type=int)
parser.add_argument("--rank_id", type=int)
parser.add_argument("--config_file", type=str)
args = parser.parse_args()
model_path = args.model_path

# init context
context = mslite.Context()

# set Ascend target and distributed info
context.target = ["Ascend"]
context.ascend.device_id = args.device_id
context.ascend.rank_id = args.rank_id
context.ascend.provider = "ge"

# create Model and build Model
model = mslite.Model()
model.build_from_file(model_path, mslite.ModelType.MINDIR, context, args.config_file)

# set model input as ones
inputs = model.get_inputs()
for input_i in inputs:
    input_i.set_data_from_numpy(np.ones(input_i.shape, dtype=np.float32))

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
