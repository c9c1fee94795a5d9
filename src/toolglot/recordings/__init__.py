"""Recorded exchanges: their form on disk, and what can be done with one without a network.

An exchange is one file of JSON lines, written as things happen: what the client asked, what each upstream was asked and
answered, what the client got, and the receipt. `format.py` is the form; `read.py` reads it, also where the end is
missing because the process died.
"""
