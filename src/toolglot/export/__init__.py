"""Conversations as files: Markdown and HTML for people, JSON lines in any dialect for programs, and reading them back.

`readers.py` finds the conversation in a file (a request, messages, JSON lines, recorded exchanges). The other modules
write one, message by message, so that its length does not matter. Nothing here opens a file.
"""
