"""Bytes to frames and back, with no meaning: JSON documents, server-sent events, fields of an object."""
