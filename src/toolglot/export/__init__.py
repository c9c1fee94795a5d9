"""Conversations as files: Markdown and HTML for people, JSON lines in any dialect for programs, and back from those.

`sources.py` finds the conversation in what somebody has (a request, messages, JSON lines, recorded exchanges); the
others write one, message by message, so that its length does not matter. Nothing here opens a file.
"""
