// Stands for PyTorch's Sort.cu: its object holds GPU code and nothing else.
