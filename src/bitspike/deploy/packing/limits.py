"""Upper bounds of what a packed network may declare. They are checked before memory is taken, when writing and reading.

They are far above every network of this project, and keep the state of a network from a file below some hundred MB.
"""

MOST_FILE_BYTES = 1 << 28
MOST_HEADER_BYTES = 1 << 18
MOST_HEADER_ITEMS = 1 << 15  # brackets, braces and commas in the header: JSON values cost more memory than their text

MOST_LAYERS = 64
MOST_POOLS = 4  # of one layer: BS_POOLS of runtime.h
MOST_SIDE = 4096  # of a kernel, or its stride
MOST_POOL_SIDE = 64
MOST_VALUES = 1 << 22  # of one step's input, and of one layer's product before its pools
MOST_INPUTS = 1 << 22  # of one neuron: a sum of as many event counts of 255 fits 31 bits
MOST_NEURONS = 1 << 22  # of all layers together
MOST_DIVISOR = 1 << 24  # values that the average pools of a layer take the mean of
MOST_ADDITIONS = 1 << 34  # of one step of one sample, in all layers, as often as overlapping pools ask for them

MOST_STEPS = 1 << 16
MOST_CLASSES = 1 << 16
MOST_ANSWERS = 1 << 26  # steps times classes
MOST_DELAY = (1 << 16) - 1  # steps
MOST_DELAYED = 1 << 24  # values that all delays hold: a layer's inputs times its longest delay
MOST_GAINED = 1 << 24  # one neuron's sum of a spike from every input, times gains; before the pools divide it
MOST_FRAMES = 1 << 28  # values of one sample's frames: the input's bins times one step's input

MOST_NOTATION = 4096  # characters
MOST_NAME = 256  # characters of a class's name, or of a key of the metadata
MOST_NOTE = 4096  # characters of a value of the metadata
MOST_NOTES = 64  # entries of the metadata
MOST_VECTOR_STEPS = 1024
MOST_VECTOR_VALUES = 1 << 22  # of the input that is drawn, in all steps
