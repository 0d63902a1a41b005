_torchsmith() {
    local IFS=$'\n' word quote=${COMP_WORDS[COMP_CWORD]:0:1}
    COMPREPLY=()
    for word in $(_TORCHSMITH_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        [[ $quote == [\'\"] ]] || word=$(printf '%q' "$word")
        COMPREPLY+=("$word")
    done
}
complete -o default -F _torchsmith torchsmith
