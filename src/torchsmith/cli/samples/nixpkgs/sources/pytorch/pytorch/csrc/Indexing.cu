// Stands for PyTorch's Indexing.cu: its object holds GPU code and nothing else.
