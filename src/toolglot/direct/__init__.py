"""The direct way: requests and answers that are plain through and through, translated without the IR.

Most of what crosses a gateway is text, calls and results, and nothing else. For these a dialect has, in its
`direct.py`, typed readers and writers over the few neutral records of `plain.py`; so dialects do not know each other
here either. Whatever is not plain is declined, and goes the general way. What the direct way makes is what the general
way makes, byte for byte: `tests/laws/test_direct.py` holds it to that.
"""
