# shellcheck shell=bash
# What ./dev needs of the machine, and how it gets there. Sourced by dev.

packages_of() {
    case $1 in
        build)
            echo g++ cmake ninja-build pkg-config mold libboost1.81-dev libsimdjson-dev libcli11-dev libfmt-dev \
                libsqlite3-dev libpq-dev libssl-dev libyaml-cpp-dev prometheus-cpp-dev libmimalloc-dev \
                librdkafka-dev librabbitmq-dev libnats-dev libhiredis-dev libcurl4-openssl-dev
            ;;
        test)
            echo libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev sqlite3 \
                postgresql-15 postgresql-client-15 pgbouncer nginx-light openssl curl python3 python3-psycopg \
                python3-jsonschema python3-yaml redis-server nats-server rabbitmq-server
            node_packages
            java_packages
            ;;
        lint) echo git clang-format clang-tidy shellcheck python3 ;;
        fuzz) echo clang-14 libclang-rt-14-dev ;;
        bench)
            echo nginx-light redis-server python3-venv
            node_packages
            ;;
    esac
}

node_packages() {
    if ! { have node && have npm; }; then echo nodejs npm; fi
}

java_packages() {
    if ! { have java && have mvn; }; then echo openjdk-17-jdk-headless maven; fi
}

node_examples=(examples/in-your-transaction/node examples/ledger-api/typescript)

# setup_for GROUP…: everything those groups need is there when it returns. Takes a few milliseconds if nothing is missing.
setup_for() {
    local group wanted
    wanted=$(for group; do packages_of "$group"; done)
    # shellcheck disable=SC2086  # one word per package
    install_packages $wanted
    for group; do
        if [[ $group == test ]]; then
            local example
            for example in "${node_examples[@]}"; do install_node_modules "$example"; done
            fetch_kafka
        fi
    done
}

have() { command -v "$1" >/dev/null 2>&1; }

install_packages() {
    if ! have dpkg-query; then
        say "no dpkg here: what Debian 12 calls $* has to be installed already"
        return
    fi
    local missing
    missing=$(comm -23 <(printf '%s\n' "$@" | sort -u) \
        <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort -u))
    [[ -n $missing ]] || return 0
    local names
    mapfile -t names <<<"$missing"

    local as_root=()
    if [[ $(id -u) != 0 ]]; then
        have sudo || {
            say "missing Debian packages, and neither root nor sudo to install them. As root:"
            say "    apt-get install ${names[*]}"
            exit 1
        }
        as_root=(sudo)
    fi
    say "installing ${#names[@]} Debian packages: ${names[*]}"
    "${as_root[@]}" tools/apt-install "${names[@]}" || {
        say "apt-get failed: could not install ${names[*]}"
        exit 1
    }
}

# install_node_modules FOLDER: what its package-lock.json names
install_node_modules() {
    local lock=$1/package-lock.json installed=$1/node_modules/.package-lock.json
    if [[ ! -f $lock || (-f $installed && ! $lock -nt $installed) ]]; then return 0; fi
    say "installing the npm packages of $1"
    (cd "$1" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error) || {
        say "npm ci failed in $1"
        exit 1
    }
    touch "$installed"
}

# The jars of the Kafka that tests run, from Maven.
fetch_kafka() {
    tests/servers/fetch-kafka || {
        say "could not fetch Kafka"
        exit 1
    }
}

# The libraries of `bench gateway --peers`, from npm and PyPI.
install_peers() {
    install_node_modules bench/peers/node
    local wanted=bench/peers/python/requirements.txt venv=build/peers/python
    if [[ -f $venv/.installed && ! $wanted -nt $venv/.installed ]]; then return 0; fi
    say "installing the Python packages of $wanted"
    if ! { /usr/bin/python3 -m venv --clear "$venv" && "$venv/bin/pip" install --quiet --requirement "$wanted"; }; then
        say "pip install failed for $wanted"
        exit 1
    fi
    touch "$venv/.installed"
}
