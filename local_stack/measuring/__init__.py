"""What a payload costs each part of a stack that runs here, seen from outside of its processes."""
