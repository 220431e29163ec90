export interface LogLine {
  level: 'debug' | 'info' | 'warn' | 'error';
  text: string;
}

const maxLines = 200;
export const maxChars = 1_000;
const levels = { debug: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' } as const;

export interface PluginLog {
  readonly console: object;
  /** True if lines are taken, or left out without being counted. */
  isOpen: boolean;
  take(): { lines: LogLine[]; omitted: number };
}

export function makeLog(): PluginLog {
  let lines: LogLine[] = [];
  let omitted = 0;
  const write = (level: LogLine['level'], parts: unknown[]) => {
    // Made also if it is left out: it may call the plugin's code, and no row may see what others have written.
    let text = '';
    for (let at = 0; at < parts.length && text.length < maxChars; at += 1) {
      text += (at === 0 ? '' : ' ') + show(parts[at]).slice(0, maxChars);
    }
    if (!log.isOpen) return;
    if (lines.length >= maxLines) omitted += 1;
    else lines[lines.length] = { level, text: text.slice(0, maxChars) };
  };
  const console: Record<string, unknown> = {};
  for (const [name, level] of Object.entries(levels)) {
    console[name] = (...parts: unknown[]) => write(level, parts);
  }
  const log: PluginLog = {
    console,
    isOpen: true,
    take() {
      const taken = { lines, omitted };
      lines = [];
      omitted = 0;
      return taken;
    },
  };
  return log;
}

function show(part: unknown): string {
  if (typeof part === 'string') return part;
  try {
    if (part instanceof Error) return `${part.name}: ${part.message}`;
    return typeof part === 'object' && part !== null ? JSON.stringify(part) : String(part);
  } catch {
    return '[cannot be shown]';
  }
}
