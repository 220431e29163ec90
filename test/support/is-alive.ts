import { existsSync, readFileSync } from 'node:fs';

/** Whether a process still works; one that no parent has collected yet does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // There is no /proc on macOS.
    return code === 'EPERM' || (code === 'ENOENT' && !existsSync('/proc'));
  }
}
