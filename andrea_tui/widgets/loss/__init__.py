"""The parts of the loss chart: which series, over which axis, in which window, with what read out at the cursor."""
