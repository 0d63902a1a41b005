#? if gpuNumbered

# The same architecture without its dot.
gpuNumber = "@smNumber@";
#? end
