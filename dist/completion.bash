# Completion of the subcommands and options of turnstile and turnstile-server for bash. Their own --help is the source.
# After --, the command line of another program follows, so bash completes the names of files.
_turnstile() {
  local word help cur=${COMP_WORDS[COMP_CWORD]} subcommand=()
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
      --) return ;;
      run | show | free) ((${#subcommand[@]})) || subcommand=("$word") ;;
    esac
  done
  help=$("$1" "${subcommand[@]}" --help 2> /dev/null)
  if [[ $cur == -* ]]; then
    # A subcommand also accepts the options of the program.
    ((!${#subcommand[@]})) || help+=$'\n'$("$1" --help 2> /dev/null)
    help=$(grep -oE '^ +(-h, *)?--[a-z-]+' <<< "$help" | grep -oE -- '--[a-z-]+')
  elif ((${#subcommand[@]})); then
    return
  else
    help=$(sed -n '/^Subcommands:/I,/^$/s/^  \([a-z]*\) .*/\1/p' <<< "$help")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$help" -- "$cur")
}
complete -o default -F _turnstile turnstile turnstile-server
