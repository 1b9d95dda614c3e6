#!/usr/bin/env bash
# The one-command installation: `MINDSPORE_LITE_VERSION=1.9.0 bash ./lite-server-cpu-pip.sh`
# Afterwards, in this folder: `python quick_start_server_inference_python.py`
exec bash "$(dirname -- "$0")/../pip_install.sh" "$0" 1.8.0
