import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { print } from '../answer.ts';
import { CliError } from '../deps.ts';
import {
  type Colour,
  cut,
  type Paint,
  plain,
  plural,
  shortName,
  shortTime,
  tableLines,
} from '../text.ts';
import { causeLines } from './cause-verbs.ts';
import { healthColours } from './export-text.ts';
import { listSummaries } from './find-export.ts';
import type { ExportSummary, Health, Readiness } from './types.ts';
import type { Called } from './verb.ts';

/** Exports of one state that the screen names. */
const namedExports = 8;

type Status = ReturnType<typeof summarize>;

/** `sluice status`: one screen that says what needs a person. */
export async function status(called: Called): Promise<null> {
  const { deps, api, given, isJson, paint } = called;
  const service = await api.call('get', '/readyz', { accepts: 503 });
  if (given.all) return statusOfAll(called, service);
  const summary = summarize(api.url, service, await listSummaries(api));
  print(deps, { json: isJson }, summary, () => statusLines(summary, paint));
  const { failing, incomplete, late } = summary.exports;
  const isWell = service.status === 'ok' && failing + incomplete + late === 0;
  if (given.check && !isWell) throw new CliError('Something needs attention.');
  return null;
}

/** Causes on the screen. */
const shownCauses = 20;

/** Shows all customers: what is wrong is shown by its causes. */
async function statusOfAll(
  { deps, api, given, isJson, paint }: Called,
  service: Readiness,
): Promise<null> {
  const [causes, exports, customers] = await Promise.all([
    api.call('get', '/api/admin/causes', { query: { limit: shownCauses } }),
    api.call('get', '/api/admin/exports', { query: { limit: 1 } }),
    api.call('get', '/api/admin/causes', { query: { limit: 1, turn: 'customer' } }),
  ]);
  const summary = { url: api.url, service, exports: exports.count, causes: causes.results };
  print(deps, { json: isJson }, summary, () => [
    ...serviceLines(api.url, service, paint),
    `Exports   ${exports.count} of all customers`,
    ...causeLines(causes, { paint }),
  ]);
  // The screen has only the causes of the most exports.
  const isWell = service.status === 'ok' && causes.count === customers.count;
  if (given.check && !isWell) throw new CliError('Something needs the operator.');
  return null;
}

function serviceLines(url: string, service: Readiness, paint: Paint): string[] {
  const colour: Colour =
    service.status === 'ok' ? 'green' : service.status === 'degraded' ? 'yellow' : 'red';
  const faults = Object.entries(service.checks).filter(([, text]) => text !== 'ok');
  return [
    `Sluice    ${plain(url)}: ${paint(service.status, colour)}`,
    ...(Object.keys(service.checks).length > 0 && faults.length === 0
      ? [`Checks    ${Object.keys(service.checks).join(', ')}: ok`]
      : faults.map(([name, text]) => paint(`  ${name}: ${plain(text)}`, colour))),
  ];
}

/** `attention` has all that are not fine, the most urgent first. */
function summarize(url: string, service: Readiness, all: readonly ExportSummary[]) {
  const counts = Object.fromEntries(exportHealths.map((state) => [state, 0])) as Record<
    Health,
    number
  >;
  for (const { health } of all) counts[health] += 1;
  const live = all.flatMap(({ latest_runs: runs }) =>
    runs.filter((run) => run.status === 'Running' || run.status === 'Starting'),
  );
  const retrying = live.filter((run) => run.next_attempt_at !== null && run.attempt > 0).length;
  const waiting = live.filter((run) => run.attempt === 0).length;
  return {
    url,
    service,
    exports: counts,
    runs: { running: live.length - retrying - waiting, waiting, retrying },
    long_runs: all.flatMap(({ name, latest_runs: own }) =>
      own.flatMap(({ id, step }) =>
        step?.is_long
          ? [{ id, export: name, step: step.name, since: step.since, text: step.text }]
          : [],
      ),
    ),
    newest: all.flatMap(({ id, name, mode, latest_runs: own }) =>
      own
        // Not those that remove or erase files, and an older snapshot can be made again.
        .filter(({ status, purpose }) => status === 'Completed' && purpose === 'whole')
        .toSorted((a, b) => b.data_interval_end.localeCompare(a.data_interval_end))
        .slice(0, mode === 'append' ? 0 : 1)
        .map(({ element, data_interval_end }) => ({
          id,
          export: name,
          element,
          data_interval_end,
        })),
    ),
    attention: all
      .filter(({ health }) => health !== 'fine')
      .toSorted((a, b) => exportHealths.indexOf(a.health) - exportHealths.indexOf(b.health))
      .map((one) => ({
        id: one.id,
        name: one.name,
        state: one.health,
        // A retry alone does not help an export that is paused too.
        reason: `${one.paused && one.health !== 'paused' ? 'paused; ' : ''}${one.health_reason ?? ''}`,
        complete_up_to: one.high_water_mark,
      })),
  };
}

function statusLines(
  { url, service, exports, runs, newest, attention, long_runs }: Status,
  paint: Paint,
) {
  const counts = exportHealths
    .filter((state) => exports[state] > 0)
    .map((state) => paint(`${exports[state]} ${state}`, healthColours[state]));
  const rows = exportHealths.flatMap((state) => {
    const those = attention.filter((one) => one.state === state);
    const shown = those
      .slice(0, namedExports)
      .map(({ name, reason, complete_up_to: upTo }) => [
        { text: state, colour: healthColours[state] },
        shortName(name),
        shortTime(upTo),
        cut(reason, 100),
      ]);
    const more = those.length - shown.length;
    return more > 0 ? [...shown, [`and ${more} more ${state}`]] : shown;
  });
  return [
    ...serviceLines(url, service, paint),
    `Exports   ${counts.length > 0 ? counts.join(' · ') : 'none'}`,
    `Runs      ${runs.running} running · ${runs.waiting} waiting · ${runs.retrying} retrying`,
    ...long_runs
      .slice(0, namedExports)
      .map((one) => paint(`  ${shortName(plain(one.export))}: ${plain(one.text)}`, 'yellow')),
    ...newest.slice(0, namedExports).map(({ export: name, element, data_interval_end: upTo }) => {
      const what =
        element === null
          ? 'snapshot'
          : `${element.base === null ? 'element' : 'base'} ${element.number}`;
      return `  ${shortName(plain(name))}: ${what}, up to ${shortTime(upTo)}`;
    }),
    ...(rows.length > 0
      ? ['', ...tableLines(['STATE', 'EXPORT', 'COMPLETE UP TO', 'REASON'], rows, paint)]
      : [
          exports.fine === 0
            ? 'Nothing needs attention: no exports yet.'
            : `Nothing needs attention: ${plural(exports.fine, 'export')} fine.`,
        ]),
  ];
}
