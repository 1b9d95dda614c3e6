#!/usr/bin/env bash
# Makes the models of a text classifier, serves them behind a tokenizer in Python, and asks by curl.
set -euo pipefail
models=none
source "$(dirname -- "$0")/../common.sh"

"$python" "$here/model.py"
cp "$here"/{serve.yaml,tokenizer.py,labels.txt} .

"$python" -m rankmesh serve serve.yaml --port 0 2>server.log &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" || true; rm -rf -- "$work"' EXIT
until url=$(grep -o -m 1 'http://[^ ]*' server.log); do
  kill -0 "$server" || { cat server.log; exit 1; }
  sleep 0.1
done
curl -sf -o ready.json --retry 100 --retry-delay 1 --retry-all-errors "$url/v2/health/ready"

curl -s "$url/v2/models/sentiment/infer" -d '{
  "inputs": [{"name": "text", "datatype": "BYTES", "shape": [2],
              "data": ["What an excellent film, a happy surprise!", "The food was bad and boring."]}],
  "outputs": [{"name": "probabilities", "parameters": {"classification": 1}}]
}'
echo
