// Stands for torchvision's nms_kernel.cu: its object holds GPU code and nothing else.
