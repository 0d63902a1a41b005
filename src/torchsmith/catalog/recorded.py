"""Options by which a build records the compiler flags that reached each unit.

With `RECORD`, GCC writes the options that affect code into the section `.GCC.command.line` of every object.
`-fmessage-length` is recorded too and changes no code, so its number can serve as a mark.
"""

RECORD = "-frecord-gcc-switches"
CXX_MARK = "-fmessage-length=10001"  # beside the CPU flags in CFLAGS and CXXFLAGS
HOST_MARK = "-fmessage-length=10002"  # passed by nvcc to its host compiler
