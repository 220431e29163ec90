import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';

/**
 * Installs the packages that this machine lacks, without starting their services. Fails with what to
 * do if it cannot.
 */
export async function installPackages(names: readonly string[]): Promise<void> {
  const missing = names.filter((name) => installedVersion(name) === null);
  if (missing.length === 0) return;
  const command = `apt-get install --no-install-recommends ${missing.join(' ')}`;
  if (!existsSync('/usr/bin/apt-get')) {
    throw new Error(`These Debian packages are needed, on Debian 12: ${missing.join(' ')}.`);
  }
  if (process.getuid?.() !== 0) {
    throw new Error(`Only root can install what is missing here. As root: ${command}`);
  }
  console.log(`Installing ${missing.join(' ')}.`);
  await withoutServices(async () => {
    apt('update', '-qq');
    apt('install', '-y', '-qq', '--no-install-recommends', ...missing);
  });
}

/** @returns the version that is installed, or null */
export function installedVersion(name: string): string | null {
  const { stdout } = spawnSync('dpkg', ['--status', name], { encoding: 'utf8' });
  if (!stdout?.includes('\nStatus: install ok installed\n')) return null;
  return /^Version: (.*)$/m.exec(stdout)?.[1] ?? null;
}

function apt(...args: readonly string[]): void {
  execFileSync('apt-get', args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
}

/** Debian starts a service as soon as it is installed, unless this file forbids it. */
async function withoutServices(work: () => Promise<void>): Promise<void> {
  const policy = '/usr/sbin/policy-rc.d';
  if (existsSync(policy)) return await work();
  await writeFile(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await work();
  } finally {
    await rm(policy, { force: true });
  }
}
