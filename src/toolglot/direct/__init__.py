"""The direct way: requests and answers that are plain through and through, translated without the IR.

Most of what crosses a gateway is text, calls and results, and nothing else. For these a dialect has, in its
`direct.py`, typed readers and writers over the few neutral records of `plain.py`; so dialects do not know each other
here either. All the rest of a request, and whatever a receipt says, is learnt from the general way by an example of the
same settings and the same shape (`survey.py`). Where the bytes around the messages are known, these alone are read
(`reading.py`). Whatever is not plain is declined, and goes the general way.

What the direct way makes is what the general way makes, byte for byte: `tests/laws/test_direct.py` holds it to that.
"""
