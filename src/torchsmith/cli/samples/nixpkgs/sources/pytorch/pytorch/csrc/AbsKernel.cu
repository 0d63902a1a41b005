// Stands for PyTorch's AbsKernel.cu: its object holds GPU code and nothing else.
