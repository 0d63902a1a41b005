# Added by the compiler wrapper to every call, so a unit that the flags did not reach records that too.
+ ''
  export NIX_CFLAGS_COMPILE="''${NIX_CFLAGS_COMPILE:-} @recordFlag@"
''
