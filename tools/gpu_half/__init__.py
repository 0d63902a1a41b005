"""The GPU half of a torch, compiled by a recipe's flags and put into the stock wheel of the same release.

A whole GPU torch takes some 14 core hours. Its GPU libraries, libtorch_cuda.so and libc10_cuda.so, take
half of that, and with the rest of PyTorch's own wheel around them they are a torch that `torchsmith verify`,
`test` and `compare` can run. What is compiled stays in one folder, WORK:

- `source`: PyTorch at the wheel's commit (`torch/version.py` names it) with its submodules; you put it there
- `cuda`: a CUDA toolkit laid out from the NVIDIA wheels that torch depends on
- `build`: CMake's build folder; `plan.json`: each unit's command, without this folder's place
- `seconds.tsv`: how long each unit took

SITE is a site-packages folder that has the stock torch, and for `prepare` and `same` also nvidia-cuda-nvcc,
nvidia-cuda-cccl and nvidia-cuda-cuobjdump, the compiler of the wheel's CUDA release. MAGMA (in
libtorch_cuda_linalg.so), NCCL and NVSHMEM stay the wheel's own.
"""
