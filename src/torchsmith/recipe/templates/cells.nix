#? if shared
# What the cells of this file differ in.
#? if cuda
gpu = @gpuTable@.${sm};
#? end
cpu = @isaTable@.${isa};
#? if cuda
cell = "@python.slug@-cuda@cuda.slug@-sm${sm}-${isa}";
#? else
#? if impliesIsa
cell = "@python.slug@-@target@";
#? else
cell = "@python.slug@-@target@-${isa}";
#? end
#? end

#? end
