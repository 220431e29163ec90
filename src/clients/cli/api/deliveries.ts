import { type Command, Option } from 'commander';
import { deliveryStatuses } from '../../../foundation/domain/notification.ts';
import { readWholeNumber } from '../arguments.ts';
import { type CliDeps, misused } from '../deps.ts';
import { type Colour, count, paintFor, shortTime, tableLines } from '../text.ts';
import { type Api, readNewest } from './api.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import { print } from './print.ts';
import type { NotificationDelivery } from './types.ts';

/** Of the verbs of targets. */
export interface TargetOptions extends ApiOptions {
  readonly installation?: boolean;
}

interface ListOptions extends TargetOptions {
  readonly status?: NotificationDelivery['status'];
  readonly limit: number;
}

const notFound =
  'There is no such target, or no such delivery. `sluice notifications list` lists the targets.';

/**
 * `sluice notifications deliveries` and `redeliver`: what was sent to a target, and what it answered.
 *
 * @param add adds a verb with the options of all verbs of targets
 */
export function registerDeliveries(
  add: (words: string, description: string) => Command,
  deps: CliDeps,
): void {
  add('deliveries', 'list what was sent to a target, newest first, and what it answered')
    .argument('<target>', 'its id')
    .addOption(new Option('--status <status>', 'only these').choices([...deliveryStatuses]))
    .option('--limit <n>', 'deliveries to show', readWholeNumber, 20)
    .action((target: string, options: ListOptions) => list(deps, target, options));
  add('redeliver', 'send a delivery again, with the same event id')
    .argument('<target>', 'the id of the target')
    .argument('<delivery>', 'the id of the delivery')
    .action(async (target: string, delivery: string, options: TargetOptions) => {
      const sent = await callOf(deps, options)('post', `${one}/{delivery_id}/redeliver`, {
        path: { id: target, delivery_id: delivery },
        notFound,
      });
      print(deps, options, sent, () => lines(deps, [sent]));
    });
}

const one = '/notification_targets/{id}/deliveries';

/** The calls of a project or of the installation: the same operations. */
function callOf(deps: CliDeps, options: TargetOptions): Api['call'] {
  const api = openApi(deps, options);
  return options.installation ? (api.callAdmin as Api['call']) : api.call;
}

async function list(deps: CliDeps, id: string, options: ListOptions): Promise<void> {
  const { status, limit } = options;
  if (limit === 0) throw misused('--limit must be at least 1.');
  const call = callOf(deps, options);
  const filter = status && { status };
  const shown = await readNewest<NotificationDelivery>(limit, (page) =>
    call('get', one, {
      path: { id },
      query: { ...filter, ...page },
      notFound,
      optionOf: { status: '--status', limit: '--limit' },
    }),
  );
  print(deps, options, shown, () => lines(deps, shown));
}

const colours: Partial<Record<NotificationDelivery['status'], Colour>> = {
  delivered: 'green',
  given_up: 'red',
  waiting: 'yellow',
};

function lines(deps: CliDeps, deliveries: readonly NotificationDelivery[]): readonly string[] {
  if (deliveries.length === 0) return ['none'];
  const rows = deliveries.map((delivery) => [
    delivery.id,
    shortTime(delivery.happened_at),
    delivery.event_type,
    { text: delivery.status, colour: colours[delivery.status] },
    count(delivery.attempts),
    delivery.attempt_log.at(-1)?.answer ?? '-',
    shortTime(delivery.next_attempt_at),
    delivery.batch_export_id ?? '-',
  ]);
  const head = ['DELIVERY', 'HAPPENED', 'EVENT', 'STATUS', 'ATTEMPTS', 'ANSWER', 'NEXT', 'EXPORT'];
  return tableLines(head, rows, paintFor(deps.terminal));
}
