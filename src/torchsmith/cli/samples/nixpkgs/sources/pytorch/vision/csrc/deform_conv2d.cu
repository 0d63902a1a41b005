// Stands for torchvision's deform_conv2d.cu: its object holds GPU code and nothing else.
