// Stands for PyTorch's GroupMM.cu: its object holds GPU code and nothing else.
