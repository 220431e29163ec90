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

# A PostgreSQL as users have it, and its usual locale. Without it the tests use the embedded server.
bring_postgres() {
  compgen -G '/usr/lib/postgresql/1[5-8]/bin/initdb' >/dev/null ||
    install_packages postgresql || printf 'continuing without a PostgreSQL of Debian\n'
  if ! locale -a | grep -qix 'en_US.utf8'; then
    install_packages locales && localedef -i en_US -f UTF-8 en_US.UTF-8 ||
      printf 'continuing without the locale en_US.UTF-8\n'
  fi
}

# What is missing of the programs that the tests start. Fails without a Redis.
bring_test_packages() {
  bring_postgres
  command -v redis-server >/dev/null || install_packages redis-server
  # For the commands of README and docs/operate.md; without it they are reported as skipped.
  command -v jq >/dev/null || install_packages jq || printf 'continuing without jq\n'
  # For the tests behind a pooler; without it they are reported as skipped.
  [ -x /usr/sbin/pgbouncer ] || install_packages pgbouncer || printf 'continuing without a pooler\n'
  # For the checker of receipts in Python; without it the tests run the one in JavaScript alone.
  command -v python3 >/dev/null || install_packages python3 || printf 'continuing without Python\n'
  # For tests that open the page; without a browser they are reported as skipped.
  if compgen -G 'test/e2e/*page*' >/dev/null || compgen -G 'test/e2e/*console*' >/dev/null; then
    has_browser || install_packages chromium || printf 'continuing without a browser\n'
  fi
}

# The packages of the project, and ClickHouse's engine for the tests of readers, which users do not install.
bring_npm_packages() {
  npm ci --prefix test/support/clickhouse --ignore-scripts --no-audit --no-fund >/dev/null &
  npm ci
  wait $! || printf 'continuing without ClickHouse: its tests are reported as skipped\n'
}
