# bash completion for firnctl. The words follow ctl/command_table.c; tests/unit/ctl/command/test_surfaces.c
# compares them. Names of jobs and nodes are asked of the cluster, which has one second to answer.

_firnctl_second_words()
{
    case $1 in
    local) second_words='up down env kill start status' ;;
    job) second_words='submit list show scale pause resume cancel remove logs events' ;;
    node) second_words='list drain resume' ;;
    checkpoint) second_words='list show verify pin unpin remove export fetch' ;;
    *) second_words='' ;;
    esac
}

_firnctl_flags()
{
    case $1 in
    'local up') flags='--dir --nodes --slots --threads --memory --own-disks --config' ;;
    'local down') flags='--dir' ;;
    'local env') flags='--dir' ;;
    'local kill') flags='--dir --daemon-only --worker' ;;
    'local start') flags='--dir' ;;
    'local status') flags='--dir --json' ;;
    'job submit') flags='--name --wait --devices --stages --replicas --set --from --json' ;;
    'job list') flags='--json' ;;
    'job show') flags='--json' ;;
    'job scale') flags='--devices --stages --replicas' ;;
    'job pause') flags='' ;;
    'job resume') flags='' ;;
    'job cancel') flags='' ;;
    'job remove') flags='--purge' ;;
    'job logs') flags='--node --slot --bytes --follow' ;;
    'job events') flags='--follow --json' ;;
    'node list') flags='--json' ;;
    'node drain') flags='--deadline' ;;
    'node resume') flags='' ;;
    'watch') flags='' ;;
    'top') flags='--once --json' ;;
    'metrics') flags='--follow --exact --from --json' ;;
    'report') flags='--svg --json' ;;
    'trace') flags='--output --steps' ;;
    'checkpoint list') flags='--json' ;;
    'checkpoint show') flags='--step --json' ;;
    'checkpoint verify') flags='--step --json' ;;
    'checkpoint pin') flags='--step' ;;
    'checkpoint unpin') flags='--step' ;;
    'checkpoint remove') flags='--step --force --damaged --all' ;;
    'checkpoint export') flags='--step --dtype' ;;
    'checkpoint fetch') flags='--step --bucket --object-store' ;;
    'plan') flags='--slots --gpu --nodes --devices --stages --replicas --set --frozen --json' ;;
    'sample') flags='--prompt --tokens --temperature --top-k --seed --step' ;;
    'version') flags='' ;;
    'help') flags='' ;;
    *) flags='' ;;
    esac
}

# The first column of a table that firnctl prints, without its heading.
_firnctl_names()
{
    "${COMP_WORDS[0]}" "$@" --timeout 1 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# The words of the command so far, without flags and their values.
_firnctl_plain_words()
{
    local i word
    plain=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        --daemon-only|--damaged|--exact|--follow|--force|--json|--once|--wait|--help) ;;
        --*) ((i++)) ;;
        *) plain+=("$word") ;;
        esac
    done
}

_firnctl_operand()
{
    case $1 in
    'job submit'|plan) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    'local kill'|'local start'|'node '*)
        mapfile -t COMPREPLY < <(compgen -W "$(_firnctl_names node list)" -- "$current") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "$first_words" -- "$current") ;;
    'checkpoint list') mapfile -t COMPREPLY < <(compgen -W "$(_firnctl_names job list)" -- "$current") ;;
    'checkpoint '*|sample)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -W "$(_firnctl_names job list)" -- "$current") ;;
    'job '*|watch|metrics|report|trace)
        mapfile -t COMPREPLY < <(compgen -W "$(_firnctl_names job list)" -- "$current") ;;
    esac
}

_firnctl()
{
    local first_words='local job node watch top metrics report trace checkpoint plan sample version help'
    local global_flags='--endpoints --cluster --timeout --token-file --authorities --help'
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local second_words flags command plain

    case $previous in
    --dir) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --svg|--output|--token-file|--authorities) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --dtype) mapfile -t COMPREPLY < <(compgen -W 'f32 bf16' -- "$current"); return ;;
    --node) mapfile -t COMPREPLY < <(compgen -W "$(_firnctl_names node list)" -- "$current"); return ;;
    esac
    _firnctl_plain_words
    command=${plain[0]}
    _firnctl_second_words "$command"
    [[ -n $second_words && -n ${plain[1]} ]] && command+=" ${plain[1]}"
    _firnctl_flags "$command"
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags $global_flags" -- "$current")
    elif [[ ${#plain[@]} -eq 0 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$first_words" -- "$current")
    elif [[ ${#plain[@]} -eq 1 && -n $second_words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$second_words" -- "$current")
    else
        _firnctl_operand "$command"
    fi
}

complete -F _firnctl firnctl
