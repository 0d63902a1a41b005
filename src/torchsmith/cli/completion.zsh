#compdef torchsmith
_torchsmith() {
    local -a found names
    found=("${(@f)$(_TORCHSMITH_COMPLETE=zsh torchsmith "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        names=("${(@)found%%$'\t'*}")
        compadd -d found -a names
    else
        _files
    fi
}
compdef _torchsmith torchsmith
