"""The tutorial on multi-card inference, its class MSLitePredict: every snippet as it stands there."""

import mindspore_lite as mslite


class MSLitePredict:
    def __init__(self, mindir_file, device_id):
        # init and set context
        context = mslite.Context()
        context.target = ["ascend"]
        context.ascend.device_id = device_id

        # create Model and build Model
        model = mslite.Model()
        model.build_from_file(mindir_file, mslite.ModelType.MINDIR, context)
        self.model = model

    def run(self, input_data):
        model = self.model
        # set model input
        inputs = model.get_inputs()
        for i, _input in enumerate(inputs):
            _input.set_data_from_numpy(input_data[i])

        # execute inference
        outputs = model.predict(inputs)
        return [output.get_data_to_numpy() for output in outputs]
