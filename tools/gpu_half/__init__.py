"""The GPU half of a torch, compiled by a recipe's flags and put into the stock wheel of the same release.

A whole GPU torch takes some 14 core hours. Its GPU libraries, libtorch_cuda.so and libc10_cuda.so, take
half of that, and with the rest of PyTorch's own wheel around them they are a torch that `torchsmith verify`,
`test` and `compare` can run. What is compiled stays in one folder, WORK:

- `source`: PyTorch at the wheel's commit (`torch/version.py` names it) with its submodules; you put it there
- `cuda`: a CUDA toolkit laid out from the NVIDIA wheels that torch depends on
- `build`: CMake's build folder; `plan.json`: each unit's command, without this folder's place
- `seconds.tsv`: how long each unit took

SITE is the site-packages folder of an environment that has the stock torch, and for `prepare` and `same`
PyYAML and the wheels of the same CUDA release with its compiler: nvidia-cuda-nvcc, nvidia-cuda-crt,
nvidia-nvvm, nvidia-cuda-cccl, nvidia-cuda-cuobjdump, nvidia-nvml-dev. CMake and ninja are taken from PATH.
MAGMA (in libtorch_cuda_linalg.so), NCCL and NVSHMEM stay the wheel's own.
"""
