#!/usr/bin/env bash
# The one-command installation: `MINDSPORE_LITE_VERSION=2.0.0 bash ./lite-cpu-pip.sh`
# Afterwards, in this folder: `python quick_start_cloud_infer_python.py`
exec bash "$(dirname -- "$0")/../pip_install.sh" "$0" 2.0.0
