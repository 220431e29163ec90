import { resolve, sep } from 'node:path';
import type { Config } from '../foundation/config/config.ts';

/** Names of errors of the operating system, as far as operators can do something. */
const listenFaults: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use by another program. Stop that program, or set another port',
  EACCES: 'needs rights that this user does not have. Set a port above 1023',
  EADDRNOTAVAIL: 'is no address of this machine. Correct HOST',
};
export const folderFaults: Readonly<Record<string, string>> = {
  EACCES: 'may not be written by this user',
  EPERM: 'may not be written by this user',
  EROFS: 'is on a file system that cannot be written',
  ENOTDIR: 'is not in a folder',
  EEXIST: 'is not a folder',
  ENOENT: 'cannot be made',
  ENOSPC: 'has no space left',
  EDQUOT: 'is over the quota of this user',
};

/** The setting and the remedy for an error of the operating system, in a line; null if the error is another one. */
export function explainStart(error: unknown, config: Config): string | null {
  if (!(error instanceof Error)) return null;
  const {
    code = '',
    syscall,
    port,
    address,
    path,
  } = error as NodeJS.ErrnoException & {
    readonly port?: number;
    readonly address?: string;
  };
  if (syscall === 'listen') {
    const fault = listenFaults[code];
    return fault ? `${portSetting(config, port)}: ${address}:${port} ${fault} (${code}).` : null;
  }
  if (syscall === 'getaddrinfo') {
    return `HOST: ${config.HOST} is not the name of an address (${code}). Correct it.`;
  }
  const folder = resolve(config.SLUICE_DATA_DIR);
  const within = path !== undefined && `${resolve(path)}${sep}`.startsWith(`${folder}${sep}`);
  const fault = folderFaults[code];
  if (!within || !fault) return null;
  return `SLUICE_DATA_DIR: ${path} ${fault} (${code}). Make it writable, or set another folder.`;
}

function portSetting(config: Config, port: number | undefined): string {
  const names = ['METRICS_PORT', 'WORKER_PORT'] as const;
  return names.find((name) => config[name] === port) ?? 'PORT';
}
