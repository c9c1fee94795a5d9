"""`GET /v1/models`: the list that OpenAI's two APIs share."""

from __future__ import annotations

from toolglot.dialect import Listing
from toolglot.wire import openai_models

LISTING = Listing(
    path=openai_models.PATH,
    encode_models=openai_models.encode_models,
    encode_model=openai_models.encode_model,
    decode_models=openai_models.decode_models,
)
