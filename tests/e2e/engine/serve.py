"""Serve a model with llama.cpp until standard input ends. The first line of standard output is the address.

python serve.py MODEL [--no-jinja]
"""

from __future__ import annotations

import sys

import xllamacpp

NAME = "bigrams"
SEED = 10
"""With this one the tools of the tests get two calls at temperature 1."""


def main(model: str, *options: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {NAME}
    parameters.n_ctx = 1 << 16
    parameters.n_parallel = 2
    parameters.n_predict = 1000  # should a model ever not find its end
    parameters.warmup = False
    parameters.use_jinja = "--no-jinja" not in options
    # So small a model is slower on two threads than on one.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    # What a client may ask for otherwise. The seed makes a temperature above zero repeatable as well.
    parameters.sampling.temp = 0.0
    parameters.sampling.seed = SEED
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
