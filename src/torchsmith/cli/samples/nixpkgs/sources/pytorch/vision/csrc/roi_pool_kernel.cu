// Stands for torchvision's roi_pool_kernel.cu: its object holds GPU code and nothing else.
