import type { Command } from 'commander';
import { readClientSettings } from '../../../foundation/config/client-settings.ts';
import { type CliDeps, CliError, exitCodes, misused } from '../deps.ts';
import { type Api, connectApi } from './api.ts';

export interface ApiOptions {
  readonly url?: string;
  readonly project?: string;
  readonly json?: boolean;
}

export function withApi(command: Command, { hasProject = true } = {}): Command {
  command.option('--url <url>', 'address of the API (default: SLUICE_URL)');
  if (hasProject) {
    command.option('--project <id>', 'the project (default: SLUICE_PROJECT, else @current)');
  }
  return command.option('--json', 'print JSON');
}

/** @throws CliError if URL or key is missing or malformed */
export function openApi({ terminal }: CliDeps, options: ApiOptions): Api {
  const settings = readClientSettings(terminal.env);
  const url = options.url ?? settings.url;
  if (url === null) {
    throw misused(
      'SLUICE_URL is not set. Set it to the address of the API, such as http://127.0.0.1:8000.',
    );
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw misused(
      'SLUICE_URL must be an http:// or https:// address, such as http://127.0.0.1:8000.',
    );
  }
  if (new URL(url).password !== '' || new URL(url).username !== '') {
    throw misused('SLUICE_URL: remove the user and password. Put the key into SLUICE_KEY.');
  }
  const { origin, pathname } = new URL(url);
  if (/\/api\/*$/.test(pathname)) {
    throw misused(
      `SLUICE_URL: remove the path ${pathname}, which the command adds. Set it to ${origin}${pathname.replace(/\/api\/*$/, '')}.`,
    );
  }
  if (settings.key === null) {
    throw misused(
      "SLUICE_KEY is not set. Set it to an API key. `sluice keys create --organization <id> --scopes '*' --name <name>` issues one with the key of an operator. The first key of an operator comes from the machine of the service: `sluice keys create --operator --scopes '*' --name operator`.",
    );
  }
  // A header cannot hold other characters.
  if (!/^[\x21-\x7e]+$/.test(settings.key)) {
    throw new CliError(
      'SLUICE_KEY contains characters that no key has. Copy it again.',
      exitCodes.refused,
    );
  }
  return connectApi({
    url,
    key: settings.key,
    project: options.project ?? settings.project ?? '@current',
    signal: terminal.signal,
    onWait: (seconds) => terminal.err(`The service asks to wait ${seconds} s …\n`),
  });
}
