import { CliError, misused, type Terminal } from '../deps.ts';

/** @throws CliError if a person says no, or if there is no person to ask and `yes` was not given */
export async function confirm({ ask }: Terminal, question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (ask === null) {
    throw misused(`${question} Pass --yes: there is no terminal to ask.`);
  }
  const answer = await ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError('Nothing was changed.');
}
