function __torchsmith
    set -lx _TORCHSMITH_COMPLETE fish
    set -l found (torchsmith (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c torchsmith -f -a '(__torchsmith)'
