# Sourced by .ci/run and .ci/nightly: the packages that the tests use.

# install_packages NAME…: as root, or by sudo if it asks for no password.
install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      printf 'not installed, and only root can install it: %s\n' "$*" >&2
      return 1
    fi
    as_root=(sudo -n)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

has_browser() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null

has_locale() { locale -a | grep -qix 'en_US.utf8'; }

# What is missing of the programs that the tests start. Without most of them their tests are reported as skipped. Fails without a Redis.
bring_test_packages() {
  local missing=() name
  # As users have it, and its usual locale. Without it the tests use the embedded server.
  compgen -G '/usr/lib/postgresql/1[5-8]/bin/initdb' >/dev/null || missing+=(postgresql)
  has_locale || missing+=(locales)
  command -v redis-server >/dev/null || missing+=(redis-server)
  # For the commands of README and docs/operate.md.
  command -v jq >/dev/null || missing+=(jq)
  [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
  # For the checker of receipts in Python.
  command -v python3 >/dev/null || missing+=(python3)
  # For tests that open the page.
  has_browser || missing+=(chromium)
  # Together: each call reads the lists of packages. If one cannot be installed, the others can.
  if ((${#missing[@]} > 0)) && ! install_packages "${missing[@]}"; then
    for name in "${missing[@]}"; do
      install_packages "$name" || printf 'continuing without %s\n' "$name"
    done
  fi
  has_locale || localedef -i en_US -f UTF-8 en_US.UTF-8 ||
    printf 'continuing without the locale en_US.UTF-8\n'
  command -v redis-server >/dev/null
}

# Both at once: one waits for the network, the other unpacks.
bring_packages() {
  bring_test_packages &
  local packages=$! failed=0
  npm ci --no-audit --no-fund || failed=1
  wait "$packages" || failed=1
  return "$failed"
}
