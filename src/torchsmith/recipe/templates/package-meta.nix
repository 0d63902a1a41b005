  #? if cuda
  - GPU: @SM@, that is @gpuParts@; @otherGpus@
  - Machines: @machines@
  - CUDA: @cuda@, which needs an NVIDIA driver of version @driver@ or newer
  #? else
  #? if accelerator
  - GPU: @arch@, that is @gpuParts@; @otherGpus@
  - @toolkit@, which needs @driver@
  #? else
  - GPU: none; nothing of CUDA is built or linked
  #? end
  #? end
  #? if anyCpu
  - CPU: @cpuNeeds@
  #? else
  - CPU: @cpuNeeds@; a lesser CPU stops with an illegal instruction
  #? end
  - Python: @python@
'';
#? if ownSource
changelog = "https://github.com/@sourceOwner@/@sourceRepo@/releases/tag/@sourceTag@";
#? end
platforms = [ "@system@" ];
