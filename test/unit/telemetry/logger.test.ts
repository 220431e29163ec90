import { describe, expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { createLogger } from '../../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { logAttempt } from '../../../src/service/worker/attempt-end.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';

/** A logger, and its lines as objects. */
function openLog() {
  const lines: Record<string, unknown>[] = [];
  const stream = { write: (line: string) => void lines.push(JSON.parse(line)) };
  return { lines, logger: createLogger('info', {}, stream) };
}

describe('an error in the log', () => {
  test('has a stack if the fault is ours', () => {
    const { lines, logger } = openLog();
    logger.warn(
      { err: new SluiceError('internal.unexpected', undefined, new Error('cause')) },
      'x',
    );
    expect(lines[0]).toMatchObject({
      err: { stack: expect.any(String), cause: { message: 'cause', stack: expect.any(String) } },
    });
  });

  test('is cut, and so is its cause', () => {
    const { lines, logger } = openLog();
    const said = 'x'.repeat(1_000_000);
    logger.warn({ err: new SluiceError('source.failed', said, new Error(said)) }, 'x');
    const cause = new SluiceError('source.failed', 'a\u001b[31m\u202e\r\nb').detail;
    expect(cause).toBe('a [31m b');
    expect(JSON.stringify(lines[0]).length).toBeLessThan(60_000);
  });

  test('has no stack if the fault is a customer’s, and none of its cause', () => {
    const { lines, logger } = openLog();
    const cause = new Error('403');
    logger.warn({ err: new SluiceError('destination.access_denied', undefined, cause) }, 'x');
    expect(JSON.stringify(lines[0])).not.toContain('stack');
    expect(lines[0]).toMatchObject({ err: { cause: { message: '403' } } });
  });
});

test('no line names the value of a folder, whatever the cause says', () => {
  const { lines, logger } = openLog();
  const cause = new Error("ENOENT: no such file, open '/p/name=Jane Doe/2024.jsonl'");
  logger.warn({ err: new SluiceError('internal.unexpected', undefined, cause) }, 'x');
  expect(JSON.stringify(lines[0])).toContain('/p/name=…/2024.jsonl');
  expect(JSON.stringify(lines[0])).not.toContain('Jane');
});

describe('the line of a finished run', () => {
  const run = {
    teamId: 7,
    exportId: 'e',
    runId: 'r',
    attempt: 2,
    interval: { start: 0, end: 3_600_000 },
  } as unknown as ClaimedRun;

  test('names what ran, how it ended, its rows, bytes and milliseconds', () => {
    const { lines, logger } = openLog();
    logAttempt(
      logger,
      { run, end: 'completed', fault: null, rows: 5, rejectedRows: 0, bytes: 80 },
      0.1234,
    );
    const fault = 'destination.access_denied';
    logAttempt(logger, { run, end: 'failed', fault, rows: 0, rejectedRows: 0, bytes: 0 }, 1);
    const what = { level: 'info', team: 7, export: 'e', run: 'r', attempt: 2 };
    expect(lines).toMatchObject([
      { ...what, end: 'completed', rows: 5, bytes: 80, ms: 123, msg: 'run completed' },
      { ...what, end: 'failed', fault, ms: 1_000, msg: 'attempt failed' },
    ]);
    expect(lines[0]).toMatchObject({ interval: expect.stringMatching(/^1970-01-01T00.* to 1970/) });
    expect(lines[0]).not.toHaveProperty('fault');
  });

  test('is not written for a job that found nothing to claim', () => {
    const { lines, logger } = openLog();
    logAttempt(
      logger,
      { run: null, end: 'skipped', fault: null, rows: 0, rejectedRows: 0, bytes: 0 },
      0,
    );
    expect(lines).toEqual([]);
  });
});

test('no metric has a label that Prometheus itself gives to each scrape, and would rename', () => {
  const metrics = createMetrics().registry.getMetricsAsArray();
  const labels = metrics.flatMap((metric) =>
    'labelNames' in metric ? (metric.labelNames as readonly string[]) : [],
  );
  expect(labels).toEqual(expect.arrayContaining(['end', 'handler', 'code']));
  expect(labels).not.toContain('job');
  expect(labels).not.toContain('instance');
});
