#? if gpuFlags

# nixpkgs' own list goes: the last one would win, and a reader should see one.
cmakeFlags = builtins.filter (flag: builtins.match "-D(@gpuFlagNames@)[:=].*" flag == null) (oldAttrs.cmakeFlags or [ ]) ++ [
  #? each gpuFlags
  "-D@gpuName@=@gpuTarget@@gpuTail@"
  #? end
];
#? end
