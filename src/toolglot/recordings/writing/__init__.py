"""Write recordings to disk: `recorder.py` is the thread that writes them, `folder.py` manages the files."""
