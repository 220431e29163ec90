import { type CliDeps, misused } from '../deps.ts';
import { type Colour, paintFor, plural, shortTime, tableLines } from '../text.ts';
import { findExport } from './find-export.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import { print } from './print.ts';
import type { AnswerOf } from './types.ts';

interface Options extends ApiOptions {
  readonly window?: string;
  readonly target?: number;
  readonly csv?: boolean;
}

type Delivery = AnswerOf<'get', '/batch_exports/{id}/delivery'>;

const colours: Partial<Record<Delivery['late'][number]['outcome'], Colour>> = {
  missed: 'red',
  at_risk: 'yellow',
};

/** `sluice delivery`: what became of the deadlines of an export, as a customer can be sent it. */
export async function delivery(deps: CliDeps, name: string, options: Options): Promise<void> {
  const { window, target, csv } = options;
  if (csv && options.json) throw misused('Use --csv or --json, not both.');
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const query = { ...(window && { window }), ...(target !== undefined && { target }) };
  const asked = { path: { id }, optionOf: { window: '--window', target: '--target' } };
  if (csv) {
    const text = await api.readText('/batch_exports/{id}/delivery', {
      ...asked,
      query: { ...query, format: 'csv' },
    });
    deps.terminal.out(text);
    return;
  }
  const found = await api.call('get', '/batch_exports/{id}/delivery', { ...asked, query });
  print(deps, options, found, () => deliveryLines(deps, found));
}

function deliveryLines(deps: CliDeps, found: Delivery): readonly string[] {
  const { met, missed, at_risk: atRisk, pending, share_met: share, budget, late } = found;
  const percent = share === null ? '-' : `${(share * 100).toFixed(2)} %`;
  const rows = late.map((one) => [
    { text: one.outcome.replaceAll('_', ' '), colour: colours[one.outcome] },
    shortTime(one.data_interval_start),
    shortTime(one.due_by),
    shortTime(one.delivered_at),
    one.turn ?? '-',
    one.code ?? '-',
  ]);
  const head = ['OUTCOME', 'INTERVAL', 'DUE', 'DELIVERED', 'TURN', 'CODE'];
  return [
    `From ${shortTime(found.from)} to ${shortTime(found.to)}: ${met} met, ${missed} missed, ${atRisk} at risk, ${pending} open.`,
    `Met: ${percent}. The target is ${found.target} %: ${plural(budget.allowed, 'deadline')} may be missed, ${budget.left} left.`,
    ...(rows.length > 0 ? tableLines(head, rows, paintFor(deps.terminal)) : []),
    ...(found.is_cut ? ['Older intervals are left out: a record has at most 20,000.'] : []),
  ];
}
