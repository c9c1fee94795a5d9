"""Optional features of an answer. Those that change a flow are generators around it, absent when they are off."""
