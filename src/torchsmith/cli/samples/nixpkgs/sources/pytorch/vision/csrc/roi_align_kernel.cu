// Stands for torchvision's roi_align_kernel.cu: its object holds GPU code and nothing else.
