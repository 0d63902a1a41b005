#? if gpuCmake

cmakeFlags = (oldAttrs.cmakeFlags or [ ]) ++ [ "-D@gpuCmake@=@gpuTarget@" ];
#? end
