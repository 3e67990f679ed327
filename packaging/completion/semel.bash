# bash completion for semel; made by `semel completion bash`
_semel() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path=semel word words='' files=''
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$path $word" in
            "semel gateway"|"semel relay"|"semel outbox"|"semel outbox stuck"|"semel outbox stuck list"|"semel outbox stuck retry"|"semel outbox stuck drop"|"semel outbox stuck dropped"|"semel demo"|"semel ops"|"semel ops list"|"semel ops show"|"semel ops resolve"|"semel ops sweep"|"semel dead"|"semel dead list"|"semel dead show"|"semel dead retry"|"semel dead drop"|"semel consumer"|"semel consumer list"|"semel consumer replay"|"semel consumer forget"|"semel migrate"|"semel key"|"semel key new"|"semel key check"|"semel key derive"|"semel fingerprint"|"semel call"|"semel verify"|"semel completion") path="$path $word" ;;
        esac
    done
    case "$path $previous" in
        "semel gateway --config") files=yes ;;
        "semel relay --config") files=yes ;;
        "semel outbox --config") files=yes ;;
        "semel outbox stuck list --store") words='' ;;
        "semel outbox stuck list --outbox") words='' ;;
        "semel outbox stuck retry --store") words='' ;;
        "semel outbox stuck retry --outbox") words='' ;;
        "semel outbox stuck drop --store") words='' ;;
        "semel outbox stuck drop --outbox") words='' ;;
        "semel outbox stuck drop --who") words='' ;;
        "semel outbox stuck drop --why") words='' ;;
        "semel outbox stuck dropped --store") words='' ;;
        "semel outbox stuck dropped --outbox") words='' ;;
        "semel demo --payments") words='' ;;
        "semel demo --seed") words='' ;;
        "semel demo --listen") words='' ;;
        "semel ops list --store") words='' ;;
        "semel ops list --scope") words='' ;;
        "semel ops list --tenant") words='' ;;
        "semel ops list --state") words='running unknown settled' ;;
        "semel ops list --older-than") words='' ;;
        "semel ops list --newer-than") words='' ;;
        "semel ops list --correlation") words='' ;;
        "semel ops list --limit") words='' ;;
        "semel ops list --cursor") words='' ;;
        "semel ops show --store") words='' ;;
        "semel ops resolve --store") words='' ;;
        "semel ops resolve --happened") words='' ;;
        "semel ops resolve --body") files=yes ;;
        "semel ops resolve --who") words='' ;;
        "semel ops resolve --why") words='' ;;
        "semel ops resolve --token") words='' ;;
        "semel ops sweep --store") words='' ;;
        "semel ops sweep --limit") words='' ;;
        "semel ops sweep --batches") words='' ;;
        "semel dead list --store") words='' ;;
        "semel dead list --consumer") words='' ;;
        "semel dead list --reason") words='unreadable no-key rejected tries-exhausted key-reused outcome-unknown key-expired refused' ;;
        "semel dead list --limit") words='' ;;
        "semel dead list --before") words='' ;;
        "semel dead show --store") words='' ;;
        "semel dead retry --consumer") words='' ;;
        "semel dead retry --reason") words='unreadable no-key rejected tries-exhausted key-reused outcome-unknown key-expired refused' ;;
        "semel dead retry --store") words='' ;;
        "semel dead drop --consumer") words='' ;;
        "semel dead drop --reason") words='unreadable no-key rejected tries-exhausted key-reused outcome-unknown key-expired refused' ;;
        "semel dead drop --store") words='' ;;
        "semel consumer list --store") words='' ;;
        "semel consumer replay --store") words='' ;;
        "semel consumer forget --store") words='' ;;
        "semel migrate --store") words='' ;;
        "semel key new -n") words='' ;;
        "semel key check --header") words='' ;;
        "semel key check --format") words='any uuid uuidv7' ;;
        "semel key derive --scope") words='' ;;
        "semel key derive --key") words='' ;;
        "semel key derive --step") words='' ;;
        "semel key derive --attempt") words='' ;;
        "semel fingerprint --content-type") words='' ;;
        "semel fingerprint --method") words='' ;;
        "semel fingerprint --path") words='' ;;
        "semel fingerprint --query") words='' ;;
        "semel fingerprint --if-match") words='' ;;
        "semel fingerprint --include") words='' ;;
        "semel fingerprint --exclude") words='' ;;
        "semel call -X") words='' ;;
        "semel call --method") words='' ;;
        "semel call -d") words='' ;;
        "semel call --data") words='' ;;
        "semel call -H") words='' ;;
        "semel call --header") words='' ;;
        "semel call --cacert") files=yes ;;
        "semel call --cert") files=yes ;;
        "semel call --cert-key") files=yes ;;
        "semel call --intent") words='' ;;
        "semel call --key") words='' ;;
        "semel call --state") words='' ;;
        "semel call --forget") words='' ;;
        "semel call --key-header") words='' ;;
        "semel call --budget") words='' ;;
        "semel call --tries") words='' ;;
        "semel call --timeout") words='' ;;
        "semel verify -X") words='' ;;
        "semel verify --method") words='' ;;
        "semel verify -d") words='' ;;
        "semel verify --data") words='' ;;
        "semel verify -H") words='' ;;
        "semel verify --header") words='' ;;
        "semel verify --key-header") words='' ;;
        "semel verify --key-format") words='any uuid uuidv7' ;;
        "semel verify --other-data") words='' ;;
        "semel verify --other-tenant") words='' ;;
        "semel verify --error-header") words='' ;;
        "semel verify --error-data") words='' ;;
        "semel verify --secret-header") words='' ;;
        "semel verify --cacert") files=yes ;;
        "semel verify --count-command") words='' ;;
        "semel verify --count-sql") words='' ;;
        "semel verify --count-url") words='' ;;
        "semel verify --count-pointer") words='' ;;
        "semel verify --count-header") words='' ;;
        "semel verify --count-within") words='' ;;
        "semel verify --count-settle") words='' ;;
        "semel verify --scenario") words='' ;;
        "semel verify --skip") words='' ;;
        "semel verify --parallel") words='' ;;
        "semel verify --timeout") words='' ;;
        "semel verify --retry-within") words='' ;;
        "semel verify --junit") files=yes ;;
        "semel verify --every") words='' ;;
        "semel verify --rounds") words='' ;;
        "semel verify --metrics-file") files=yes ;;
        *)
            case $path in
                "semel") words='gateway relay outbox demo ops dead consumer migrate key fingerprint call verify completion -h --help --version' ;;
                "semel gateway") words='-h --help --config --check' ;;
                "semel relay") words='-h --help --config --check' ;;
                "semel outbox") words='stuck -h --help --config --check' ;;
                "semel outbox stuck") words='list retry drop dropped -h --help' ;;
                "semel outbox stuck list") words='-h --help --store --outbox --json' ;;
                "semel outbox stuck retry") words='-h --help --store --outbox --json' ;;
                "semel outbox stuck drop") words='-h --help --store --outbox --json --who --why' ;;
                "semel outbox stuck dropped") words='-h --help --store --outbox --json' ;;
                "semel demo") words='-h --help --once --payments --seed --listen --keep' ;;
                "semel ops") words='list show resolve sweep -h --help' ;;
                "semel ops list") words='-h --help --store --scope --tenant --state --older-than --newer-than --correlation --limit --cursor --json' ;;
                "semel ops show") words='-h --help --store --body --json' ;;
                "semel ops resolve") words='-h --help --store --happened --body --did-not-happen --who --why --token --json' ;;
                "semel ops sweep") words='-h --help --store --limit --batches --accept-clock --json' ;;
                "semel dead") words='list show retry drop -h --help' ;;
                "semel dead list") words='-h --help --store --consumer --reason --limit --before --json' ;;
                "semel dead show") words='-h --help --store --body --json' ;;
                "semel dead retry") words='-h --help --all --consumer --reason --store --json' ;;
                "semel dead drop") words='-h --help --all --consumer --reason --yes --store --json' ;;
                "semel consumer") words='list replay forget -h --help' ;;
                "semel consumer list") words='-h --help --store --json' ;;
                "semel consumer replay") words='-h --help --store --json' ;;
                "semel consumer forget") words='-h --help --store --json' ;;
                "semel migrate") words='-h --help --store --json' ;;
                "semel key") words='new check derive -h --help' ;;
                "semel key new") words='-h --help --uuid4 --uuid7 -n' ;;
                "semel key check") words='-h --help --header --format --json' ;;
                "semel key derive") words='-h --help --scope --key --step --attempt' ;;
                "semel fingerprint") words='-h --help --content-type --method --path --query --if-match --raw --include --exclude --json' files=yes ;;
                "semel call") words='-h --help -X --method -d --data -H --header --cacert --cert --cert-key --intent --key --state --no-store-body --forget --key-header --bare-key --budget --tries --timeout --json' ;;
                "semel verify") words='-h --help -X --method -d --data -H --header --key-header --key-format --quoted-key --key-optional --other-data --other-tenant --error-header --error-data --secret-header --literal --cacert --count-command --count-sql --count-url --count-pointer --count-header --count-within --count-settle --scenario --skip --list --parallel --timeout --retry-within --json --junit --all-exchanges --every --rounds --metrics-file' ;;
                "semel completion") words='bash zsh fish -h --help' ;;
            esac
            ;;
    esac
    COMPREPLY=()
    local each
    while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -W "$words" -- "$current")
    if [[ -n $files ]]; then
        while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _semel semel
